"""A search that is killed at any write to its storage is the search that was never killed."""

import random
from types import SimpleNamespace
from zlib import crc32

import optuna
import pytest
from toys import toy_search, toy_space

from polynsd.search import begin_with, best_trials, study, trial_rows, work, worker
from polynsd.search.worker import ask_batch, run_batch

WRITES = {
    "create_new_trial",
    "set_trial_param",
    "set_trial_state_values",
    "set_trial_user_attr",
    "set_trial_system_attr",
    "set_trial_intermediate_value",
}
SPACE = toy_space(model__num_layers=[1, 2, 3])
STARTS = [{"model.hidden_channels": 2}, {"model.num_layers": 3}]
CONFIGS = {
    "random": {"sampler": "random"},
    "tpe": {"sampler": "tpe", "startup": 8, "pruner": "median", "prune_interval": 1},
}


class Killed(BaseException):
    """Stands for a signal that nothing handles."""


class Mortal:
    """A storage that lets a process write so often; from then on every write is its death."""

    def __init__(self, storage, life=None):
        self.storage, self.life, self.writes = storage, life, 0

    def __getattr__(self, name):
        method = getattr(self.storage, name)
        return method if name not in WRITES else lambda *given, **named: self.write(method, given, named)

    def write(self, method, given, named):
        if self.life is not None and self.writes >= self.life:
            raise Killed
        self.writes += 1
        return method(*given, **named)


def score(problem, configurations, splits, on_epoch=None, stop=None, snapshots=None):
    """In place of training: a coarse function of the configuration, so that there are ties."""
    values = [crc32(repr(each.training).encode()) % 7 / 7 + each.model.num_layers for each in configurations]
    fit = {"val_loss": 0.0, "best_epoch": 1, "epochs": 1, "diverged": False}
    return [[SimpleNamespace(val_metric=value, **fit) for _ in splits] for value in values]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(worker, "train_together", score)
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.001)
    monkeypatch.setattr("polynsd.search.heartbeat.CLAIM_SECONDS", 0.0)
    monkeypatch.setattr("polynsd.search.heartbeat._is_dead_here", lambda worker: True)


def session(monkeypatch, storage, life, trials, config):
    """One life of a search; the storage that it wrote to."""
    mortal = Mortal(storage, life)
    monkeypatch.setattr(study, "open_storage", lambda url: mortal)
    search = toy_search(space=SPACE, trials=trials, **config)
    mortal.writes = 0
    begin_with(search, STARTS)
    work(search)
    return search, mortal.writes


def summary(search):
    """Parameters and values by place, and the ranking."""
    rows = [row for row in trial_rows(search.study) if row["state"] not in ("lost", "surplus")]
    keys = ("place", "state", "value", *SPACE.distributions())
    tried = sorted(([row[key] for key in keys] for row in rows), key=lambda row: row[0])
    return tried, [(trial.params, trial.value) for trial in best_trials(search)]


@pytest.mark.parametrize("sampler", CONFIGS)
def test_killed_at_any_write_it_tries_and_chooses_the_same(sampler, monkeypatch):
    trials, config = 20, CONFIGS[sampler]
    search, writes = session(monkeypatch, optuna.storages.InMemoryStorage(), None, trials, config)
    whole = summary(search)
    assert len(whole[0]) == trials
    chosen, kills = random.Random(0), 0
    first_deaths = range(1, writes, 37 if sampler == "random" else 151)
    for life in first_deaths:
        storage = optuna.storages.InMemoryStorage()
        while True:
            try:
                search, _ = session(monkeypatch, storage, life, trials, config)
                break
            except Killed:
                kills += 1
                life = chosen.randint(25, writes)
        assert summary(search) == whole
    assert kills > len(first_deaths)


def test_workers_that_share_a_random_search_try_the_same(monkeypatch):
    """Whoever asks first, and whoever is killed."""
    config = {**CONFIGS["random"], "batch": 3}
    whole, _ = session(monkeypatch, optuna.storages.InMemoryStorage(), None, 20, config)
    shared = Mortal(optuna.storages.InMemoryStorage())
    monkeypatch.setattr(study, "open_storage", lambda url: shared)
    first, second, third = (toy_search(space=SPACE, trials=20, **config) for _ in range(3))
    begin_with(first, STARTS)
    ask_batch(third)  # and dies
    one, other = ask_batch(first), ask_batch(second)
    run_batch(second, other)
    run_batch(first, one)
    work(second)
    assert summary(second) == summary(whole)
