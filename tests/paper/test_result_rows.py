"""Categories are rows, joined by nothing; changes are seen against their base."""

from dataclasses import replace

import pytest
from invented_records import invent

from polynsd.stats import compare
from polynsd_paper import result_marks
from polynsd_paper.result_sweep import sweep_figure

NAMED = [invent("bases", "cora", {"maps": "general", "basis": b}, 0.8) for b in ("legendre", "chebyshev1")]
CHANGES = [
    invent("ablations", "cora", {"change": change}, mean)
    for change, mean in (("base", 0.8), ("no maps", 0.75), ("degree 8", 0.81))
]


def bars(axis):
    """The horizontal ones: height → (left, right)."""
    found = [line for one in axis.collections for line in one.get_segments()]
    return {float(line[0, 1]): (float(line[0, 0]), float(line[1, 0])) for line in found}


def rows(axis):
    return dict(zip((tick.get_text() for tick in axis.get_yticklabels()), axis.get_yticks(), strict=True))


def test_names_are_rows_as_they_are_listed_and_joined_by_nothing(tmp_path, drawn):
    both = [*NAMED, *(replace(one, cell={**one.cell, "maps": "diagonal"}) for one in NAMED)]
    sweep_figure(tmp_path / "b.png", "Bases", both)
    ((axis,), labels), *_ = drawn
    assert rows(axis) == {"legendre": 2, "chebyshev1": 1}
    assert [len(line.get_xdata()) for line in axis.lines] == [1] * len(both)
    heights = [float(line.get_ydata()[0]) for line in axis.lines]
    assert len(set(heights)) == len(both)
    assert all(abs(height - round(height)) < 0.5 for height in heights)
    assert bars(axis) == {
        height: pytest.approx(result_marks.interval(one)) for height, one in zip(heights, both, strict=True)
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
    found = compare(CHANGES[1].by_split(), CHANGES[0].by_split(), 0.48, test_share=0.2)
    assert set(bars(axis)) == {1, 2}  # the base has no difference to itself
    assert bars(axis)[2] == pytest.approx((80 + 100 * found.low, 80 + 100 * found.high))
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
