"""The classic convolutions are their formulas, written with dense matrices."""

import math

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import models
from zoo_laws import IN, OUT, add_noise, build, graph, mean, normalised, power, smoothing, weighted_graph

from polynsd import ConfigError
from polynsd.testing.samples import GRAPHS
from polynsd.zoo import model_class, model_options
from polynsd.zoo.matrices import SparseMatrix


def stack(layers, x, between=torch.relu):
    """Layers with something between them."""
    for layer in layers[:-1]:
        x = between(layer(x))
    return layers[-1](x)


def mlp(model, x, A):
    return stack(model.layers, x)


def sgc(model, x, A, hops=2):
    return stack(model.mlp.lins, power(smoothing(A), hops) @ x)


def gcn(model, x, A, between=torch.relu):
    def layer(conv):
        return lambda h: smoothing(A) @ h @ conv.linear.weight.T + conv.bias

    return stack([layer(conv) for conv in model.layers], x, between)


def pairnorm(model, x, A, scale=1.0, individually=False):
    def between(h):
        h = h - h.mean(0)
        norm = h.norm(dim=1, keepdim=True)
        return torch.relu(scale * h / (norm + 1e-5 if individually else (1e-5 + (norm**2).mean()).sqrt()))

    return gcn(model, x, A, between)


def sage(model, x, A):
    def layer(conv):
        return lambda h: conv.root(h) + conv.neighbour(mean(A) @ h)

    return stack([layer(conv) for conv in model.layers], x)


def gin(model, x, A, norm="none", train_eps=False):
    norms = iter(model.norms)

    def layer(conv):
        return lambda h: conv.mlp((1 + conv.eps) * h + A @ h)

    return stack([layer(conv) for conv in model.layers], x, lambda h: torch.relu(next(norms)(h)))


def attention(model, x, A, scores):
    allowed = (A + torch.eye(len(A))) > 0

    def layer(conv, is_last):
        def apply(h):
            e, values = scores(conv, h)  # [heads, N, N], [N, heads, C]
            alpha = e.masked_fill(~allowed, -math.inf).softmax(-1)
            out = torch.einsum("hij,jhc->ihc", alpha, values)
            return (out.mean(1) if is_last else out.flatten(1)) + conv.bias

        return apply

    convs = list(model.layers)
    return stack([layer(conv, conv is convs[-1]) for conv in convs], x, functional.elu)


def gat(model, x, A, heads=8):
    def scores(conv, h):
        values = conv.maps[0](h).unflatten(1, (heads, -1))
        source, target = ((values * a).sum(-1).T for a in conv.attention)
        return functional.leaky_relu(target[:, :, None] + source[:, None, :], 0.2), values

    return attention(model, x, A, scores)


def gatv2(model, x, A, heads=8):
    def scores(conv, h):
        source, target = (linear(h).unflatten(1, (heads, -1)) for linear in conv.maps)
        both = functional.leaky_relu(target[:, None] + source[None], 0.2)
        return (both * conv.attention[0][0]).sum(-1).movedim(-1, 0), source

    return attention(model, x, A, scores)


def mixhop(model, x, A, hops=2):
    for conv in model.layers:
        parts = [power(smoothing(A), k) @ x @ conv.linears[k].weight.T for k in range(hops + 1)]
        x = torch.relu(torch.cat(parts, 1) + conv.bias)
    return model.output(x)


def gcnii(model, x, A, alpha=0.1, theta=0.5):
    h = first = torch.relu(model.encoder(x))
    for number, W in enumerate(model.weights, 1):
        beta = math.log(theta / number + 1)
        mixed = (1 - alpha) * smoothing(A) @ h + alpha * first
        h = torch.relu(mixed @ ((1 - beta) * torch.eye(len(W)) + beta * W))
    return model.decoder(h)


def chebnet(model, x, A, degree=2):
    lam, U = torch.linalg.eigh(-normalised(A))
    T = [U @ torch.diag(torch.cos(k * lam.clamp(-1, 1).arccos())) @ U.T for k in range(degree + 1)]

    def layer(conv):
        return lambda h: conv.bias + sum(T[k] @ h @ conv.linears[k].weight.T for k in range(degree + 1))

    return stack([layer(conv) for conv in model.layers], x)


TAKING_WEIGHTS = {
    "mlp": mlp,
    "gcn": gcn,
    "sgc": sgc,
    "mixhop": mixhop,
    "gcnii": gcnii,
    "pairnorm": pairnorm,
    "dropedge": gcn,
    "chebnet": chebnet,
}
FORMULAS = {**TAKING_WEIGHTS, "sage": sage, "gat": gat, "gatv2": gatv2, "gin": gin}
OPTIONS = [
    ("sgc", {"hops": 0}),
    ("sgc", {"hops": 3}),
    ("gat", {"heads": 4}),
    ("gatv2", {"heads": 1}),
    ("gin", {"norm": "batch"}),
    ("gin", {"train_eps": True}),
    ("mixhop", {"hops": 1}),
    ("mixhop", {"hops": 3}),
    ("gcnii", {"alpha": 0.4}),
    ("gcnii", {"theta": 1.5}),
    ("pairnorm", {"scale": 3.0}),
    ("pairnorm", {"scale": 0.3, "individually": True}),
    ("chebnet", {"degree": 0}),
    ("chebnet", {"degree": 1}),
    ("chebnet", {"degree": 5}),
]


