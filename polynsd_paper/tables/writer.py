"""From records to what is read. `write_tables` makes all files of an experiment:

tables/NAME.csv               a row per cell, all numbers as fractions
tables/NAME.scores.parquet    a row per split and seed                          (with pyarrow)
tables/NAME.md                the page, with what others have printed
tables/NAME-comparisons.csv   PolyNSD against its controls, pair by pair, where something was searched
figures/NAME.png              the leaderboard, or the sweep                     (with matplotlib)
figures/NAME-search.png       the best validation after every trial, where something was searched
figures/NAME-….png            what was measured inside its models, where the experiment has a report of it
figures/NAME-ranks.png        critical differences of ranks, for three or more models and datasets
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from polynsd.errors import ConfigError, DataError
from polynsd.optional import load_optional
from polynsd.report.critical_difference import critical_difference_figure
from polynsd.report.panels import pyplot
from polynsd.stats import rank_models
from polynsd_paper.experiment import Experiment
from polynsd_paper.records import MARK_COLUMNS, SCORE_COLUMNS, load_records, option_names, summarize
from polynsd_paper.tables.experiment_page import experiment_page, is_searched, is_sweep, stale_text, title_of
from polynsd_paper.tables.figures import leaderboard_figure, search_figure, sweep_figure
from polynsd_paper.tables.formatting import metric_name
from polynsd_paper.tables.leaderboards import (
    OURS,
    choose_maps,
    compare_with_controls,
    complete,
    control_gaps,
    counted_once,
    leaderboards,
)
from polynsd_paper.tables.marks import mark_cells
from polynsd_paper.tables.printed_numbers import parse_cell, printed_columns, read_printed
from polynsd_paper.tables.terminal import BEST, print_results

if TYPE_CHECKING:
    from pandas import DataFrame

LEAST_RANKED = 3  # models, and datasets
CHOSEN = "polynsd-best"  # the row whose maps are chosen by validation


class NoRecordsError(DataError):
    """An experiment has no current records."""


def write_tables(experiment: Experiment, results: Path, records: DataFrame | None = None) -> Path:
    """Writes all files of an experiment into a folder of results, and prints its table.

    Args:
        experiment: whose.
        results: the folder.
        records: as `load_records` gives them; read from the folder unless given.

    Returns:
        The path of the page.

    Raises:
        NoRecordsError: there are no current records.
    """
    records = load_records(results, experiment) if records is None else records
    stale = len(summarize(records[~records["is_current"]]))
    records = records[records["is_current"]]
    if records.empty:
        older = f" Records with other settings: {stale}." if stale else ""
        raise NoRecordsError(f"{experiment.name} has no results yet.{older}")
    cells = mark_cells(summarize(records))
    tables = results / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    cells_table(cells, read_printed(experiment.name)).to_csv(tables / f"{experiment.name}.csv", index=False)
    pairs = compare_with_controls(cells) if is_searched(cells) else cells[:0]
    comparisons = tables / f"{experiment.name}-comparisons.csv"
    if len(pairs):
        pairs.to_csv(comparisons, index=False)
    else:
        comparisons.unlink(missing_ok=True)
    notes = []
    try:
        load_optional("pyarrow.parquet", "a table of all scores needs", "paper")
        columns = ["dataset", *option_names(records), "metric", *SCORE_COLUMNS]
        scores = records[columns].rename(columns={"score": "test"})
        scores.to_parquet(tables / f"{experiment.name}.scores.parquet", index=False)
    except ConfigError as error:
        notes.append(str(error))
    measured = ""
    try:
        pyplot()
        if experiment.is_scored:
            draw_figures(experiment, cells, results / "figures")
        measured = measured_section(experiment, cells, results)
    except ConfigError as error:
        notes.append(str(error))
    page = tables / f"{experiment.name}.md"
    figures = [name for name in _figure_names(experiment, cells) if (results / "figures" / name).exists()]
    scores = (
        experiment_page(experiment, cells, figures, stale) if experiment.is_scored else title_of(experiment)
    )
    page.write_text(scores + measured, encoding="utf-8")
    if experiment.is_scored:
        _print(experiment, cells)
    for note in [*notes, *stale_text(stale), f"written: {page}, and the tables and figures beside it"]:
        print(note)  # noqa: T201
    return page


def measured_section(experiment: Experiment, cells: DataFrame, results: Path) -> str:
    """What cells measured inside their models, for the page; empty without a report of the experiment."""
    text: str = resolve_name(experiment.report)(cells, results) if experiment.report else ""
    return text


def boards_of(cells: DataFrame) -> list[tuple[dict[str, Any], DataFrame]]:
    """The leaderboards of an experiment; a sweep has none."""
    return [] if is_sweep(cells) else list(leaderboards(cells))


def cells_table(cells: DataFrame, printed: DataFrame) -> DataFrame:
    """A row per cell and what others printed for it; below, a row per dataset for maps by validation."""
    pandas = load_optional("pandas", "tables of records need", "paper")
    table = cells.rename(columns={"val": "val_mean", "seconds": "train_seconds"})
    names = [
        "dataset", *option_names(cells), "metric", "mean", "std", "val_mean", "splits", "is_partial", "seeds",
        "trials", "search_seconds", "train_seconds", "parameters", "protocol", "features", "device", "commit",
        "train", "train_loss", *(name for name in MARK_COLUMNS if name in cells),
    ]  # fmt: skip
    table = table[names].round({"mean": 6, "std": 6, "val_mean": 6, "train": 6, "train_loss": 6})
    gaps = control_gaps(cells)
    for end in ("difference", "low", "high", "splits"):
        named = [gaps.get(key) for key in zip(cells["dataset"], cells["cell"], strict=True)]
        table[f"maps_add_{end}"] = [None if gap is None else round(getattr(gap, end), 6) for gap in named]
    best = [
        table.loc[maps.index].assign(model=CHOSEN, chosen=maps["row"])
        for maps in (choose_maps(board) for _, board in boards_of(cells))
        if len(maps)
    ]
    return pandas.concat([table.join(printed_columns(cells, printed)), *best])


def draw_figures(experiment: Experiment, cells: DataFrame, folder: Path) -> None:
    """Draws all figures of an experiment; those of an earlier time that do not apply any more are removed."""
    printed = read_printed(experiment.name)
    title = f"{experiment.name.capitalize()}: {experiment.title}"
    for name in _figure_names(experiment, cells):
        (folder / name).unlink(missing_ok=True)
    boards = boards_of(cells)
    if not boards:
        sweep_figure(folder / f"{experiment.name}.png", title, cells, printed)
    for shared, board in boards:
        end = f"{_suffix(shared)}.png"
        board_title = ", ".join([title, *map(str, shared.values())])
        models, theirs = board.assign(cell="model=" + board["row"]), _printed_models(printed, shared)
        leaderboard_figure(folder / f"{experiment.name}{end}", board_title, models, theirs)
        if is_searched(board):
            search_figure(folder / f"{experiment.name}-search{end}", f"{board_title} (searches)", board)
        _draw_ranks(folder / f"{experiment.name}-ranks{end}", board_title, board)


def _printed_models(printed: DataFrame, shared: dict[str, Any]) -> DataFrame:
    """The printed numbers of a leaderboard, their cells named by the model alone."""
    options = [parse_cell(cell) for cell in printed["cell"]]
    is_same = ["model" in each and shared.items() <= each.items() for each in options]
    models = [each["model"] for each, same in zip(options, is_same, strict=True) if same]
    return printed.loc[is_same].assign(cell=[f"model={model}" for model in models])


def _figure_names(experiment: Experiment, cells: DataFrame) -> list[str]:
    """The names of all figures that an experiment may have."""
    suffixes = [_suffix(shared) for shared, _ in boards_of(cells)]
    ends = [f"{kind}{suffix}" for kind in ("", "-ranks", "-search") for suffix in suffixes] or [""]
    return [f"{experiment.name}{end}.png" for end in ends]


def _suffix(shared: dict[str, Any]) -> str:
    return "".join(f"-{value}" for value in shared.values())


def _draw_ranks(path: Path, title: str, board: DataFrame) -> None:
    """Critical differences of the models that have all datasets; those with few models do not count."""
    cells = complete(board)
    means = cells.pivot(index="row", columns="dataset", values="mean")
    means = means.reindex(index=cells["row"].unique(), columns=counted_once(board["dataset"].unique()))
    means = means.dropna(axis="columns", thresh=LEAST_RANKED)
    ranked = means.dropna()
    if means.shape[1] < LEAST_RANKED or len(ranked) < LEAST_RANKED:
        return
    if len(ranked) < len(means):
        title = f"{title} ({len(ranked)} of {len(means)} models have all)"
    ranking = rank_models({model: row.to_list() for model, row in ranked.iterrows()})
    path.parent.mkdir(parents=True, exist_ok=True)
    critical_difference_figure(ranking, title=title, ours=OURS).savefig(path, dpi=150)


def _print(experiment: Experiment, cells: DataFrame) -> None:
    pandas = load_optional("pandas", "tables of records need", "paper")
    metrics = " or ".join(dict.fromkeys(map(metric_name, cells["metric"])))
    title, mark = f"{experiment.name}: test {metrics}", f"{BEST} best of its column"
    boards = boards_of(cells)
    if not boards:
        sweep = is_sweep(cells)
        print_results(title if sweep else f"{title}, {mark}", cells, sweep)
    for shared, board in boards:
        rows = pandas.concat([board, choose_maps(board).assign(model=CHOSEN, row=CHOSEN)])
        words = ", ".join([title, *map(str, shared.values()), mark])
        print_results(words, rows.assign(cell="model=" + rows["row"]))
