"""Learned maps against their controls, and the block part by part: tables and sentences of docs/choosing.md.

cells = summarize(load_records(Path("results")))
print(controls_table(compare_maps(cells)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from polynsd.errors import DataError
from polynsd.stats import Comparison, Difference, Shares, compare
from polynsd_paper.claims.comparisons import compare_graphs, compare_options, find_cell, select
from polynsd_paper.claims.gaps import Gaps
from polynsd_paper.experiment import Experiment
from polynsd_paper.experiments.block import (
    AS_CHANGE,
    BLOCK,
    IDENTITY_MAPS,
    LEARNED,
    SAME_REACH,
    TRANSPORT,
)
from polynsd_paper.experiments.generated import (
    ALIGNMENT,
    GRAPH_NETWORK,
    MAPS_ALONE,
    PANELS,
    PLANTED,
    WIDER_REACH,
)
from polynsd_paper.records import by_split, split_shares
from polynsd_paper.tables.formatting import cell_number, gap_text, interval_text, markdown_table, points_text
from polynsd_paper.tables.leaderboards import compare_cells, complete

if TYPE_CHECKING:
    from pandas import DataFrame, Series

VARIANT_OF = {change: variant for variant, change in AS_CHANGE.items()}
GENERATED = (PLANTED.name, PANELS.name)


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
    def by_maps(self) -> Difference | None:
        """What the maps add: learned − same reach."""
        return self._compare(self.learned, self.same_reach)

    @property
    def by_trunk(self) -> Difference | None:
        """What the trunk adds without maps: same reach − identity."""
        return self._compare(self.same_reach, self.identity)

    def _compare(self, first: Series[Any] | None, second: Series[Any] | None) -> Difference | None:
        """Splits of one graph share nodes; generated graphs are independent of each other."""
        if self.experiment not in GENERATED or first is None or second is None:
            return compare_cells(first, second)
        return compare_graphs(first["scores"].mean(axis=1), second["scores"].mean(axis=1))

    def line(self) -> tuple[str, ...]:
        """The row of the table."""
        numbers = map(cell_number, (self.learned, self.same_reach))
        gaps = map(gap_text, (self.by_maps, self.by_trunk))
        return (f"`{self.experiment}`", self.label, *numbers, *gaps)


def compare_maps(cells: DataFrame) -> list[MapComparison]:
    """All graphs with learned maps and a control of equal reach, from the records of all experiments."""
    cells, found = complete(cells), []
    for experiment in (BLOCK, TRANSPORT, PLANTED, PANELS):
        own = cells[cells["experiment"] == experiment.name].dropna(axis="columns", how="all")
        if own.empty:
            continue
        names = own["change"].map(VARIANT_OF) if experiment is BLOCK else own["variant"]
        own = own.assign(variant=names)
        settings = [name for name in experiment.axes if name not in ("change", "variant")]
        for key, group in own.groupby(["dataset", *settings], sort=False):
            three = [find_cell(group, variant=name) for name in (LEARNED, SAME_REACH, IDENTITY_MAPS)]
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
    return ", ".join([dataset, *map(_words, settings.values())])


def controls_table(comparisons: Sequence[MapComparison]) -> str:
    """The table of learned maps and their controls, a row per graph."""
    head = ("experiment", "graph", LEARNED, SAME_REACH, "by maps", "by the trunk")
    return markdown_table(head, [comparison.line() for comparison in comparisons], left=2)


def controls_text(cells: DataFrame, comparisons: Sequence[MapComparison]) -> list[str]:
    """The sentences below the table."""
    block = [comparison for comparison in comparisons if comparison.experiment == BLOCK.name]
    sentences = [
        "Test score in % ± population deviation over ten splits, or over five graphs where they are "
        "generated. *By maps*: learned maps − same reach; *by the trunk*: same reach − identity maps, which "
        "have none; in points, with 95 % intervals corrected for overlapping splits, or of "
        "Student's over graphs. **Bold**: the interval does not contain zero.",
    ]
    if block:
        maps, trunk = Gaps(c.by_maps for c in block), Gaps(c.by_trunk for c in block)
        vals = [c.same_reach["val"] - c.identity["val"] for c in block]  # type: ignore[index]
        sentences.append(
            f"On average over the {len(block)} graphs of `block`, maps add {points_text(maps.points / 100)} "
            f"points to the control of equal reach, and the trunk adds {points_text(trunk.points / 100)} to "
            f"identity maps ({points_text(fmean(vals))} on validation)."
        )
    alone = _listed(cells, PANELS, MAPS_ALONE, IDENTITY_MAPS)
    if alone:
        sentences.append(f"In `panels`, maps without a trunk − identity maps: {alone}.")
    published = compare_published(cells)
    if len(published):
        sentences.append(
            "With the published block, diagonal maps differ from identity maps by "
            f"{points_text(published.points / 100)} points on average over {len(published)} settings of the "
            "same generator (`synthetic`)."
        )
    return sentences


def planted_text(cells: DataFrame) -> list[str]:
    """Sentences about planted sheaves: controls of wider reach, and what the maps have found."""
    learned = select(complete(cells), experiment=PLANTED.name, variant=LEARNED)
    alignments = [measured[ALIGNMENT] for measured in learned["measured"]]
    found = [
        f"{fmean(values):.2f} ({min(values):.2f} to {max(values):.2f}) at {_words(setting)}"
        for values, setting in zip(alignments, learned["setting"], strict=True)
    ]
    return [
        f"Learned maps − `{WIDER_REACH}`: {_listed(cells, PLANTED, LEARNED, WIDER_REACH)}.",
        f"`{GRAPH_NETWORK}` − `{WIDER_REACH}`: {_listed(cells, PLANTED, GRAPH_NETWORK, WIDER_REACH)}.",
        f"Alignment, mean over graphs and its range: {'; '.join(found)}.",
    ]


def _listed(cells: DataFrame, experiment: Experiment, first: str, second: str) -> str:
    """First − second of two variants, `6.5 (3.1 to 9.9) at noise 1.5; …` for all settings that have both."""
    (axis,) = [name for name in experiment.axes if name != "variant"]
    own, texts = complete(select(cells, experiment=experiment.name)), []
    for setting, group in own.groupby(axis, sort=False) if len(own) else ():
        pair = [find_cell(group, variant=name) for name in (first, second)]
        means = [cell["scores"].mean(axis=1) for cell in pair if cell is not None]
        gap = compare_graphs(*means) if len(means) == 2 else None
        if gap is not None:
            where = setting if isinstance(setting, str) else f"{axis}={setting}"
            texts.append(f"{gap_text(gap)} at {_words(where)}")
    return "; ".join(texts)


def _words(setting: str) -> str:
    """`spread 0.65, noise 1.5` for `spread=0.65 noise=1.5`"""
    return ", ".join(word.replace("=", " ") for word in setting.split())


def compare_published(cells: DataFrame) -> Gaps:
    """Published diagonal maps − identity maps on the panels of the paper."""
    panels = complete(select(cells, experiment="synthetic"))
    settings = dict.fromkeys(panels["setting"]) if len(panels) else ()
    ours, control = {"model": "polynsd-diagonal"}, {"model": "identity-sheaf"}
    pairs = (({"setting": setting} | ours, {"setting": setting} | control) for setting in settings)
    return compare_options(panels, pairs)


# The block, one part changed at a time


def changes_table(records: DataFrame) -> str:
    """A row per change, best first: the mean difference of validation to the block as it is."""
    block = records[(records["experiment"] == BLOCK.name) & ~records["is_partial"]]
    rows = dict(iter(block.groupby(["change", "dataset"], sort=False)))
    as_it_is, found = AS_CHANGE[LEARNED], []
    for change in BLOCK.axes["change"]:
        keys = [((change, name), (as_it_is, name)) for name in BLOCK.datasets]
        gaps = [
            _validation_gap(rows[one], rows[other]) for one, other in keys if one in rows and other in rows
        ]
        if change != as_it_is and gaps:
            better = sum(gap.difference > 0 for gap in gaps)
            found.append((mean_interval(gaps), change, f"{better} of {len(gaps)}"))
    found.sort(key=lambda line: -line[0][0])
    lines = [(change, interval_text(*ends, digits=2), better) for ends, change, better in found]
    return markdown_table(("change", "validation", "better on"), lines)


def _validation_gap(first: DataFrame, second: DataFrame) -> Comparison:
    """First − second of the rows of two records."""
    shares = split_shares(first.iloc[0])
    assert shares is not None
    scored = Shares(shares.train, 0.0, shares.val)  # validation is what is measured here
    return compare(by_split(first, "val"), by_split(second, "val"), scored)


def mean_interval(gaps: Sequence[Difference]) -> tuple[float, float, float]:
    """The mean of independent differences, and the ends of its interval: half widths add as squares."""
    mean = fmean(gap.difference for gap in gaps)
    reach = math.hypot(*(gap.high - gap.difference for gap in gaps)) / len(gaps)
    return mean, mean - reach, mean + reach
