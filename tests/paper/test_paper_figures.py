"""Pictures have a panel for every dataset and a mark for every record; bars and legends say what they are."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from invented_records import invent, invent_search, scores_of, summary
from scipy import stats

from polynsd import ConfigError, PolyNSDError
from polynsd.report import panels
from polynsd.stats import compare
from polynsd_paper.tables import figures
from polynsd_paper.tables.figures import series_styles, sweep_layout
from polynsd_paper.tables.printed_numbers import read_printed

BOARD = [
    invent("leaderboard", dataset, {"model": model}, mean, search=invent_search(20, mean))
    for dataset, shift in (("texas", 0.0), ("cora", 0.05), ("film", -0.3))
    for model, mean in (("polynsd-diagonal", 0.84 + shift), ("gcn", 0.6 + shift))
]
SWEEP = [invent("k-sweep", "cora", {"maps": "general", "K": K}, 0.8 + 0.002 * K) for K in (1, 4, 16)]


def leaderboard_figure(path, title, records, *printed):
    return figures.leaderboard_figure(path, title, summary(*records), *printed)


def search_figure(path, title, records):
    return figures.search_figure(path, title, summary(*records))


def sweep_figure(path, title, records, *printed):
    return figures.sweep_figure(path, title, summary(*records), *printed)


def interval(record):
    return figures.interval(summary(record).iloc[0])


def half_width(record):
    return figures.half_width(summary(record).iloc[0])


def test_leaderboard_has_the_best_at_the_top(tmp_path, drawn, is_picture):
    assert is_picture(
        leaderboard_figure(tmp_path / "a" / "b.png", "Board", BOARD, read_printed("leaderboard"))
    )
    (axes, labels), *_ = drawn
    assert [axis.get_title(loc="left") for axis in axes] == ["texas", "cora", "film"]
    heights = dict(
        zip(*[(t.get_text() for t in axes[0].get_yticklabels()), axes[0].get_yticks()], strict=True)
    )
    assert heights == {"polynsd-diagonal": 2, "gcn": 1}
    assert labels[1:] == ["paper", "published code"]


def test_partial_records_are_pale(tmp_path, drawn):
    part = [
        replace(record, settings={"first": 3}, scores=record.scores[:3])
        for record in (*BOARD[:1], *SWEEP[:1])
    ]
    leaderboard_figure(tmp_path / "b.png", "Board", [*part[:1], *BOARD[1:]])
    sweep_figure(tmp_path / "k.png", "K", [*part[1:], *SWEEP[1:]])
    (board, labels), ((axis,), _) = drawn
    assert "of the first splits only" in labels
    assert {line.get_alpha() for line in board[0].lines} == {figures.PALE, 1.0}
    assert {line.get_alpha() for line in board[1].lines} == {1.0}
    lines = [line for line in axis.lines if line.get_linestyle() == "-"]
    assert [len(line.get_xdata()) for line in lines] == [2]  # the third point stands apart
    assert any(line.get_alpha() == figures.PALE for line in axis.lines)


def test_intervals_of_shares_end_at_a_hundred(tmp_path, drawn):
    sure = invent("board", "cora", {"model": "gcn"}, 0.99, 0.05)
    assert interval(sure)[1] == 100
    assert interval(replace(sure, metric="r2"))[1] > 0.99
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
    tests = 100 * scores_of(record)[:, 0]
    error = tests.std(ddof=1) * np.sqrt(1 / 10 + 20 / 80)
    low, high = stats.t.interval(0.95, 9, loc=tests.mean(), scale=error)
    assert half_width(record) == pytest.approx((high - low) / 2)
    luan = replace(record, sizes={"train": 85, "val": 37, "test": 61})
    assert half_width(luan) / (high - low) * 2 == pytest.approx(
        np.sqrt((1 / 10 + 61 / 122) / (1 / 10 + 20 / 80))
    )
    assert half_width(replace(record, scores=record.scores[:1])) == 0
    assert half_width(replace(record, sizes={})) == 0


def test_the_legend_says_what_the_bars_are(tmp_path, drawn):
    leaderboard_figure(tmp_path / "x.png", "Board", BOARD)
    assert drawn[0][1][0] == "here, 95 % interval corrected for overlap"


@pytest.mark.parametrize("draw", [leaderboard_figure, search_figure])
def test_title_and_legend_fit_into_a_single_panel(draw, tmp_path, monkeypatch):
    closed = []
    close = panels.pyplot().close
    monkeypatch.setattr(panels.pyplot(), "close", lambda figure: (closed.append(figure), close(figure)))
    title = "Malignant: every model under both 60/20/20 rules, random-60-20-20 (searches)"
    draw(tmp_path / "x.png", title, [replace(BOARD[0], settings={"first": 3})])
    (figure,) = closed
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
    for draw in (figures.leaderboard_figure, figures.sweep_figure):
        with pytest.raises(PolyNSDError, match="no records to draw"):
            draw(tmp_path / "x.png", "", summary(BOARD[0])[:0])
    with pytest.raises(PolyNSDError, match="no record tells of a search"):
        search_figure(tmp_path / "x.png", "", SWEEP)


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'polynsd\[plots\]'"):
        leaderboard_figure(tmp_path / "x.png", "", BOARD)


def settings(*texts, models=("gcn", "polynsd-general"), dataset="amount"):
    return [
        invent("synthetic", dataset, {"model": model, "setting": text}, 0.5 + 0.01 * i)
        for text in texts
        for i, model in enumerate(models)
    ]


def test_sweep_is_drawn_against_its_last_option(tmp_path, drawn, is_picture):
    assert is_picture(sweep_figure(tmp_path / "k.png", "K", SWEEP, read_printed("k-sweep")))
    ((axis,), labels), *_ = drawn
    assert axis.get_xscale() == "log"
    assert [text.get_text() for text in axis.get_xticklabels()] == ["1", "4", "16"]
    solid = next(line for line in axis.lines if line.get_linestyle() == "-")
    assert np.allclose(solid.get_xydata(), [[1, 80.2], [4, 80.8], [16, 83.2]])
    assert labels == ["general", "95 % interval", "authors' sweep"]


def test_what_is_held_has_a_panel_and_what_is_varied_an_axis(tmp_path, drawn):
    sweep_figure(tmp_path / "s.png", "", settings("N=500 d=10", "N=100 d=2", "N=500 d=2", "N=100 d=6"))
    (axes, _), *_ = drawn
    assert [axis.get_title(loc="left") for axis in axes] == ["amount, N=100", "amount, N=500"]
    assert [axis.get_xlabel() for axis in axes] == ["d", "d"]
    assert [tick.get_text() for tick in axes[1].get_xticklabels()] == ["2", "10"]
    assert axes[0].get_ylim() == axes[1].get_ylim()


@pytest.mark.parametrize("texts", [("N=100 d=2", "N=100 d=6", "N=500 d=2"), ("noise=0.1", "noise=0.2")])
def test_every_record_is_drawn_once_and_no_line_joins_two_panels(texts, tmp_path, drawn):
    records = settings(*texts)
    sweep_figure(tmp_path / "s.png", "", records)
    (axes, _), *_ = drawn
    points = [tuple(point) for axis in axes for line in axis.lines for point in line.get_xydata()]
    values = [float(record.cell["setting"].rpartition("=")[2]) for record in records]
    wanted = sorted((x, 100 * scores_of(record).mean()) for x, record in zip(values, records, strict=True))
    assert np.allclose(sorted(points), wanted)
    assert len(axes) == len({text.rpartition(" ")[0] for text in texts})


def test_panels_of_other_options_stand_in_a_row_per_dataset(tmp_path, drawn):
    cells = [{"model": "polynsd-general", name: 2} for name in ("layers", "K")]
    sweep_figure(tmp_path / "n.png", "", [invent("x", data, cell, 0.5) for data in "ab" for cell in cells])
    (axes, _), *_ = drawn
    assert [(axis.get_title(loc="left"), axis.get_xlabel()) for axis in axes] == [
        ("a", "layers"), ("a", "K"), ("b", "layers"), ("b", "K"),
    ]  # fmt: skip
    assert [axis.get_subplotspec().rowspan.start for axis in axes] == [0, 0, 1, 1]


def test_polynsd_is_first_and_its_colours_are_its_own(tmp_path, drawn):
    models = [*(f"model-{i}" for i in range(20)), "polynsd-general", "polynsd-diagonal"]
    records = settings("noise=1", "noise=2", models=models)
    sweep_figure(tmp_path / "s.png", "", records)
    labels = drawn[0][1]
    assert labels[:3] == ["polynsd-general", "polynsd-diagonal", "model-0"]
    assert labels[-1] == "95 % interval, PolyNSD"
    cells = summary(*records)
    styles = series_styles(
        sweep_layout(cells.assign(options=[{"model": row, "x": "1"} for row in cells["row"]]))
    )
    ours = {styles[label]["color"] for label in labels[:2]}
    assert len(ours) == 2
    assert not ours & {styles[label]["color"] for label in labels[2:-1]}
    assert len({(style["color"], style["marker"]) for style in styles.values()}) == len(models)


def test_bands_of_many_lines_are_those_of_polynsd(tmp_path, drawn):
    few, many = (["polynsd-general", *(f"model-{i}" for i in range(count))] for count in (3, 11))
    for models in (few, many):
        sweep_figure(tmp_path / "s.png", "", settings("noise=1", "noise=2", models=models))
    assert [len(axes[0].collections) for axes, _ in drawn] == [4, 1]


def test_a_single_value_has_a_stroke_for_its_interval(tmp_path, drawn):
    sweep_figure(tmp_path / "k.png", "", SWEEP[:1])
    ((axis,), _), *_ = drawn
    (low, high) = axis.collections[0].get_segments()[0][:, 1]
    assert (low, high) == pytest.approx(interval(SWEEP[0]))


NAMED = [invent("bases", "cora", {"maps": "general", "basis": b}, 0.8) for b in ("legendre", "chebyshev1")]
CHANGES = [
    invent("ablations", "cora", {"change": change}, mean)
    for change, mean in (("base", 0.8), ("no maps", 0.75), ("degree 8", 0.81))
]


def bars(axis):
    """The horizontal ones: height → (left, right)."""
    segments = [line for group in axis.collections for line in group.get_segments()]
    return {float(line[0, 1]): (float(line[0, 0]), float(line[1, 0])) for line in segments}


def rows(axis):
    return dict(zip((tick.get_text() for tick in axis.get_yticklabels()), axis.get_yticks(), strict=True))


def test_names_are_rows_as_they_are_listed_and_joined_by_nothing(tmp_path, drawn):
    both = [*NAMED, *(replace(record, cell={**record.cell, "maps": "diagonal"}) for record in NAMED)]
    sweep_figure(tmp_path / "b.png", "Bases", both)
    ((axis,), labels), *_ = drawn
    assert rows(axis) == {"legendre": 2, "chebyshev1": 1}
    assert [len(line.get_xdata()) for line in axis.lines] == [1] * len(both)
    heights = [float(line.get_ydata()[0]) for line in axis.lines]
    assert len(set(heights)) == len(both)
    assert all(abs(height - round(height)) < 0.5 for height in heights)
    assert bars(axis) == {
        height: pytest.approx(interval(record)) for height, record in zip(heights, both, strict=True)
    }
    assert labels == ["general", "diagonal", "95 % interval corrected for overlap"]


def test_a_name_among_numbers_makes_rows_of_all(tmp_path, drawn):
    mixed = [invent("x", "cora", {"K": value}, 0.5) for value in (1, 2, "all")]
    sweep_figure(tmp_path / "m.png", "", mixed)
    ((axis,), _), *_ = drawn
    assert list(rows(axis)) == ["1", "2", "all"]
    assert {len(line.get_xdata()) for line in axis.lines} == {1}


def test_changes_are_seen_against_their_base(tmp_path, drawn):
    sweep_figure(tmp_path / "a.png", "Changes", CHANGES)
    ((axis,), labels), *_ = drawn
    assert rows(axis) == {"base": 3, "no maps": 2, "degree 8": 1}
    (line,) = (line for line in axis.lines if line.get_linestyle() == "--")
    assert list(line.get_xdata()) == pytest.approx([80, 80])
    difference = compare(scores_of(CHANGES[1]), scores_of(CHANGES[0]), (0.48, 0.32, 0.2))
    assert set(bars(axis)) == {1, 2}  # the base has no difference to itself
    assert bars(axis)[2] == pytest.approx((80 + 100 * difference.low, 80 + 100 * difference.high))
    assert labels == ["95 % interval of the difference to base", "base"]


def test_no_difference_is_drawn_where_the_splits_differ(tmp_path, drawn):
    base, first, second = CHANGES
    part = replace(first, settings={"first": 3}, scores=first.scores[:3])
    alone = replace(second, dataset="film")
    sweep_figure(tmp_path / "a.png", "", [base, part, alone])
    ((cora, film), labels), *_ = drawn
    (left, right) = bars(cora)[2]
    assert left == right
    assert bars(film) == {}
    assert "of the first splits only" in labels
