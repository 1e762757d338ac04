"""Under autocast linear maps are lowered, the sheaf and the filter are not; training still learns."""

import pytest
import torch
from published_block import published
from scale_graphs import awkward_graph, shaken

from polynsd import NSD, PolySheafConv, kernels
from polynsd.errors import ConfigError
from polynsd.kernels.ops import edges
from polynsd.published import PUBLISHED_LAYER
from polynsd.scale import autocast, grad_scaler

MAPS = ("identity", "diagonal", "orthogonal", "orthogonal(cayley)", "orthogonal(euler)", "general")


def passes(model, data, precision):
    with autocast(precision, "cpu"):
        output = model(data.x, data.edge_index)
    gradients = torch.autograd.grad(output.float().square().mean(), list(model.parameters()))
    return output.detach(), torch.cat([g.flatten() for g in gradients])


def relative(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("maps", MAPS)
def test_bf16_agrees_with_float32(maps, backend):
    data = awkward_graph(dtype=torch.float32)
    model = shaken(published(5, 8, 2, 3, maps=maps, degree=3, stalk_dim=2), 0, torch.float32, 0.1)
    with kernels.use(backend):
        (full, exact), (output, gradient) = (passes(model, data, p) for p in ("float32", "bf16"))
    assert output.dtype == torch.bfloat16
    assert 0 < relative(output, full) < 2e-2
    assert gradient.isfinite().all()
    assert relative(gradient, exact) < 5e-2


CONV = PolySheafConv(5, 4, **PUBLISHED_LAYER | {"lambda_max": "lanczos"})


@pytest.mark.parametrize("model", [NSD(5, 4, 1, 3), CONV])
def test_other_models_and_layers(model):
    data = awkward_graph(dtype=torch.float32)
    (full, _), (output, gradient) = (passes(model, data, p) for p in ("float32", "bf16"))
    assert relative(output.float(), full) < 2e-2
    assert gradient.isfinite().all()


def test_kernels_see_full_precision(monkeypatch):
    seen, take = set(), edges._on_flat
    monkeypatch.setattr(edges, "_on_flat", lambda f, t, *rest: (seen.add(t.dtype), take(f, t, *rest))[1])
    data = awkward_graph(dtype=torch.float32)
    passes(published(5, 4, 2, 3), data, "bf16")
    assert seen == {torch.float32}


def test_float64_is_not_lowered():
    data, model = awkward_graph(), shaken(published(5, 4, 1, 3))
    (full, _), (output, _) = (passes(model, data, p) for p in ("float32", "bf16"))
    assert torch.equal(full, output)


def test_only_fp16_scales_gradients():
    assert [grad_scaler(p, "cpu").is_enabled() for p in ("float32", "bf16", "fp16")] == [False, False, True]


def test_unknown_precision():
    for use in (autocast, grad_scaler):
        with pytest.raises(ConfigError, match="choose from: bf16, float32, fp16"):
            use("tf32", "cpu")
