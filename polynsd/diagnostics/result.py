"""What all results share: a table, a picture, and how numbers become tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from polynsd.optional import load_optional
from polynsd.palette import style_axis

if TYPE_CHECKING:
    import pandas as pd


class Result(Protocol):
    """What a measure returns."""

    @property
    def note(self) -> str:
        """What has to be known to read the numbers, such as a sample; empty where there is nothing."""
        ...

    def to_frame(self) -> pd.DataFrame:
        """The numbers as a tidy table."""
        ...

    def plot(self, path: str | Path | None = None) -> Any:
        """Matplotlib's `Figure`, written to a file as well where a path is given."""
        ...


def make_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A table with a row for each mapping."""
    return load_optional("pandas", "tables of diagnostics need", "data").DataFrame(list(rows))


def new_figure(columns: int, rows: int = 1, size: tuple[float, float] = (4.2, 3.2)) -> tuple[Any, list[Any]]:
    """A figure and its panels, row by row, in the style of the others."""
    figures = load_optional("matplotlib.figure", "pictures need", "plots")
    figure = figures.Figure(figsize=(size[0] * columns, size[1] * rows + 0.4), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        style_axis(axis)
    return figure, axes


def finish_figure(figure: Any, title: str, path: str | Path | None) -> Any:
    """The figure with its title, written to a file where a path is given."""
    figure.suptitle(title, fontsize=11)
    for axis in figure.axes:
        axis.title.set_fontsize(9)
        axis.xaxis.label.set_fontsize(8)
        axis.yaxis.label.set_fontsize(8)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    return figure
