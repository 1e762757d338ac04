"""Figures of docs/choosing.md: what learned maps add to their controls, what they find on planted sheaves.

cells = summarize(load_records(Path("results")))
maps_figure(Path("learned-maps.png"), compare_maps(cells))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.report.panels import BASELINE, OTHERS, OURS, Panels, handle, style
from polynsd.stats import student_interval
from polynsd_paper.experiments.block import LEARNED, TRANSPORT
from polynsd_paper.experiments.generated import ALIGNMENT, PLANTED, USUAL
from polynsd_paper.pages.choosing import GENERATED, MapComparison
from polynsd_paper.tables.figures import finish
from polynsd_paper.tables.leaderboards import complete

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MEANING = {"noise": "measurements", "spread": "frames"}
ROW_INCHES, DODGE = 0.3, 0.015
HIGHER, LOWER = 0.14, -0.14  # where in its row a mark stands
MAPS_STYLE: dict[str, Any] = {"color": OURS, "marker": "o", "markersize": 5, "linewidth": 1.5}
TRUNK_STYLE: dict[str, Any] = {"color": OTHERS, "marker": "s", "markersize": 4, "linewidth": 1.2}


def maps_figure(path: Path, comparisons: Sequence[MapComparison]) -> Path:
    """Writes one PNG: what maps add to their control of equal reach, and the trunk to identity maps."""
    is_made = [comparison.experiment in GENERATED for comparison in comparisons]
    groups = {
        title: [comparison for comparison, made in zip(comparisons, is_made, strict=True) if made == wanted]
        for title, wanted in (("public graphs", False), ("generated graphs", True))
    }
    groups = {title: group for title, group in groups.items() if group}
    rows = max(map(len, groups.values()))
    panels = Panels(list(groups), (4.6, 1.0 + ROW_INCHES * rows))
    for axis, group in zip(panels.axes, groups.values(), strict=True):
        axis.axvline(0, color=BASELINE, linewidth=1, linestyle="--", zorder=1)
        for row, comparison in enumerate(group):
            y = len(group) - row
            for gap, height, look in (
                (comparison.by_maps, y + HIGHER, MAPS_STYLE),
                (comparison.by_trunk, y + LOWER, TRUNK_STYLE),
            ):
                if gap is not None:
                    axis.plot([100 * gap.low, 100 * gap.high], [height] * 2, **{**look, "marker": ""})
                    axis.plot(100 * gap.difference, height, **look, zorder=3)
        names = [_row_name(comparison) for comparison in group]
        axis.set(xlabel="difference in points", ylim=(len(group) - rows + 0.4, len(group) + 0.6))
        axis.set_yticks(range(len(group), 0, -1), names)
    handles = [
        handle("maps: learned − same reach, 95 % interval", **MAPS_STYLE),
        handle("trunk: same reach − identity maps, 95 % interval", **TRUNK_STYLE),
    ]
    return finish(panels, path, "What learned maps add to their control", handles)


def _row_name(comparison: MapComparison) -> str:
    own = ", own settings" if comparison.experiment == TRANSPORT.name else ""
    return comparison.label + own


def planted_figure(path: Path, cells: DataFrame) -> Path:
    """Writes one PNG of planted sheaves: accuracy against noise and spread, and alignment of the maps."""
    planted = complete(cells[cells["experiment"] == PLANTED.name])
    settings = planted["setting"].str.extract(r"spread=(\S+) noise=(\S+)").astype(float)
    planted = planted.assign(spread=settings[0], noise=settings[1])
    spread, noise = USUAL["frame_spread"], USUAL["feature_noise"]
    looks = {name: style(number) for number, name in enumerate(PLANTED.axes["variant"])}
    titles = [
        f"frames that differ (spread {spread:g})",
        f"frames that agree or differ (noise {noise:g})",
        "learned and planted transport",
    ]
    panels = Panels(titles, (3.6, 2.8))
    for axis, fixed, varied in zip(panels.axes, ("spread", "noise"), ("noise", "spread"), strict=False):
        line = planted[planted[fixed] == {"spread": spread, "noise": noise}[fixed]]
        ticks = sorted(line[varied].unique())
        for number, (name, look) in enumerate(looks.items()):
            aside = (
                DODGE * (number - (len(looks) - 1) / 2) * (ticks[-1] - ticks[0])
            )  # or intervals hide each other
            own = line[line["variant"] == name].sort_values(varied)
            _draw_means(axis, own[varied] + aside, own, look)
        axis.set(ylabel="test accuracy in %", xlabel=f"{varied} of the {MEANING[varied]}")
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    learned = planted[(planted["variant"] == LEARNED) & (planted["spread"] == spread)].sort_values("noise")
    axis = panels.axes[-1]
    values = np.array([measured[ALIGNMENT] for measured in learned["measured"]])  # [noise, graphs]
    axis.plot(learned["noise"], values.mean(axis=1), color=OURS, linewidth=1.4)
    axis.plot(learned["noise"], values, "o", color=OURS, markersize=4, alpha=0.6)
    axis.set(ylabel="alignment, a dot per graph", ylim=(0, 1.03), xlabel=f"noise of the {MEANING['noise']}")
    axis.set_xticks(sorted(learned["noise"]))
    handles = [handle(name, markersize=5, **look) for name, look in looks.items()]
    handles.append(handle("95 % interval", color=BASELINE, marker="|", markersize=10, linestyle="none"))
    return finish(panels, path, "Planted sheaves: what learned maps gain, and what they find", handles)


def _draw_means(axis: Any, x: Series[float], line: DataFrame, look: dict[str, Any]) -> None:
    """Means over independent graphs with their intervals."""
    if line.empty:
        return
    means = 100 * np.array([scores.mean(axis=1) for scores in line["scores"]])  # [cells, graphs]
    reach = [student_interval(each)[1] - each.mean() for each in means]
    axis.errorbar(x, means.mean(axis=1), reach, capsize=2, linewidth=1.4, markersize=4.5, **look)
