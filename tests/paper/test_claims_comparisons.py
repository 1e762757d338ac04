"""How claims compare records: what is selected, chosen, paired and counted, and how parts decide together."""

import numpy as np
import pytest
from invented_cells import BY_ID, as_table, examine, invent_cell, invent_comparison

from polynsd_paper.claims.claim import Finding, combine
from polynsd_paper.claims.comparisons import (
    best_polynsd,
    best_rival,
    best_variants,
    compare_graphs,
    complete_cells,
    datasets_of,
    describe_searches,
    find_cell,
    having,
    select,
)
from polynsd_paper.claims.gaps import Gaps
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS, PUBLISHED_WEBKB
from polynsd_paper.tables.leaderboards import OURS, architecture, compare_cells

NO, UNSURE = "not testable here", "undecided"
ABLATIONS = get_experiment("ablations")


def test_cells_are_found_by_their_options():
    rows = [
        invent_cell(dataset=d, cell={"maps": "general", "K": K}) for d in ("cora", "film") for K in (1, 2)
    ]
    cells = complete_cells(as_table([*rows, invent_cell(cell={"model": "gcn"})]), "leaderboard")
    assert datasets_of(cells) == ["cora", "film"]
    assert len(select(cells, maps="general", K=2)) == len(select(cells, dataset=("cora", "x"), K=[1, 2])) == 2
    assert find_cell(cells, dataset="cora", K=2)["K"] == 2
    assert find_cell(cells, dataset="cora", K=3) is None
    assert len(having(cells, "K")) == 4
    assert having(cells, "layers").empty  # an option that no cell has


def test_records_of_some_splits_are_not_read():
    cells = as_table([invent_cell(), invent_cell(is_partial=True), invent_cell("depth")])
    assert len(complete_cells(cells, "leaderboard")) == 1


def test_choices_are_made_on_validation_and_not_on_test():
    rows = [
        invent_cell(test=0.9 - 0.1 * i, val=0.5 + 0.1 * i, cell={"model": model})
        for i, model in enumerate(OURS)
    ]
    assert best_polynsd(as_table(rows))["model"] == OURS[-1]
    assert best_polynsd(as_table(rows[:2])) is None  # all families of maps or none
    assert best_polynsd(as_table([{**row, "is_searched": False} for row in rows])) is None


def test_variants_of_an_architecture_are_one():
    nsd = [f"nsd-{maps}" for maps in FAMILIES]
    groups = [("gat", "gatv2"), ("jdsnn", "jdsnn-now"), ("risnn", "risnn-not"), ("tuned-gcn", "tuned-sage")]
    assert all(len({architecture(model) for model in group}) == 1 for group in [*groups, nsd, OURS])
    models = ("gat", "gatv2", "mlp+adjacency", "polynsd-general")
    table = as_table(invent_cell(val=0.1 * i, cell={"model": model}) for i, model in enumerate(models))
    assert [cell["model"] for cell in best_variants(table).values()] == ["gatv2", "polynsd-general"]
    assert best_rival(table)["model"] == "gatv2"


def compare_rows(first, second):
    table = as_table([first, second])
    return compare_cells(table.iloc[0], table.iloc[1])


def test_comparisons_are_paired_over_the_same_splits():
    first, second = invent_cell(spread=0.2), invent_cell(test=0.79, spread=0.2, cell={"model": "b"})
    gap = compare_rows(first, second)
    assert gap.low > 0  # though the deviation over splits is twenty times the difference
    assert Gaps([gap, None]).points == pytest.approx(1, abs=0.1)
    assert compare_cells(None, first) is None
    assert compare_rows(first, {**second, "split_numbers": tuple(range(1, 11))}) is None
    assert compare_rows({**first, "train_share": np.nan}, second) is None


def test_differences_over_graphs_are_those_of_a_paired_t_test():
    from scipy.stats import ttest_rel

    a, b = np.random.default_rng(0).normal(size=(2, 5))
    expected = ttest_rel(a, b).confidence_interval()
    found = compare_graphs(a, b)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert compare_graphs(a[:2], b[:2]) is None


