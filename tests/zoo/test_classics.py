"""The classics are their formulas, written with dense matrices; replicas of them train as if alone."""

import copy
import math
import pickle
from functools import partial

import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import models

from polynsd import ConfigError, TrainConfig
from polynsd.data import stratified_split
from polynsd.errors import GraphError
from polynsd.nn.zoo.operators import Propagation
from polynsd.nn.zoo.registry import build_zoo, own_options, zoo_class
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.training import replicas as engine
from polynsd.training.streams import DropoutRates

NAMES = (
    "mlp",
    "gcn",
    "sgc",
    "sage",
    "gat",
    "gatv2",
    "gin",
    "mixhop",
    "gcnii",
    "pairnorm",
    "dropedge",
    "chebnet",
)
WITHOUT_WEIGHTS = ("sage", "gat", "gatv2", "gin")
SIZES = (5, 8, 3, 4)

GRAPHS = {
    "a ring with a chord, and an isolated node": (
        7,
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)],
    ),
    "a star": (6, [(0, leaf) for leaf in range(1, 6)]),
    "one node": (1, []),
    "no edges": (3, []),
}
RING = next(iter(GRAPHS))


def graph(name, seed=0):
    """x, edge_index, the weights of its columns, and A with them."""
    N, pairs = GRAPHS[name]
    torch.manual_seed(seed)
    one_way = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    edge_index = torch.cat([one_way, one_way.flip(0)], 1)
    weight = torch.rand(one_way.size(1), dtype=torch.float64).add(0.5).repeat(2)
    A = torch.zeros(N, N, dtype=torch.float64).index_put((edge_index[1], edge_index[0]), weight)
    return torch.randn(N, SIZES[0], dtype=torch.float64), edge_index, weight, A


def built(name, sizes=SIZES, dropout=0.0, **options):
    torch.manual_seed(1)
    model = build_zoo(name, sizes, dropout, options).double().eval()
    for p in model.parameters():  # biases too, which begin as zeros
        torch.nn.init.normal_(p, std=0.4)
    return model


def normalised(A, loop):
    degree = A.sum(1) + loop
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[:, None] * (A + loop * torch.eye(len(A), dtype=A.dtype)) * scale


def power(S, k):
    return torch.linalg.matrix_power(S, k)


def stacked(layers, x, between=torch.relu):
    """Layers with something between them."""
    for layer in layers[:-1]:
        x = between(layer(x))
    return layers[-1](x)


def linear(lin, h):
    """W h + b; the first maps of a model are themselves called with W h."""
    return functional.linear(h, lin.weight, lin.bias)


def mlp(model, x, A):
    return stacked([partial(linear, lin) for lin in model.mlp.lins], x)


def sgc(model, x, A, hops=2):
    return stacked(model.mlp.lins, power(normalised(A, 1), hops) @ x)


def gcn(model, x, A, between=torch.relu):
    def layer(conv):
        return lambda h: normalised(A, 1) @ h @ conv.lin.weight.T + conv.bias

    return stacked([layer(conv) for conv in model.gnn.convs], x, between)


def pairnorm(model, x, A, scale=1.0, individually=False):
    def between(h):
        h = h - h.mean(0)
        norm = h.norm(dim=1, keepdim=True)
        return torch.relu(scale * h / (norm + 1e-5 if individually else (1e-5 + (norm**2).mean()).sqrt()))

    return gcn(model, x, A, between)


def sage(model, x, A):
    def layer(conv):
        mean = A / A.sum(1, keepdim=True).clamp(min=1)
        return lambda h: h @ conv.lin_r.weight.T + mean @ h @ conv.lin_l.weight.T + conv.lin_l.bias

    return stacked([layer(conv) for conv in model.gnn.convs], x)


