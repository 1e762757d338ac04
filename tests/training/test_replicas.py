"""Replicas: each trains in company as it would alone, whatever the others do."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from published_block import published
from torch import nn
from torch_geometric.nn import GAT, models

from polynsd import ConfigError, DataError, PolyNSD, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.nn import NSD, IdentitySheaf, PolySpectralGNN
from polynsd.training import Replica, fit, fit_replicas, get_task
from polynsd.training import replicas as engine
from polynsd.zoo import GCN, MLP

pytestmark = pytest.mark.usefixtures("no_tracer")  # other tests cover the same code

ACCURACY = get_task("accuracy")
FEW = TrainConfig(epochs=6, patience=6)


@pytest.fixture(scope="module")
def data():
    return heterophilous_graph(90, 2, 5, 4, heterophily=0.9, seed=3).to_pyg()


@pytest.fixture(scope="module")
def splits(data):
    return [stratified_split(data.y, seed=seed) for seed in range(4)]


class Normalised(nn.Module):
    """A model with running means and frozen numbers."""

    def __init__(self):
        super().__init__()
        self.mlp = models.MLP([5, 8, 2], dropout=0.2, norm="batch_norm")
        self.frozen = nn.Parameter(torch.randn(5), requires_grad=False)
        self.register_buffer("shift", torch.randn(5))

    def forward(self, x, edge_index):
        return self.mlp(x * self.frozen + self.shift)


class TiedWeights(nn.Module):
    """Two modules with one weight, and one module in two places."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(5, 6), nn.Linear(5, 6), nn.Linear(6, 2)
        self.second.weight = self.first.weight
        self.inner = nn.Linear(6, 6)
        self.again = self.inner

    def forward(self, x, edge_index):
        h = torch.tanh(self.first(x) * self.second(x))
        return self.out(self.again(torch.tanh(self.inner(h))))


class Looking(PolyNSD):
    """A model that decides by its values, which `torch.vmap` does not admit."""

    def forward(self, x, edge_index):
        y = super().forward(x, edge_index)
        return y / 2 if bool((y.abs() > 100).any()) else y


class GraphAttention(GAT):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index)


MODELS = {
    "polynsd": lambda: published(5, 4, 2, 2, stalk_dim=2, degree=3, dropout=0.4, input_dropout=0.1),
    "orthogonal": lambda: published(
        5, 4, 1, 2, maps="orthogonal", stalk_dim=3, dropout=0.2, edge_weights=True
    ),
    "general": lambda: published(
        5, 4, 1, 2, maps="general", stalk_dim=2, fixed_channels=("laplacian",), dropout=0.2
    ),
    "general, sheaf": lambda: published(
        5, 4, 1, 2, maps="general", stalk_dim=2, normalization="sheaf"
    ).double(),
    "default": lambda: PolyNSD(5, 4, 2, 2, stalk_dim=2).double(),
    "one filter": lambda: PolyNSD.reference(5, 4, 2, 2, stalk_dim=2),
    "tied weights": TiedWeights,
    "checkpointed": lambda: published(5, 4, 2, 2, stalk_dim=2, dropout=0.3, checkpoint_layers=True),
    "looks at values": lambda: Looking(5, 4, 1, 2, stalk_dim=2, dropout=0.3),
    "nsd": lambda: NSD(5, 4, 2, 2, stalk_dim=2, dropout=0.3),
    "identity": lambda: IdentitySheaf(5, 4, 1, 2, stalk_dim=2, dropout=0.3),
    "spectral": lambda: PolySpectralGNN(5, 8, 1, 2, dropout=0.3),
    "mlp": lambda: MLP(5, 8, 2, 2, dropout=0.5),
    "gcn": lambda: GCN(5, 8, 2, 2, dropout=0.5),
    "gat": lambda: GraphAttention(5, 8, 2, 2, dropout=0.5),
    "batch norm and buffers": lambda: Normalised().double(),
}


IN_DOUBLE = ("batch norm and buffers", "general, sheaf", "default")


def trained(replicas, data, **options):
    history = {}
    results = fit_replicas(
        replicas, data, ACCURACY, on_epoch=lambda r, epoch: history.setdefault(r, []).append(epoch), **options
    )
    return results, history


