"""The trainer is honest: seeds decide everything, validation selects, the test set is read once."""

import math

import pytest
import torch
from published_block import published
from torch import nn
from torch_geometric.data import Data

from polynsd import DataError, GraphError, ShapeError, TrainConfig, heterophilous_graph
from polynsd.data import Split, random_split, stratified_split
from polynsd.training import Configuration, Problem, fit, fit_splits, get_task
from polynsd.training.optimizer import trainable, weight_decays
from polynsd.zoo import GCN, MLP

ACCURACY = get_task("accuracy")
SHORT = TrainConfig(epochs=8, patience=8)


@pytest.fixture(scope="module")
def data():
    return heterophilous_graph(120, 2, 5, 4, heterophily=1.0, seed=3).to_pyg()


@pytest.fixture(scope="module")
def split(data):
    return stratified_split(data.y, seed=0)


def small_model():
    return published(5, 4, 1, 2, stalk_dim=2, degree=2, dropout=0.3)


def test_same_seed_same_result_and_global_random_state_untouched(data, split):
    state = torch.get_rng_state()
    first, second = (fit(small_model, data, split, ACCURACY, SHORT, seed=5) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert first.test_metric == second.test_metric


def test_another_seed_another_model(data, split):
    first, second = (fit(small_model, data, split, ACCURACY, SHORT, seed=s) for s in (0, 1))
    assert not torch.equal(first.model.decoder.weight, second.model.decoder.weight)


def test_result_is_the_best_validation_epoch(data, split):
    epochs = []
    result = fit(small_model, data, split, ACCURACY, TrainConfig(epochs=30, patience=30), 0, epochs.append)
    best = max(epoch.val_metric for epoch in epochs)
    first_best = next(epoch.epoch for epoch in epochs if epoch.val_metric == best)
    assert (result.val_metric, result.best_epoch) == (best, first_best)
    with torch.no_grad():
        logits = result.model.eval()(data.x, data.edge_index)
    assert ACCURACY.score(logits[split.val], data.y[split.val]) == best
    assert ACCURACY.score(logits[split.test], data.y[split.test]) == result.test_metric


def test_selection_by_loss(data, split):
    epochs = []
    config = TrainConfig(epochs=30, patience=30, select="loss")
    result = fit(small_model, data, split, ACCURACY, config, 0, epochs.append)
    assert result.best_epoch == min(epochs, key=lambda epoch: epoch.val_loss).epoch


def test_labels_of_test_nodes_do_not_influence_training(data, split):
    scrambled = data.clone()
    scrambled.y = torch.where(split.test, 1 - data.y, data.y)
    honest, other = (fit(small_model, d, split, ACCURACY, SHORT, seed=0) for d in (data, scrambled))
    for a, b in zip(honest.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert honest.test_metric == pytest.approx(1 - other.test_metric)


def test_patience_stops(data, split):
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(2))

        def forward(self, x, edge_index):
            return self.bias.expand(x.size(0), 2)

    result = fit(Constant, data, split, ACCURACY, TrainConfig(epochs=100, patience=7))
    assert (result.best_epoch, result.epochs) == (1, 8)


def test_map_learners_have_their_own_decay():
    model = small_model()
    rules = TrainConfig(weight_decay=0.5, sheaf_decay=0.25)
    named = dict(zip(trainable(model), weight_decays(model, rules), strict=True))
    assert [name for name, decay in named.items() if decay == 0.25] == ["layers.0.learner.maps.linear.weight"]
    assert set(named.values()) == {0.25, 0.5}
    assert set(weight_decays(MLP(5, 4, 2, 2), rules)) == {0.5}


@pytest.mark.usefixtures("no_tracer")
def test_learns_what_it_is_meant_to_learn(data, split):
    config = TrainConfig(epochs=80, learning_rate=0.01)
    result = fit(lambda: published(5, 8, 2, 2, degree=4), data, split, ACCURACY, config, seed=0)
    assert result.val_metric > 0.8  # guessing gives 0.5


def test_regression(data, split):
    target = data.clone()
    target.y = data.x[:, :2].square().sum(-1)
    task, config = get_task("r2"), TrainConfig(epochs=60, learning_rate=0.01)
    result = fit(lambda: published(5, 8, 1, task.num_outputs(target.y)), target, split, task, config)
    assert 0.3 < result.val_metric <= 1


def test_several_splits_are_independent_of_each_other(data):
    splits = [random_split(data.num_nodes, seed=i) for i in range(3)]
    rules = Configuration(training=SHORT)
    together = fit_splits(Problem(data, tuple(splits), ACCURACY, 10), rules, build=small_model)
    alone = fit_splits(Problem(data, tuple(splits[2:]), ACCURACY, 12), rules, build=small_model)
    assert together.tests[2] == alone.tests[0]
    assert together.mean == pytest.approx(sum(together.tests) / 3)
    assert together.std == pytest.approx(
        torch.tensor(together.tests, dtype=torch.double).std(correction=0).item()
    )
    assert str(together) == f"{100 * together.mean:.1f} ± {100 * together.std:.1f}"


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (lambda d: d.x.__setitem__((3, 1), math.nan), DataError, "1 entries are NaN or infinite.*row 3"),
        (lambda d: setattr(d, "x", d.x.double().long()), DataError, "x must be a floating-point"),
        (lambda d: setattr(d, "x", d.x[:0]), DataError, "at least one node"),
        (lambda d: setattr(d, "y", None), DataError, "no labels"),
        (lambda d: setattr(d, "y", d.y[:-1]), DataError, "one label per node"),
        (lambda d: setattr(d, "y", d.y.float()), DataError, "y must be an integer"),
        (lambda d: setattr(d, "y", d.y - 1), DataError, "without a label"),
        (lambda d: d.edge_index.__setitem__((0, 0), -1), GraphError, "got -1"),
        (lambda d: d.edge_index.__setitem__((0, 0), 999), GraphError, "got 999"),
    ],
)
def test_bad_graphs_raise_before_anything_is_built(data, split, damage, error, words):
    broken = data.clone()
    damage(broken)

    def build():
        raise AssertionError("the model must not be built")

    with pytest.raises(error, match=words):
        fit(build, broken, split, ACCURACY, SHORT)


