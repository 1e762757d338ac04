"""Comparisons of records: cells are selected by their options, chosen on validation, and compared in pairs.

A table of cells has one row per record (`polynsd_paper.records.summarize`): dataset, the options of its cell
(model, K, …), `val` and `mean` over splits and seeds, and `scores` [splits, seeds].

    cells = complete_cells(records, "leaderboard")
    gap = compare_cells(find_cell(cells, dataset="cora", model="polynsd-general"),
                        find_cell(cells, dataset="cora", model="nsd-general"))

Differences are paired over splits, or over graphs where there is one split, with 95 % intervals. "As good as"
means: not lower by two points (`MARGIN`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polynsd.stats import compare, student_interval
from polynsd.stats.scores import LEAST_SPLITS
from polynsd_paper.claims.claim import CONFIRMED, NOT_TESTABLE, PARTLY, REFUTED, Finding
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS
from polynsd_paper.formatting import NOT_RUN, join_unique
from polynsd_paper.leaderboards import OURS, architecture, best_on_validation, complete
from polynsd_paper.records import split_shares

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MARGIN = 0.02  # two models are as good as each other where the whole interval is within this
CHANCE = 0.05  # share of intervals that may miss the true value
OPTIONS = ("model", "maps", "K", "layers", "hidden", "stalk_dim", "basis", "rule", "setting", "change")
FEW = 0.25  # better in a smaller share of cells is not "mostly better"; worse in as large a share neither


# Cells


def complete_cells(records: DataFrame, experiment: str) -> DataFrame:
    """The cells of an experiment that have all their splits, with a column for each of `OPTIONS`."""
    cells = complete(records[records["experiment"] == experiment])
    return cells.assign(**{name: None for name in OPTIONS if name not in cells})


def select(cells: DataFrame, **options: Any) -> DataFrame:
    """The cells with these values in their columns; a tuple or list allows several."""
    chosen = np.ones(len(cells), dtype=bool)
    for name, value in options.items():
        if name not in cells:
            return cells.iloc[:0]
        allowed = value if isinstance(value, (tuple, list)) else [value]
        chosen &= cells[name].isin(allowed).to_numpy()
    return cells[chosen]


def having(cells: DataFrame, option: str) -> DataFrame:
    """The cells that have a value of an option."""
    return cells[cells[option].notna()]


def find_cell(cells: DataFrame, **options: Any) -> Series | None:
    """The first cell with these options."""
    chosen = select(cells, **options)
    return None if chosen.empty else chosen.iloc[0]


def datasets_of(cells: DataFrame) -> list[str]:
    """In the order of the cells."""
    return list(dict.fromkeys(cells["dataset"]))


def by_dataset(cells: DataFrame) -> list[DataFrame]:
    """The cells of each dataset."""
    return [table for _, table in cells.groupby("dataset", sort=False)]


def best_polynsd(cells: DataFrame) -> Series | None:
    """PolyNSD with the maps that are best on validation; None unless all three families were searched."""
    searched = select(cells, model=OURS, is_searched=True)
    return best_on_validation(searched) if len(searched) == len(OURS) else None


def best_variants(cells: DataFrame) -> dict[str, Series]:
    """By architecture, the variant (maps, convolution, options) that is best on validation.

    Rows that see other features are left out.
    """
    cells = select(cells, model=list(MODEL_ROWS))
    groups = cells.groupby([architecture(model) for model in cells["model"]], sort=False)
    best = {str(name): best_on_validation(group) for name, group in groups}
    return {name: cell for name, cell in best.items() if cell is not None}


def best_rival(cells: DataFrame) -> Series | None:
    """Of the architectures that are not PolyNSD the one with the greatest test mean: the hardest rival."""
    rivals = (row for group, row in best_variants(cells).items() if group != "polynsd")
    return max(rivals, key=lambda row: row["mean"], default=None)


def format_percent(cell: Series) -> str:
    """Mean and deviation in percent, e.g. `88.1 ± 0.4`."""
    deviation = "" if math.isnan(cell["std"]) else f" ± {100 * cell['std']:.1f}"
    return f"{100 * cell['mean']:.1f}{deviation}"


# Differences


class Gap(NamedTuple):
    """First − second as a fraction, with the ends of its 95 % interval."""

    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.difference:+.2f} [{100 * self.low:.2f}, {100 * self.high:.2f}]"

    def judge_gain(self, printed: float) -> str:
        """Of a gain of the printed size: there is one, and one as large is not excluded."""
        if self.low <= 0:
            return REFUTED
        return CONFIRMED if self.high >= printed else PARTLY


def compare_cells(first: Series | None, second: Series | None) -> Gap | None:
    """First − second over the same splits; None where one is missing or they have other splits."""
    if first is None or second is None or first["split_numbers"] != second["split_numbers"]:
        return None
    return compare_scores(first["scores"], second["scores"], first)


def difference_text(first: Series | None, second: Series | None) -> str:
    """First − second, `5.4 (2.5 to 8.4)` in points, bold where the interval does not contain zero."""
    gap = compare_cells(first, second)
    return NOT_RUN if gap is None else gap_text(gap)


def gap_text(gap: Gap, digits: int = 1) -> str:
    """`5.4 (2.5 to 8.4)` in points, bold where the interval does not contain zero."""
    difference, low, high = (points_text(value, digits) for value in gap)
    text = f"{difference} ({low} to {high})"
    return f"**{text}**" if gap.low > 0 or gap.high < 0 else text


def points_text(share: float, digits: int = 1) -> str:
    """`−1.2` for −0.012."""
    rounded = round(100 * share, digits) + 0.0  # no −0.0
    return f"{rounded:.{digits}f}".replace("-", "−")


def compare_scores(a: ArrayLike, b: ArrayLike, cell: Series) -> Gap | None:
    """By the corrected t-test over splits; scores are [splits, seeds], `cell` has the shares of splits."""
    shares = split_shares(cell)
    if shares is None or len(np.asarray(a)) < LEAST_SPLITS:
        return None
    comparison = compare(a, b, shares)
    return Gap(comparison.difference, comparison.low, comparison.high)


def compare_graphs(first: ArrayLike, second: ArrayLike) -> Gap | None:
    """By Student's t over scores on independent graphs; None for fewer than three."""
    d = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    return None if len(d) < LEAST_SPLITS else Gap(float(d.mean()), *student_interval(d))


