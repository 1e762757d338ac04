"""Small work is done by one thread, and the user's setting is left as it was."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from polynsd import SheafClassifier, heterophilous_graph
from polynsd.config import ModelConfig, TrainConfig
from polynsd.data import stratified_split
from polynsd.estimator.trees import TreesCandidate
from polynsd.threads import SMALL, use_threads_for
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.zoo import build_model


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def count_threads() -> set[int]:
    """Of PyTorch, and of the libraries that threadpoolctl knows."""
    return {torch.get_num_threads(), *(library["num_threads"] for library in threadpool_info())}


@pytest.mark.parametrize("num_bytes", [0, SMALL - 1, SMALL, float("inf")])
@pytest.mark.parametrize("fails", [False, True])
def test_small_work_has_one_thread_and_the_setting_comes_back(num_bytes, fails):
    outside = count_threads()
    inside = set()
    try:
        with use_threads_for(num_bytes):
            inside = count_threads()
            if fails:
                raise ValueError
    except ValueError:
        pass
    assert inside == ({1} if num_bytes < SMALL else outside)
    assert count_threads() == outside
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("num_bytes", [0, float("inf")])
def test_never_more_threads_than_the_user_has_set(num_bytes):
    torch.set_num_threads(1)
    with use_threads_for(num_bytes):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(("is_small", "expected"), [(True, 1), (False, 2)])
def test_training_takes_threads_by_its_size(monkeypatch, is_small, expected):
    if not is_small:
        monkeypatch.setattr("polynsd.threads.SMALL", 0)
    data, seen = heterophilous_graph(num_nodes=40).to_pyg(), set()
    replica = Replica(
        lambda: build_model(ModelConfig("mlp"), data.num_features, 5),
        stratified_split(data.y, seed=0),
        0,
        TrainConfig(epochs=2),
    )
    fit_replicas([replica], data, get_task("accuracy"), on_epoch=lambda *_: seen.add(torch.get_num_threads()))
    assert seen == {expected}
    assert torch.get_num_threads() == 2


def test_candidates_of_an_estimator_are_fitted_by_one_thread(monkeypatch):
    seen, fit = [], TreesCandidate.fit

    def watch(self, data):
        seen.append(count_threads())
        return fit(self, data)

    monkeypatch.setattr(TreesCandidate, "fit", watch)
    rng = np.random.default_rng(0)
    x, edges = rng.normal(size=(60, 3)), rng.integers(0, 60, (2, 120))
    model = SheafClassifier(budget=0.5, random_state=0).fit(x, x[:, 0] > 0, edges=edges)
    assert {1} in seen
    assert all(threads == {1} for threads in seen)
    model.predict(x, edges=edges)
    assert torch.get_num_threads() == 2