def test_split_of_another_graph(data):
    with pytest.raises(DataError, match="the split is for 50 nodes, the graph has 120"):
        fit(small_model, data, random_split(50), ACCURACY, SHORT)


def test_overlapping_masks():
    mask = torch.tensor([True, True, False, False])
    with pytest.raises(DataError, match="train and val share 1 nodes"):
        Split(mask, mask.roll(1), ~mask)


def test_no_splits(data):
    with pytest.raises(ValueError, match="at least one split"):
        fit_splits(Problem(data, (), ACCURACY), Configuration())


def test_diverging_training_says_what_to_do(data, split):
    with pytest.raises(DataError, match="lower learning_rate"):
        fit(small_model, data, split, ACCURACY, TrainConfig(epochs=50, learning_rate=1e30))


def test_a_graph_without_edges_trains(data, split):
    bare = Data(x=data.x, y=data.y, edge_index=torch.empty(2, 0, dtype=torch.long))
    assert fit(small_model, bare, split, ACCURACY, SHORT).epochs == SHORT.epochs


def test_edge_weights_and_edge_features_are_used(data, split):
    weighted = data.clone()
    weighted.edge_weight = torch.zeros(data.num_edges)
    plain, other = (fit(small_model, d, split, ACCURACY, SHORT) for d in (data, weighted))
    assert not torch.equal(plain.model.decoder.weight, other.model.decoder.weight)
    for build in (lambda: MLP(5, 4, 2, 2), lambda: GCN(5, 4, 2, 2)):
        fit(build, weighted, split, ACCURACY, SHORT)
    featured = data.clone()
    featured.edge_attr = torch.ones(data.num_edges, 2)
    fit(lambda: published(5, 4, 1, 2, edge_dim=2), featured, split, ACCURACY, SHORT)
    with pytest.raises(ShapeError, match="set edge_dim"):
        fit(lambda: published(5, 4, 1, 2, edge_dim=3), featured, split, ACCURACY, SHORT)
