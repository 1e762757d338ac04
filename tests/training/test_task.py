"""Metrics against scikit-learn's definitions, computed by brute force."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polynsd import DataError
from polynsd.training import get_task
from polynsd.training.task import TASKS

accuracy, roc_auc, r_squared = (get_task(name).score for name in ("accuracy", "roc_auc", "r2"))

scores = st.lists(st.integers(-3, 3), min_size=2, max_size=20)


@given(scores, scores)
def test_roc_auc_is_the_probability_of_the_right_order(positive, negative):
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    score = torch.tensor([*positive, *negative], dtype=torch.float)
    y = torch.tensor([1] * len(positive) + [0] * len(negative))
    logits = torch.stack([torch.zeros_like(score), score], -1)
    assert roc_auc(logits, y) == pytest.approx(wins / (len(positive) * len(negative)))


@pytest.mark.parametrize("metric", ["roc_auc", "pr_auc"])
def test_an_order_of_one_class_is_refused(metric):
    with pytest.raises(DataError, match="two classes"):
        get_task(metric).score(torch.zeros(4, 2), torch.zeros(4))


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("metric", ["balanced_accuracy", "f1", "roc_auc", "pr_auc"])
def test_metrics_are_those_of_scikit_learn(metric, num_classes):
    metrics, generator = pytest.importorskip("sklearn.metrics"), torch.Generator().manual_seed(0)
    logits = torch.randn(80, num_classes, generator=generator).round(decimals=1).double()  # with ties
    y = torch.randint(num_classes, (80,), generator=generator)
    labels, p = logits.argmax(1), logits.softmax(1)
    is_binary = num_classes == 2
    expected = {
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(y, labels),
        "f1": lambda: metrics.f1_score(y, labels, average="binary" if is_binary else "macro"),
        "roc_auc": lambda: metrics.roc_auc_score(
            y, logits[:, 1] - logits[:, 0] if is_binary else p, multi_class="ovr"
        ),
        "pr_auc": lambda: metrics.average_precision_score(y, logits[:, 1] - logits[:, 0] if is_binary else p),
    }
    assert get_task(metric).score(logits, y) == pytest.approx(expected[metric]())
    without = torch.where(torch.arange(80) < 40, y, -1)  # nodes without a label beside them
    mask = torch.arange(80)[None] < 40
    alone = get_task(metric).score(logits[:40], y[:40])
    assert float(get_task(metric).metrics(logits[None], without, mask)) == pytest.approx(alone)


@pytest.mark.parametrize("metric", ["f1", "pr_auc"])
def test_metrics_of_one_class_may_be_of_the_first(metric):
    metrics, generator = pytest.importorskip("sklearn.metrics"), torch.Generator().manual_seed(0)
    logits = torch.randn(60, 2, generator=generator).double()
    y = torch.randint(2, (60,), generator=generator)
    expected = {
        "f1": metrics.f1_score(y, logits.argmax(1), pos_label=0),
        "pr_auc": metrics.average_precision_score(y, logits[:, 0] - logits[:, 1], pos_label=0),
    }
    task = get_task(metric).of_class(0)
    assert task.score(logits, y) == pytest.approx(expected[metric])
    beside = torch.cat([y, torch.tensor([-1, -2])])  # without a label, and of no known class
    both = torch.cat([logits, logits[:2]])
    assert float(task.metrics(both[None], beside, beside[None] >= 0)) == pytest.approx(expected[metric])


def test_accuracy():
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 3.0]])
    assert accuracy(logits, torch.tensor([0, 1, 0])) == pytest.approx(2 / 3)


def test_r_squared_is_zero_for_the_mean_and_one_for_the_truth():
    y = torch.tensor([1.0, 2.0, 6.0])
    assert r_squared(y[:, None], y) == 1
    assert r_squared(torch.full((3, 1), 3.0), y) == pytest.approx(0)


def test_number_of_outputs():
    assert get_task("accuracy").num_outputs(torch.tensor([0, 2, -1])) == 3
    assert get_task("r2").num_outputs(torch.zeros(5)) == 1
    assert get_task("r2").num_outputs(torch.zeros(5, 3)) == 3


def test_unknown_metric():
    with pytest.raises(ValueError, match=r"unknown metric 'auc'.*roc_auc"):
        get_task("auc")


def test_r_squared_of_constant_targets_is_refused():
    with pytest.raises(DataError, match="all equal"):
        r_squared(torch.zeros(3, 1), torch.ones(3))


@pytest.mark.parametrize("metric", TASKS)
def test_many_replicas_are_scored_as_each_alone(metric):
    task, generator = get_task(metric), torch.Generator().manual_seed(0)
    output = torch.randn(4, 30, 1 if metric == "r2" else 2, generator=generator).round(
        decimals=1
    )  # with ties
    y = torch.randn(30, generator=generator) if metric == "r2" else torch.arange(30) % 2
    mask = torch.rand(4, 30, generator=generator) < 0.5
    alone = [task.score(one[chosen], y[chosen]) for one, chosen in zip(output, mask, strict=True)]
    assert task.metrics(output, y, mask).tolist() == pytest.approx(alone)
    losses = [float(task.loss(one[chosen], y[chosen])) for one, chosen in zip(output, mask, strict=True)]
    assert task.losses(output, y, mask).tolist() == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize("metric", ["accuracy", "r2"])
def test_nodes_without_a_label_have_no_influence(metric):
    task = get_task(metric)
    missing = float("nan") if metric == "r2" else -1
    y = torch.tensor([0, 1, missing], dtype=torch.float if metric == "r2" else torch.long)
    output = torch.randn(1, 3, 1 if metric == "r2" else 2, requires_grad=True)
    task.losses(output, y, torch.tensor([[True, True, False]])).sum().backward()
    assert output.grad.isfinite().all()
    assert output.grad[0, 2].tolist() == [0.0] * output.size(-1)
