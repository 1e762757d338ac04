"""What all reports need: where a figure is written, how a page links it, and how blocks make a section."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame


def figure_path(cells: DataFrame, results: Path, kind: str) -> Path:
    """`figures/NAME-KIND.png`, NAME being that of the experiment."""
    return results / "figures" / f"{cells['experiment'].iloc[0]}-{kind}.png"


def link_figure(path: Path) -> str:
    """The picture in Markdown, as seen from the page."""
    return f"![{path.stem}](../figures/{path.name})"


def make_section(*blocks: str) -> str:
    """Titles, paragraphs, tables and pictures as the end of a page."""
    return "\n\n".join(["", *blocks]) + "\n"