def gin(model, x, A):
    def layer(conv):
        first = conv.nn.lins[0].weight.T if conv is model.gnn.convs[0] else torch.eye(SIZES[1]).double()
        return lambda h: conv.nn(((1 + conv.eps) * h + A @ h) @ first)

    def between(h):
        return torch.relu(next(norms)(h))

    norms = iter(model.gnn.norms)
    return stacked([layer(conv) for conv in model.gnn.convs], x, between)


def attention(model, x, A, scores):
    allowed = (A + torch.eye(len(A))) > 0

    def layer(conv, is_last):
        def apply(h):
            e, values = scores(conv, h)  # [H, N, N], [N, H, C]
            alpha = e.masked_fill(~allowed, -math.inf).softmax(-1)
            out = torch.einsum("hij,jhc->ihc", alpha, values)
            return (out.mean(1) if is_last else out.flatten(1)) + conv.bias

        return apply

    convs = list(model.gnn.convs)
    return stacked([layer(conv, conv is convs[-1]) for conv in convs], x, functional.elu)


def gat(model, x, A):
    def scores(conv, h):
        values = (h @ conv.lin.weight.T).unflatten(1, (conv.heads, -1))
        source, target = ((values * a).sum(-1).T for a in (conv.att_src, conv.att_dst))
        return functional.leaky_relu(target[:, :, None] + source[:, None, :], 0.2), values

    return attention(model, x, A, scores)


def gatv2(model, x, A):
    def scores(conv, h):
        source, target = (linear(lin, h).unflatten(1, (conv.heads, -1)) for lin in (conv.lin_l, conv.lin_r))
        both = functional.leaky_relu(target[:, None] + source[None], 0.2)
        return (both * conv.att[0]).sum(-1).movedim(-1, 0), source

    return attention(model, x, A, scores)


def mixhop(model, x, A, hops=2):
    for conv in model.convs:
        powers = [power(normalised(A, 1), k) @ x @ conv.lins[k].weight.T for k in range(hops + 1)]
        x = torch.relu(torch.cat(powers, 1) + conv.bias)
    return model.classify(x)


def gcnii(model, x, A, alpha=0.1, theta=0.5):
    h = first = torch.relu(model.encode(x))
    for number, conv in enumerate(model.convs, 1):
        beta, W = math.log(theta / number + 1), conv.weight1
        mixed = (1 - alpha) * normalised(A, 1) @ h + alpha * first
        h = torch.relu(mixed @ ((1 - beta) * torch.eye(len(W)) + beta * W))
    return model.classify(h)


def chebnet(model, x, A, degree=2):
    lam, U = torch.linalg.eigh(-normalised(A, 0))

    def layer(conv):
        def apply(h):
            return conv.bias + sum(
                U @ torch.diag(torch.cos(k * lam.clamp(-1, 1).arccos())) @ U.T @ h @ conv.lins[k].weight.T
                for k in range(degree + 1)
            )

        return apply

    return stacked([layer(conv) for conv in model.convs], x)


FORMULAS = {name: globals()[name] for name in NAMES if name != "dropedge"} | {"dropedge": gcn}
OPTIONS = {
    "sgc": [{"hops": 0}, {"hops": 3}],
    "mixhop": [{"hops": 1}, {"hops": 3}],
    "gcnii": [{"alpha": 0.4}, {"theta": 1.5}],
    "pairnorm": [{"scale": 3.0}, {"individually": True}, {"scale": 0.3, "individually": True}],
    "chebnet": [{"degree": 0}, {"degree": 1}, {"degree": 5}],
}
CASES = [(name, options) for name in NAMES for options in [{}, *OPTIONS.get(name, [])]]


@pytest.mark.parametrize("place", GRAPHS)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_model_is_its_formula(name, options, place):
    x, edge_index, weight, A = graph(place)
    model = built(name, **options)
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, (A > 0).double(), **options))
    if name in WITHOUT_WEIGHTS:
        with pytest.raises(ConfigError, match="has no use for edge_weight; leave it out"):
            model(x, edge_index, weight)
    else:
        torch.testing.assert_close(model(x, edge_index, weight), FORMULAS[name](model, x, A, **options))