UP, DOWN, OPEN, SAME = (
    invent_comparison(*ends) for ends in ((0.04, 0.06), (-0.06, -0.04), (-0.1, 0.1), (-0.01, 0.01))
)
STANDARDS = [  # gaps, then: mostly better, always better, as good, equal, never lower
    ([UP] * 4, "confirmed", "confirmed", "confirmed", "refuted", True),
    ([SAME] * 4, "refuted", "refuted", "confirmed", "confirmed", True),
    ([OPEN] * 4, UNSURE, UNSURE, UNSURE, UNSURE, None),
    ([UP, UP, OPEN, OPEN], UNSURE, UNSURE, UNSURE, "refuted", None),
    ([DOWN] * 4, "refuted", "refuted", "refuted", "refuted", False),
    ([UP, UP, UP, SAME], "confirmed", "partly", "confirmed", "refuted", True),
    ([UP, UP, UP, DOWN], "partly", "refuted", "partly", "refuted", False),
    ([UP, SAME, SAME, SAME], "refuted", "refuted", "confirmed", "partly", True),
    ([], *[UNSURE] * 4, True),
]


@pytest.mark.parametrize(("gaps", "mostly", "always", "as_good", "equal", "never_lower"), STANDARDS)
def test_what_differences_say_about_a_statement(gaps, mostly, always, as_good, equal, never_lower):
    gaps_of = Gaps(gaps)
    judges = ("judge_mostly_better", "judge_always_better", "judge_as_good", "judge_equal")
    findings = [getattr(gaps_of, name)("a − b", is_decisive=True) for name in judges]
    assert [finding.verdict for finding in findings] == [mostly, always, as_good, equal]
    assert all(finding.is_decisive and finding.evidence.startswith("a − b: ") for finding in findings)
    assert gaps_of.is_never_lower() is never_lower
    assert gaps_of.has_counterexample == (DOWN in gaps)


def test_counts_are_adjusted_over_the_cells():
    near = invent_comparison(0.001, 0.039)  # alone it is better
    assert Gaps([near]).better == 1
    assert Gaps([near, *[OPEN] * 9]).better == 0
    assert Gaps([SAME]).equal == 1
    assert near.p == pytest.approx(0.041, abs=1e-3)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [  # verdicts of a decisive part or not, and of another part
        (("confirmed", True), "confirmed", "confirmed"),
        (("confirmed", True), "refuted", "partly"),
        (("refuted", True), "confirmed", "refuted"),
        (("partly", True), "refuted", "partly"),
        (("confirmed", True), UNSURE, UNSURE),
        (("refuted", False), UNSURE, UNSURE),
        (("partly", False), UNSURE, "partly"),
        ((UNSURE, True), "refuted", UNSURE),
        ((NO, True), "confirmed", NO),
        (("refuted", False), "confirmed", "partly"),
        (("refuted", False), "refuted", "refuted"),
    ],
)
def test_parts_decide_together(first, second, verdict):
    assert combine(Finding(first[0], "n", first[1]), Finding(second, "n")).verdict == verdict


def test_a_part_needs_its_cells():
    part = Finding("confirmed", "n")
    assert part.require(8, 9, "graphs") is part
    assert part.require(3, 9, "graphs") == Finding(
        UNSURE, "needs 8 of 9 graphs, has 3 (so far: n)", number="3 of 9 graphs trained"
    )
    assert part.require(3, 9, "graphs", is_lacking=True).verdict == NO


@pytest.mark.parametrize(
    ("available", "has_counterexample", "verdict"),
    [
        (3, True, "refuted"),
        (3, False, UNSURE),
        (0, True, UNSURE),
        (9, True, "refuted"),
        (9, False, "refuted"),
    ],
)
def test_before_all_is_there_only_a_counterexample_refutes(available, has_counterexample, verdict):
    options = {"share": 1.0, "has_counterexample": has_counterexample}
    part = Finding("refuted", "n").require(available, 9, "graphs", **options)
    assert part.verdict == verdict
    assert verdict != UNSURE or part.evidence.startswith(f"needs 9 of 9 graphs, has {available}")
    assert Finding("partly", "n").require(3, 9, "graphs", **options).verdict == UNSURE  # it confirms nothing


