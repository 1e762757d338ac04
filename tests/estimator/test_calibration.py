"""Temperature scaling: probabilities fit the validation nodes better, predictions stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from toy import classifier, toy_graph

from polynsd.estimator import SheafClassifier, load_estimator
from polynsd.estimator.calibration import LARGEST, fit_calibration, fit_temperature, mean_loss
from polynsd.estimator.linear import LinearCandidate
from polynsd.estimator.propagation import PropagationCandidate
from polynsd.estimator.trees import TreesCandidate


@given(st.integers(0, 10_000), st.floats(0.05, 30))
def test_the_loss_never_grows_and_the_temperature_stays_within_bounds(seed, scale):
    rng = np.random.default_rng(seed)
    logits, y = scale * rng.normal(size=(20, 3)), rng.integers(0, 3, 20)
    temperature = fit_temperature(logits, y)
    assert mean_loss(logits / temperature, y) <= mean_loss(logits, y)
    assert 1 / LARGEST <= temperature <= LARGEST


def test_it_finds_the_temperature_that_was_hidden():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 3))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (p.cumsum(1) < rng.random((20_000, 1))).sum(1)
    assert fit_temperature(4 * logits, y) == pytest.approx(4, rel=0.05)


def test_nodes_that_are_all_right_do_not_make_it_certain():
    logits, y = np.eye(3).repeat(5, axis=0), np.arange(3).repeat(5)
    temperature = fit_temperature(logits, y)
    assert temperature < 1
    doubts = 1 - np.exp(-mean_loss(logits / temperature, y))
    assert 0.02 < doubts < 0.1  # 15 right ones, one in doubt
    assert fit_temperature(100 * logits, y) == 1


def test_calibrating_changes_probabilities_only():
    graph = toy_graph(80)
    plain, calibrated = (classifier(calibrate=rule, epochs=3).fit(graph) for rule in (None, "temperature"))
    assert plain.temperature_ == 1
    assert calibrated.temperature_ < 1  # three epochs make nobody sure enough
    np.testing.assert_array_equal(plain.predict(), calibrated.predict())
    val, y = plain.val_mask_, graph.y
    losses = [-np.log(m.predict_proba()[val, y[val]]).mean() for m in (plain, calibrated)]
    assert losses[1] < losses[0]


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 1.0]), st.floats(2.0, 30.0))
def test_weights_are_undone_as_far_as_a_model_has_obeyed_them(seed, obeyed, weight):
    rng = np.random.default_rng(seed)
    true = np.c_[np.zeros(400), rng.normal(-2, 1, 400)]
    y = (rng.random(400) < 1 / (1 + np.exp(-true[:, 1]))).astype(np.int64)
    y[:2] = 0, 1
    log_weights = np.log([1.0, weight])
    found = fit_calibration(true + obeyed * log_weights, y, log_weights)
    p = softmax(found.apply(true + obeyed * log_weights), axis=1)
    assert p[:, 1].mean() == pytest.approx(y.mean(), abs=0.005)


@pytest.mark.usefixtures("few_trees")
def test_probabilities_are_frequencies_and_predictions_obey_the_weights(tmp_path):
    rng, n = np.random.default_rng(0), 1500
    x = rng.normal(size=(n, 4))
    y = (rng.random(n) < 1 / (1 + np.exp(3 - 1.2 * x[:, 0] - 0.8 * x[:, 1]))).astype(np.int64)
    is_known = np.argsort(np.argsort(y, kind="stable")) % 3 == 0  # as much of both classes as elsewhere
    edges = rng.integers(0, n, (2, 6000))
    graph = (x, edges[:, (y[edges[0]] == y[edges[1]]) | (rng.random(6000) < 0.5)])
    linear = LinearCandidate("linear", "features")
    candidates = [
        linear,
        TreesCandidate("trees", "trees", 1),
        PropagationCandidate("labels", "labels", linear),
    ]
    plain, weighted = (
        SheafClassifier(class_weight=weights, metric="accuracy", device="cpu").fit(
            graph, np.where(is_known, y, -1), candidates=candidates
        )
        for weights in (None, "balanced")
    )
    rare = y[~is_known].mean()
    assert rare < 0.12
    noise = np.sqrt(rare * (1 - rare) / 500)
    assert weighted.predict_proba()[~is_known, 1].mean() == pytest.approx(rare, abs=2 * noise)
    found = [(model.predict() == 1)[~is_known & (y == 1)].mean() for model in (plain, weighted)]
    assert found[1] > found[0] + 0.3
    assert weighted.decision_.rule == "class_weight"
    assert weighted.decision_.threshold == pytest.approx(y[is_known].mean())
    back = load_estimator(weighted.save(tmp_path / "model"))
    np.testing.assert_allclose(back.predict_proba(graph), weighted.predict_proba())


def test_a_rule_that_is_asked_for_is_followed_whatever_the_weights():
    graph = toy_graph(80)
    model = classifier(class_weight={1: 20.0}, decision="argmax").fit(graph)
    np.testing.assert_array_equal(model.predict(), model.predict_proba().argmax(1))
