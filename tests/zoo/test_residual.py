"""The residual skeleton and its messages are the published formulas."""

import copy

import pytest
import torch
from torch.nn import functional
from zoo_laws import IN, OUT, graph, mean, power, smoothing

from polynsd import ConfigError, ShapeError
from polynsd.testing.samples import GRAPHS
from polynsd.topology import as_topology
from polynsd.zoo.residual import FEATURES, MESSAGES, ResidualNet

C, HEADS = 8, 2


def build(**options):
    torch.manual_seed(0)
    return ResidualNet(IN, C, 2, OUT, **{"heads": HEADS, **options}).double().eval()


def feed_forward(module, z):
    return module.second(functional.gelu(module.first(z)))


def averaged(scores, allowed, v):
    """Σ_j α_ij v_j per head; scores[i, j, head], zero where nobody is allowed."""
    α = scores.masked_fill(~allowed[:, :, None], -torch.inf).softmax(1).nan_to_num(0.0)
    return torch.einsum("ijh,jhc->ihc", α, v.unflatten(-1, (HEADS, -1))).flatten(1)


def additive(block, z, A, is_separate):
    v = block.value(z)
    scores = functional.leaky_relu(block.target(v)[:, None] + block.source(v)[None], 0.2)
    message = averaged(scores, A > 0, v)
    return feed_forward(block.feed_forward, torch.cat([v, message], -1) if is_separate else message)


def dot_product(block, z, A, is_separate):
    q, k = (f(z).unflatten(-1, (HEADS, -1)) for f in (block.query, block.key))
    scores = torch.einsum("jhc,ihc->ijh", q, k) / (C / HEADS) ** 0.5
    message = averaged(scores, A > 0, block.value(z))
    return block.output(torch.cat([z, message], -1) if is_separate else message)


def dense_block(message, block, z, A):
    looped = A + torch.eye(len(A)).to(A)
    return {
        "none": lambda: feed_forward(block.feed_forward, z),
        "gcn": lambda: feed_forward(block.feed_forward, smoothing(A) @ z),
        "sage": lambda: feed_forward(block.feed_forward, torch.cat([z, mean(A) @ z], -1)),
        "gat": lambda: additive(block, z, looped, False),
        "gat-sep": lambda: additive(block, z, A, True),
        "gt": lambda: dot_product(block, z, looped, False),
        "gt-sep": lambda: dot_product(block, z, A, True),
    }[message]()


def dense(model, message, features, x, A):
    more = {
        "raw": [],
        "sgc": [power(smoothing(A), 5) @ x],
        "adjacency": [A],
    }[features]
    h = functional.gelu(torch.cat([x, *more], -1) @ model.input.weight.T + model.input.bias)
    for number, (norm, block) in enumerate(zip(model.norms, model.blocks, strict=True)):
        is_plain = message.startswith("gt") and number % 2  # what follows a transformer
        h = h + dense_block("none" if is_plain else message, block, norm(h), A)
    return model.output(model.last_norm(h))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("message", MESSAGES)
def test_messages_are_the_dense_formulas(name, message):
    x, edge_index, A = graph(name)
    model = build(message=message)
    torch.testing.assert_close(model(x, edge_index), dense(model, message, "raw", x, A))
    torch.testing.assert_close(model(x, as_topology(edge_index, len(x))), model(x, edge_index))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("features", FEATURES)
def test_features_are_the_dense_formulas(name, features):
    x, edge_index, A = graph(name)
    model = build(features=features)
    found = model(x, edge_index)
    torch.testing.assert_close(found, dense(model, "none", features, x, A))
    torch.testing.assert_close(model(x, edge_index), found)  # from what is remembered


def test_features_follow_the_graph_and_carry_gradients():
    x, edge_index, A = graph("star")
    model = build(features="sgc")
    lone = torch.empty(2, 0, dtype=torch.long)
    assert not torch.allclose(model(x, edge_index), model(x, lone))
    expected, found = (x.clone().requires_grad_() for _ in range(2))
    dense(model, "none", "sgc", expected, A).square().sum().backward()
    model(found, edge_index).square().sum().backward()
    torch.testing.assert_close(found.grad, expected.grad)


def test_columns_of_the_adjacency_matrix_take_shape_once():
    x, edge_index, _ = graph("star")
    model = build(features="adjacency")
    lazy = copy.deepcopy(model)
    output = model(x, edge_index)
    assert model.input.weight.shape == (C, IN + len(x))
    lazy.load_state_dict(model.state_dict())
    torch.testing.assert_close(lazy(x, edge_index), output)
    with pytest.raises(ShapeError, match=r"bound to one graph.*were 11 together; got 5 \+ 5"):
        model(*graph("path")[:2])
    bound = (IN + len(x)) ** -0.5  # as one linear map of [x ‖ A] is drawn
    assert 0.8 * bound < model.input.weight.abs().max() <= bound


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"message": "gat-seq"}, "Did you mean 'gat-sep'"),
        ({"features": "sgd"}, "Did you mean 'sgc'"),
        ({"message": "gt", "heads": 3}, "hidden_channels=8 must be a multiple of heads=3"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_mistakes_are_named(options, words):
    with pytest.raises(ConfigError, match=words):
        build(**options)
