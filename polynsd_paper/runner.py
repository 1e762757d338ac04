"""From a cell to its record: search where there is something to search, then train with fresh seeds.

A search sees validation only, on the first few splits. What it chose is trained on all splits with seeds that
it has not used, and tested once. Cells whose record answers what they ask are not trained again. Studies and
trainings under way are named by what they depend on, so that another question never meets the leftovers of an
earlier one; one process at a time works on a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from statistics import fmean
from typing import Any

from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError
from polynsd.runs.environment import commit, device_name
from polynsd.runs.files import make_folder
from polynsd.runs.lock import hold_lock
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Problem, Source
from polynsd.training.protocol import fit_splits, protocol_identity
from polynsd.training.result import SplitResult
from polynsd_paper.choice import choose
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.records import (
    FIRST_SPLITS,
    Record,
    Score,
    cell_settings,
    differences,
    digest,
    read_record,
    recorded_configuration,
)

FRESH = 10_000  # the first seed of the scores; searches use those from 0 on

OnStep = Callable[[str], None]


class CellInUseError(ConfigError):
    """Another process works on the cell."""


@dataclass
class Runner:
    """Trains the cells of an experiment.

    Args:
        experiment: what is run.
        out: the folder of its records.
        work: the folder of studies and runs under way.
        device: where to train.
        splits: only the first so many.
        again: train cells that have a record once more, with the configuration that it holds.
        on_step: is told what goes on.
    """

    experiment: Experiment
    out: Path
    work: Path
    device: str = "cpu"
    splits: int | None = None
    again: bool = False
    on_step: OnStep = lambda text: None

    def __post_init__(self) -> None:
        self._problems: dict[Source, Problem] = {}

    def path(self, cell: Cell) -> Path:
        """Where the cell's record is or will be."""
        return self.out / cell.path

    def answer(self, cell: Cell) -> Record | None:
        """The cell's record, if it answers the question and has as many splits as are wanted."""
        known = self._known(cell)
        first = None if known is None else known.settings.get(FIRST_SPLITS)
        return known if first is None or (self.splits is not None and first >= self.splits) else None

    def _known(self, cell: Cell) -> Record | None:
        """The cell's record, if it answers the question, on however many splits."""
        known = read_record(self.path(cell)) if self.path(cell).exists() else None
        return None if known is None or differences(known, self.experiment, cell) else known

    def record(self, cell: Cell) -> Record:
        """The record of a cell: read, or made.

        Raises:
            CellInUseError: another process is making it.
        """
        known = self.answer(cell)
        if known is not None and not self.again:
            return known
        with self._alone(cell):
            known = self.answer(cell)  # another process may have been here in between
            return known if known is not None and not self.again else self._made(cell)

    @contextmanager
    def _alone(self, cell: Cell) -> Iterator[None]:
        make_folder(self._folder(cell))
        with ExitStack() as stack:
            try:
                stack.enter_context(hold_lock(self._folder(cell)))
            except ConfigError as error:
                raise CellInUseError(f"{cell}: {error}") from error
            yield

    def _made(self, cell: Cell) -> Record:
        problems = self._open(cell)
        configuration, search = self._chosen(cell, problems[0])
        record = self._trained(cell, problems, configuration, search)
        record.save(self.path(cell))
        for folder in self._folder(cell).glob("final-*"):
            rmtree(folder)  # the record has it all; `again` begins anew
        return record

    def _folder(self, cell: Cell) -> Path:
        """Where its studies and its trainings are kept."""
        return self.work / cell.dataset / cell.name

    def _open(self, cell: Cell) -> list[Problem]:
        """The graphs of a cell with all splits; those of the last cell are kept for the next."""
        sources = [replace(source, device=self.device) for source in self.experiment.sources(cell)]
        self._problems = {s: self._problems.get(s) or s.problem(FRESH) for s in sources}
        return list(self._problems.values())

    def _chosen(self, cell: Cell, problem: Problem) -> tuple[Configuration, dict[str, Any] | None]:
        """What the plan says, what the same search chose earlier, or what it finds now."""
        if isinstance(cell.plan, Configuration):
            return cell.plan, None
        known = self._known(cell)
        if known is not None and known.search is not None:
            return recorded_configuration(known), dict(known.search)
        budget = self.experiment.budget(cell.dataset)
        return choose(cell, budget, problem, self._folder(cell), self.on_step)

    def _trained(
        self,
        cell: Cell,
        problems: Sequence[Problem],
        configuration: Configuration,
        search: dict[str, Any] | None,
    ) -> Record:
        """Every split of every graph with as many seeds as the experiment asks for."""
        scores: list[Score] = []
        seconds = 0.0
        options: dict[str, Any] = {
            "rules": cell.rules,
            "seeds": self.experiment.seeds,
            "ddof": self.experiment.ddof,
        }
        for problem in map(self._first_splits, problems):
            self.on_step(f"{cell}: training for the scores")
            identity = protocol_identity(problem, configuration, **options)
            folder = self._folder(cell) / f"final-{digest(identity)}"
            result = fit_splits(problem, configuration, **options, out=folder, keep=False)
            seconds += result.seconds or 0.0
            first = len({score.split for score in scores})
            scores += [_score(row, first) for row in result.rows]
        return Record(
            experiment=self.experiment.name,
            dataset=cell.dataset,
            cell=dict(cell.options),
            metric=result.metric,
            protocol=result.about["protocol"],
            features=result.about["features"],
            rules=cell.rules,
            ddof=self.experiment.ddof,
            configuration=_plain(configuration),
            parameters=result.parameters,
            scores=tuple(scores),
            search=search,
            seconds=round(seconds, 2),
            device=device_name(problems[0].data.x.device),
            commit=commit(),
            sizes=_sizes(problems[0]),
            settings=cell_settings(self.experiment, cell) | self._part(problems),
        )

    def _first_splits(self, problem: Problem) -> Problem:
        return replace(problem, splits=problem.splits[: self.splits])

    def _part(self, problems: Sequence[Problem]) -> dict[str, int]:
        """How many splits were trained, where these are not all."""
        if self.splits is None or all(len(problem.splits) <= self.splits for problem in problems):
            return {}
        return {FIRST_SPLITS: self.splits}


def _plain(configuration: Configuration) -> dict[str, Any]:
    from polynsd.training.configuration import plain_configuration

    return plain_configuration(configuration)


def _sizes(problem: Problem) -> dict[str, float]:
    """Nodes in each part, in the mean over splits."""
    return {
        part: round(fmean(int(getattr(split, part).sum()) for split in problem.splits), 1) for part in PARTS
    }


def _score(row: SplitResult, first: int) -> Score:
    return Score(first + row.split, row.seed, row.val, row.test, row.best_epoch, row.epochs)
