"""What the correction and the gate do to a layer: r(λ) = 1 + tanh ε − m(λ), m = p + α c. (C22 to C24)"""

from __future__ import annotations

import torch

from polynsd.config import LayerConfig
from polynsd.nn.layer import SheafLayer
from polynsd.testing.samples import random_tensor
from polynsd_paper.claims.claim import PARTLY, REFUTED, Claim, Evidence, Finding, decided
from polynsd_paper.claims.layers import LAM, only, plain_layer, randomised, set_layer
from polynsd_paper.claims.parts import Part, combine
from polynsd_paper.claims.readers import changed, changes_most, searched_choices
from polynsd_paper.claims.sheaves import (
    FAMILIES,
    operator_norm,
    path,
    random_laplacian,
    random_signal,
)

DRAWS = 1000
PRINTED_ALPHA = (-1.48, -0.20)  # the range of the means in the paper's tables of trained responses


def no_cancellation(evidence: Evidence) -> Finding:
    """Min m below λ_max where α > 0 and p ≥ 0; how often p ≥ 0; a mode that is cancelled all the same."""
    layer = plain_layer(degree=8)
    filters = [set_layer(layer, random_tensor(9, seed=seed), 0.0).response(LAM).m for seed in range(DRAWS)]
    positive = [p for p in filters if bool((p >= 0).all())]
    below = LAM < 2
    least = min(float((p + 0.1 * (1 - LAM / 2))[below].min()) for p in [*positive, torch.zeros_like(LAM)])
    cancelled = set_layer(plain_layer(degree=2), only(0, 2), 0.5, torch.atanh(torch.tensor(0.25))).response(
        LAM
    )
    residue = float(cancelled.r.abs().min())
    numbers = (
        f"m > 0 holds where its conditions do (smallest value {least:.1e}). But p ≥ 0 in {len(positive)} of "
        f"{DRAWS} random softmax filters of degree 8, every mean α printed (documentary) is negative "
        f"({PRINTED_ALPHA[0]} to {PRINTED_ALPHA[1]}), and the layer cancels a mode where m = 1 + tanh ε: |r| "
        f"= {residue:.0e} at λ = 1 with p = 1, α = 0.5, tanh ε = 0.25"
    )
    return Finding(PARTLY if least > 0 and residue < 1e-6 else REFUTED, numbers)


def correction_profile(evidence: Evidence) -> Finding:
    """What α = 1 adds to m and to r at both ends of the spectrum."""
    off, on = (set_layer(plain_layer(degree=4), alpha=alpha).response(LAM) for alpha in (0.0, 1.0))
    added, net = on.m - off.m, (on.r - off.r)[0]
    numbers = (
        f"the term adds {float(added[0]):+.0f}·α to m at λ = 0 and {float(added[-1]):+.0f}·α at λ_max: a "
        f"low-pass profile. The layer subtracts m, so r changes by {float(net[0]):+.0f}·α at λ = 0: it "
        "counteracts a low-pass bias for α > 0 only, and the means printed (documentary) are "
        f"{PRINTED_ALPHA[0]} to {PRINTED_ALPHA[1]}{searched_choices(evidence, 'correction')}"
    )
    profile = decided(float(added[0]) <= float(added[-1]), numbers, PARTLY)
    return combine(Part(profile.verdict, profile.numbers), _without_correction(evidence))


def _without_correction(evidence: Evidence) -> Part:
    """What the term is good for in training, in the ablations."""
    tally = changed(evidence, "convex, correction linear", "coefficients convex")
    if not len(tally):
        return Part(PARTLY, "what it is good for in training needs: polynsd reproduce ablations")
    return changes_most(tally, "with the term instead of without, in training")


def lipschitz(evidence: Evidence) -> Finding:
    """Largest norm of a layer's Jacobian as a share of the bound; a layer that learns its maps."""
    cases = [
        (family, seed, phi)
        for family in FAMILIES
        for seed in range(10)
        for phi in ("identity", "elu", "relu")
    ]
    printed, sharper = zip(*(_stretch(*case) for case in cases), strict=True)
    numbers = (
        f"with given maps the stretch is at most {max(printed):.2f} of the bound ({len(cases)} random "
        f"layers), and {max(sharper):.2f} of the smaller one with |α| in place of 2|α|. A layer that learns "
        f"its maps from x is not covered: its Jacobian can have norm {_learned_jacobian():.0f}, where the "
        "bound is 2"
    )
    return decided(max(printed) <= 1, numbers)


def _stretch(family: str, seed: int, phi: str) -> tuple[float, float]:
    """The Jacobian's norm at a random state over 1 + |tanh ε| + 1 + 2|α|, and over the same with |α|."""
    L = random_laplacian(family, seed, "sheaf", graph=path(8), d=2)
    layer = randomised(plain_layer(L.stalk_dim, degree=6, activation=phi), seed)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer.diffuse(x, L), random_signal(L, seed=seed))
    seen = operator_norm(jacobian.reshape(L.shape))
    assert layer.epsilon is not None
    alpha, gate = abs(float(layer.filter.alpha)), float(layer.epsilon.tanh().abs().max())  # type: ignore[arg-type]
    return seen / (2 + gate + 2 * alpha), seen / (2 + gate + alpha)


def _learned_jacobian() -> float:
    """Maps read the first coordinate of the state and move the second, which may be as large as it likes."""
    layer = SheafLayer(1, LayerConfig(stalk_dim=2, mixing="none", correction="none")).double()
    assert layer.learner is not None
    layer.learner.maps.linear.weight.data = torch.tensor([[1.0, 0, 0, 0], [1.0, 0, 0, 0]]).double()
    x = random_tensor(4, 2, 1) * torch.tensor([[1.0], [100.0]])
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, path(4)), x).reshape(8, 8)
    return operator_norm(jacobian)


CLAIMS = (
    Claim("C22", "With α > 0 and p ≥ 0 no mode below λ_max is cancelled.", "theory", no_cancellation),
    Claim("C23", "The high-pass skip counteracts low-pass bias.", "theory", correction_profile),
    Claim(
        "C24",
        "With given maps a layer has Lipschitz constant 1 + |tanh ε| + Lip φ (1 + 2|α|).",
        "theory",
        lipschitz,
    ),
)
