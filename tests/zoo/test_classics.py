"""The classics are their formulas, written with dense matrices."""

import copy
import pickle

import pytest
import torch
from classic_formulas import (
    FORMULAS,
    GRAPHS,
    NAMES,
    RING,
    SIZES,
    WITHOUT_WEIGHTS,
    build_zoo,
    built,
    gcn,
    gin,
    graph,
)
from torch.nn import functional
from torch_geometric.nn import models

from polynsd import ConfigError
from polynsd.errors import GraphError
from polynsd.zoo.operators import Propagation

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
