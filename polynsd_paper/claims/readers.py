"""How records are read: found by their cells, chosen on validation, compared over the same splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.stats.scores import LEAST_SPLITS
from polynsd_paper.boards import OURS, Board, best_on_validation, chosen_maps, group_of
from polynsd_paper.claims.claim import Evidence
from polynsd_paper.claims.parts import Part, covered
from polynsd_paper.claims.tally import Gap, Tally
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS

if TYPE_CHECKING:
    from polynsd_paper.records import Record


class Table:
    """Records of one experiment that have all their splits, found by dataset and options."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = [record for record in records if not record.is_partial]

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


def best_polynsd(table: Table, dataset: str, **options: Any) -> Record | None:
    """The family of maps that the tables choose; None unless all three were searched."""
    found = [one for one in table.where(dataset, **options) if one.cell.get("model") in OURS]
    return chosen_maps(Board(options, tuple(found))).get(dataset)


def methods(records: Iterable[Record]) -> dict[str, Record]:
    """One record per architecture: of its rows, be they families of maps, convolutions or options, the best
    on validation. Rows that see other features are left out.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        model = str(record.cell.get("model"))
        if model in MODEL_ROWS:
            groups.setdefault(group_of(model), []).append(record)
    return {group: best for group, found in groups.items() if (best := best_on_validation(found)) is not None}


def best_other(records: Iterable[Record]) -> Record | None:
    """Of the architectures that are not PolyNSD the one with the greatest test mean: the hardest rival."""
    others = (record for group, record in methods(records).items() if group != "polynsd")
    return max(others, key=lambda record: record.mean, default=None)


def compared(first: Record | None, second: Record | None) -> Gap | None:
    """First − second over the same splits; None where they do not have enough of them in common."""
    if first is None or second is None or _splits(first) != _splits(second):
        return None
    return interval(first.by_split(), second.by_split(), first)


def _splits(record: Record) -> set[int]:
    return {score.split for score in record.scores}


def interval(a: NDArray[np.float64], b: NDArray[np.float64], like: Record) -> Gap | None:
    """By the corrected t-test over splits, whose shares are those of `like`; scores are [splits, seeds]."""
    from polynsd.stats.paired import compare

    shares = like.shares
    if shares is None or len(a) < LEAST_SPLITS:
        return None
    found = compare(a, b, shares.train, test_share=shares.test)
    return Gap(found.difference, found.low, found.high)


def same_maps(table: Table, **options: Any) -> list[Gap | None]:
    """PolyNSD − NSD for every dataset and family of maps."""
    return [
        compared(
            table.find(dataset, **options, model=f"polynsd-{maps}"),
            table.find(dataset, **options, model=f"nsd-{maps}"),
        )
        for dataset in table.datasets
        for maps in FAMILIES
    ]


def changed(evidence: Evidence, first: str, second: str) -> Tally:
    """The first − the second of two rows of the ablations, on every graph."""
    table = Table.of(evidence, "ablations")
    return Tally.of(
        compared(table.find(dataset, change=first), table.find(dataset, change=second))
        for dataset in table.datasets
    )


def changes_most(tally: Tally, title: str) -> Part:
    """Whether a change of the ablations is for the better on most of their graphs, once enough are there."""
    whole = len(get_experiment("ablations").datasets)
    return covered(Part(tally.mostly, f"{title}: {tally}"), len(tally), whole, "graphs of the ablations")


def searched_choices(evidence: Evidence, option: str, experiment: str = "leaderboard") -> str:
    """What searches ended with for an option of PolyNSD's layers, and what they were given to begin with."""
    found = [
        record
        for record in evidence.records(experiment)
        if record.search and str(record.cell.get("model")) in OURS
    ]
    if not found:
        return ""
    name = f"model.layer.{option}"
    ends = Counter(str(_option(one, name)) for one in found)
    given = sum(any(_is_start(record, start) for start in _starts(record)) for record in found)
    return (
        f"; searches on validation ended with {option}: {_listed(ends)}. That is no free choice: they begin "
        f"with given architectures ({_begun(found, name)}), and {given} of "
        f"{len(found)} ended with one of these"
    )


def _starts(record: Record) -> tuple[Mapping[str, Any], ...]:
    """What the search of this very cell begins with."""
    axes = {name: (value,) for name, value in record.cell.items()}
    cells = get_experiment(record.experiment).cells((record.dataset,), axes)
    return next((cell.starts for cell in cells if cell.options == record.cell), ())


def _begun(records: Iterable[Record], name: str) -> str:
    """`2 free, 2 convex`, or where they do not all begin alike, on which graphs they do so."""
    graphs: dict[str, dict[str, None]] = {}
    for record in records:
        begin = _listed(Counter(str(start.get(name)) for start in _starts(record)))
        graphs.setdefault(begin, {})[record.dataset] = None
    if len(graphs) == 1:
        return next(iter(graphs))
    return "; ".join(f"{begin} on {', '.join(where)}" for begin, where in graphs.items())


def _is_start(record: Record, start: Mapping[str, Any]) -> bool:
    return all(_option(record, name) == value for name, value in start.items())


def _option(record: Record, name: str) -> Any:
    """`model.layer.basis` of a configuration."""
    found: Any = record.configuration
    for word in name.split("."):
        found = found.get(word) if isinstance(found, Mapping) else None
    return found


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {value}" for value, count in counts.most_common())


def percent(record: Record) -> str:
    """`88.1 ± 0.4`"""
    return f"{100 * record.mean:.1f}" + ("" if math.isnan(record.std) else f" ± {100 * record.std:.1f}")