@pytest.mark.parametrize("options", [{"norm": "batch"}, {"train_eps": True}])
def test_gin_with_its_options_is_its_formula(options):
    x, edge_index, _, A = graph(RING)
    model = built("gin", **options)
    torch.testing.assert_close(model(x, edge_index), gin(model, x, (A > 0).double()))


@pytest.mark.parametrize("name", ["gat", "gatv2"])
@pytest.mark.parametrize("heads", [1, 4])
def test_attention_has_as_many_heads_as_it_is_told(name, heads):
    x, edge_index, _, A = graph(RING)
    model = built(name, heads=heads)
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, A))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_depth_is_free(name, num_layers):
    x, edge_index, _, A = graph(RING)
    model = built(name, (5, 8, num_layers, 4))
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, (A > 0).double()))


CHANGES = {
    "sgc": {"hops": 3},
    "gat": {"heads": 4},
    "gatv2": {"heads": 4},
    "gin": {"train_eps": True, "norm": "batch"},
    "mixhop": {"hops": 1},
    "gcnii": {"alpha": 0.3, "theta": 1.0},
    "pairnorm": {"scale": 2.0, "individually": True},
    "dropedge": {"drop_edge": 0.7},
    "chebnet": {"degree": 3},
}
DROPPING = tuple(name for name in NAMES if name not in ("sgc", "gcnii"))  # their features, if told to
for name in DROPPING:
    CHANGES.setdefault(name, {})["input_dropout"] = 0.5


def said(name, **options):
    """What a model says with parameters and edges drawn from the same seeds."""
    x, edge_index, *_ = graph(RING)
    model = built(name, **options).train()
    torch.manual_seed(4)
    return model(x, edge_index)


@pytest.mark.parametrize(("name", "option"), [(name, o) for name in CHANGES for o in CHANGES[name]])
def test_every_option_changes_something(name, option):
    assert not torch.allclose(said(name), said(name, **{option: CHANGES[name][option]}))


def test_the_second_version_of_attention_is_another():
    assert not torch.allclose(said("gat"), said("gatv2"))


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_changed_above_and_searched(name):
    searched = set(zoo_class(name).space) - {"num_layers", "hidden_channels"}
    assert set(own_options(name)) - {"v2"} == set(CHANGES.get(name, {})) == searched


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
        build_zoo(name, SIZES, 0.0, options)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter_and_the_features(name):
    x, edge_index, *_ = graph(RING)
    model = built(name, dropout=0.3, **({"train_eps": True} if name == "gin" else {})).train()
    x.requires_grad_()
    model(x, edge_index).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in [x, *model.parameters()])


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_drawn_anew(name):
    model = build_zoo(name, SIZES, 0.0, {})
    before = copy.deepcopy(list(model.parameters()))
    torch.manual_seed(5)
    model.reset_parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("name", "theirs"), [("gcn", models.GCN), ("sage", models.GraphSAGE), ("gin", models.GIN)]
)
def test_the_same_seed_gives_the_parameters_of_pyg(name, theirs):
    torch.manual_seed(2)
    model = build_zoo(name, SIZES, 0.3, {}).double().eval()
    torch.manual_seed(2)
    other = theirs(*SIZES, dropout=0.3).double().eval()
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, its)
    x, edge_index, *_ = graph(RING)
    torch.testing.assert_close(model(x, edge_index), other(x, edge_index))


