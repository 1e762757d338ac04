"""Learned maps against their controls, and the block part by part: tables and figures of docs/choosing.md.

comparisons = compare_maps(summarize(load_records(Path("results"))))
maps_figure(Path("learned-maps.png"), comparisons)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from polynsd.errors import DataError
from polynsd.report.panels import BASELINE, OTHERS, Panels, handle, style
from polynsd.report.panels import OURS as COLOUR
from polynsd.stats import compare
from polynsd_paper.claims.comparisons import (
    Gap,
    Gaps,
    compare_cells,
    compare_graphs,
    compare_options,
    find_cell,
    gap_text,
    points_text,
    select,
)
from polynsd_paper.experiments.block import BLOCK, TRANSPORT
from polynsd_paper.experiments.generated import ALIGNMENT, PANELS, PLANTED, USUAL
from polynsd_paper.figures import finish
from polynsd_paper.formatting import NOT_RUN, cell_number, markdown_table
from polynsd_paper.leaderboards import complete
from polynsd_paper.records import by_split

if TYPE_CHECKING:
    from pandas import DataFrame, Series

LEARNED, SAME_REACH, IDENTITY = "learned maps", "same reach", "identity maps"
AS_IT_IS = "as it is"
IN_BLOCK = {  # what the rows are called there
    AS_IT_IS: LEARNED,
    "identity maps, same reach": SAME_REACH,
    "identity maps, no trunk": IDENTITY,
}
MEANING = {"noise": "measurements", "spread": "frames"}
GENERATED = (PLANTED.name, PANELS.name)
ROW_INCHES = 0.3
HIGHER, LOWER = 0.14, -0.14  # where in its row a mark stands
MAPS_STYLE: dict[str, Any] = {"color": COLOUR, "marker": "o", "markersize": 5, "linewidth": 1.5}
TRUNK_STYLE: dict[str, Any] = {"color": OTHERS, "marker": "s", "markersize": 4, "linewidth": 1.2}


@dataclass(frozen=True)
class MapComparison:
    """Learned maps and two controls on one graph.

    Args:
        experiment: where they were trained.
        label: the graph, and what distinguishes it there.
        learned: the cell with learned maps.
        same_reach: with identity maps and the same trunk, added to the state.
        identity: with identity maps and no trunk.
    """

    experiment: str
    label: str
    learned: Series[Any] | None
    same_reach: Series[Any] | None
    identity: Series[Any] | None

    @property
    def by_maps(self) -> Gap | None:
        """What the maps add: learned − same reach."""
        return self._compare(self.learned, self.same_reach)

    @property
    def by_trunk(self) -> Gap | None:
        """What the trunk adds without maps: same reach − identity."""
        return self._compare(self.same_reach, self.identity)

    def _compare(self, first: Series[Any] | None, second: Series[Any] | None) -> Gap | None:
        """Splits of one graph share nodes; generated graphs are independent of each other."""
        if self.experiment not in GENERATED or first is None or second is None:
            return compare_cells(first, second)
        return compare_graphs(first["scores"].mean(axis=1), second["scores"].mean(axis=1))

    def line(self) -> tuple[str, ...]:
        """The row of the table."""
        numbers = (NOT_RUN if c is None else cell_number(c) for c in (self.learned, self.same_reach))
        gaps = (self.by_maps, self.by_trunk)
        texts = (NOT_RUN if gap is None else gap_text(gap) for gap in gaps)
        return (f"`{self.experiment}`", self.label, *numbers, *texts)


def compare_maps(cells: DataFrame) -> list[MapComparison]:
    """All graphs with learned maps and a control of equal reach, from the records of all experiments."""
    cells, found = complete(cells), []
    for experiment in (BLOCK, TRANSPORT, PLANTED, PANELS):
        own = cells[cells["experiment"] == experiment.name].dropna(axis="columns", how="all")
        if own.empty:
            continue
        names = own["change"].map(IN_BLOCK) if experiment is BLOCK else own["variant"]
        own = own.assign(variant=names)
        settings = [name for name in experiment.axes if name not in ("change", "variant")]
        for key, group in own.groupby(["dataset", *settings], sort=False):
            three = [find_cell(group, variant=name) for name in (LEARNED, SAME_REACH, IDENTITY)]
            values = dict(zip(settings, key[1:], strict=True))
            found.append(MapComparison(experiment.name, _label(experiment.name, key[0], values), *three))
    found = [comparison for comparison in found if comparison.by_maps is not None]
    if not found:
        raise DataError("no learned maps stand beside a control; run `polynsd reproduce planted` first.")
    return found


def _label(experiment: str, dataset: str, settings: dict[str, Any]) -> str:
    """`cora`, `planted, spread 0.65, noise 1.5`, `heterophily 0.75`"""
    if experiment == PANELS.name:
        return f"{dataset} {settings[dataset]}"
    words = [word.replace("=", " ") for value in settings.values() for word in str(value).split()]
    return ", ".join([dataset, *words])


def controls_table(comparisons: Sequence[MapComparison]) -> str:
    """A row per graph."""
    head = ("experiment", "graph", LEARNED, SAME_REACH, "by maps", "by the trunk")
    return markdown_table(head, [comparison.line() for comparison in comparisons], left=2)


def controls_text(cells: DataFrame, comparisons: Sequence[MapComparison]) -> list[str]:
    """The sentences below the table."""
    block = [comparison for comparison in comparisons if comparison.experiment == BLOCK.name]
    sentences = [
        "Test score in % ± population deviation over ten splits, or ten graphs where they are generated. *By "
        "maps*: learned maps − same reach; *by the trunk*: same reach − identity maps without a trunk; in "
        "points, with 95 % intervals of the corrected resampled t-test over splits, or of Student's over "
        "graphs. **Bold**: the interval does not contain zero.",
    ]
    if block:
        maps, trunk = Gaps(c.by_maps for c in block), Gaps(c.by_trunk for c in block)
        vals = [c.same_reach["val"] - c.identity["val"] for c in block]  # type: ignore[index]
        sentences.append(
            f"On average over the {len(block)} graphs of `block`, maps add {points_text(maps.points / 100)} "
            f"points to the control of equal reach, and the trunk adds {points_text(trunk.points / 100)} to "
            f"identity maps ({points_text(fmean(vals))} on validation)."
        )
    published = compare_published(cells)
    if len(published):
        sentences.append(
            "For comparison: with the published block, diagonal maps differ from identity maps by "
            f"{points_text(published.points / 100)} points on average over {len(published)} settings of the "
            "heterophily generator (`synthetic`)."
        )
    return sentences


def compare_published(cells: DataFrame) -> Gaps:
    """Published diagonal maps − identity maps on the panels of the paper."""
    panels = complete(select(cells, experiment="synthetic"))
    settings = dict.fromkeys(panels["setting"]) if len(panels) else ()
    models = ("polynsd-diagonal", "identity-sheaf")
    return compare_options(
        panels, (tuple({"setting": setting, "model": model} for model in models) for setting in settings)
    )


# The block, one part changed at a time


def changes_table(records: DataFrame) -> str:
    """A row per change, best first: the mean difference of validation to the block as it is."""
    block = records[(records["experiment"] == BLOCK.name) & ~records["is_partial"]]
    rows = dict(iter(block.groupby(["change", "dataset"], sort=False)))
    found = []
    for change in BLOCK.axes["change"]:
        keys = [((change, name), (AS_IT_IS, name)) for name in BLOCK.datasets]
        gaps = [
            _validation_gap(rows[one], rows[other]) for one, other in keys if one in rows and other in rows
        ]
        if change != AS_IT_IS and gaps:
            better = sum(gap.difference > 0 for gap in gaps)
            found.append((mean_gap(gaps), change, f"{better} of {len(gaps)}"))
    found.sort(key=lambda line: -line[0].difference)
    lines = [(change, gap_text(gap, 2), better) for gap, change, better in found]
    return markdown_table(("change", "validation", "better on"), lines)


def _validation_gap(first: DataFrame, second: DataFrame) -> Gap:
    """First − second of the rows of two records."""
    train, test = first[["train_share", "test_share"]].iloc[0]
    vals = (by_split(rows, "val") for rows in (first, second))
    gap = compare(*vals, train, test_share=1 - train - test)
    return Gap(gap.difference, gap.low, gap.high)


def mean_gap(gaps: Sequence[Gap]) -> Gap:
    """Of independent differences: half widths add as squares."""
    mean = fmean(gap.difference for gap in gaps)
    reach = math.hypot(*(gap.high - gap.difference for gap in gaps)) / len(gaps)
    return Gap(mean, mean - reach, mean + reach)


# Figures


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
    titles = [f"frames that differ (spread {spread:g})", f"noise {noise:g}", "learned and planted transport"]
    panels = Panels(titles, (3.6, 2.8))
    for axis, fixed, varied in zip(panels.axes, ("spread", "noise"), ("noise", "spread"), strict=False):
        line = planted[planted[fixed] == {"spread": spread, "noise": noise}[fixed]]
        for name, look in looks.items():
            _draw_means(axis, line[line["variant"] == name].sort_values(varied), varied, look)
        axis.set(ylabel="test accuracy in %", xlabel=f"{varied} of the {MEANING[varied]}")
        axis.set_xticks(sorted(line[varied].unique()))
    learned = planted[(planted["variant"] == LEARNED) & (planted["spread"] == spread)].sort_values("noise")
    axis = panels.axes[-1]
    values = np.array([measured[ALIGNMENT] for measured in learned["measured"]])  # [noise, graphs]
    axis.plot(learned["noise"], values.mean(axis=1), color=COLOUR, linewidth=1.4)
    axis.plot(learned["noise"], values, "o", color=COLOUR, markersize=4, alpha=0.6)
    axis.set(ylabel="alignment, a dot per graph", ylim=(0, 1.03), xlabel=f"noise of the {MEANING['noise']}")
    axis.set_xticks(sorted(learned["noise"]))
    handles = [handle(f"{name}, 95 % interval", markersize=5, **look) for name, look in looks.items()]
    return finish(panels, path, "Planted sheaves: what learned maps gain, and what they find", handles)


def _draw_means(axis: Any, line: DataFrame, x: str, look: dict[str, Any]) -> None:
    """Means over independent graphs with their intervals."""
    if line.empty:
        return
    means = 100 * np.array([scores.mean(axis=1) for scores in line["scores"]])  # [cells, graphs]
    reach = student.ppf(0.975, means.shape[1] - 1) * means.std(axis=1, ddof=1) / math.sqrt(means.shape[1])
    axis.errorbar(line[x], means.mean(axis=1), reach, capsize=2, linewidth=1.4, markersize=4.5, **look)