class Gaps:
    """Differences in many cells. The `judge_*` methods give the finding on a statement about all of them.

    Their `total` says how many cells the statement is about, and `what` what these are called: where too few
    are compared, the finding says how many are missing. Options: `is_decisive` of `Finding`, `share` of
    `Finding.require`.

    Args:
        gaps: the comparisons; those that were impossible (None) are left out.
    """

    def __init__(self, gaps: Iterable[Gap | None]) -> None:
        self.gaps = tuple(gap for gap in gaps if gap is not None)

    def __len__(self) -> int:
        return len(self.gaps)

    @property
    def better(self) -> int:
        """Cells whose whole interval is above 0."""
        return sum(gap.low > 0 for gap in self.gaps)

    @property
    def worse(self) -> int:
        """Cells whose whole interval is below 0."""
        return sum(gap.high < 0 for gap in self.gaps)

    @property
    def not_worse(self) -> int:
        """Cells in which the first is certainly not lower by the margin."""
        return sum(gap.low > -MARGIN for gap in self.gaps)

    @property
    def equal(self) -> int:
        """Cells whose whole interval is within the margin."""
        return sum(gap.low > -MARGIN and gap.high < MARGIN for gap in self.gaps)

    @property
    def apart(self) -> int:
        """Cells whose whole interval is beyond the margin."""
        return sum(gap.low > MARGIN or gap.high < -MARGIN for gap in self.gaps)

    @property
    def points(self) -> float:
        """The mean difference in percentage points."""
        return 100 * fmean(gap.difference for gap in self.gaps) if self.gaps else 0.0

    @property
    def has_counterexample(self) -> bool:
        """Whether more cells are worse than by chance: then "better in every cell" is false."""
        return self.worse > CHANCE * len(self)

    def judge_mostly_better(self, title: str, total: int = 0, what: str = "cells", **options: Any) -> Finding:
        """Refuted where the first is better in few cells, or in no more than it is worse in."""
        is_refuted = self.better <= self.worse or self.better < FEW * len(self)
        is_clear = 2 * self.better > len(self) and self.worse < FEW * len(self)
        verdict = _choose_verdict(len(self) > 0, is_refuted, is_clear)
        return self._cover(verdict, f"{title}: {self}", total, what, **options)

    def judge_always_better(self, title: str, total: int = 0, what: str = "cells", **options: Any) -> Finding:
        """Refuted where half of the cells do not show it, or some show the contrary."""
        is_refuted = 2 * self.better <= len(self) or self.has_counterexample
        verdict = _choose_verdict(len(self) > 0, is_refuted, self.better == len(self))
        return self._cover(
            verdict, f"{title}: {self}", total, what, has_counterexample=self.has_counterexample, **options
        )

    def judge_as_good(
        self, title: str, total: int = 0, what: str = "cells", *, may_be_worse: float = CHANCE, **options: Any
    ) -> Finding:
        """Confirmed where most cells are not worse by the margin, and at most a share of them is worse."""
        is_clear = 2 * self.not_worse > len(self) and self.worse <= may_be_worse * len(self)
        verdict = _choose_verdict(self.not_worse + self.worse > 0, 2 * self.worse > len(self), is_clear)
        evidence = f"{title}: {self}, not worse by {100 * MARGIN:g} points in {self.not_worse}"
        return self._cover(verdict, evidence, total, what, **options)

    def judge_equal(self, title: str, total: int = 0, what: str = "cells", **options: Any) -> Finding:
        """Confirmed where most cells are within the margin, and none is beyond it but by chance."""
        is_clear = 2 * self.equal > len(self) and self.apart <= CHANCE * len(self)
        verdict = _choose_verdict(self.equal + self.apart > 0, 2 * self.apart >= len(self), is_clear)
        evidence = (
            f"{title}: within ±{100 * MARGIN:g} points in {self.equal}, beyond in {self.apart}, undecided in "
            f"{len(self) - self.equal - self.apart} of {len(self)} pairs (95 %, paired)"
        )
        return self._cover(verdict, evidence, total, what, **options)

    def _cover(
        self, verdict: str, evidence: str, total: int, what: str, *, is_decisive: bool = False, **options: Any
    ) -> Finding:
        """The finding, if enough of the cells are there; `options` are those of `Finding.require`."""
        return Finding(verdict, evidence, is_decisive).require(len(self), total, what, **options)

    def is_never_lower(self) -> bool | None:
        """Whether no cell is lower by the margin; None where that is undecided."""
        if any(gap.high < -MARGIN for gap in self.gaps):
            return False
        return True if self.not_worse == len(self) else None

    def __str__(self) -> str:
        if not self.gaps:
            return "nothing to compare"
        undecided = len(self) - self.better - self.worse
        return (
            f"{self.points:+.2f} points on average; better in {self.better}, worse in {self.worse}, "
            f"undecided in {undecided} of {len(self)} cells (95 %, paired)"
        )


