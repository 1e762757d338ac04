"""The search: what is tried, in which order, when it ends, and what is kept."""

import logging
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from toy import QUICK, classifier, toy_graph

from polynsd import ConfigError
from polynsd.estimator import SheafClassifier
from polynsd.estimator.candidates import EXAMPLES, make_candidates
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.linear import LinearCandidate
from polynsd.estimator.members import FAMILIES
from polynsd.estimator.networks import Network
from polynsd.estimator.search import Attempt

AUTO = dict.fromkeys(EXAMPLES, "auto")


@pytest.fixture(scope="module")
def inputs():
    graph = toy_graph()
    return Inputs(graph, FeatureTreatments.learn(graph.x))


@pytest.fixture(scope="module")
def found():
    """A search that has been done."""
    return SheafClassifier(budget=1, device="cpu", test_fraction=0.2).fit(toy_graph())


def test_cheap_families_come_first(inputs):
    tries = make_candidates(inputs, ["standard"], AUTO)
    networks = [isinstance(one, Network) for one in tries]
    assert networks == sorted(networks)
    places = [list(FAMILIES).index(one.family) for one in tries if isinstance(one, Network)]
    cheap_first = [place for place in places if place != list(FAMILIES).index("deep")]
    assert cheap_first == sorted(cheap_first)
    assert len(set(places)) > 3


def test_on_numbers_a_deep_sheaf_is_the_first_network(inputs):
    first = next(one for one in make_candidates(inputs, ["standard"], AUTO) if isinstance(one, Network))
    model = first.configuration.model
    assert first.family == "deep"
    assert (model.num_layers, model.layer.maps, model.layer.trunk) == (4, "orthogonal", "both")


def test_names_tell_candidates_apart(inputs):
    names = [one.name for one in make_candidates(inputs, inputs.treatments.names, AUTO)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("name", "value"), [("maps", "general"), ("stalk_dim", 2), ("dropout", 0.3)])
def test_a_given_parameter_leaves_networks_that_have_it(inputs, name, value):
    tries = make_candidates(inputs, ["standard"], {**AUTO, name: value})
    assert tries
    for one in tries:
        assert isinstance(one, Network)
        layer = one.configuration.model.layer
        assert getattr(layer, name) == value
    with pytest.raises(ConfigError):
        make_candidates(inputs, ["standard"], {**AUTO, "maps": "orthogonal(euler)", "stalk_dim": 7})


def test_the_table_of_candidates_holds_everything_tried(found):
    rows = found.candidates_
    assert {"features", "smoothed"} <= {row["family"] for row in rows}
    weights = [row["weight"] for row in rows]
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)
    assert len(found.members_) == sum(weight > 0 for weight in weights)


def test_the_estimate_is_of_nodes_that_nothing_has_seen(found):
    assert found.estimate_.source == "test"
    assert found.estimate_.nodes == found.test_mask_.sum() > 0
    assert not (found.test_mask_ & (found.train_mask_ | found.val_mask_)).any()
    right = found.predict() == toy_graph().y
    assert found.estimate_.score == pytest.approx(right[found.test_mask_].mean())


def test_nothing_cheap_is_begun_after_the_budget_and_every_family_has_its_turn(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("polynsd.estimator.budget.time.monotonic", lambda: clock[0])
    begun = []
    fit = LinearCandidate.fit

    def fit_slowly(self, data):
        begun.append(self.family)
        clock[0] += 1.0
        return fit(self, replace(data, deadline=None))

    monkeypatch.setattr(LinearCandidate, "fit", fit_slowly)
    rules = [
        LinearCandidate("linear, standard", "features"),
        LinearCandidate("linear, rank", "features", "rank"),
        LinearCandidate("linear, mean", "smoothed", hops=2),
    ]
    model = SheafClassifier(budget=1.5, device="cpu").fit(toy_graph(), candidates=rules)
    assert begun == ["features", "smoothed"]
    assert len(model.candidates_) == 2


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan])
def test_class_weights_must_be_positive(weight):
    with pytest.raises(ConfigError, match="class weight must be a finite number above 0"):
        SheafClassifier(class_weight={0: weight}).fit(toy_graph())


