"""Gradcheck of the whole chain: raw numbers → maps → Laplacian → filter."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call

from polynsd.sheaf import SheafLaplacian, get_family
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.spectral import PolynomialFilter
from polynsd.testing import FAMILIES, example_graph, random_tensor

TOPOLOGY = example_graph("multigraph")


def chain(family, normalization, module):
    """(raw, x, θ, α) ↦ filtered signal; λ_max carries no gradient, so it is held fixed."""

    def function(raw, x, theta, alpha):
        L = SheafLaplacian(
            TOPOLOGY,
            family.build(raw, 2),
            normalization,
            orthogonal_columns=family.orthogonal_columns,
            stalk_dim=2,
        )
        lam_max = 2.0 if normalization.startswith("sheaf") else 9.0
        return functional_call(module, {"theta": theta, "alpha": alpha}, (L, x, lam_max))

    return function


def leaves(family, degree):
    raw = 0.5 * random_tensor(TOPOLOGY.num_half_edges, family.num_params(2), seed=1)
    if family == get_family("general"):
        raw = raw + torch.eye(2, dtype=torch.float64).flatten()
    shapes = ((TOPOLOGY.num_nodes, 2, 2), (degree + 1,), ())
    return [t.requires_grad_() for t in (raw, *(random_tensor(*s, seed=i) for i, s in enumerate(shapes)))]


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_and_normalization(name, normalization):
    family, module = get_family(name), PolynomialFilter("legendre", 3, correction="linear").double()
    raw, *others = leaves(family, 3)
    function = chain(family, normalization, module)
    if not family.is_learned:
        assert gradcheck(lambda *inputs: function(raw.detach(), *inputs), others)
    else:
        assert gradcheck(function, [raw, *others])


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
@pytest.mark.parametrize("correction", ["linear", "high-pass"])
@pytest.mark.parametrize("coefficients", ["convex", "free", "interpolation"])
def test_every_kind_of_coefficients(coefficients, correction, degree):
    module = PolynomialFilter("chebyshev3", degree, coefficients, correction).double()
    family = get_family("diagonal")
    assert gradcheck(chain(family, "sheaf-augmented", module), leaves(family, degree))
