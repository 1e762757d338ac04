"""How claims read records: what is compared, chosen and counted, and how parts decide together."""

from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np
import pytest

from polynsd_paper.boards import OURS, best_on_validation, group_of
from polynsd_paper.claims import CLAIMS, Evidence
from polynsd_paper.claims.parts import Part, combine, covered, universal
from polynsd_paper.claims.readers import (
    Table,
    best_polynsd,
    compared,
    methods,
    searched_choices,
)
from polynsd_paper.claims.tally import Gap, Tally, over_graphs
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS, PUBLISHED_WEBKB
from polynsd_paper.records import Record, Score

BY_ID = {claim.id: claim for claim in CLAIMS}
SHEAVES = (*OURS, *(f"nsd-{maps}" for maps in FAMILIES))
NO = "not testable here"


def record(
    experiment="leaderboard", dataset="cora", test=0.8, *, val=None, spread=0.01, shape=(10, 1), **more
):
    """Scores [splits, seeds] around a mean: the same noise in every record, and a little of its own."""
    cell = more.pop("cell", {})
    own = np.random.default_rng(crc32(repr((dataset, cell)).encode())).normal(size=shape)
    tests = test + spread * np.random.default_rng(0).normal(size=shape) + more.pop("own", 1e-3) * own
    value = test if val is None else val
    scores = tuple(Score(i, j, value, float(one), 1, 2) for (i, j), one in np.ndenumerate(tests))
    known = {
        "sizes": {"train": 48, "val": 32, "test": 20},
        "configuration": {},
        "parameters": 100,
        "seconds": 1.0,
        "device": "cpu",
        "commit": "0",
    }
    fixed = (experiment, dataset, cell, "accuracy", "geom-gcn", "row-normalize", "default", 0)
    return Record(*fixed, scores=scores, search={"val": value, "trials": 8}, **{**known, **more})


@dataclass(frozen=True)
class Made(Evidence):
    """Evidence that a test made up."""

    made: dict = field(default_factory=dict)

    def records(self, experiment):
        return self.made.get(experiment, [])


def of(records):
    made = {}
    for one in records:
        made.setdefault(one.experiment, []).append(one)
    return Made(made=made)


@pytest.mark.parametrize(
    ("name", "option", "value"), [("C13", "coefficients", "free"), ("C23", "correction", "none")]
)
def test_what_searches_ended_with_is_told_with_what_they_were_given(name, option, value):
    configuration = {"model": {"layer": {option: value}}}
    one = record(cell={"model": "polynsd-general"}, configuration=configuration)
    numbers = BY_ID[name].examine(of([one])).numbers
    assert f"ended with {option}: 1 {value}" in numbers
    assert "begin with given architectures (2 " in numbers
    assert "0 of 1 ended with one of these" in numbers


def ended(dataset, start):
    """A search that ended with this architecture."""
    layer = {name.removeprefix("model.layer."): value for name, value in start.items() if ".layer." in name}
    rest = {name.removeprefix("model."): value for name, value in start.items() if ".layer." not in name}
    configuration = {"model": {**rest, "layer": layer}}
    return record(dataset=dataset, cell={"model": "polynsd-general"}, configuration=configuration)


COMMON = MODEL_ROWS["polynsd-general"].starts[0]


@pytest.mark.parametrize(
    ("dataset", "start", "given", "begin"),
    [
        ("cora", COMMON, 1, "2 free, 2 convex"),
        ("texas", PUBLISHED_WEBKB, 1, "3 convex, 1 free"),
        ("cora", PUBLISHED_WEBKB, 0, "2 free, 2 convex"),
        ("texas", COMMON, 0, "3 convex, 1 free"),
    ],
)
def test_a_search_that_ends_where_its_own_cell_began_is_counted(dataset, start, given, begin):
    numbers = searched_choices(of([ended(dataset, start)]), "coefficients")
    assert f"{given} of 1 ended with one of these" in numbers
    assert f"given architectures ({begin})," in numbers


def test_searches_that_begin_differently_are_told_apart():
    rows = [ended(d, start) for d, start in (("cora", COMMON), ("film", COMMON), ("texas", PUBLISHED_WEBKB))]
    numbers = searched_choices(of(rows), "coefficients")
    assert "(2 free, 2 convex on cora, film; 3 convex, 1 free on texas), and 3 of 3" in numbers


def test_comparisons_are_paired_over_the_same_splits():
    first, second = record(test=0.8, spread=0.2), record(test=0.79, spread=0.2, cell={"model": "b"})
    gap = compared(first, second)
    assert gap.low > 0  # though the deviation over splits is twenty times the difference
    assert Tally.of([gap, None]).points == pytest.approx(1, abs=0.1)
    assert compared(first, None) is None
    others = tuple(score._replace(split=score.split + 1) for score in second.scores)
    assert compared(first, replace(second, scores=others)) is None


def test_records_of_some_splits_are_not_read():
    one = record()
    assert Table([one, replace(one, settings={"first": 3})]).records == [one]


