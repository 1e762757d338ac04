"""Tuned classic networks: convolutions with a shortcut, a norm and dropout."""

import pytest
import torch
from torch.nn import functional
from zoo_laws import IN, OUT, graph, mean, smoothing

from polynsd import ConfigError
from polynsd.testing.samples import GRAPHS
from polynsd.zoo.tuned import CONVS, NORMS, TunedGNN

C, HEADS = 8, 2


def build(conv="gcn", num_layers=2, **options):
    torch.manual_seed(0)
    return TunedGNN(IN, C, num_layers, OUT, conv=conv, **{"heads": HEADS, **options}).double().eval()


def attention(conv, h, A):
    v = conv.maps[0](h).unflatten(-1, (conv.heads, -1))
    source, target = ((v * a).sum(-1) for a in conv.attention)
    scores = functional.leaky_relu(target[:, None] + source[None], 0.2)
    α = scores.masked_fill(A[:, :, None] == 0, -torch.inf).softmax(1).nan_to_num(0.0)
    return torch.einsum("ijh,jhc->ihc", α, v).flatten(1)


def dense_conv(kind, conv, h, A):
    if kind == "gcn":
        return smoothing(A) @ conv.linear(h) + conv.bias
    if kind == "sage":
        return conv.neighbour(mean(A) @ h) + conv.root(h)
    return attention(conv, h, A)


def dense(model, kind, x, A):
    h = x if model.input is None else model.input(x)
    for layer in model.layers:
        new = dense_conv(kind, layer.conv, h, A)
        new = new if layer.shortcut is None else new + layer.shortcut(h)
        h = functional.relu(layer.norm(new))
    return model.output(h)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("conv", CONVS)
def test_layers_are_the_dense_formulas(name, conv):
    x, edge_index, A = graph(name)
    model = build(conv, norm="layer")
    torch.testing.assert_close(model(x, edge_index), dense(model, conv, x, A))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("options", [{}, {"residual": False}, {"pre_linear": True}])
def test_shortcuts_and_norms(norm, options):
    x, edge_index, A = graph("isolated nodes")
    model = build(norm=norm, **options).train()
    torch.testing.assert_close(model(x, edge_index), dense(model, "gcn", x, A))


def test_fifteen_layers():
    x, edge_index, _ = graph("path")
    model = build(num_layers=15)
    assert len(model.layers) == 15
    assert model(x, edge_index).isfinite().all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conv": "gct"}, "unknown conv 'gct'"),
        ({"norm": "bach"}, "Did you mean 'batch'"),
        ({"conv": "gat", "heads": 3}, "hidden_channels=8 must be a multiple of heads=3"),
    ],
)
def test_mistakes_are_named(options, words):
    with pytest.raises(ConfigError, match=words):
        build(**options)