@pytest.mark.parametrize("name", NAMES)
def test_loops_copies_and_missing_directions_make_no_difference(name):
    x, edge_index, *_ = graph(RING)
    model = built(name)
    half = edge_index[:, : edge_index.size(1) // 2]
    untidy = torch.cat([half, half[:, :2], torch.tensor([[3, 6], [3, 6]])], 1)
    torch.testing.assert_close(model(x, untidy), model(x, edge_index))


def test_weights_that_contradict_each_other_are_refused():
    x, edge_index, weight, _ = graph(RING)
    weight[0] += 1
    with pytest.raises(GraphError, match="both directions"):
        built("gcn")(x, edge_index, weight)


def test_weights_are_not_learned():
    x, edge_index, weight, _ = graph(RING)
    with pytest.raises(ConfigError, match=r"would get no gradient; detach\(\) it"):
        built("gcn")(x, edge_index, weight.requires_grad_())


@pytest.mark.parametrize("with_weights", [False, True])
def test_dropedge_trains_on_the_edges_that_are_left(with_weights):
    x, edge_index, weight, A = graph(RING)
    model = built("dropedge", drop_edge=0.5).train()
    pairs = sorted(tuple(sorted(pair)) for pair in GRAPHS[RING][1])
    for seed in range(3):
        torch.manual_seed(seed)
        kept = functional.dropout(torch.ones(len(pairs), dtype=torch.float64), 0.5) > 0
        left = torch.zeros_like(A)
        for (a, b), is_kept in zip(pairs, kept, strict=True):
            left[a, b] = left[b, a] = float(is_kept) * (A[a, b] if with_weights else 1)
        torch.manual_seed(seed)
        found = model(x, edge_index, weight if with_weights else None)
        torch.testing.assert_close(found, gcn(model, x, left))


PRODUCTS = {"sgc": 0, "sage": 3, "gin": 3, "mixhop": 6, "chebnet": 6, "gcn": 3}  # of three layers


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_the_graph_are_few_and_those_of_features_alone_are_found_once(name, monkeypatch):
    x, edge_index, _, A = graph(RING)
    model, multiply, calls = built(name), Propagation.__call__, []
    monkeypatch.setattr(Propagation, "__call__", lambda self, z: (calls.append(1), multiply(self, z))[1])
    model(x, edge_index)
    calls.clear()
    model(x, edge_index)
    assert len(calls) == PRODUCTS[name]
    x.mul_(2)  # and again when they change
    torch.testing.assert_close(model(x, edge_index), FORMULAS[name](model, x, (A > 0).double()))


@pytest.mark.parametrize("name", NAMES)
def test_another_graph_is_not_mistaken_for_the_last_one(name):
    x, edge_index, *_ = graph(RING)
    model = built(name)
    model(x, edge_index)
    other = edge_index[:, 1:-1]
    expected = built(name)(x.clone(), other.clone())
    torch.testing.assert_close(model(x, other), expected)


@pytest.mark.parametrize("name", NAMES)
def test_models_can_be_stored_and_copied(name):
    x, edge_index, *_ = graph(RING)
    model = built(name)
    copies, before = (copy.deepcopy(model), pickle.loads(pickle.dumps(model))), model(x, edge_index)
    model.reset_parameters()  # which the copies do not notice
    for copied in copies:
        assert torch.equal(copied(x, edge_index), before)


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(30, (2, 60), generator=generator)
    x, y = torch.randn(30, 5, generator=generator), torch.arange(30) % 3
    return Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], 1), y=y)


def state(result):
    return torch.cat([t.flatten().double() for t in result.model.state_dict().values()])


WEIGHTED = [name for name in NAMES if name not in WITHOUT_WEIGHTS]
TRAINED = [*[(name, {}, False) for name in NAMES], ("gin", {"norm": "batch"}, False)]
TRAINED += [(name, {}, True) for name in WEIGHTED]


