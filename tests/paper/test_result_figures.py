"""Pictures have a panel for every dataset and a mark for every record; bars and legends say what they are."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from invented_records import invent, invent_search
from scipy import stats

from polynsd import ConfigError, PolyNSDError
from polynsd.report import panels
from polynsd_paper import result_marks
from polynsd_paper.published import published
from polynsd_paper.result_figures import leaderboard_figure, search_figure
from polynsd_paper.result_sweep import sweep_figure

BOARD = [
    invent("leaderboard", dataset, {"model": model}, mean, search=invent_search(20, mean))
    for dataset, shift in (("texas", 0.0), ("cora", 0.05), ("film", -0.3))
    for model, mean in (("polynsd-diagonal", 0.84 + shift), ("gcn", 0.6 + shift))
]
SWEEP = [invent("k-sweep", "cora", {"maps": "general", "K": K}, 0.8 + 0.002 * K) for K in (1, 4, 16)]


def test_leaderboard_has_the_best_at_the_top(tmp_path, drawn, is_picture):
    assert is_picture(leaderboard_figure(tmp_path / "a" / "b.png", "Board", BOARD, published("leaderboard")))
    (axes, labels), *_ = drawn
    assert [axis.get_title(loc="left") for axis in axes] == ["texas", "cora", "film"]
    heights = dict(
        zip(*[(t.get_text() for t in axes[0].get_yticklabels()), axes[0].get_yticks()], strict=True)
    )
    assert heights == {"polynsd-diagonal": 2, "gcn": 1}
    assert labels[1:] == ["paper", "published code"]


def test_partial_records_are_pale(tmp_path, drawn):
    part = [replace(one, settings={"first": 3}, scores=one.scores[:3]) for one in (*BOARD[:1], *SWEEP[:1])]
    leaderboard_figure(tmp_path / "b.png", "Board", [*part[:1], *BOARD[1:]])
    sweep_figure(tmp_path / "k.png", "K", [*part[1:], *SWEEP[1:]])
    (board, labels), ((axis,), _) = drawn
    assert "of the first splits only" in labels
    assert {line.get_alpha() for line in board[0].lines} == {result_marks.PALE, 1.0}
    assert {line.get_alpha() for line in board[1].lines} == {1.0}
    lines = [line for line in axis.lines if line.get_linestyle() == "-"]
    assert [len(line.get_xdata()) for line in lines] == [2]  # the third point stands apart
    assert any(line.get_alpha() == result_marks.PALE for line in axis.lines)


def test_intervals_of_shares_end_at_a_hundred(tmp_path, drawn):
    sure = invent("board", "cora", {"model": "gcn"}, 0.99, 0.05)
    assert result_marks.interval(sure)[1] == 100
    assert result_marks.interval(replace(sure, metric="r2"))[1] > 0.99
    leaderboard_figure(tmp_path / "b.png", "", [sure])
    ((axis,), _), *_ = drawn
    assert max(x for line in axis.lines for x in line.get_xdata()) == 100


def test_a_missing_cell_has_no_mark(tmp_path, drawn):
    leaderboard_figure(tmp_path / "b.png", "", BOARD[:-1])
    (axes, _), *_ = drawn
    marked = [[line.get_ydata()[0] for line in axis.lines if len(line.get_xdata()) == 1] for axis in axes]
    assert marked == [[2, 1], [2, 1], [2]]


def test_search_is_drawn_to_its_last_trial(tmp_path, drawn, is_picture):
    assert is_picture(search_figure(tmp_path / "s.png", "Search", BOARD))
    (axes, labels), *_ = drawn
    assert labels == ["polynsd-diagonal", "gcn"]
    best = axes[0].lines[0].get_ydata()
    assert len(best) == 20
    assert best[-1] == pytest.approx(84)
    assert (np.diff(best) >= 0).all()
    assert axes[0].lines[0].get_markevery() == [-1]  # where it ended


def test_trials_before_the_first_complete_one_are_left_out(tmp_path, drawn):
    search = {"trials": 3, "seconds": 1.0, "best_so_far": [None, 0.5, 0.6]}
    search_figure(
        tmp_path / "s.png", "Search", [invent("board", "cora", {"model": "gcn"}, 0.5, search=search)]
    )
    ((axis,), _), *_ = drawn
    assert np.allclose(axis.lines[0].get_ydata(), [np.nan, 50, 60], equal_nan=True)


def test_intervals_are_corrected_for_the_overlap_of_splits():
    record = BOARD[0]
    tests = 100 * record.by_split()[:, 0]
    error = tests.std(ddof=1) * np.sqrt(1 / 10 + 20 / 48)
    low, high = stats.t.interval(0.95, 9, loc=tests.mean(), scale=error)
    assert result_marks.half_width(record) == pytest.approx((high - low) / 2)
    luan = replace(record, sizes={"train": 85, "val": 37, "test": 61})
    assert result_marks.half_width(luan) / (high - low) * 2 == pytest.approx(
        np.sqrt((1 / 10 + 61 / 85) / (1 / 10 + 20 / 48))
    )
    assert result_marks.half_width(replace(record, scores=record.scores[:1])) == 0
    assert result_marks.half_width(replace(record, sizes={})) == 0


def test_the_legend_says_what_the_bars_are(tmp_path, drawn):
    leaderboard_figure(tmp_path / "x.png", "Board", BOARD)
    assert drawn[0][1][0] == "here, 95 % interval corrected for overlap"


@pytest.mark.parametrize("draw", [leaderboard_figure, search_figure])
def test_title_and_legend_fit_into_a_single_panel(draw, tmp_path, monkeypatch):
    figures = []
    close = panels.pyplot().close
    monkeypatch.setattr(panels.pyplot(), "close", lambda figure: (figures.append(figure), close(figure)))
    title = "Malignant: every model under both 60/20/20 rules, random-60-20-20 (searches)"
    draw(tmp_path / "x.png", title, [replace(BOARD[0], settings={"first": 3})])
    (figure,) = figures
    figure.draw_without_rendering()  # in its own resolution, not that of the file
    for text in (figure.legends[0], figure._suptitle):
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_every_panel_has_a_place(count, tmp_path, is_picture):
    records = [invent("board", f"graph {i}", {"model": "gcn"}, 0.5) for i in range(count)]
    assert is_picture(leaderboard_figure(tmp_path / "p.png", "", records))


def test_nothing_to_draw_is_said(tmp_path):
    for draw in (leaderboard_figure, sweep_figure):
        with pytest.raises(PolyNSDError, match="no records to draw"):
            draw(tmp_path / "x.png", "", [])
    with pytest.raises(PolyNSDError, match="no record tells of a search"):
        search_figure(tmp_path / "x.png", "", SWEEP)


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'polynsd\[plots\]'"):
        leaderboard_figure(tmp_path / "x.png", "", BOARD)