def searched_cell(dataset, start):
    """A search that ended with this architecture."""
    layer = {name.removeprefix("model.layer."): value for name, value in start.items() if ".layer." in name}
    rest = {name.removeprefix("model."): value for name, value in start.items() if ".layer." not in name}
    configuration = {"model": {**rest, "layer": layer}}
    return invent_cell(dataset=dataset, cell={"model": "polynsd-general"}, configuration=configuration)


COMMON = MODEL_ROWS["polynsd-general"].starts("cora")[0]


@pytest.mark.parametrize(
    ("dataset", "start", "kept", "values"),
    [
        ("cora", COMMON, 1, "2 free, 2 convex"),
        ("texas", PUBLISHED_WEBKB, 1, "3 convex, 1 free"),
        ("cora", PUBLISHED_WEBKB, 0, "2 free, 2 convex"),
        ("texas", COMMON, 0, "3 convex, 1 free"),
    ],
)
def test_a_search_that_ends_where_its_own_cell_started_is_counted(dataset, start, kept, values):
    text = describe_searches(as_table([searched_cell(dataset, start)]), "coefficients")
    assert f"given architectures ({values}), and {kept} of 1 ended with one of these" in text


def test_searches_that_start_differently_are_listed_by_dataset():
    starts = (("cora", COMMON), ("film", COMMON), ("texas", PUBLISHED_WEBKB))
    text = describe_searches(as_table(searched_cell(*start) for start in starts), "coefficients")
    assert "(2 free, 2 convex on cora, film; 3 convex, 1 free on texas), and 3 of 3" in text


@pytest.mark.parametrize(
    ("name", "option", "value"), [("C13", "coefficients", "free"), ("C23", "correction", "none")]
)
def test_the_finding_says_what_searches_chose_and_started_with(name, option, value):
    row = invent_cell(cell={"model": "polynsd-general"}, configuration={"model": {"layer": {option: value}}})
    evidence = examine(name, [row]).evidence
    assert f"ended with {option}: 1 {value}" in evidence
    assert "start with given architectures (2 " in evidence
    assert "0 of 1 ended with one of these" in evidence


@pytest.mark.parametrize(
    ("name", "with_it", "without"),
    [
        ("C21", {"base": 0.9, "degree 16": 0.9}, {"monomials": 0.8, "monomials, degree 16": 0.8}),
        ("C23", {"convex, correction linear": 0.9}, {"coefficients convex": 0.8}),
    ],
)
def test_ablations_are_a_part_of_the_finding(name, with_it, without):
    def evidence(is_reversed, graphs=ABLATIONS.datasets):
        means = {**with_it, **without}
        rows = [
            invent_cell("ablations", graph, 1.7 - mean if is_reversed else mean, cell={"change": change})
            for graph in graphs
            for change, mean in means.items()
        ]
        return examine(name, rows).evidence

    assert "needs: polynsd reproduce ablations" in examine(name, []).evidence
    assert "(paired, Holm-adjusted) → confirmed" in evidence(is_reversed=False)
    assert "(paired, Holm-adjusted) → refuted" in evidence(is_reversed=True)
    few = evidence(is_reversed=True, graphs=("texas",))
    assert "needs 4 of 4 graphs of the ablations, has 1 (so far: " in few
    assert "→ refuted" not in few


def test_an_invented_table_has_the_columns_of_real_records(tmp_path):
    from invented_records import invent

    from polynsd_paper.records import records_table, summarize

    real = summarize(records_table([invent("leaderboard", "cora", {"model": "gcn"}, 0.8)]))
    assert set(invent_cell(cell={"model": "gcn"})) <= set(real.columns)
    assert BY_ID["C02"].examine(real).verdict == UNSURE
