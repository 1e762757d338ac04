"""Layers as changes of the state that start at zero: depth costs nothing at the start."""

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_FEATURES, NUM_NODES, close, features, shaken

from polynsd import LayerConfig, PolyNSD, Topology
from polynsd.nn import SheafLayer

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
SMALL = {
    "stalk_dim": 2,
    "learner_width": 6,
    "learner_hops": 1,
    "activation": "elu",
    "dropout": 0.0,
    "degree": 1,
}
LABELS = torch.arange(NUM_NODES) % 3


def build(num_layers, **options):
    torch.manual_seed(0)
    return PolyNSD(NUM_FEATURES, 4, num_layers, 3, **SMALL | {"gate": "rezero"} | options).double().train()


def loss(logits):
    return torch.nn.functional.cross_entropy(logits, LABELS)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_layer_adds_a_multiple_of_the_layer_with_a_shortcut(norm):
    torch.manual_seed(0)
    layer = shaken(SheafLayer(4, LayerConfig(**SMALL, norm=norm, gate="rezero")))
    plain = SheafLayer(4, LayerConfig(**SMALL, norm=norm, gate="shortcut")).double().eval()
    plain.load_state_dict({name: v for name, v in layer.state_dict().items() if name != "epsilon"})
    x = features(NUM_NODES, 8).reshape(NUM_NODES, 2, 4)
    assert close(layer(x, TOPOLOGY), x + layer.epsilon * plain(x, TOPOLOGY))
    response = layer.response(torch.linspace(0, 2, 5).double())
    assert close(response.r, 1 + layer.epsilon * response.m)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_model_of_any_depth_starts_as_its_encoder_and_decoder(norm):
    """So no depth brings nodes together, and none makes the encoder's gradient smaller or larger."""
    model, x = build(32, norm=norm), features()
    logits, direct = model(x, EDGE_INDEX), model.decode(model.encode(x))
    assert torch.equal(logits, direct)
    weight = model.encoder.weight
    assert close(*(torch.autograd.grad(loss(out), weight)[0] for out in (logits, direct)))


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_every_layer_of_a_deep_model_learns_from_the_second_step_on(norm):
    model, x = build(16, norm=norm), features()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        losses.append(loss(model(x, EDGE_INDEX)))
        losses[-1].backward()
        optimizer.step()
    still = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0}
    assert still == set()
    assert losses[-1] < losses[0] / 2
