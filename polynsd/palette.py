"""Colours, markers and axes of all pictures."""

from __future__ import annotations

from typing import Any

OURS, OTHERS, ACCENT = "#1b6ca8", "#9aa5b1", "#d1495b"
BASELINE, RULE = "#4a5560", "#e3e7ea"
COLOURS = (
    "#1b6ca8", "#d1495b", "#2f9e77", "#e09f3e", "#7b5ea7", "#4a5560", "#56b4d3",
    "#a0522d", "#c779a8", "#8a9a3b", "#00595c", "#b5a27c", "#5d1a3a", "#9aa5b1",
)  # fmt: skip
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p", "*", "d")


def style_axis(axis: Any) -> None:
    """Gives a panel of matplotlib two thin axes and horizontal rules behind what is drawn."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(BASELINE)
    axis.tick_params(colors=BASELINE, labelsize=8)
    axis.grid(axis="y", color=RULE, linewidth=0.8)
    axis.set_axisbelow(True)