@pytest.mark.parametrize("name", MODELS)
def test_a_replica_in_company_is_the_one_it_is_alone(data, splits, name):
    configs = [
        FEW,
        replace(FEW, learning_rate=0.03),
        replace(FEW, weight_decay=0.05, sheaf_decay=0.0),
        FEW,
    ]
    replicas = [
        Replica(MODELS[name], split, seed, config)
        for split, seed, config in zip(splits, (0, 7, 3, 3), configs, strict=True)
    ]
    data = data.clone()
    if name in IN_DOUBLE:  # their rounding is another in company, and grows
        data.x = data.x.double()
    together, histories = trained(replicas, data)
    for number, replica in list(enumerate(replicas))[1:3]:
        epochs = []
        alone = fit(replica.build, data, replica.split, ACCURACY, replica.config, replica.seed, epochs.append)
        for mine, theirs in zip(histories[number], epochs, strict=True):
            assert mine.train_loss == pytest.approx(theirs.train_loss, rel=1e-5)
            assert mine.val_loss == pytest.approx(theirs.val_loss, rel=1e-5)
            assert mine.val_metric == pytest.approx(theirs.val_metric, abs=1e-5)
        assert together[number].test_metric == pytest.approx(alone.test_metric, abs=1e-5)
        assert (together[number].best_epoch, together[number].epochs) == (alone.best_epoch, alone.epochs)
        for a, b in zip(
            together[number].model.state_dict().values(), alone.model.state_dict().values(), strict=True
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["tied weights", "one filter"])
def test_what_modules_share_stays_shared(data, splits, name):
    """PyTorch's own `functional_call` loses the parameters of a module that stands in two places."""
    (result,) = fit_replicas([Replica(MODELS[name], splits[0], 0, FEW)], data, ACCURACY)
    fresh = dict(MODELS[name]().named_parameters())
    trained_ones = dict(result.model.named_parameters())
    assert fresh.keys() == trained_ones.keys()
    assert not any(torch.equal(p, trained_ones[n]) for n, p in fresh.items() if "epsilon" not in n)


def test_the_result_says_what_its_model_says(data, splits):
    rules = TrainConfig(epochs=15, patience=15)
    results, _ = trained([Replica(MODELS["polynsd"], s, 0, rules) for s in splits], data)
    assert any(result.best_epoch < result.epochs for result in results)
    for result, split in zip(results, splits, strict=True):
        with torch.no_grad():
            output = result.model(data.x, data.edge_index)
        assert not result.model.training
        assert ACCURACY.score(output[split.test], data.y[split.test]) == pytest.approx(result.test_metric)
        assert ACCURACY.score(output[split.val], data.y[split.val]) == pytest.approx(result.val_metric)


def test_the_test_set_is_scored_only_where_asked(data, splits):
    replicas = [Replica(MODELS["mlp"], split, 1, FEW) for split in splits[:2]]
    for scored, unscored in zip(
        *(trained(replicas, data, score_test=s)[0] for s in (True, False)), strict=True
    ):
        assert 0 <= scored.test_metric <= 1
        assert unscored.test_metric != unscored.test_metric  # NaN
        for a, b in zip(*(r.model.state_dict().values() for r in (scored, unscored)), strict=True):
            assert torch.equal(a, b)


def test_models_may_differ_in_their_dropout(data, splits):
    builds = [
        partial(published, 5, 4, 2, 2, stalk_dim=2, dropout=p, input_dropout=q)
        for p, q in ((0, 0), (0.5, 0), (0.2, 0.7))
    ]
    replicas = [Replica(build, splits[0], 1, FEW) for build in builds]
    together, _ = trained(replicas, data)
    for replica, result in zip(replicas, together, strict=True):
        alone = fit(replica.build, data, replica.split, ACCURACY, FEW, 1)
        assert (result.val_metric, result.test_metric) == (alone.val_metric, alone.test_metric)
        assert result.val_loss == pytest.approx(alone.val_loss, rel=1e-5)
    assert len({result.val_loss for result in together}) == 3


def test_models_may_not_differ_in_anything_else(data, splits):
    shapes = [partial(published, 5, width, 1, 2, stalk_dim=2) for width in (4, 8)]
    with pytest.raises(ConfigError, match="same shape; that of replica 1"):
        trained([Replica(build, splits[0]) for build in shapes], data)
    codes = [partial(published, 5, 4, 1, 2, stalk_dim=2, activation=name) for name in ("elu", "tanh")]
    with pytest.raises(ConfigError, match="replica 1 computes something else"):
        trained([Replica(build, splits[0]) for build in codes], data)
    rules = [TrainConfig(select=name) for name in ("loss", "metric")]
    with pytest.raises(ConfigError, match="same select; got loss and metric"):
        trained([Replica(shapes[0], splits[0], 0, config) for config in rules], data)


def test_each_stops_by_its_own_patience_and_finished_ones_cost_nothing(data, splits, monkeypatch):
    sizes = []
    run_epoch = engine.Population.run_epoch
    monkeypatch.setattr(
        engine.Population, "run_epoch", lambda self: sizes.append(len(self.rows.seed)) or run_epoch(self)
    )
    rules = [TrainConfig(epochs=epochs, patience=100) for epochs in (3, 9, 3, 3)]
    replicas = [Replica(MODELS["polynsd"], split, 0, rule) for split, rule in zip(splits, rules, strict=True)]
    results, histories = trained(replicas, data)
    assert [result.epochs for result in results] == [3, 9, 3, 3]
    assert [len(histories[number]) for number in range(4)] == [3, 9, 3, 3]
    assert sizes == [4] * 3 + [1] * 6


@pytest.fixture(scope="module")
def usual(data, splits):
    """Replicas that stop when they like; their results and histories."""
    replicas = [Replica(MODELS["polynsd"], split, 2, TrainConfig(epochs=20, patience=6)) for split in splits]
    return replicas, *trained(replicas, data)


