"""What cannot be trained is refused before it is, in words that help; what diverges is noticed."""

from functools import partial

import pytest
import torch
from published_block import published
from torch import nn

from polynsd import ConfigError, DataError, TrainConfig, heterophilous_graph
from polynsd.data import random_split, stratified_split
from polynsd.training import Replica, fit, fit_replicas, get_task, probe
from polynsd.training import replicas as engine
from polynsd.training.probe import is_vectorisable
from polynsd.zoo import MLP

ACCURACY = get_task("accuracy")
SHORT = TrainConfig(epochs=3, patience=3)


@pytest.fixture
def data():
    return heterophilous_graph(60, 3, 5, 4, seed=1).to_pyg()


@pytest.fixture
def split(data):
    return stratified_split(data.y, seed=0)


class Kept:
    def __init__(self, state=None):
        self.state = state

    def load(self):
        return self.state

    def offer(self, state):
        self.state = state()


def trained(data, split, build, task=ACCURACY, seed=0, config=SHORT):
    return fit_replicas([Replica(build, split, seed, config)], data, task)


def test_labels_of_any_integer_type(data, split):
    (expected,) = trained(data, split, partial(MLP, 5, 4, 2, 3))
    data.y = data.y.int()
    (found,) = trained(data, split, partial(MLP, 5, 4, 2, 3))
    assert found.val_loss == expected.val_loss


def test_features_of_another_precision(data, split):
    data.x = data.x.double()
    with pytest.raises(DataError, match=r"features are torch\.float64, the model is torch\.float32"):
        trained(data, split, partial(MLP, 5, 4, 2, 3))
    trained(data, split, lambda: MLP(5, 4, 2, 3).double())


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, 3), requires_grad=False)

    def forward(self, x, edge_index):
        return x @ self.weight


class Nothing(nn.Module):
    def forward(self, x, edge_index):
        return x[:, :3]


@pytest.mark.parametrize("build", [Frozen, Nothing])
def test_nothing_to_train(data, split, build):
    with pytest.raises(ConfigError, match="no parameters to train"):
        trained(data, split, build)


def test_outputs_that_do_not_fit_the_labels(data, split):
    with pytest.raises(ConfigError, match=r"must return \[60, 3\] for these labels; it returns \[60, 2\]"):
        trained(data, split, partial(MLP, 5, 4, 2, 2))
    data.y = torch.randn(60, 2)
    with pytest.raises(ConfigError, match=r"must return \[60, 2\]"):
        trained(data, random_split(60), partial(MLP, 5, 4, 2, 3), get_task("r2"))


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63])
def test_seeds_that_would_not_be_told_apart(data, split, seed):
    with pytest.raises(ConfigError, match="at least 0 and below 2³²"):
        trained(data, split, partial(MLP, 5, 4, 2, 3), seed=seed)


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_a_loss_that_is_not_finite_is_noticed_also_after_the_last_step(data, split, epochs):
    config = TrainConfig(epochs=epochs, learning_rate=1e38)
    (result,) = trained(data, split, partial(published, 5, 4, 1, 3), config=config)
    assert result.diverged
    assert all(p.isfinite().all() for p in result.model.parameters())
    with pytest.raises(DataError, match="lower learning_rate"):
        fit(partial(published, 5, 4, 1, 3), data, split, ACCURACY, config)


def test_too_bold_an_estimate_of_memory_is_corrected(data, split, monkeypatch):
    sizes, run_epoch = [], engine.Population.run_epoch

    def limited(self):
        sizes.append(len(self.rows.seed))
        if len(self.rows.seed) > 3:
            raise torch.OutOfMemoryError("no room for so many")
        return run_epoch(self)

    monkeypatch.setattr(engine.Population, "run_epoch", limited)
    replicas = [Replica(partial(MLP, 5, 4, 2, 3), split, seed, TrainConfig(epochs=1)) for seed in range(7)]
    results = fit_replicas(replicas, data, ACCURACY)
    assert sizes == [7, 4, 2, 2, 2, 1]
    assert [result.seed for result in results] == list(range(7))
    monkeypatch.setattr(engine.Population, "run_epoch", run_epoch)
    for result, expected in zip(results, fit_replicas(replicas, data, ACCURACY), strict=True):
        assert result.val_loss == pytest.approx(expected.val_loss, rel=1e-5)


def test_a_part_under_way_is_not_divided(data, split, monkeypatch):
    """Its replicas are at one epoch; those that went into a new part would begin anew."""
    replicas = [Replica(partial(MLP, 5, 4, 2, 3), split, seed, SHORT) for seed in range(4)]
    kept, first = Kept(), []

    class FirstOnly(Kept):
        def offer(self, state):
            first.append(state()) if not first else None

    fit_replicas(replicas, data, ACCURACY, snapshots=FirstOnly())
    kept.state = first[0]

    def full(self):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(engine.Population, "run_epoch", full)
    with pytest.raises(torch.OutOfMemoryError):
        fit_replicas(replicas, data, ACCURACY, snapshots=kept)


def test_a_lack_of_memory_says_nothing_about_vmap():
    def full():
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        is_vectorisable(full)


def test_a_container_may_leave_less_than_the_machine_has(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    4096 kB\n",
        "/sys/fs/cgroup/memory.max": "1000000\n",
        "/sys/fs/cgroup/memory.current": "400000\n",
    }
    monkeypatch.setattr(probe, "_read", lambda path: files.get(path, ""))
    cpu = torch.device("cpu")
    assert probe.free_bytes(cpu) == 600000
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert probe.free_bytes(cpu) == 4096 * 1024
    files.clear()
    assert probe.free_bytes(cpu) is None
    assert probe.replicas_at_once(9, 10**12, cpu) == 9


@pytest.mark.parametrize("change", ["place", "members", "diverged", "theta", "size", "member"])
def test_damaged_states_are_refused(data, split, change):
    replica, kept = Replica(partial(MLP, 5, 4, 2, 3), split, 0, SHORT), Kept()
    fit_replicas([replica], data, ACCURACY, snapshots=kept)
    state = dict(kept.state)
    if change == "size":
        state["place"] = torch.tensor([0, 0, 1])
    elif change == "member":
        state["members"] = torch.tensor([7])
    else:
        del state[change]
    with pytest.raises(DataError, match="the snapshot is of another training"):
        fit_replicas([replica], data, ACCURACY, snapshots=Kept(state))
