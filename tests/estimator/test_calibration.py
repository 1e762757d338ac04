"""Temperature scaling: probabilities fit the validation nodes better, predictions stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy import classifier, toy_graph

from polynsd.estimator.calibration import LARGEST, fit_temperature, mean_loss


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
