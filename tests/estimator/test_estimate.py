"""The estimate: nothing that was chosen or learned on a node scores that node."""

import numpy as np
import pytest
from sklearn.metrics import f1_score
from toy import classifier, regressor, toy_graph

from polynsd.estimator import SheafClassifier, load_estimator
from polynsd.estimator.linear import LinearCandidate

NO_EDGES = np.zeros((2, 0), dtype=np.int64)
LINEAR = LinearCandidate("linear", "features")


def test_a_threshold_that_was_learned_from_noise_is_not_rewarded():
    scores = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(1200, 4)), (rng.random(1200) < 0.15).astype(np.int64)
        is_given = np.arange(1200) < 200
        model = SheafClassifier(metric="f1", random_state=seed, device="cpu")
        model.fit((x, NO_EDGES), np.where(is_given, y, -1), candidates=[LINEAR])
        fresh = model.score((x, NO_EDGES), y, nodes=~is_given)
        scores.append((model.val_score_, model.estimate_.score, fresh))
    flattering, honest, true = np.mean(scores, 0)
    assert honest == pytest.approx(true, abs=0.025)
    assert flattering > true + 0.025


def test_rows_that_are_said_again_do_not_narrow_the_interval():
    rng = np.random.default_rng(0)
    x, y, groups = rng.normal(size=(60, 3)), rng.integers(0, 2, 60), np.repeat(np.arange(60), 4)
    tables = (np.repeat(x, 4, 0), NO_EDGES), np.repeat(y, 4)
    widths = []
    for options in ({}, {"groups": groups}):
        model = SheafClassifier(test_fraction=0.3, device="cpu", random_state=0)
        found = model.fit(*tables, candidates=[LINEAR], **options).estimate_
        widths.append(found.high - found.low)
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("rule", ["f1", "recall=0.7"])
def test_the_decided_classes_are_those_that_were_scored(rule):
    graph = toy_graph(80)
    model = classifier(metric="f1", decision=rule).fit(graph)
    estimate = model.estimate_
    assert estimate.source == "halves"
    assert estimate.score == pytest.approx(f1_score(graph.y[estimate.scored], estimate.classes))


def test_nodes_that_were_kept_apart_are_answered_as_new_ones_are():
    model = classifier(metric="f1", test_fraction=0.4).fit(toy_graph(80))
    estimate = model.estimate_
    np.testing.assert_array_equal(estimate.classes, model.predict()[estimate.scored])
    np.testing.assert_allclose(estimate.predictions, model.predict_proba()[estimate.scored])


@pytest.mark.parametrize("make", [classifier, regressor])
def test_it_is_stored_with_what_was_predicted(tmp_path, make):
    model = make(epochs=2).fit(toy_graph(regression=make is regressor))
    back = load_estimator(model.save(tmp_path / "model")).estimate_
    for name in ("scored", "predictions", "classes"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model.estimate_, name))
    assert back.to_dict() == model.estimate_.to_dict()


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "f1"},
        {"metric": "f1", "decision": "precision=0.6"},
        {"metric": "balanced_accuracy"},
        {"metric": "accuracy", "decision": [[0, 1], [9, 0]]},
        {"metric": "accuracy", "class_weight": "balanced"},
    ],
    ids=str,
)
def test_a_candidate_is_compared_by_the_decision_that_it_would_come_to(options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = (rng.random(300) < 1 / (1 + np.exp(3 - x[:, 0]))).astype(np.int64)  # hardly ever likelier than not
    model = SheafClassifier(**options, calibrate=None, device="cpu").fit(x, y, candidates=[LINEAR])
    assert model.candidates_[0]["val_score"] == pytest.approx(model.val_score_)
    at_half = SheafClassifier(**options, calibrate=None, device="cpu").set_params(decision="argmax")
    assert model.val_score_ != at_half.fit(x, y, candidates=[LINEAR]).val_score_
