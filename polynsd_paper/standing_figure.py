"""A picture of where PolyNSD stands: points above or below the number that the paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.errors import DataError
from polynsd.report.panels import BASELINE, OURS, Panels, handle
from polynsd_paper import result_marks as marks

if TYPE_CHECKING:
    from polynsd_paper.records import Record
    from polynsd_paper.standing import Stand

ROW = 0.3  # inches
ABOVE, BELOW = 0.16, -0.16  # where in its row a mark stands
OPTIONS: dict[str, Any] = {"color": OURS, "marker": "s", "linestyle": "none", "markersize": 4, "alpha": 0.5}
OTHER: dict[str, Any] = {"color": BASELINE, "marker": "o", "linestyle": "none", "markersize": 4}
FAMILY: dict[str, Any] = {"color": OURS, "marker": "o", "markersize": 6, "linewidth": 1.5}


def standing_figure(path: Path, stands: Sequence[Stand]) -> Path:
    """Writes one PNG: a row per graph with a printed number, which is its zero."""
    found = [(stand, stand.printed("paper")) for stand in stands]
    printed = [(stand, one.mean) for stand, one in found if one and one.mean is not None]
    if not printed:
        raise DataError("no graph of the records has a printed number to compare with.")
    panels = Panels([""], (6.4, 1.4 + ROW * len(printed)))
    (axis,) = panels.axes
    axis.axvline(0, color=BASELINE, linewidth=1, linestyle="--", zorder=1)
    for row, (stand, zero) in enumerate(printed):
        _row(axis, stand, zero, len(printed) - row)
    axis.set(xlabel="points above or below the paper's best PolyNSD", ylim=(0.4, len(printed) + 0.6))
    axis.set_yticks(range(len(printed), 0, -1), [stand.label for stand, _ in printed])
    return marks.finish(panels, path, "PolyNSD here and in the paper", _handles())


def _row(axis: Any, stand: Stand, zero: float, height: float) -> None:
    if (family := stand.as_published) is not None:
        if marks.half_width(family):  # a single split has none
            ends = [end - zero for end in marks.interval(family)]
            axis.plot(ends, [height, height], color=OURS, linewidth=FAMILY["linewidth"])
        _mark(axis, family, zero, height, {**FAMILY, "linestyle": "none", "zorder": 3})
    _mark(axis, stand.all_options, zero, height + ABOVE, OPTIONS)
    _mark(axis, stand.best_other, zero, height + BELOW, OTHER)
    if (again := stand.printed("published-code")) is not None and again.mean is not None:
        marks.hollow(axis, again.mean - zero, height, again.source, BASELINE)


def _mark(axis: Any, record: Record | None, zero: float, height: float, look: dict[str, Any]) -> None:
    if record is not None:
        axis.plot(marks.mean_of(record) - zero, height, **look)


def _handles() -> list[Any]:
    code = {"color": BASELINE, "markerfacecolor": "none", "linestyle": "none", "markersize": 5}
    return [
        handle("PolyNSD as published, 95 % interval", **FAMILY),
        handle("PolyNSD, all options, by validation", **OPTIONS),
        handle("best other here, by validation", **OTHER),
        handle("published code, run again", marker=marks.HOLLOW["published-code"], **code),
        handle("printed in the paper", color=BASELINE, linewidth=1, linestyle="--"),
    ]
