"""The critical difference diagram: average ranks on a line, bars below models that do not differ.

Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from polynsd.report.panels import OURS, pyplot
from polynsd.stats.ranking import Ranking

INK, MUTED, PALE = "#2b2f36", "#6b7683", "#c9d0d8"
FONT = 9  # points
LINE = 0.2  # inches from one label to the next, more than the font is high
BAR = 0.09  # inches from one bar to the next
AXIS = 6.0  # inches that the line of ranks is long
GAP = 0.22  # inches between the line of ranks and the first bar, the last bar and the first label
NUMBER = 0.45  # inches kept for a rank beside its name
HEAD, MARGIN = 1.15, 0.15  # inches above the line of ranks, and around everything


@dataclass(frozen=True)
class _Layout:
    """Positions in inches; (0, 0) is the left end of the line of ranks, y points up."""

    low: float  # rank at the left end
    high: float  # rank at the right end
    bar_rows: list[int]  # row of every bar
    half: int  # models labelled at the left
    names: float  # width of the widest name

    def x(self, rank: float) -> float:
        return AXIS * (rank - self.low) / (self.high - self.low)

    def y(self, row: int) -> float:
        return -(2 * GAP + BAR * (1 + max(self.bar_rows, default=-1)) + LINE * row)

    @property
    def side(self) -> float:
        return self.names + NUMBER + 0.1 + MARGIN


def critical_difference_figure(ranking: Ranking, *, title: str = "", ours: Collection[str] = ()) -> Any:
    """A matplotlib `Figure` of average ranks, best at the left; models named in `ours` are coloured.

    A bar joins models among which no two differ at level α. The better half is labelled at the left, the
    other half at the right, a line for each model: labels never overlap, however many there are.
    """
    plt = pyplot()
    layout = _layout(ranking)
    left, right = -layout.side, AXIS + layout.side
    bottom, top = layout.y(layout.half - 1) - LINE / 2 - MARGIN, HEAD + (0.3 if title else 0)
    figure = plt.Figure(figsize=(right - left, top - bottom))  # the caller's, unknown to pyplot
    axes = figure.add_axes((0, 0, 1, 1), xlim=(left, right), ylim=(bottom, top))
    axes.axis("off")
    axes.text(AXIS / 2, top - MARGIN, title, ha="center", va="top", fontsize=FONT + 3)
    _draw_caption(axes, ranking, layout)
    _draw_rank_line(axes, layout)
    for (first, last), row in zip(ranking.cliques, layout.bar_rows, strict=True):
        ends = [layout.x(ranking.ranks[first]) - 0.03, layout.x(ranking.ranks[last]) + 0.03]
        axes.plot(ends, [-(GAP + BAR * row)] * 2, color=INK, linewidth=3, solid_capstyle="round", zorder=3)
    for index, name in enumerate(ranking.models):
        _draw_label(axes, ranking, layout, index, OURS if name in ours else INK)
    return figure


def _layout(ranking: Ranking) -> _Layout:
    low = math.floor(ranking.ranks[0])
    # the critical difference must fit too
    high = math.ceil(max(ranking.ranks[-1], low + (ranking.critical_difference or 1.0)))
    bars = [(ranking.ranks[first], ranking.ranks[last]) for first, last in ranking.cliques]
    return _Layout(
        low=low,
        high=high,
        bar_rows=assign_rows(bars, apart=(high - low) * 2 * BAR / AXIS),
        half=(len(ranking.models) + 1) // 2,
        names=max(_width(name) for name in ranking.models),
    )


def _width(text: str) -> float:
    """The width of a bold label in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    bold = FontProperties(weight="bold", size=FONT)
    return float(TextPath((0, 0), text, prop=bold).get_extents().width) / 72 if text.strip() else 0.0


def assign_rows(bars: Sequence[tuple[float, float]], apart: float) -> list[int]:
    """For bars sorted by their left end: the first row in which each stays `apart` from the bar before it."""
    ends: list[float] = []  # of the last bar in every row
    rows = []
    for left, right in bars:
        row = next((row for row, end in enumerate(ends) if end + apart <= left), len(ends))
        ends[row : row + 1] = [right]
        rows.append(row)
    return rows


def _draw_rank_line(axes: Any, layout: _Layout) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.plot([0, AXIS], [0, 0], color=INK, linewidth=1.2)
    for tick in MaxNLocator(nbins=12, integer=True).tick_values(layout.low, layout.high):
        if layout.low <= tick <= layout.high:
            axes.plot([layout.x(tick)] * 2, [0, 0.07], color=INK, linewidth=1.2)
            axes.text(layout.x(tick), 0.11, f"{tick:.0f}", ha="center", va="bottom", fontsize=FONT)


def _draw_caption(axes: Any, ranking: Ranking, layout: _Layout) -> None:
    """What was tested, and the critical difference as a scale bar."""
    p = ranking.friedman.p
    chance = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
    words = f"average ranks over {ranking.datasets} datasets · Friedman test (Iman–Davenport) {chance}"
    axes.text(AXIS / 2, HEAD - MARGIN, words, ha="center", va="top", fontsize=FONT - 1, color=MUTED)
    if ranking.critical_difference is None:
        axes.text(0, 0.5, f"bars: Wilcoxon–Holm, α = {ranking.alpha:g}", fontsize=FONT - 1, color=INK)
        return
    end = layout.x(layout.low + ranking.critical_difference)
    axes.plot([0, 0, 0, end, end, end], [0.4, 0.5, 0.45, 0.45, 0.4, 0.5], color=INK, linewidth=1.2)
    words = f"critical difference {ranking.critical_difference:.2f} (Nemenyi, α = {ranking.alpha:g})"
    axes.text(0, 0.56, words, fontsize=FONT - 1, color=INK)


def _draw_label(axes: Any, ranking: Ranking, layout: _Layout, index: int, colour: str) -> None:
    """A line down from the rank, then to the side where the name stands."""
    is_left = index < layout.half
    y = layout.y(index if is_left else len(ranking.models) - 1 - index)
    x, rank = layout.x(ranking.ranks[index]), ranking.ranks[index]
    edge, away, align = (0.0, -1, "right") if is_left else (AXIS, 1, "left")
    stem = PALE if colour == INK else colour
    axes.plot([x, x, edge], [0, y, y], color=stem, linewidth=0.9, zorder=1 if colour == INK else 2)
    axes.plot(x, 0, "o", color=colour, markersize=3.5, zorder=4)
    style = {"ha": align, "va": "center", "fontsize": FONT}
    axes.text(edge + 0.06 * away, y, f"{rank:.2f}", color=MUTED, **style)
    weight = "normal" if colour == INK else "bold"
    axes.text(edge + (0.06 + NUMBER) * away, y, ranking.models[index], color=colour, weight=weight, **style)
