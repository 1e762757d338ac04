"""The style of all figures: colours, markers, equal panels with one legend below them.

Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polynsd.optional import load_optional
from polynsd.palette import ACCENT, BASELINE, COLOURS, OTHERS, OURS, SHAPES, style_axis

__all__ = [
    "ACCENT",
    "BASELINE",
    "COLOURS",
    "OTHERS",
    "OURS",
    "Panels",
    "handle",
    "pyplot",
    "save_figure",
    "style",
]

MAX_COLUMNS = 3  # panels in a row
LETTER, SAMPLE, NARROWEST = 0.07, 0.5, 1.8  # inches of a letter, a sample and an entry of the legend


def pyplot() -> Any:
    """`matplotlib.pyplot`, set to draw into files; loaded when the first picture is drawn."""
    load_optional("matplotlib", "pictures need", "plots").use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save_figure(figure: Any, path: Path) -> Path:
    """Writes a PNG, makes its folder if needed, and closes the figure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot().close(figure)
    return path


class Panels:
    """Panels by name, filled row by row; what is left of the last row stays empty.

    Args:
        names: their titles.
        size: of one, in inches.
        count: how many panels a block of rows holds, if that is not all of them.
        share_y: whether the vertical axis is the same for all, and written once.
    """

    def __init__(
        self,
        names: Sequence[str],
        size: tuple[float, float],
        count: int | None = None,
        share_y: bool = False,
    ) -> None:
        count = count or len(names)
        of_four = 4 if share_y else 2  # side by side where they have one axis, else 2 × 2
        columns = of_four if count == 4 else min(count, MAX_COLUMNS)
        rows = -(-len(names) // columns)
        self._figure, grid = pyplot().subplots(
            rows,
            columns,
            figsize=(size[0] * columns + 1, size[1] * rows + 0.8),
            layout="constrained",
            squeeze=False,
            sharey=share_y,
        )
        self.axes: list[Any] = list(grid.flat)[: len(names)]
        for axis in list(grid.flat)[len(names) :]:
            axis.set_visible(False)
        for axis, name in zip(self.axes, names, strict=True):
            axis.set_title(name, fontsize=10, weight="bold", loc="left")
            style_axis(axis)
        self._figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)

    def finish(self, path: Path, title: str, handles: Sequence[Any]) -> Path:
        """Adds title and legend and writes the file."""
        longest = max((LETTER * len(entry.get_label()) + SAMPLE for entry in handles), default=0.0)
        columns = min(len(handles), max(1, int(self._figure.get_figwidth() / max(NARROWEST, longest))))
        self._figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
        )
        has_one_label = len({axis.get_ylabel() for axis in self.axes}) == 1
        for axis in self.axes:
            axis.xaxis.label.set_size(9)
            axis.yaxis.label.set_size(9)
            if has_one_label and not axis.get_subplotspec().is_first_col():
                axis.set_ylabel("")  # once in a row is enough
        self._figure.suptitle(title, fontsize=12)
        return save_figure(self._figure, path)


def style(number: int) -> dict[str, Any]:
    """Colour and shape of the n-th series; colours come back with another shape."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": SHAPES[number % len(SHAPES)]}


def handle(label: str, **style: Any) -> Any:
    """An entry of the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **style)
