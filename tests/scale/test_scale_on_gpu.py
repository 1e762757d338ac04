"""The graph on the CPU, its parts on a GPU: the same numbers. Skipped where there is none."""

import pytest
import torch
from published_block import published
from scale_graphs import awkward_graph, shaken, thirds

from polynsd import TrainConfig, heterophilous_graph
from polynsd.scale import autocast, fit_in_parts, predict_in_parts
from polynsd.training import get_task

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("layerwise", [False, True])
@pytest.mark.parametrize("maps", ["identity", "diagonal", "orthogonal", "general"])
def test_parts_visit_the_device(maps, layerwise):
    data = awkward_graph(weighted=True)
    del data.edge_attr
    model = shaken(published(5, 3, 2, 2, maps=maps, degree=2, stalk_dim=2), size=0.2)
    with torch.no_grad():
        expected = model(data.x, data.edge_index, data.edge_weight)
    found = predict_in_parts(model, data, 5, device="cuda", layerwise=layerwise)
    assert found.device.type == data.x.device.type == "cpu"
    assert float((found - expected).abs().max()) < 1e-11


@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_training_learns(precision, is_checkpointed):
    data, split = heterophilous_graph(300, heterophily=0.9, seed=0).to_pyg(), thirds(300)

    def build():
        return published(15, 8, 2, 4, degree=2, dropout=0.2, checkpoint_layers=is_checkpointed)

    config = TrainConfig(epochs=30, learning_rate=0.02)
    result = fit_in_parts(
        build, data, split, get_task("accuracy"), config,
        num_parts=4, depth=2, device="cuda", precision=precision,
    )  # fmt: skip
    assert next(result.model.parameters()).is_cuda
    assert result.test_metric > torch.bincount(data.y).max() / 300 + 0.15


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
def test_bf16_agrees_with_float32(maps):
    data = awkward_graph(dtype=torch.float32).to("cuda")
    model = shaken(published(5, 8, 2, 3, maps=maps, degree=3, stalk_dim=2), 0, torch.float32, 0.1).to("cuda")
    outputs = []
    for precision in ("float32", "bf16"):
        with autocast(precision, "cuda"):
            outputs.append(model(data.x, data.edge_index).float())
    assert float(((outputs[1] - outputs[0]).norm() / outputs[0].norm()).detach()) < 2e-2
    gradients = torch.autograd.grad(outputs[1].square().mean(), list(model.parameters()))
    assert all(g.isfinite().all() for g in gradients)