@pytest.mark.parametrize("place", GRAPHS)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_model_is_its_formula(name, place):
    x, edge_index, A = graph(place)
    model = add_noise(build(name, 3))
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, A))


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(("name", "options"), [*[(name, {}) for name in FORMULAS], *OPTIONS])
def test_so_it_is_with_other_options_and_depths(name, options, num_layers):
    x, edge_index, A = graph("isolated nodes")
    model = add_noise(build(name, num_layers, **options))
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, A, **options))


@pytest.mark.parametrize("name", TAKING_WEIGHTS)
def test_so_it_is_with_weights_of_edges(name):
    x, edge_index, weight, A = weighted_graph("isolated nodes")
    model = add_noise(build(name, 3))
    torch.testing.assert_close(model(x, edge_index, weight), FORMULAS[name](model, x, A))


@pytest.mark.parametrize("name", [name for name in FORMULAS if name not in ("sgc", "gcnii", "dropedge")])
def test_dropped_features_are_those_that_the_model_sees(name):
    """With all other dropout off, training on x is evaluating on dropout(x): every map sees the same mask."""
    x, edge_index, _ = graph("isolated nodes")
    model = build(name, 3, input_dropout=0.5)
    torch.manual_seed(6)
    dropped = functional.dropout(x, 0.5)
    torch.manual_seed(6)
    torch.testing.assert_close(model.train()(x, edge_index), model.eval()(dropped, edge_index))


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_reach_the_features(name):
    x, edge_index, A = graph("isolated nodes")
    model = add_noise(build(name, 3))
    mine, dense = x.clone().requires_grad_(), x.clone().requires_grad_()
    model(mine, edge_index).square().sum().backward()
    FORMULAS[name](model, dense, A).square().sum().backward()
    torch.testing.assert_close(mine.grad, dense.grad)


THEIRS = {"gcn": models.GCN, "sage": models.GraphSAGE, "gin": models.GIN, "gat": models.GAT}


@pytest.mark.parametrize("name", THEIRS)
def test_the_same_seed_gives_the_parameters_of_pyg(name):
    x, edge_index, _ = graph("path")
    model = build(name, 3, dropout=0.3)
    torch.manual_seed(0)
    options = {"heads": 8, "act": "elu"} if name == "gat" else {}
    other = THEIRS[name](IN, 8, 3, OUT, dropout=0.3, **options).double().eval()
    both = torch.cat([edge_index, edge_index.flip(0)], 1)
    torch.testing.assert_close(model(x, edge_index), other(x, both))


@pytest.mark.parametrize("with_weights", [False, True])
def test_dropedge_trains_on_the_edges_that_are_left(with_weights):
    x, edge_index, weight, A = weighted_graph("isolated nodes")
    model = build("dropedge", 3, drop_edge=0.5).train()
    lower, upper = torch.triu(A).nonzero().t()
    for seed in range(3):
        torch.manual_seed(seed)
        is_kept = functional.dropout(torch.ones(len(lower), dtype=torch.float64), 0.5).sign()
        left = torch.zeros_like(A)
        left[lower, upper] = is_kept * (A[lower, upper] if with_weights else 1)
        torch.manual_seed(seed)
        found = model(x, edge_index, weight if with_weights else None)
        torch.testing.assert_close(found, gcn(model, x, left + left.T))


PRODUCTS = {"sgc": 0, "sage": 3, "gin": 3, "mixhop": 6, "chebnet": 6, "gcn": 3}  # of three layers


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_the_graph_are_few_and_those_of_features_alone_are_found_once(name, monkeypatch):
    x, edge_index, A = graph("path")
    model, multiply, calls = add_noise(build(name, 3)), SparseMatrix.__call__, []
    monkeypatch.setattr(SparseMatrix, "__call__", lambda self, z: (calls.append(1), multiply(self, z))[1])
    model(x, edge_index)
    calls.clear()
    model(x, edge_index)
    assert len(calls) == PRODUCTS[name]
    x.mul_(2)  # and again when they change
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, A))


@pytest.mark.parametrize("name", FORMULAS)
def test_every_option_is_searched(name):
    searched = set(model_class(name).space) - {"num_layers", "hidden_channels"}
    assert set(model_options(name)) - {"v2"} == searched


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sgc", {"hops": -1}, "hops must be an integer of at least 0"),
        ("mixhop", {"hops": -1}, "hops must be an integer of at least 0"),
        ("gat", {"heads": 3}, "hidden_channels=8 must be a multiple of heads=3"),
        ("gat", {"heads": 0}, "heads must be an integer of at least 1"),
        ("gin", {"norm": "bach"}, "Did you mean 'batch'"),
        ("gcnii", {"alpha": 1.5}, r"alpha must lie in \[0, 1\]"),
        ("gcnii", {"theta": 0.0}, "theta must be positive"),
        ("pairnorm", {"scale": -1.0}, "scale must be positive"),
        ("dropedge", {"drop_edge": 1.0}, "drop_edge must lie in"),
        ("chebnet", {"degree": -1}, "degree must be an integer of at least 0"),
    ],
)
def test_impossible_options_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        build(name, **options)