@pytest.mark.parametrize(("name", "options", "has_weights"), TRAINED)
def test_replicas_train_together_as_they_do_alone(name, options, has_weights, data, monkeypatch):
    data = copy.copy(data)
    if has_weights:
        data.edge_weight = torch.rand(60).repeat(2)
    verdicts, ask = [], engine.is_vectorisable
    monkeypatch.setattr(engine, "is_vectorisable", lambda run: verdicts.append(ask(run)) or verdicts[-1])
    build = partial(build_zoo, name, (5, 8, 2, 3), 0.4, options)
    config, task = TrainConfig(epochs=3, patience=3), get_task("accuracy")
    replicas = [Replica(build, stratified_split(data.y, seed=seed), seed, config) for seed in (0, 1)]
    together = fit_replicas(replicas, data, task)
    for replica, result in zip(replicas, together, strict=True):
        (alone,) = fit_replicas([replica], data, task)
        torch.testing.assert_close(state(result), state(alone), rtol=1e-4, atol=1e-4)
        assert result.val_loss == pytest.approx(alone.val_loss, rel=1e-4)
    assert not torch.allclose(state(together[0]), state(together[1]))
    assert all(verdicts)  # by torch.vmap, not in turns


RATES = [("dropedge", "drop_edge"), *[(name, "input_dropout") for name in DROPPING]]


@pytest.mark.parametrize(("name", "option"), RATES)
def test_replicas_may_differ_in_rates(name, option, data):
    split, config, task = stratified_split(data.y), TrainConfig(epochs=3, patience=3), get_task("accuracy")
    builds = [partial(build_zoo, name, (5, 8, 2, 3), 0.4, {option: p}) for p in (0.0, 0.2, 0.7)]
    replicas = [Replica(build, split, 0, config) for build in builds]
    for replica, result in zip(replicas, fit_replicas(replicas, data, task), strict=True):
        (alone,) = fit_replicas([replica], data, task)
        said = [one.model.eval()(data.x, data.edge_index) for one in (result, alone)]
        torch.testing.assert_close(*said, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", DROPPING)
def test_dropped_features_are_those_that_the_model_sees(name):
    """With all other dropout off, training on x is evaluating on dropout(x): every map sees the same mask."""
    x, edge_index, *_ = graph(RING)
    model = built(name, input_dropout=0.5, **({"drop_edge": 0.0} if name == "dropedge" else {}))
    torch.manual_seed(6)
    dropped = functional.dropout(x, 0.5)
    torch.manual_seed(6)
    torch.testing.assert_close(model.train()(x, edge_index), model.eval()(dropped, edge_index))


@pytest.mark.parametrize("name", ["gcn", "mlp", "pairnorm", "dropedge"])
def test_hidden_masks_do_not_depend_on_what_happens_to_the_features(name, data):
    """A training without input dropout is what it was before there was one: the masks keep their numbers."""
    seen = []

    class Masks(DropoutRates):
        def dropout(self, input, p=0.5, training=True, inplace=False):  # noqa: A002
            seen.append((tuple(input.shape), p))
            return input

    with Masks():
        build_zoo(name, (5, 8, 3, 3), 0.4, {"input_dropout": 0.7}).train()(data.x, data.edge_index)
    hidden = [((30, 8), 0.4)] * 2
    assert seen[-3:] == [*hidden, ((30, 5), 0.7)]


@pytest.mark.parametrize("name", DROPPING)
def test_sparse_features_are_multiplied_as_such(name, monkeypatch):
    _, edge_index, *_ = graph(RING)
    x = torch.zeros(7, 40, dtype=torch.float64)
    x.view(-1)[::37] = torch.randn(8, dtype=torch.float64)
    model = built(name, (40, 8, 3, 4), input_dropout=0.5)
    dense = model(x, edge_index)
    monkeypatch.setattr("polynsd.nn.features.SIZE", 1)
    sizes = []
    drop = functional.dropout
    monkeypatch.setattr(functional, "dropout", lambda z, *a, **b: sizes.append(z.numel()) or drop(z, *a, **b))
    torch.testing.assert_close(model(x.clone(), edge_index), dense)
    assert 8 in sizes  # entries that are not zero, instead of all


@pytest.mark.parametrize("name", DROPPING)
def test_the_number_of_features_may_be_seen_at_the_first_call(name):
    x, edge_index, *_ = graph(RING)
    model = build_zoo(name, (-1, *SIZES[1:]), 0.0, {}).double()
    assert model(x, edge_index).shape == (len(x), SIZES[-1])
