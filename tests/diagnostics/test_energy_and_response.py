"""Energies, responses and densities against dense operators and their eigenvalues."""

import numpy as np
import pytest
import torch
from traced_models import KINDS, make_data, make_model

from polynsd import NSD, IdentitySheaf, SheafLaplacian, as_topology
from polynsd.diagnostics import measure_energy, measure_response, measure_smoothness, trace_layers
from polynsd.diagnostics.operators import symmetric_form, symmetric_state
from polynsd.diagnostics.response import count_changes
from polynsd.nn import hook_layers
from polynsd.published import PUBLISHED_LAYER
from polynsd.spectral import estimate_density
from polynsd.testing import random_tensor


@pytest.mark.parametrize("kind", KINDS)
def test_energy_is_the_quadratic_form_of_the_dense_operator(kind):
    model, data = make_model(**KINDS[kind]), make_data()
    trace, energy = trace_layers(model, data), measure_energy(model, data)
    d = trace.learned_dim
    for layer, (x, L) in enumerate(zip(trace.states, trace.laplacians, strict=True)):
        dense, y = symmetric_form(L).to_dense(), symmetric_state(L, x)
        flat = y.flatten(0, 1)  # [N D, C]
        per_channel = (flat * (dense @ flat)).sum(0) / flat.square().sum(0)
        learned = torch.where((torch.arange(y.size(1)) < d)[:, None], y, 0.0).flatten(0, 1)
        row = next(row for row in energy.rows if row.layer == layer and row.operator == "own")
        assert row.energy == pytest.approx((flat * (dense @ flat)).sum().item())
        assert row.norm == pytest.approx(x.norm().item())
        assert row.quotient == pytest.approx((row.energy / flat.square().sum()).item())
        assert row.mean_quotient == pytest.approx(per_channel.nanmean().item())  # some are dead
        of_learned = (learned * (dense @ learned)).sum() / learned.square().sum()
        assert row.learned_quotient == pytest.approx(of_learned.item())
        assert 0 <= row.quotient <= 2
        # similar operators have one spectrum
        wanted = torch.linalg.eigvals(L.to_dense()).real.sort().values
        assert torch.allclose(torch.linalg.eigvalsh(dense), wanted, atol=1e-9)


def test_identity_maps_see_the_plain_graph():
    energy = measure_energy(make_model(cls=IdentitySheaf, stalk_dim=2), make_data())
    assert energy.values("own") == pytest.approx(energy.values("graph"))
    assert len(energy.to_frame()) == 9


def test_hook_may_look_on_or_replace_and_is_gone_afterwards():
    model, data = make_model(), make_data()
    plain = model(data.x, data.edge_index)
    with hook_layers(model, lambda layer, x, L, trunk: x):
        assert not torch.allclose(model(data.x, data.edge_index), plain)
    assert torch.equal(model(data.x, data.edge_index), plain)
    assert torch.equal(trace_layers(model, data).output, plain)


def test_density_of_eigenvalues():
    """Exact where Krylov spaces are whole; close where a few steps must do."""
    edges = torch.from_numpy(np.random.default_rng(0).integers(0, 400, (2, 1200)))
    maps_of = lambda t: random_tensor(t.num_half_edges, 2, 2, seed=3)  # noqa: E731
    for pairs, count, limit in ((make_data().edge_index, 7, 0.12), (edges, 400, 0.02)):
        topology = as_topology(pairs, count)
        L = SheafLaplacian(topology, maps_of(topology))
        values = torch.linalg.eigvalsh(L.to_dense()).numpy()
        found = estimate_density(L.__matmul__, torch.empty(count, 2, 1).double(), vectors=32)
        lam = np.linspace(0.05, 1.95, 50)
        truth = (values[:, None] <= lam).mean(0)
        assert found.shares.sum() == pytest.approx(1)
        assert np.abs(found.below(lam) - truth).mean() < limit
        assert found.mean(found.places) == pytest.approx(values.mean(), rel=0.05)
        lowest = np.sort(values)[: len(values) // 5].mean()
        assert found.mean_of_lowest(found.places, 0.2) == pytest.approx(lowest, abs=0.1)
        assert found.curve(np.linspace(-1, 3, 2000), 0.05).mean() * 4 == pytest.approx(1, abs=1e-3)


def test_printed_statistics_of_the_uniform_filter():
    """K = 3 with uniform θ: G_low = 0.183 + 0.9 α, G_high = 0.471 + 0.1 α, two changes if α > −7/6."""
    options = {**PUBLISHED_LAYER, "degree": 3, "stalk_dim": 2}
    for alpha, changes in ((0.0, 2), (-0.5, 2), (-1.3, 0)):
        model = make_model(layers=1, noise=0.0, **options)
        with torch.no_grad():
            model.layers[0].filter.alpha.fill_(alpha)
        found = measure_response(model, make_data())
        (row,) = found.rows
        assert (row.low, row.high) == pytest.approx((0.183 + 0.9 * alpha, 0.471 + 0.1 * alpha), abs=0.01)
        assert (row.sign_changes, row.alpha) == (changes, pytest.approx(alpha))
        assert (row.from_uniform, row.entropy) == (pytest.approx(0), pytest.approx(np.log(4)))
        curves = found.curves[0]
        assert np.allclose(curves.r, 1 - curves.m)
        assert np.allclose(curves.polynomial + curves.correction, curves.m)


def test_weighted_gains_are_means_over_eigenvalues():
    model, data = make_model(layers=1, **{**PUBLISHED_LAYER, "stalk_dim": 4}), make_data()
    L = trace_layers(model, data).laplacians[0]
    values = torch.linalg.eigvalsh(L.to_dense())
    m = model.layers[0].filter.response(values).detach().numpy()
    row = measure_response(model, data).rows[0]
    tenth = max(1, round(0.2 * len(m)))
    assert row.weighted_low == pytest.approx(m[:tenth].mean(), abs=0.1)
    assert row.weighted_high == pytest.approx(m[-tenth:].mean(), abs=0.1)


def test_stack_of_first_order_steps_is_not_monotone():
    found = measure_response(make_model(layers=3, cls=NSD, noise=0.0), make_data())
    lam = found.curves[0].lam
    assert np.allclose(found.stack, (1 - lam) ** 3)
    assert found.stack_changes == 0
    assert count_changes((1 - lam) ** 2) == 1
    assert count_changes(np.ones(5)) == 0


def test_smoothness_and_gradients():
    model, data = make_model(layers=3), make_data()
    found = measure_smoothness(model, data)
    states = trace_layers(model, data).states
    singular = torch.linalg.svdvals(states[1].flatten(1) - states[1].flatten(1).mean(0)).square()
    p = singular / singular.sum()
    assert found.rows[1].effective_rank == pytest.approx((-(p * p.clamp(min=1e-30).log()).sum()).exp().item())
    last = states[-1].detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(model.decode(last), data.y)
    assert found.rows[-1].gradient == pytest.approx(torch.autograd.grad(loss, last)[0].norm().item())
    constant = make_data(edges=torch.zeros(2, 0, dtype=torch.long))
    constant.x[:] = 1.0
    flat = measure_smoothness(model, constant).rows
    assert flat[0].effective_rank == pytest.approx(0, abs=1e-6)
    assert flat[0].distance == pytest.approx(0, abs=1e-12)