@pytest.mark.parametrize("window", [3, 7])
def test_it_does_not_matter_how_often_the_host_looks(data, usual, window, monkeypatch):
    replicas, expected, histories = usual
    monkeypatch.setitem(engine.WINDOWS, "cpu", window)
    results, seen = trained(replicas, data)
    for a, b in zip(results, expected, strict=True):
        assert (a.best_epoch, a.epochs, a.test_metric) == (b.best_epoch, b.epochs, b.test_metric)
        assert a.val_loss == pytest.approx(b.val_loss, rel=1e-5)
    assert {r: len(epochs) for r, epochs in seen.items()} == {
        r: len(epochs) for r, epochs in histories.items()
    }


@pytest.mark.parametrize("chunk", [3])
def test_it_does_not_matter_how_many_train_at_once(data, usual, chunk):
    replicas, expected, _ = usual
    for a, b in zip(trained(replicas, data, chunk=chunk)[0], expected, strict=True):
        assert (a.best_epoch, a.epochs, a.test_metric) == (b.best_epoch, b.epochs, b.test_metric)
        assert a.val_loss == pytest.approx(b.val_loss, rel=1e-5)


def test_memory_decides_how_many_train_at_once(data, splits, monkeypatch):
    sizes = []
    monkeypatch.setattr("polynsd.training.probe.free_bytes", lambda device: 3 * 10**6)
    run_epoch = engine.Population.run_epoch
    monkeypatch.setattr(
        engine.Population, "run_epoch", lambda self: sizes.append(len(self.rows.seed)) or run_epoch(self)
    )
    replicas = [Replica(MODELS["polynsd"], split, 0, TrainConfig(epochs=1)) for split in splits * 3]
    results, _ = trained(replicas, data)
    assert len(results) == 12
    assert sum(sizes) == 12
    assert 1 < len(sizes) < 12


def test_replicas_are_stopped_from_outside(data, splits):
    replicas = [Replica(MODELS["polynsd"], split, 0, FEW) for split in splits]
    full, _ = trained(replicas, data)
    results, histories = trained(replicas, data, stop=lambda epoch: [1, 3] if epoch >= 3 else [])
    assert [result.epochs for result in results] == [6, 3, 6, 3]
    assert len(histories[1]) == 3
    assert results[0].test_metric == full[0].test_metric


def test_one_that_diverges_leaves_the_others_alone(data, splits):
    rules = [FEW, replace(FEW, learning_rate=1e30)]
    replicas = [Replica(MODELS["polynsd"], splits[0], 0, rule) for rule in rules]
    healthy, sick = trained(replicas, data)[0]
    assert sick.diverged
    assert sick.epochs < 6
    assert not healthy.diverged
    assert healthy.test_metric == fit(MODELS["polynsd"], data, splits[0], ACCURACY, FEW, 0).test_metric


class Memory:
    """Keeps every state, as a file would."""

    def __init__(self, start=None):
        self.states, self.start = [], start

    def load(self):
        return self.start

    def offer(self, state):
        self.states.append({name: value.clone() for name, value in state().items()})


@pytest.mark.parametrize("chunk", [None, 2])
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(data, splits, chunk):
    replicas = [Replica(MODELS["polynsd"], split, 5, TrainConfig(epochs=9, patience=4)) for split in splits]
    memory = Memory()
    expected, histories = trained(replicas, data, snapshots=memory, chunk=chunk)
    for state in memory.states[1::4] + memory.states[-1:]:
        results, seen = trained(replicas, data, snapshots=Memory(state))
        for number, result in enumerate(results):
            for a, b in zip(result.model.parameters(), expected[number].model.parameters(), strict=True):
                assert torch.equal(a, b)
            assert result.test_metric == expected[number].test_metric
            later = seen.get(number, [])
            assert later == histories[number][len(histories[number]) - len(later) :]


def test_a_state_of_another_training_is_refused(data, splits):
    memory = Memory()
    trained([Replica(MODELS["mlp"], splits[0], 0, TrainConfig(epochs=2))], data, snapshots=memory)
    with pytest.raises(DataError, match="the snapshot is of another training"):
        trained([Replica(MODELS["gcn"], s) for s in splits], data, snapshots=Memory(memory.states[0]))


def test_what_draws_other_random_numbers_is_refused(data, splits):
    class Noisy(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.kind, self.linear = kind, nn.Linear(5, 2)

        def forward(self, x, edge_index):
            return self.linear(
                x + torch.randn_like(x) if self.kind == "noise" else nn.functional.alpha_dropout(x)
            )

    with pytest.raises(ConfigError, match="draws random numbers"):
        trained([Replica(partial(Noisy, "noise"), splits[0])], data)
    with pytest.raises(ConfigError, match="the model calls alpha_dropout"):
        trained([Replica(partial(Noisy, "alpha"), splits[0])], data)


def test_nothing_to_train(data):
    with pytest.raises(ConfigError, match="at least one replica"):
        fit_replicas([], data, ACCURACY)
