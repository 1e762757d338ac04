"""How records are read: found by their cells, chosen on validation, compared over the same splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from polynsd.experiments.claims.claim import (
    CONFIRMED,
    PARTLY,
    REFUTED,
    Evidence,
    Finding,
    NothingToReadError,
)
from polynsd.experiments.shares import get_shares

if TYPE_CHECKING:
    from polynsd.experiments.record import Record
    from polynsd.stats.paired import Comparison

FAMILIES = ("diagonal", "orthogonal", "general")
FEWEST_SPLITS = 3


class Table:
    """Records of one experiment, found by dataset and options."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)

    @classmethod
    def of(cls, evidence: Evidence, experiment: str) -> Table:
        """The records of an experiment; none where it has not run."""
        return cls(evidence.records(experiment))

    @property
    def datasets(self) -> list[str]:
        """In the order of the records."""
        return list(dict.fromkeys(record.dataset for record in self.records))

    def where(self, dataset: str | None = None, **options: Any) -> list[Record]:
        """Cells that have these options, among others."""
        return [
            record
            for record in self.records
            if dataset in (None, record.dataset)
            and all(record.cell.get(name) == value for name, value in options.items())
        ]

    def having(self, dataset: str, option: str, **options: Any) -> list[Record]:
        """Cells in which an option varies, with these others."""
        return [record for record in self.where(dataset, **options) if option in record.cell]

    def find(self, dataset: str, **cell: Any) -> Record | None:
        """The cell of exactly these options."""
        return next((record for record in self.where(dataset, **cell) if dict(record.cell) == cell), None)


def validation(record: Record) -> float:
    """Mean over splits and seeds."""
    return fmean(score.val for score in record.scores)


def chosen(records: Sequence[Record]) -> Record | None:
    """The best on validation; test scores play no part."""
    return max(records, key=validation, default=None)


def compared(first: Record | None, second: Record | None) -> Comparison | None:
    """First − second over the same splits; None where they do not have enough of them in common."""
    from polynsd.stats.paired import compare

    if first is None or second is None:
        return None
    a, b, shares = first.by_split(), second.by_split(), get_shares(first.protocol)
    if shares is None or len(a) != len(b) or len(a) < FEWEST_SPLITS:
        return None
    return compare(a, b, shares.train, test_share=shares.test)


@dataclass(frozen=True)
class Tally:
    """Many comparisons of a first with a second model, each at 95 %."""

    comparisons: tuple[Comparison, ...]

    @classmethod
    def of(cls, comparisons: Iterable[Comparison | None]) -> Tally:
        """Of those that could be made; raises where none could."""
        made = tuple(one for one in comparisons if one is not None)
        if not made:
            raise NothingToReadError("the records hold no two cells to compare over the same splits")
        return cls(made)

    @property
    def better(self) -> int:
        """Where the whole interval is above 0."""
        return sum(one.low > 0 for one in self.comparisons)

    @property
    def worse(self) -> int:
        """Where the whole interval is below 0."""
        return sum(one.high < 0 for one in self.comparisons)

    @property
    def points(self) -> float:
        """The mean difference in percentage points."""
        return 100 * fmean(one.difference for one in self.comparisons)

    @property
    def verdict(self) -> str:
        """Of "the first is better": confirmed in most cells, refuted where it is not more often better."""
        if self.better <= self.worse:
            return REFUTED
        return CONFIRMED if self.better > len(self.comparisons) / 2 else PARTLY

    def __str__(self) -> str:
        total = len(self.comparisons)
        undecided = total - self.better - self.worse
        return (
            f"{self.points:+.2f} points on average; better in {self.better}, worse in {self.worse}, "
            f"undecided in {undecided} of {total} cells (95 %, paired over splits)"
        )


def searched_choices(evidence: Evidence, option: str, experiment: str = "leaderboard") -> str:
    """What searches chose for an option of PolyNSD's layers, as the end of a sentence; empty without any."""
    counts = Counter(
        str(record.configuration["model"]["layer"][option])
        for record in evidence.records(experiment)
        if record.search and str(record.cell.get("model")).startswith("polynsd-")
    )
    listed = ", ".join(f"{count} {value}" for value, count in counts.most_common())
    return f"; searches on validation chose for {option}: {listed}" if listed else ""


def same_maps(table: Table, **options: Any) -> list[Comparison | None]:
    """PolyNSD − NSD for every dataset and family of maps."""
    return [
        compared(
            table.find(dataset, **options, model=f"polynsd-{maps}"),
            table.find(dataset, **options, model=f"nsd-{maps}"),
        )
        for dataset in table.datasets
        for maps in FAMILIES
    ]


def best_polynsd(table: Table, dataset: str, **options: Any) -> Record | None:
    """The family of maps that is best on validation."""
    found = [table.find(dataset, **options, model=f"polynsd-{maps}") for maps in FAMILIES]
    return chosen([record for record in found if record is not None])


def share_finding(hits: int, total: int, numbers: str, most: float = 0.85) -> Finding:
    """Confirmed where nearly all cells agree with the claim, refuted where fewer than half do."""
    if not total:
        raise NothingToReadError("the records hold none of the cells that the claim is about")
    verdict = CONFIRMED if hits >= most * total else PARTLY if 2 * hits >= total else REFUTED
    return Finding(verdict, numbers)


def percent(record: Record) -> str:
    """`88.1 ± 0.4`"""
    return f"{100 * record.mean:.1f} ± {100 * record.std:.1f}"