def _choose_verdict(can_tell: bool, is_refuted: bool, is_confirmed: bool) -> str:
    if not can_tell:
        return NOT_TESTABLE
    return REFUTED if is_refuted else CONFIRMED if is_confirmed else PARTLY


def compare_options(cells: DataFrame, pairs: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> Gaps:
    """The cell with the first options − the cell with the second, for every dataset and pair of options."""
    pairs = list(pairs)
    return Gaps(
        compare_cells(find_cell(table, **first), find_cell(table, **second))
        for table in by_dataset(cells)
        for first, second in pairs
    )


def compare_same_maps(cells: DataFrame) -> Gaps:
    """PolyNSD − NSD for every dataset and family of maps."""
    return compare_options(
        cells, (({"model": f"polynsd-{maps}"}, {"model": f"nsd-{maps}"}) for maps in FAMILIES)
    )


def compare_ablations(records: DataFrame, first: str, second: str) -> Gaps:
    """The first − the second of two rows of the ablations, on every graph."""
    return compare_options(complete_cells(records, "ablations"), [({"change": first}, {"change": second})])


def judge_ablation(gaps: Gaps, title: str) -> Finding:
    """Whether a change of the ablations is for the better on most of their graphs."""
    total = len(get_experiment("ablations").datasets)
    return gaps.judge_mostly_better(title, total, "graphs of the ablations")


# Searches


def describe_searches(records: DataFrame, option: str) -> str:
    """Which values of a layer's option the leaderboard's searches chose for PolyNSD, and their starts."""
    cells = select(records, experiment="leaderboard", model=OURS, is_searched=True)
    if cells.empty:
        return ""
    name = f"model.layer.{option}"
    chosen = Counter(str(_get_option(cell["configuration"], name)) for _, cell in cells.iterrows())
    starts = [_search_starts(cell) for _, cell in cells.iterrows()]
    kept = sum(
        any(all(_get_option(plain, key) == value for key, value in start.items()) for start in given)
        for plain, given in zip(cells["configuration"], starts, strict=True)
    )
    counts = [_format_counts(Counter(str(start.get(name)) for start in given)) for given in starts]
    by_counts = cells.assign(counts=counts).groupby("counts", sort=False)["dataset"]
    listed = "; ".join(f"{text} on {join_unique(datasets)}" for text, datasets in by_counts)
    return (
        f"; searches on validation ended with {option}: {_format_counts(chosen)}. That is no free choice: "
        f"they start with given architectures ({listed if len(by_counts) > 1 else counts[0]}), and "
        f"{kept} of {len(cells)} ended with one of these"
    )


def _search_starts(cell: Series) -> tuple[Mapping[str, Any], ...]:
    """The configurations with which the search of a leaderboard's cell starts."""
    cells = get_experiment("leaderboard").cells((cell["dataset"],), {"model": (cell["model"],)})
    return next((plan.starts for plan in cells if plan.options == {"model": cell["model"]}), ())


def _get_option(configuration: Any, name: str) -> Any:
    """The value under `model.layer.basis`; None where there is none."""
    for word in name.split("."):
        configuration = configuration.get(word) if isinstance(configuration, Mapping) else None
    return configuration


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {value}" for value, count in counts.most_common())
