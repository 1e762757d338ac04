"""Polynormer and SGFormer say what PyG's models say."""

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import models
from torch_geometric.utils import to_undirected
from zoo_laws import IN, OUT, build, graph

from polynsd import ConfigError
from polynsd.testing.samples import GRAPHS
from polynsd.zoo.transformers import LinearAttention

C = 8
SIMPLE = [name for name in GRAPHS if name != "multigraph"]  # PyG's layers keep parallel edges


def copy_parameters(pairs):
    """From ours to theirs; the layers of both list their parameters in the same order."""
    for theirs, mine in pairs:
        values = list(mine.state_dict().values())
        theirs.load_state_dict(dict(zip(theirs.state_dict(), values, strict=True)))


def published_polynormer(model, global_attention):
    """PyG's model with the parameters of ours."""
    net = models.Polynormer(IN, C, OUT, local_layers=2, global_layers=2).double().eval()
    net._global = global_attention
    for i, layer in enumerate(model.local_layers):
        local = layer.local
        mine = (layer.gate, layer.norm, local.conv, local.shortcut, local.norm)
        copy_parameters(
            zip(
                (net.h_lins[i], net.lns[i], net.local_convs[i], net.lins[i], net.post_bns[i]),
                mine,
                strict=True,
            )
        )
    if global_attention:
        copy_parameters(
            [(net.ln, model.norm), (net.global_attn, model.global_layers), (net.pred_global, model.output)]
        )
    else:
        copy_parameters([(net.pred_local, model.output)])
    return net


def published_sgformer(model, heads, layers):
    """PyG's model with the parameters of ours, in single precision, which is what it knows."""
    net = models.SGFormer(
        IN, C, OUT, trans_num_layers=layers, trans_num_heads=heads, gnn_num_layers=2, graph_weight=0.8
    )
    branch, mine = net.trans_conv, model.attention
    copy_parameters([(net.fc, model.output), (branch.bns, mine.norms)])
    copy_parameters([(net.graph_conv.fcs[0], model.graph.input), (net.graph_conv.bns, model.graph.norms)])
    copy_parameters([(net.graph_conv.convs, model.graph.layers)])
    copy_parameters([(branch.fcs[0], mine.input)])
    for theirs, ours in zip(branch.attns, mine.layers, strict=True):
        copy_parameters([(theirs.q, ours.query), (theirs.k, ours.key), (theirs.v, ours.value)])
    return net.eval()


def one_graph(x):
    return torch.zeros(len(x), dtype=torch.long)


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("global_attention", [True, False])
def test_polynormer_is_pygs(name, global_attention):
    x, edge_index, _ = graph(name)
    model = build("polynormer", global_attention=global_attention)
    net = published_polynormer(model, global_attention)
    found = functional.log_softmax(model(x, edge_index), -1)
    torch.testing.assert_close(found, net(x, to_undirected(edge_index), one_graph(x)))


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize(("heads", "layers"), [(1, 1), (2, 2)])
def test_sgformer_is_pygs(name, heads, layers):
    x, edge_index, _ = graph(name)
    model = build("sgformer", heads=heads, attention_layers=layers).float()
    net, x = published_sgformer(model, heads, layers), x.float()
    found = functional.log_softmax(model(x, edge_index), -1)
    torch.testing.assert_close(found, net(x, to_undirected(edge_index), one_graph(x)), rtol=1e-5, atol=1e-5)


def test_polynormer_trains_in_two_phases():
    """Only local parameters get gradients in the first steps, only those of the other head afterwards."""
    x, edge_index, _ = graph("star")
    model = build("polynormer", local_epochs=2).train()
    heads = [model.local_output.weight, model.output.weight]
    for step in range(4):
        gradients = torch.autograd.grad(model(x, edge_index).square().sum(), heads)
        assert [bool(gradient.any()) for gradient in gradients] == [step < 2, step >= 2]
    model.eval()
    assert int(model.steps) == 4
    assert torch.equal(model(x, edge_index), model(x, edge_index))
    model.reset_parameters()
    assert int(model.steps) == 0


def test_linear_attention_is_the_dense_formula():
    """Row i of (I + P/N) v over its sum, with P_ij = q_i · k_j."""
    x, _, _ = graph("star")
    layer = LinearAttention(IN, 1).double()
    q, k = (functional.normalize(f(x), dim=-1) for f in (layer.query, layer.key))
    weights = torch.eye(len(x)).double() + q @ k.T / len(x)
    torch.testing.assert_close(layer(x), weights @ layer.value(x) / weights.sum(1, keepdim=True))


def test_global_attention_sees_other_components():
    x, edge_index, _ = graph("isolated nodes")
    moved = x.clone()
    moved[0] += 1.0  # an isolated node
    for global_attention in (True, False):
        model = build("polynormer", global_attention=global_attention)
        assert torch.allclose(model(x, edge_index)[1], model(moved, edge_index)[1]) != global_attention
    model = build("sgformer")
    assert not torch.allclose(model(x, edge_index)[1], model(moved, edge_index)[1])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("polynormer", {"heads": 3}, "hidden_channels=8 must be a multiple of heads=3"),
        ("polynormer", {"feature_dropout": 1.5}, "feature_dropout"),
        ("polynormer", {"global_layers": 0}, "global_layers must be an integer of at least 1"),
        ("sgformer", {"attention_layers": 0}, "attention_layers must be an integer of at least 1"),
    ],
)
def test_mistakes_are_named(name, options, words):
    with pytest.raises(ConfigError, match=words):
        build(name, **options)