def test_choices_are_made_on_validation_with_fresh_seeds_and_not_on_test_or_the_search():
    rows = [
        record(test=0.9 - 0.1 * i, val=0.5 + 0.1 * i, cell={"model": model}) for i, model in enumerate(OURS)
    ]
    rows = [replace(one, search={**one.search, "val": 1 - one.validation}) for one in rows]
    assert best_on_validation(rows) is rows[-1]
    assert best_polynsd(Table(rows), "cora") is rows[-1]
    assert best_on_validation([]) is best_polynsd(Table(rows[:2]), "cora") is None
    assert best_polynsd(Table([replace(one, search=None) for one in rows]), "cora") is None


def test_variants_of_an_architecture_are_one_method():
    groups = [("gat", "gatv2"), ("jdsnn", "jdsnn-now"), ("risnn", "risnn-not"), ("tuned-gcn", "tuned-sage")]
    groups += [SHEAVES[3:], OURS]
    assert all(len({group_of(model) for model in group}) == 1 for group in groups)
    rows = [
        record(val=0.1 * i, cell={"model": model})
        for i, model in enumerate(("gat", "gatv2", "mlp+adjacency"))
    ]
    assert list(methods(rows).values()) == [rows[1]]


def test_cells_are_found_by_their_options():
    table = Table(
        [record(dataset=d, cell={"maps": "general", "K": K}) for d in ("cora", "film") for K in (1, 2)]
    )
    assert table.datasets == ["cora", "film"]
    assert len(table.where(maps="general", K=2)) == 2
    assert table.find("cora", K=2, maps="general").cell["K"] == 2
    assert table.find("cora", K=2) is None
    assert len(table.having("film", "K", maps="general")) == 2


PARTS = [
    (("confirmed", True), ("confirmed", False), "confirmed"),
    (("confirmed", True), ("refuted", False), "partly"),
    (("refuted", True), ("confirmed", False), "refuted"),
    (("partly", True), ("refuted", False), "partly"),
    (("confirmed", True), (NO, False), "partly"),
    ((NO, True), ("confirmed", False), NO),
    (("refuted", False), ("confirmed", False), "partly"),
    (("refuted", False), ("refuted", False), "refuted"),
]


@pytest.mark.parametrize(("first", "second", "verdict"), PARTS)
def test_parts_decide_together(first, second, verdict):
    parts = [Part(one, "n", decisive) for one, decisive in (first, second)]
    assert combine(*parts).verdict == verdict


def test_a_part_needs_its_cells():
    part = Part("confirmed", "n")
    assert covered(part, 8, 9, "graphs") is part
    assert covered(part, 3, 9, "graphs") == Part(NO, "needs 8 of 9 graphs, has 3 (so far: n)")


@pytest.mark.parametrize(
    ("has", "counterexample", "verdict"),
    [(3, True, "refuted"), (3, False, NO), (0, True, NO), (9, True, "refuted"), (9, False, "refuted")],
)
def test_before_all_is_there_only_a_counterexample_refutes(has, counterexample, verdict):
    part = universal(Part("refuted", "n"), has, 9, "graphs", counterexample=counterexample)
    assert part.verdict == verdict
    assert verdict != NO or part.numbers.startswith(f"needs 9 of 9 graphs, has {has}")


def test_a_counterexample_confirms_nothing():
    assert universal(Part("partly", "n"), 3, 9, "graphs", counterexample=True).verdict == NO


UP, DOWN, OPEN, SAME = Gap(0.05, 0.04, 0.06), Gap(-0.05, -0.06, -0.04), Gap(0, -0.1, 0.1), Gap(0, -0.01, 0.01)
STANDARDS = [  # gaps, then: mostly, always, keeps up, the same
    ([UP] * 4, "confirmed", "confirmed", "confirmed", "refuted"),
    ([SAME] * 4, "refuted", "refuted", "confirmed", "confirmed"),
    ([OPEN] * 4, "refuted", "refuted", NO, NO),
    ([DOWN] * 4, "refuted", "refuted", "refuted", "refuted"),
    ([UP, UP, UP, SAME], "confirmed", "partly", "confirmed", "refuted"),
    ([UP, UP, UP, DOWN], "partly", "refuted", "partly", "refuted"),
    ([UP, SAME, SAME, SAME], "partly", "refuted", "confirmed", "partly"),
    ([], NO, NO, NO, NO),
]


@pytest.mark.parametrize(("gaps", "mostly", "always", "keeps_up", "same"), STANDARDS)
def test_standards_of_a_tally(gaps, mostly, always, keeps_up, same):
    tally = Tally.of(gaps)
    assert (tally.mostly, tally.always, tally.keeps_up(), tally.same) == (mostly, always, keeps_up, same)
    assert tally.has_counterexample == (DOWN in gaps)


def test_differences_over_graphs_are_those_of_a_paired_t_test():
    from scipy.stats import ttest_rel

    a, b = np.random.default_rng(0).normal(size=(2, 5))
    expected = ttest_rel(a, b).confidence_interval()
    assert over_graphs(a, b)[1:] == pytest.approx((expected.low, expected.high))
    assert over_graphs(a[:2], b[:2]) is None