@pytest.mark.parametrize("costs", [[[0, 1]], [[0, 1], [1]], "abc"], ids=str)
def test_costs_are_checked_before_anything_is_tried(costs):
    with pytest.raises(ConfigError, match=r"costs must be a finite matrix|unknown decision"):
        SheafClassifier(decision=costs).fit(toy_graph(), candidates=[])


def test_with_a_budget_every_family_is_tried_once_before_any_twice():
    order = []
    SheafClassifier(budget=30, device="cpu", random_state=0).fit(
        toy_graph(), on_candidate=lambda row, _: order.append(row["family"])
    )
    first = len(set(order))
    assert first > 5
    assert len(set(order[:first])) >= first - 1  # a perceptron is left out where neighbours are needed


def test_a_budget_ends_in_time():
    began = time.monotonic()
    SheafClassifier(budget=0.2, device="cpu").fit(toy_graph(seed=1))
    assert time.monotonic() - began < 20


def test_one_model_is_one_model():
    model = SheafClassifier(budget=0.2, ensemble=1, device="cpu").fit(toy_graph())
    assert [row["weight"] for row in model.candidates_].count(0) == len(model.candidates_) - 1


@pytest.mark.usefixtures("few_trees")
def test_what_is_done_grows_with_every_candidate():
    shares = []
    SheafClassifier(device="cpu").fit(toy_graph(), on_candidate=lambda _, share: shares.append(share))
    assert 0 < shares[0] < 0.1
    assert all(before < after for before, after in pairwise(shares[:8]))  # cheap ones too
    assert shares == sorted(shares)
    assert shares[-1] <= 1


@pytest.mark.usefixtures("few_trees")
def test_an_interruption_keeps_what_is_complete(caplog):
    def interrupt(*_):
        raise KeyboardInterrupt

    with caplog.at_level(logging.WARNING, "polynsd"):
        model = SheafClassifier(device="cpu").fit(toy_graph(), on_epoch=interrupt)
    assert "interrupted" in caplog.text
    assert {row["family"] for row in model.candidates_} <= {
        "features",
        "smoothed",
        "trees",
        "labels",
        "links",
    }
    with pytest.raises(KeyboardInterrupt):
        classifier().fit(toy_graph(), on_epoch=interrupt)


class Kept(list):
    """Parts in memory."""

    load = list.copy

    def append(self, data, tensors):
        super().append((data, tensors))


def test_a_search_goes_on_from_its_parts():
    parts, seen = Kept(), []
    first = classifier().fit(toy_graph(), parts=parts)
    again = classifier().fit(toy_graph(), parts=parts, on_epoch=lambda *_: seen.append(1))
    assert len(parts) == 1
    assert not seen
    np.testing.assert_allclose(again.predict_proba(), first.predict_proba(), atol=1e-6)


def test_progress_is_told_epoch_by_epoch():
    seen = []
    model = classifier(epochs=3)
    model.fit(toy_graph(), on_epoch=lambda name, epoch: seen.append((name, epoch.epoch)))
    assert {name for name, _ in seen} == {model.candidates_[0]["name"]}
    assert {epoch for _, epoch in seen} == {1, 2, 3}


def test_a_row_of_the_table_is_plain():
    row = Attempt("a", "sheaf", 1.0, failure="no").describe()
    assert row["parameters"] == {}
    assert row["failure"] == "no"
    assert QUICK.keys() >= EXAMPLES.keys()


def test_an_inductive_estimator_knows_no_nodes(capsys):
    model = SheafClassifier(inductive=True, budget=1e-3, verbose=1, device="cpu").fit(toy_graph())
    assert not {row["family"] for row in model.candidates_} & {"labels", "links"}
    assert len(capsys.readouterr().out.splitlines()) == len(model.candidates_)
