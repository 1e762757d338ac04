"""Which epoch a network keeps: one that all folds choose together."""

import numpy as np
import pytest
import torch
from test_linear_candidates import inputs_of, random_folds, random_graph

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.estimator.members import FitData
from polynsd.estimator.networks import Network, _judge_together, fit_networks
from polynsd.training import Configuration, get_task

pytestmark = pytest.mark.usefixtures("no_tracer")


def perceptron(name: str, dropout: float) -> Network:
    layer = LayerConfig(
        maps="identity", stalk_dim=1, learner="concat", degree=0, trunk="maps", dropout=dropout
    )
    model = ModelConfig(hidden_channels=8, num_layers=1, layer=layer)
    return Network(name, "features", Configuration(model, TrainConfig(epochs=30, patience=10)))


@pytest.mark.parametrize("num_nodes", [60, 1000])
def test_all_folds_choose_one_epoch(num_nodes):
    graph = random_graph(num_nodes, 4, dense=True)
    data = FitData(inputs_of(graph), graph.y, random_folds(num_nodes, 3), get_task("accuracy"))
    members = fit_networks([perceptron("a", 0.0), perceptron("b", 0.5)], data)
    assert all(len(set(member.best_epochs)) == 1 for member in members)


def test_confidence_alone_does_not_choose():
    """Outputs that differ by a temperature are judged alike; all folds of a setting get one number."""
    generator, y = torch.Generator().manual_seed(0), torch.arange(12) % 3
    output = torch.randn(2, 12, 3, generator=generator) + torch.nn.functional.one_hot(y, 3)
    mask = torch.from_numpy(random_folds(12, 2).val)
    found = _judge_together(get_task("accuracy"), torch.cat([output, 2 * output]), y, mask.repeat(2, 1), 2)
    assert found[0] == found[1]
    assert found[2] == found[3] == pytest.approx(float(found[0]), abs=1e-3)
    right = (output.argmax(-1) == y)[mask]
    assert float(found[0]) < float(right.double().mean())
    assert np.isfinite(found.numpy()).all()
