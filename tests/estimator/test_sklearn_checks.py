"""scikit-learn's own checks: a plain table is a graph without edges, so all of them apply, and all pass."""

import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from toy import classifier, regressor, toy_graph

from polynsd.estimator import SheafClassifier, SheafRegressor

pytestmark = pytest.mark.usefixtures("no_tracer")  # others cover this code

QUICK = {"budget": 1e-3, "validation_fraction": 0.5, "device": "cpu"}  # the first candidate, a linear model
BY_ROWS = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "folds are drawn by rows, so a row of weight 2 is not the row twice",
)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API")  # scikit-learn skips its check of the array API
@parametrize_with_checks(
    [SheafClassifier(**QUICK), SheafRegressor(**QUICK)], expected_failed_checks=lambda _: BY_ROWS
)
def test_scikit_learn_is_content(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [classifier(calibrate="temperature"), regressor(random_state=4)])
def test_clones_have_the_same_parameters_and_nothing_else(estimator):
    copy = clone(estimator.fit(toy_graph(regression=estimator.is_regression)))
    assert copy.get_params() == estimator.get_params()
    assert not hasattr(copy, "members_")
    assert copy.set_params(epochs=7).epochs == 7


def test_they_are_a_classifier_and_a_regressor():
    assert is_classifier(classifier())
    assert is_regressor(regressor())
    assert repr(SheafClassifier(degree=3)) == "SheafClassifier(degree=3)"
