"""PolyNSD here and in the paper: rows are chosen by validation, printed numbers beside their own splits."""

import math
import re
from dataclasses import replace

import pytest
from invented_records import invent, invent_search, summary

from polynsd.errors import DataError
from polynsd_paper.pages import paper_comparison as module
from polynsd_paper.pages.paper_comparison import HEAD, compare_with_paper, comparison_figure
from polynsd_paper.tables.figures import interval


def invent_searched(experiment, dataset, model, mean, val, **cell):
    record = invent(
        experiment, dataset, {**cell, "model": model}, mean, val=val, search=invent_search(4, 0.9)
    )
    return replace(record, protocol=cell.get("rule", "geom-gcn"))


def leaderboard(dataset):
    models = {
        "polynsd-diagonal": (0.80, 0.7), "polynsd-general": (0.70, 0.8), "polynsd-constant": (0.75, 0.9),
        "identity-sheaf": (0.85, 0.6), "gcn": (0.65, 0.95),
    }  # fmt: skip
    return [invent_searched("leaderboard", dataset, model, *numbers) for model, numbers in models.items()]


def lines(*records):
    rows = [graph.line() for graph in compare_with_paper(summary(*records))]
    assert {len(row) for row in rows} == {len(HEAD)}
    return {label: list(row) for label, *row in rows}


def test_every_column_shows_its_best_on_validation():
    assert lines(*leaderboard("cora"))["cora"] == [
        "88.79 ± 1.13",
        "86.90 ± 1.78",
        "—",
        "75.00 ± 2.00 (polynsd-constant)",
        "65.00 ± 2.00 (gcn)",
    ]
    reference = invent_searched("leaderboard", "cora", "polynsd-reference", 0.82, 0.1)
    assert lines(*leaderboard("cora"), reference)["cora"][2] == "82.00 ± 2.00"


def test_a_longer_search_is_an_option_and_says_so():
    longer = [invent_searched("long-search", "cora", "polynsd-wide", 0.6, 0.99)]
    *_, options, other = lines(*leaderboard("cora"), *longer)["cora"]
    assert options == "60.00 ± 2.00 (polynsd-wide, long search)"
    assert other == "65.00 ± 2.00 (gcn)"


def test_a_longer_search_on_some_splits_only_is_no_match():
    longer = [
        replace(invent_searched("long-search", "cora", "polynsd-wide", 0.6, 0.99), settings={"first": 3})
    ]
    row = lines(*leaderboard("cora"), *longer)["cora"]
    assert row[3] == "75.00 ± 2.00 (polynsd-constant)"


def test_rivals_that_see_the_edges_as_features_are_left_out():
    rival = replace(invent_searched("leaderboard", "cora", "mlp+adjacency", 0.9, 0.99), features="adjacency")
    assert lines(*leaderboard("cora"), rival)["cora"][4] == "65.00 ± 2.00 (gcn)"


def test_a_single_score_has_no_deviation_and_no_interval(tmp_path, monkeypatch):
    single = [replace(record, scores=record.scores[:1]) for record in leaderboard("cora")[:1]]
    assert re.fullmatch(r"\d+\.\d\d \(polynsd-diagonal\)", lines(*single)["cora"][3])
    assert not [line for line in drawn(tmp_path, monkeypatch, single).lines if len(line.get_xdata()) > 1][1:]


def test_the_published_architecture_has_a_dot_of_its_own(tmp_path, monkeypatch):
    reference = invent_searched("leaderboard", "cora", "polynsd-reference", 0.82, 0.1)
    assert dots(drawn(tmp_path, monkeypatch, [*leaderboard("cora"), reference])) == pytest.approx(
        [75 - 88.79, 82 - 88.79, 65 - 88.79, 86.90 - 88.79]
    )


def test_validation_that_is_no_number_chooses_nothing():
    record = leaderboard("cora")[0]
    lost = replace(record, scores=tuple(score._replace(val=math.nan) for score in record.scores))
    with pytest.raises(
        DataError, match="leaderboard, cora, model=polynsd-diagonal: validation is not a number"
    ):
        lines(lost)


def test_texas_of_the_paper_stands_beside_its_random_splits():
    random = [invent_searched("malignant", "texas", "polynsd-general", 0.8, 0.8, rule="random-60-20-20")]
    luan = [invent_searched("malignant", "texas", "polynsd-general", 0.8, 0.8, rule="luan-60-20-20")]
    longer = [invent_searched("long-search", "texas", "polynsd", 0.6, 0.99)]
    rows = lines(*leaderboard("texas"), *luan, *random, *longer)
    assert [row[:2] for row in rows.values()] == [
        ["—", "83.51 ± 5.05"],
        ["92.89 ± 4.59", "—"],
        ["90.00 ± 4.68", "—"],
    ]
    assert list(rows) == ["texas", "texas (luan-60-20-20)", "texas (random-60-20-20)"]
    assert ["long search" in row[3] for row in rows.values()] == [True, False, False]  # other splits


def test_partial_records_and_graphs_without_polynsd_are_left_out():
    part = replace(leaderboard("cora")[2], settings={"first": 3})
    others = [record for record in leaderboard("film") if not record.cell["model"].startswith("polynsd")]
    rows = lines(*leaderboard("cora")[:2], part, *others)
    assert list(rows) == ["cora"]
    assert rows["cora"][2:] == ["—", "70.00 ± 2.00 (polynsd-general)", "—"]
    with pytest.raises(DataError, match="polynsd reproduce leaderboard"):
        compare_with_paper(summary(*others))


def drawn(tmp_path, monkeypatch, records):
    axes = []
    monkeypatch.setattr(module, "finish", lambda panels, path, title, handles: axes.append(panels.axes[0]))
    comparison_figure(tmp_path / "here.png", compare_with_paper(summary(*records)))
    return axes[0]


def dots(axis):
    return [line.get_xdata()[0] for line in axis.lines if line.get_linestyle() == "None"]


def test_the_picture_has_a_row_per_printed_number(tmp_path, monkeypatch):
    axis = drawn(tmp_path, monkeypatch, leaderboard("cora") + leaderboard("texas"))
    assert [tick.get_text() for tick in axis.get_yticklabels()] == [
        "cora"
    ]  # the texas of the paper is another
    assert dots(axis) == pytest.approx([75 - 88.79, 65 - 88.79, 86.90 - 88.79])
    ends = interval(summary(leaderboard("cora")[2]).iloc[0])
    assert any(list(line.get_xdata()) == pytest.approx([end - 88.79 for end in ends]) for line in axis.lines)
    with pytest.raises(DataError, match="no graph"):
        comparison_figure(tmp_path / "none.png", compare_with_paper(summary(*leaderboard("texas"))))
