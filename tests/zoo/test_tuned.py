"""Tuned classic networks: PyG's convolutions with a shortcut, a norm and dropout."""

from functools import partial

import pytest
import torch
from replica_law import IN, OUT, check_options, check_parameters, check_replicas, graph, made, smoothing
from torch.nn import functional

from polynsd import ConfigError
from polynsd.testing.samples import GRAPHS
from polynsd.zoo.tuned import CONVS, NORMS, TunedGNN

C, HEADS = 8, 2


def build(conv="gcn", **options):
    return TunedGNN(IN, C, 2, OUT, **{"dropout": 0.3, "conv": conv, "heads": HEADS, **options})


def attention(conv, h, A):
    v = conv.lin(h).unflatten(-1, (conv.heads, -1))
    source, target = ((v * a).sum(-1) for a in (conv.att_src, conv.att_dst))
    scores = functional.leaky_relu(target[:, None] + source[None], 0.2)
    α = scores.masked_fill(A[:, :, None] == 0, -torch.inf).softmax(1).nan_to_num(0.0)
    return torch.einsum("ijh,jhc->ihc", α, v).flatten(1)


def dense_conv(kind, conv, h, A):
    if kind == "gcn":
        return smoothing(A) @ conv.lin(h) + conv.bias
    if kind == "sage":
        return conv.lin_l(A / A.sum(1, keepdim=True).clamp(min=1) @ h) + conv.lin_r(h)
    return attention(conv, h, A)


def dense(model, kind, x, A):
    h = x if model.input is None else model.input(x)
    for layer in model.layers:
        new = dense_conv(kind, layer.conv, h, A)
        new = new if layer.shortcut is None else new + layer.shortcut(h)
        h = functional.relu(new if layer.norm is None else layer.norm(new))
    return model.output(h)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("conv", CONVS)
def test_layers_are_the_dense_formulas(name, conv):
    x, edge_index, A = graph(name)
    model = made(partial(build, conv, norm="layer"))
    torch.testing.assert_close(model(x, edge_index), dense(model, conv, x, A))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("options", [{}, {"residual": False}, {"pre_linear": True}])
def test_shortcuts_and_norms(norm, options):
    x, edge_index, A = graph("isolated nodes")
    model = made(partial(build, norm=norm, dropout=0.0, **options)).train()
    torch.testing.assert_close(model(x, edge_index), dense(model, "gcn", x, A))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("conv", CONVS)
def test_replicas(conv, norm):
    check_replicas(partial(build, conv, norm=norm, pre_linear=norm == "layer"))


@pytest.mark.parametrize("conv", CONVS)
def test_every_parameter_counts(conv):
    check_parameters(partial(build, conv, norm="layer", pre_linear=True, dropout=0.0))


def test_every_option_changes_something():
    others = {"conv": ["gcn", "sage"], "residual": [False], "norm": ["none", "layer"]}
    others |= {"heads": [2], "pre_linear": [True], "dropout": [0.5]}
    check_options(TunedGNN, {"conv": "gat"}, others)


def test_fifteen_layers():
    x, edge_index, _ = graph("path")
    model = made(lambda: TunedGNN(IN, C, 15, OUT))
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
