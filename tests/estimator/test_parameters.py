"""Parameters mean what they say, wrong ones are told, and files give them back as they were."""

import numpy as np
import pytest
import torch
from toy import classifier, regressor, toy_graph

from polynsd import ConfigError
from polynsd.devices import get_device
from polynsd.estimator import load_estimator


def test_class_weights_come_back_with_their_classes(tmp_path):
    graph, weights = toy_graph(), {0: 1.0, np.int64(1): np.float64(2.0)}
    model = classifier(class_weight=weights).fit(graph)
    back = load_estimator(model.save(tmp_path / "model"))
    assert back.class_weight == weights
    assert all(type(name) is int for name in back.class_weight)
    again = back.fit(graph)
    np.testing.assert_array_equal(again.predict_proba(), model.predict_proba())
    unweighted = classifier().fit(graph)
    assert np.abs(unweighted.predict_proba() - model.predict_proba()).max() > 0


@pytest.mark.parametrize(("weights", "names"), [({"0": 2.0}, "'0'"), ({0: 1.0, 7: 2.0}, "7")])
def test_weights_of_classes_that_are_not_there_are_refused(weights, names):
    with pytest.raises(ConfigError, match=rf"names \[{names}\], not among the classes \[0, 1\]"):
        classifier(class_weight=weights).fit(toy_graph())


@pytest.mark.parametrize("name", ["foo", "cuda:x", "meta", None, 0])
def test_unknown_devices_are_refused(name):
    with pytest.raises(ConfigError, match="unknown device"):
        classifier(device=name).fit(toy_graph())


def test_devices_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for name in ("cuda", "cuda:3"):
        with pytest.raises(ConfigError, match="finds 0 CUDA devices"):
            classifier(device=name).fit(toy_graph())
    assert get_device("auto") == get_device(torch.device("cpu")) == torch.device("cpu")


def test_numbers_of_numpy_are_numbers(tmp_path):
    numpy = {"stalk_dim": np.int64(2), "epochs": np.int32(6), "validation_fraction": np.float64(0.5)}
    model = classifier(budget=np.int64(100), **numpy).fit(toy_graph())
    plain = classifier().fit(toy_graph())
    np.testing.assert_array_equal(model.predict_proba(), plain.predict_proba())
    back = load_estimator(model.save(tmp_path / "model"))
    assert back.get_params() == model.get_params()
    assert type(back.stalk_dim) is int


def test_without_a_random_state_every_fit_draws_a_seed_and_tells_it(tmp_path):
    graph, model = toy_graph(), classifier(random_state=None)
    first = model.fit(graph).seed_
    assert model.fit(graph).seed_ != first
    same = classifier(random_state=model.seed_).fit(graph)
    np.testing.assert_array_equal(same.predict_proba(), model.predict_proba())
    back = load_estimator(model.save(tmp_path / "model"))
    assert back.random_state is None
    assert back.seed_ == model.seed_


def test_a_random_state_gives_the_seed(tmp_path):
    graph = toy_graph(regression=True)
    one, other = (regressor(random_state=np.random.RandomState(5)).fit(graph) for _ in range(2))
    assert one.seed_ == other.seed_ != one.fit(graph).seed_
    assert load_estimator(other.save(tmp_path / "model")).random_state == other.seed_


def test_a_check_raises_as_fit_does_and_leaves_no_trace():
    model = classifier()
    before = dict(vars(model))
    model.check(toy_graph())
    assert vars(model) == before
    for wrong in ({"budget": 0}, {"validation_fraction": 2}, {"degree": "many"}, {"class_weight": {9: 1}}):
        with pytest.raises(ConfigError):
            classifier(**wrong).check(toy_graph())
