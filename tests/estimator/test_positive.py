"""The positive one of two classes: F1, PR-AUC, precision and recall are of it, wherever they appear."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, recall_score
from toy import classifier, toy_graph

from polynsd import ConfigError
from polynsd.estimator import SheafClassifier


@pytest.fixture(scope="module")
def graph():
    return toy_graph(80, names=True)  # classes 'high' and 'low'


def truth(graph):
    return np.array(graph.class_names)[graph.y], graph.y >= 0


def test_it_is_the_last_class_unless_given(graph):
    assert classifier(epochs=1).fit(graph).positive_ == "low"
    model = classifier(epochs=1, positive="high").fit(graph)
    assert model.positive_ == "high"
    assert model.classes_.tolist() == ["high", "low"]  # their order stays


@pytest.mark.parametrize("positive", ["high", "low"])
def test_scores_and_decisions_are_of_it_also_after_storage(graph, tmp_path, positive):
    y, known = truth(graph)
    model = classifier(metric="f1", decision="recall=0.8", positive=positive).fit(graph)
    for each in (model, SheafClassifier.load(model.save(tmp_path / "model"))):
        said, p = each.predict(graph)[known], each.predict_proba(graph)[known]
        assert each.score(graph) == pytest.approx(f1_score(y[known], said, pos_label=positive))
        column = each.classes_.tolist().index(positive)
        np.testing.assert_array_equal(said == positive, p[:, column] >= each.decision_.threshold)
        assert recall_score(y[known], said, pos_label=positive) > 0.6
        each.metric_ = "pr_auc"
        expected = average_precision_score(y[known], p[:, column], pos_label=positive)
        assert each.score(graph) == pytest.approx(expected)
        assert each.positive_ == positive


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.arange(40) % 2, r"positive must be one of the classes \[0, 1\], or None; got 'maybe'"),
        (np.arange(40) % 3, "positive needs two classes; there are 3"),
    ],
)
def test_what_is_no_class_of_two_is_refused(y, message):
    with pytest.raises(ConfigError, match=message):
        classifier(positive="maybe").check(toy_graph(), y)
