"""Decisions: what is learned is best on the nodes it was learned from, and prices are expected values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd import ConfigError
from polynsd.estimator.decision import Decision
from polynsd.training import get_task


def sample(seed, num_classes=2, n=60):
    """Probabilities that are about right, of unequal classes."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.r_[3.0, np.ones(num_classes - 1)], n).round(2)
    p /= p.sum(1, keepdims=True)
    return p, (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=num_classes - 1)


def f1(labels, y, num_classes):
    return get_task("f1").score(
        torch.nn.functional.one_hot(torch.from_numpy(labels), num_classes), torch.from_numpy(y)
    )


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_no_threshold_has_a_better_f1(seed):
    p, y = sample(seed)
    if not y.any():
        return
    learned = f1(Decision.learn(p, y, "f1").predict(p), y, 2)
    assert learned >= max(f1((p[:, 1] >= t).astype(int), y, 2) for t in p[:, 1]) - 1e-12


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from(["precision", "recall"]))
def test_a_share_that_can_be_reached_is_reached(seed, name):
    p, y = sample(seed)
    if not y.any():
        return
    labels = Decision.learn(p, y, f"{name}=0.5").predict(p)
    hits = (labels & y).sum()
    share = hits / (labels if name == "precision" else y).sum()
    shares = [(y[p[:, 1] >= t].mean() if name == "precision" else 1.0) for t in p[:, 1]]
    assert share >= min(0.5, max(shares))


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from(["f1", "precision=0.6", "recall=0.7", "balanced_accuracy"]))
def test_the_positive_class_may_be_either_of_two(seed, rule):
    p, y = sample(seed)
    second = Decision.learn(p, y, rule)
    first = Decision.learn(p[:, ::-1], 1 - y, rule, positive=0)
    assert first.threshold == pytest.approx(second.threshold)
    np.testing.assert_array_equal(first.predict(p[:, ::-1]), 1 - second.predict(p))


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_f1_of_many_classes_never_falls(seed):
    p, y = sample(seed, 4, 40)
    assert f1(Decision.learn(p, y, "f1").predict(p), y, 4) >= f1(p.argmax(1), y, 4)


def test_costs_are_expected_values():
    p = np.array([[0.9, 0.1], [0.7, 0.3]])
    decision = Decision.learn(p, np.array([0, 1]), [[0, 1], [5, 0]])  # a missed positive costs five
    np.testing.assert_array_equal(decision.predict(p), [0, 1])
    assert decision.threshold == pytest.approx(1 / 6)


def test_balanced_accuracy_divides_by_the_sizes_of_the_classes():
    y = np.arange(100) < 10
    decision = Decision.learn(np.full((100, 2), 0.5), y.astype(int), "balanced_accuracy")
    assert decision.threshold == pytest.approx(0.1)


def test_the_most_likely_class_is_said_unless_asked_otherwise():
    p, y = sample(0, 3)
    np.testing.assert_array_equal(Decision.learn(p, y).predict(p), p.argmax(1))


def test_a_decision_is_plain_data():
    p, y = sample(0, 3)
    decision = Decision.learn(p, y, "f1")
    again = Decision.restore(decision.state())
    assert again.rule == "f1"
    np.testing.assert_array_equal(again.predict(p), decision.predict(p))


def test_what_cannot_be_reached_is_said(caplog):
    Decision.learn(np.array([[0.4, 0.6], [0.6, 0.4]]), np.array([0, 1]), "precision=0.9")
    assert "no threshold reaches a precision of 0.9; the best has 0.500" in caplog.text


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("F1", "choose from: argmax"),
        ("precision", "e.g. 'precision=0.9'"),
        ("precision=2", "above 0 and at most 1"),
        ("recall=x", "above 0"),
        ("recall=0.9", "for two classes; there are 3"),
        (np.zeros((2, 3)), r"a finite matrix \[3, 3\]"),
    ],
)
def test_refusals(rule, words):
    with pytest.raises(ConfigError, match=words):
        Decision.learn(np.full((4, 3), 1 / 3), np.array([0, 1, 2, 0]), rule)
