"""From records to what is read: tables as CSV, Parquet and Markdown, and figures.

NAME.csv               a row per cell, all numbers as fractions
NAME.scores.parquet    a row per split and seed                          (with pyarrow)
NAME.md                the page, with what others have printed
NAME.png               the leaderboard, or the sweep                     (with matplotlib)
NAME-search.png        the best validation after every trial, where something was searched
NAME-ranks.png         critical differences of ranks, for three or more models and datasets
NAME-comparisons.csv   PolyNSD against its controls, pair by pair, where something was searched
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polynsd.errors import ConfigError
from polynsd.optional import load_optional
from polynsd.report.critical_difference import critical_difference_figure
from polynsd.report.panels import pyplot
from polynsd.stats import bold_rule, rank_models
from polynsd_paper.boards import BEST, OURS, Board, boards, bold, chosen_maps, paired_scores
from polynsd_paper.experiment import Experiment
from polynsd_paper.paired_rows import paired_rows
from polynsd_paper.published import Published, cell_key, published
from polynsd_paper.records import Record, Score
from polynsd_paper.remarks import remarks_for
from polynsd_paper.result_figures import leaderboard_figure, search_figure
from polynsd_paper.result_numbers import metric_name, our_number, tidy_rows, unique, write_csv
from polynsd_paper.result_sweep import sweep_figure
from polynsd_paper.result_table import Derived, result_page
from polynsd_paper.result_terminal import MARK, print_results

FEWEST = 3  # models and datasets that ranks are told of
BEST_LABEL = "polynsd (maps by validation)"
BEST_RULE = f"{BEST_LABEL}: on every dataset the family with the best validation, in brackets."
STALE = "Records left out because they answer an older question (another plan or budget): {}."
NO_TEST = "Nothing is bold: a test needs the scores of two models on three splits at least."


def write_tables(experiment: Experiment, records: Sequence[Record], out: Path, left_out: int = 0) -> Path:
    """Writes all files of an experiment, prints its table, and returns the path of the page."""
    return Tables(experiment, in_order(experiment, records), out, left_out).write()


def in_order(experiment: Experiment, records: Sequence[Record]) -> list[Record]:
    """As the experiment lists its cells; those that it no longer has come last."""
    order = {(cell.dataset, cell_key(cell.options)): at for at, cell in enumerate(experiment.cells())}
    return sorted(records, key=lambda one: order.get((one.dataset, cell_key(one.cell)), len(order)))


@dataclass(frozen=True)
class Tables:
    """The files of an experiment.

    Args:
        experiment: whose.
        records: of its cells.
        out: the folder.
        left_out: how many records are not shown because they answer an older question.
    """

    experiment: Experiment
    records: Sequence[Record]
    out: Path
    left_out: int = 0

    def write(self) -> Path:
        """Writes and prints everything."""
        printed = published(self.experiment.name)
        write_csv(self._path(".csv"), self._rows(printed))
        pairs = paired_rows(self.boards) if self.is_searched else []
        if pairs:
            write_csv(self._path("-comparisons.csv"), pairs)
        else:
            self._path("-comparisons.csv").unlink(missing_ok=True)
        notes = [
            *_unless_missing(_parquet, self._write_scores),
            *_unless_missing(pyplot, lambda: self._draw(printed)),
        ]
        page = self._path(".md")
        page.write_text(self._page(printed), encoding="utf-8")
        self._print()
        for note in [*notes, *self._stale(), f"written: {page} and the files beside it"]:
            print(note)  # noqa: T201
        return page

    @property
    def is_searched(self) -> bool:
        """Whether models were searched, so that they are rivals."""
        return any(record.search for record in self.records)

    @property
    def is_sweep(self) -> bool:
        """Whether something beside rows and datasets is varied, and nothing searched."""
        return not self.is_searched and any(len(record.cell) > 1 for record in self.records)

    @property
    def boards(self) -> list[Board]:
        """The leaderboards; a sweep has none, nor has what names no models."""
        return [] if self.is_sweep else boards(self.records)

    @property
    def _title(self) -> str:
        return f"{self.experiment.name.capitalize()}: {self.experiment.title}"

    def _path(self, end: str) -> Path:
        return self.out / f"{self.experiment.name}{end}"

    def _rows(self, printed: Sequence[Published]) -> list[dict[str, Any]]:
        """A row per record, and below them one per dataset for the maps chosen by validation."""
        rows = tidy_rows(self.records, printed)
        chosen = [record for board in self.boards for record in chosen_maps(board).values()]
        named = [replace(record, cell={**record.cell, "model": BEST}) for record in chosen]
        best = [
            {**row, "chosen": record.cell["model"]}
            for row, record in zip(tidy_rows(named), chosen, strict=True)
        ]
        return rows + best

    def _write_scores(self) -> None:
        from pyarrow import Table
        from pyarrow.parquet import write_table

        axes = dict.fromkeys(name for record in self.records for name in record.cell)
        rows = [
            {
                "dataset": record.dataset,
                **{name: record.cell.get(name) for name in axes},
                "metric": record.metric,
                **dict(zip(Score._fields, score, strict=True)),
            }
            for record in self.records
            for score in record.scores
        ]
        write_table(Table.from_pylist(rows), self._path(".scores.parquet"))

    def _draw(self, printed: Sequence[Published]) -> None:
        title = self._title
        for path in self._pictures():
            path.unlink(missing_ok=True)  # not all of them may be drawn this time
        if not self.boards:
            sweep_figure(self._path(".png"), title, [_model_first(one) for one in self.records], printed)
        for board in self.boards:
            records, end = board.plain(), f"{board.suffix}.png"
            same = [one for one in printed if all(one.cell.get(name) == v for name, v in board.rest.items())]
            beside = [replace(one, cell={"model": one.cell["model"]}) for one in same if "model" in one.cell]
            full = ", ".join([title, *map(str, board.rest.values())])
            leaderboard_figure(self._path(end), full, records, beside)
            if any(record.search for record in records):
                search_figure(self._path(f"-search{end}"), f"{full} (searches)", records)
            _draw_ranks(self._path(f"-ranks{end}"), full, board)

    def _page(self, printed: Sequence[Published]) -> str:
        winners = {one for board in self.boards if self.is_searched for one in bold(board)}
        derived = self._derived()
        page = result_page(
            self._title,
            self.records,
            printed,
            remarks_for(self.experiment.name),
            winners,
            self.is_sweep,
            derived,
            [*([BEST_RULE] if derived else []), *self._bold_rule(), *self._stale()],
            self.experiment.cells(),
        )
        return "\n".join([page, *self._links()])

    def _derived(self) -> Derived:
        """The row of the maps chosen by validation, for each board."""
        rows = {}
        for board in self.boards:
            chosen = chosen_maps(board)
            if chosen:
                cell = next(iter(chosen.values())).cell
                labels = tuple(BEST_LABEL if name == "model" else str(v) for name, v in cell.items())
                rows[labels] = {dataset: _with_maps(record) for dataset, record in chosen.items()}
        return rows

    def _bold_rule(self) -> list[str]:
        if not self.is_searched:
            return []
        columns = [board.column(dataset) for board in self.boards for dataset in board.datasets]
        return [bold_rule() if any(len(paired_scores(column)) > 1 for column in columns) else NO_TEST]

    def _stale(self) -> list[str]:
        return [STALE.format(self.left_out)] * bool(self.left_out)

    def _pictures(self) -> list[Path]:
        """All that there may be."""
        ends = [f"{kind}{board.suffix}" for kind in ("", "-ranks", "-search") for board in self.boards]
        return [self._path(f"{end}.png") for end in ends or [""]]

    def _links(self) -> list[str]:
        """To the figures that are there."""
        return [f"![{path.stem}]({path.name})\n" for path in self._pictures() if path.exists()]

    def _print(self) -> None:
        metrics = " or ".join(unique(metric_name(record.metric) for record in self.records))
        title, mark = f"{self.experiment.name}: test {metrics}", f"{MARK} best of its column"
        if not self.boards:
            words = title if self.is_sweep else f"{title}, {mark}"
            print_results(words, self.records, sweep=self.is_sweep)
        for board in self.boards:
            best = [replace(record, cell={"model": BEST}) for record in chosen_maps(board).values()]
            words = ", ".join([title, *map(str, board.rest.values()), mark])
            print_results(words, [*board.plain(), *best])


def _model_first(record: Record) -> Record:
    """Lines are models, where there are models."""
    model = {name: value for name, value in record.cell.items() if name == "model"}
    return replace(record, cell={**model, **record.cell})


def _with_maps(record: Record) -> str:
    return f"{our_number(record)} ({str(record.cell['model']).partition('-')[2]})"


def _draw_ranks(path: Path, title: str, board: Board) -> None:
    """Of the models that have all datasets."""
    columns = [board.column(dataset) for dataset in board.datasets]
    complete = [model for model in columns[0] if all(model in column for column in columns)]
    if len(columns) < FEWEST or len(complete) < FEWEST:
        return
    ranking = rank_models({model: [column[model].mean for column in columns] for model in complete})
    every = unique(model for column in columns for model in column)
    if len(complete) < len(every):
        title = f"{title} ({len(complete)} of {len(every)} models have all)"
    critical_difference_figure(ranking, title=title, ours=OURS).savefig(path, dpi=150)


def _parquet() -> Any:
    return load_optional("pyarrow.parquet", "a table of all scores needs", "runs")


def _unless_missing(load: Callable[[], Any], write: Callable[[], None]) -> list[str]:
    """Writes, or gives the line that says which package is missing."""
    try:
        load()
    except ConfigError as error:
        return [str(error)]
    write()
    return []
