"""Where PolyNSD stands: what is printed for it beside what we found, graph by graph.

python -m polynsd_paper.standing docs/findings.md results
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polynsd.errors import DataError
from polynsd_paper.boards import OURS, best_on_validation, boards, group_of
from polynsd_paper.experiment import Experiment
from polynsd_paper.experiments.searched import FILTERED, LEADERBOARD, LONG_SEARCH, MALIGNANT, PLATONOV
from polynsd_paper.marked_section import fill_page, table_and_text
from polynsd_paper.published import Published, find_published, published
from polynsd_paper.records import Record, current_records
from polynsd_paper.result_numbers import MISSING, Number, our_number
from polynsd_paper.standing_figure import standing_figure
from polynsd_paper.tables import in_order

SUITES = (LEADERBOARD, MALIGNANT, FILTERED, PLATONOV)
HEAD = ("graph", "paper", "published code", "PolyNSD as published", "PolyNSD, all options", "best other")
TEXAS = ("malignant", "texas", "random-60-20-20")  # whose splits are those of the paper's leaderboard
TEXT = """\
Test accuracy, or ROC AUC on the graphs of Platonov et al., in %, mean over splits and seeds ± deviation
over splits. Paper: the greatest number printed for any family of maps. Published code: run again on these
splits, diagonal maps, the basis of its scripts, not tuned. The other columns are trained here; each shows
the row with the best validation over all splits and fresh seeds, its name in brackets. As published: the
three families of maps, or as many as are trained. All options: also constant starts, shortcuts, adjacency
features, and searches that are longer than those of all others. Best other: no PolyNSD, controls included,
without adjacency features. The texas of the paper has random 60/20/20 splits, so its number stands beside
that rule."""


@dataclass(frozen=True)
class Stand:
    """A graph under one rule of splits: what is printed, and all that was trained."""

    experiment: str
    dataset: str
    rest: Mapping[str, Any]
    records: tuple[Record, ...]
    longer: tuple[Record, ...] = ()

    @property
    def label(self) -> str:
        """The graph, and the rule where there are several."""
        return " ".join([self.dataset, *(f"({value})" for value in self.rest.values())])

    def printed(self, source: str) -> Published | None:
        """The greatest number that PolyNSD has there."""
        is_texas = (self.experiment, self.dataset, *self.rest.values()) == TEXAS
        experiment, rest = ("leaderboard", {}) if is_texas else (self.experiment, self.rest)
        if (experiment, self.dataset) == ("leaderboard", "texas") and is_texas != (source == "paper"):
            return None  # the paper's splits are random, those of the code run again are not
        numbers = published(experiment)
        found = [find_published(numbers, self.dataset, {**rest, "model": one}, source) for one in OURS]
        known = {one.mean: one for one in found if one and one.mean is not None}
        return known[max(known)] if known else None

    @property
    def families(self) -> list[Record]:
        """PolyNSD as it is published, with one family of maps or another."""
        return [record for record in self.records if record.cell["model"] in OURS]

    @property
    def as_published(self) -> Record | None:
        """The family with the best validation."""
        return best_on_validation(self.families)

    @property
    def all_options(self) -> Record | None:
        """The PolyNSD with the best validation, longer searches included."""
        return best_on_validation([*filter(_is_ours, self.records), *self.longer])

    @property
    def best_other(self) -> Record | None:
        """The model with the best validation that is no PolyNSD and does not see edges as features."""
        others = [record for record in self.records if not _is_ours(record)]
        return best_on_validation(record for record in others if record.features != "adjacency")

    def line(self) -> tuple[str, ...]:
        """The row of the table."""
        printed = map(self.printed, ("paper", "published-code"))
        few = f", {len(self.families)} of {len(OURS)}" * (len(self.families) < len(OURS))
        trained = (
            _record_text(self.as_published, few),
            *map(_record_text, (self.all_options, self.best_other)),
        )
        return (self.label, *map(_printed_text, printed), *trained)


def all_stands(records: Mapping[str, Sequence[Record]]) -> list[Stand]:
    """Where there is a PolyNSD, from the records of every suite by its name."""
    longer = records.get(LONG_SEARCH.name, ())
    stands = [stand for suite in SUITES for stand in _stands(suite, records.get(suite.name, ()), longer)]
    if not stands:
        raise DataError("there are no records of PolyNSD; run `polynsd reproduce leaderboard` first.")
    return stands


def standing_section(stands: Sequence[Stand]) -> str:
    """The table, and how to read it."""
    return table_and_text([HEAD, *(stand.line() for stand in stands)], [TEXT])


def _stands(suite: Experiment, records: Sequence[Record], longer: Sequence[Record]) -> list[Stand]:
    found = []
    for board in boards(in_order(suite, [record for record in records if not record.is_partial])):
        for dataset in board.datasets:
            column = tuple(board.column(dataset).values())
            same = [
                one
                for one in longer
                if (one.dataset, one.protocol) == (dataset, column[0].protocol) and not one.is_partial
            ]
            found.append(Stand(suite.name, dataset, board.rest, column, tuple(same)))
    return [stand for stand in found if any(map(_is_ours, stand.records))]


def _is_ours(record: Record) -> bool:
    return group_of(record.cell["model"]) == "polynsd"


def _printed_text(one: Published | None) -> str:
    if one is None:
        return MISSING
    return str(Number(one.dataset, one.cell, one.source, one.metric, one.mean, one.std))


def _record_text(record: Record | None, more: str = "") -> str:
    if record is None:
        return MISSING
    longer = ", long search" if record.experiment == LONG_SEARCH.name else ""
    return f"{our_number(record)} ({record.cell['model']}{longer}{more})"


def read_stands(results: Path) -> list[Stand]:
    """From the folder of `polynsd reproduce`."""
    return all_stands(
        {one.name: current_records(one, results / "records" / one.name)[0] for one in (*SUITES, LONG_SEARCH)}
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command; it draws the picture too."""
    fill_page(
        lambda results: standing_section(read_stands(results)),
        "docs/findings.md",
        "standing",
        arguments,
        draw=lambda results: standing_figure(results / "standing.png", read_stands(results)),
    )


if __name__ == "__main__":
    main()
