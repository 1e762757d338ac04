"""Pictures are drawn with a panel per dataset; intervals allow for overlap; nothing to draw is said."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from invented_records import invent, invent_search
from scipy import stats

from polynsd import ConfigError, PolyNSDError
from polynsd.experiments import result_figures
from polynsd.experiments.published import published
from polynsd.experiments.result_figures import leaderboard_figure, search_figure, sweep_figure
from polynsd.report import panels

BOARD = [
    invent("leaderboard", dataset, {"model": model}, mean, search=invent_search(20, mean))
    for dataset, shift in (("texas", 0.0), ("cora", 0.05), ("film", -0.3))
    for model, mean in (("polynsd-diagonal", 0.84 + shift), ("gcn", 0.6 + shift))
]
SWEEP = [invent("k-sweep", "cora", {"maps": "general", "K": K}, 0.8 + 0.002 * K) for K in (1, 4, 16)]
NAMED = [invent("bases", "cora", {"maps": "general", "basis": b}, 0.8) for b in ("legendre", "chebyshev1")]


@pytest.fixture
def drawn(monkeypatch):
    """The panels of the pictures that a test draws."""
    seen = []
    finish = panels.Panels.finish

    def keep(self, path, title, handles):
        seen.append((self.axes, [one.get_label() for one in handles]))
        return finish(self, path, title, handles)

    monkeypatch.setattr(panels.Panels, "finish", keep)
    return seen


def is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def test_leaderboard_has_the_best_at_the_top(tmp_path, drawn):
    assert is_picture(leaderboard_figure(tmp_path / "a" / "b.png", "Board", BOARD, published("leaderboard")))
    (axes, labels), *_ = drawn
    assert [axis.get_title(loc="left") for axis in axes] == ["texas", "cora", "film"]
    heights = dict(
        zip(*[(t.get_text() for t in axes[0].get_yticklabels()), axes[0].get_yticks()], strict=True)
    )
    assert heights == {"polynsd-diagonal": 2, "gcn": 1}
    assert labels[1:] == ["paper", "published code"]


def test_sweep_is_drawn_against_its_last_option(tmp_path, drawn):
    assert is_picture(sweep_figure(tmp_path / "k.png", "K", SWEEP, published("k-sweep")))
    ((axis,), labels), *_ = drawn
    assert axis.get_xscale() == "log"
    assert [text.get_text() for text in axis.get_xticklabels()] == ["1", "4", "16"]
    solid = next(line for line in axis.lines if line.get_linestyle() == "-")
    assert np.allclose(solid.get_xydata(), [[1, 80.2], [4, 80.8], [16, 83.2]])
    assert labels == ["general", "authors' sweep"]


def test_partial_records_are_pale(tmp_path, drawn):
    part = [replace(one, question={"first": 3}, scores=one.scores[:3]) for one in (*BOARD[:1], *SWEEP[:1])]
    leaderboard_figure(tmp_path / "b.png", "Board", [*part[:1], *BOARD[1:]])
    sweep_figure(tmp_path / "k.png", "K", [*part[1:], *SWEEP[1:]])
    (board, labels), ((axis,), _) = drawn
    assert "of the first splits only" in labels
    assert {line.get_alpha() for line in board[0].lines} == {result_figures.PALE, 1.0}
    assert {line.get_alpha() for line in board[1].lines} == {1.0}
    lines = [line for line in axis.lines if line.get_linestyle() == "-"]
    assert [len(line.get_xdata()) for line in lines] == [2]  # the third point stands apart
    assert any(line.get_alpha() == result_figures.PALE for line in axis.lines)


def test_names_stand_in_turn(tmp_path, drawn):
    sweep_figure(tmp_path / "b.png", "Bases", NAMED)
    ((axis,), _), *_ = drawn
    assert [text.get_text() for text in axis.get_xticklabels()] == ["legendre", "chebyshev1"]


def test_search_is_drawn_to_its_last_trial(tmp_path, drawn):
    assert is_picture(search_figure(tmp_path / "s.png", "Search", BOARD))
    (axes, labels), *_ = drawn
    assert labels == ["polynsd-diagonal", "gcn"]
    best = axes[0].lines[0].get_ydata()
    assert len(best) == 20
    assert best[-1] == pytest.approx(84)
    assert (np.diff(best) >= 0).all()


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
    assert result_figures._half_width(record) == pytest.approx((high - low) / 2)
    luan = replace(record, sizes={"train": 85, "val": 37, "test": 61})
    assert result_figures._half_width(luan) / (high - low) * 2 == pytest.approx(
        np.sqrt((1 / 10 + 61 / 85) / (1 / 10 + 20 / 48))
    )
    assert result_figures._half_width(replace(record, scores=record.scores[:1])) == 0
    assert result_figures._half_width(replace(record, sizes={})) == 0


def test_the_legend_says_what_the_bars_are(tmp_path, drawn):
    leaderboard_figure(tmp_path / "x.png", "Board", BOARD)
    assert drawn[0][1][0] == "here, 95 % interval corrected for overlap"


def test_the_legend_fits_below_a_single_panel(tmp_path, monkeypatch):
    figures = []
    close = panels.pyplot().close
    monkeypatch.setattr(panels.pyplot(), "close", lambda figure: (figures.append(figure), close(figure)))
    leaderboard_figure(tmp_path / "x.png", "", [replace(BOARD[0], question={"first": 3})])
    (figure,) = figures
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_every_panel_has_a_place(count, tmp_path):
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
