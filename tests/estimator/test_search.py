"""The built-in search: what is given stays, what is free is chosen on validation, everything is recorded."""

import time

import numpy as np
import pytest
from toy import QUICK, classifier, toy_graph

from polynsd import ConfigError
from polynsd.estimator import SheafClassifier
from polynsd.estimator.candidates import (
    DEFAULTS,
    REGULARISATIONS,
    STRUCTURES,
    make_candidates,
    parameters_of,
)
from polynsd.search.halving import RUNGS, most_epochs
from polynsd.training.configuration import shape_key

AUTO = dict.fromkeys(DEFAULTS, "auto")


def small(**options):
    free = {"maps": "auto", "dropout": "auto"}
    return classifier(**{**free, "epochs": 4, **options})


@pytest.fixture(scope="module")
def found():
    """A search that has been done."""
    return small().fit(toy_graph())


def test_everything_free_gives_every_structure_with_every_regularisation():
    tries = make_candidates(AUTO, search=True)
    assert len(tries) == len(STRUCTURES) * len(REGULARISATIONS)
    assert len({shape_key(one) for one in tries}) == len(STRUCTURES)
    assert make_candidates(AUTO, search=False) == tries[:1]


@pytest.mark.parametrize(
    ("name", "value"),
    [("maps", "general"), ("maps", "orthogonal(cayley)"), ("stalk_dim", 2), ("degree", 3), ("dropout", 0.3)],
)
def test_a_given_parameter_has_its_value_in_every_candidate(name, value):
    tries = make_candidates({**AUTO, name: value}, search=True)
    assert len(tries) > 1
    assert all(parameters_of(one)[name] == value for one in tries)
    assert len(set(tries)) == len(tries)


def test_families_that_do_not_admit_the_dimension_are_left_out():
    tries = make_candidates({**AUTO, "maps": "orthogonal(euler)"}, search=True)
    assert {parameters_of(one)["stalk_dim"] for one in tries} <= {2, 3}
    with pytest.raises(ConfigError):
        make_candidates({**AUTO, "maps": "orthogonal(euler)", "stalk_dim": 7}, search=True)


def test_no_hops_means_no_neighbours():
    nothing = next(one for one in make_candidates(AUTO, search=True) if parameters_of(one)["degree"] == 0)
    model = classifier(**{**parameters_of(nothing), "epochs": 2}).fit(toy_graph())
    graph = toy_graph(10, seed=4)
    np.testing.assert_allclose(model.predict_proba(graph), model.predict_proba(graph.x), atol=1e-12)


def test_all_candidates_are_recorded_and_the_first_is_the_best_of_the_last_rung(found):
    rows = found.search_results_
    assert [row["chosen"] for row in rows] == [True] + [False] * (len(rows) - 1)
    assert rows[0]["rung"] == len(RUNGS) - 1
    assert rows[0]["val_score"] == found.val_score_
    assert {row["maps"] for row in rows} == {"identity", "diagonal", "orthogonal", "general"}
    assert all(row["hidden_channels"] == QUICK["hidden_channels"] for row in rows)
    for rung in range(len(RUNGS)):
        scores = [row["val_score"] for row in rows if row["rung"] == rung]
        assert scores == sorted(scores, reverse=True)
    assert found.config_.layer.maps == rows[0]["maps"]


def test_the_search_is_repeatable(found):
    assert small().fit(toy_graph()).search_results_ == found.search_results_


def test_the_chosen_configuration_alone_gives_the_same_model(found):
    given = {name: found.search_results_[0][name] for name in DEFAULTS}
    alone = SheafClassifier(**given, device="cpu").fit(toy_graph())
    np.testing.assert_allclose(alone.predict_proba(), found.predict_proba(), atol=1e-5)


def test_a_budget_in_seconds_ends_in_time_and_gives_everyone_a_part():
    began = time.monotonic()
    model = small(epochs=100_000, budget=0.3, degree=1).fit(toy_graph())
    assert time.monotonic() - began < 10  # one epoch more per batch than there is time for
    rows = model.search_results_
    assert {row["maps"] for row in rows} == {"identity", "diagonal", "orthogonal", "general"}
    assert all(1 <= row["trained_epochs"] < 100_000 for row in rows)
    assert rows[0]["chosen"]


def test_what_the_search_may_cost_is_known_before():
    model, seen = small(), []
    planned = most_epochs(model.candidates(toy_graph()))
    model.fit(toy_graph(), on_epoch=lambda *_: seen.append(1))
    assert len(seen) == planned == (len(model.search_results_) + 3 + 1) * 4
    assert most_epochs(classifier(epochs=9).candidates(toy_graph())) == 9


def test_progress_is_told_epoch_by_epoch():
    seen = []
    classifier(epochs=3).fit(toy_graph(), on_epoch=lambda name, epoch: seen.append((name, epoch.epoch)))
    assert seen == [("diagonal, d=2, K=2", number) for number in (1, 2, 3)]
