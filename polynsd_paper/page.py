"""The page of an experiment in Markdown: our numbers, and below each what others have printed for the cell.

A table has a row per cell and a column per dataset; for a sweep the last option of the cells runs across and
the datasets run down. Rows that we have not run are marked † and come behind ours, numbers of the first
splits only are marked ‡, and small figures lead to the footnotes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polynsd.errors import DataError
from polynsd.report.output import clock_text
from polynsd.stats import bold_rule
from polynsd_paper.experiment import Experiment
from polynsd_paper.footnotes import Footnote, footnotes_for
from polynsd_paper.leaderboards import choose_maps, leaderboards, paired_scores, winners
from polynsd_paper.numbers import (
    HERE,
    NOT_RUN,
    NUMBER,
    PARTIAL,
    SOURCE_NAMES,
    cell_number,
    cell_options,
    collect_numbers,
    deviation_text,
    metric_name,
    natural_order,
    number_text,
    range_text,
)
from polynsd_paper.published import SOURCES, published

if TYPE_CHECKING:
    from pandas import DataFrame

QUOTED = "†"
LEGEND = {
    QUOTED: "Quoted, not run here.",
    PARTIAL: "Of the first splits only, and in no comparison.",
    f"{NOT_RUN} ": "Not run here, or not printed there.",
}
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
COMMIT_LETTERS = 10
BEST_LABEL = "polynsd (maps by validation)"
BEST_RULE = f"{BEST_LABEL}: on every dataset the family with the best validation, in brackets."
NO_TEST = "Nothing is bold: a test needs the scores of two models on three splits at least."
STALE = "Records left out because they were trained with other settings: {}."

Labels = tuple[str, ...]
Entries = Mapping[str, str]  # by column


def is_searched(cells: DataFrame) -> bool:
    """Whether models were searched, so that they are rivals."""
    return bool(cells["is_searched"].any())


def is_sweep(cells: DataFrame) -> bool:
    """Whether something beside rows and datasets varies, and nothing was searched."""
    return not is_searched(cells) and bool(cells["cell"].str.contains(";").any())


def stale_text(count: int) -> list[str]:
    """The sentence about records that are not shown; none where there are none."""
    return [STALE.format(count)] if count else []


def place(dataset: str, options: Mapping[str, Any], axes: Sequence[str], sweep: bool) -> tuple[Labels, str]:
    """Labels of the row, and the column: the dataset or, in a sweep, the last option of the cell."""
    values = tuple(str(options[name]) for name in axes)
    return ((dataset, *values[:-1]), values[-1]) if sweep else (values, dataset)


def column_heads(axis: str, columns: Sequence[str]) -> list[str]:
    """`K=4` for numbers; names speak for themselves."""
    return [f"{axis}={column}" if NUMBER.fullmatch(column) else column for column in columns]


def experiment_page(
    experiment: Experiment, cells: DataFrame, figures: Sequence[str] = (), stale: int = 0
) -> str:
    """The page: how the numbers came about, the tables, what has to be known to read them, the figures.

    Args:
        experiment: in the order of whose cells rows and columns come.
        cells: its records, as `summarize` gives them.
        figures: names of the files in the folder of figures.
        stale: how many records are not shown because they were trained with other settings.
    """
    if cells.empty:
        raise DataError("there are no records to tabulate; train some cells of the experiment first.")
    numbers = collect_numbers(cells, published(experiment.name))
    labels = {str(v) for options in numbers["options"] for v in options.values()} | set(numbers["dataset"])
    notes = footnotes_for(experiment.name, labels)
    boards = [] if is_sweep(cells) else [board for _, board in leaderboards(cells)]
    best = dict(_maps_by_validation(board) for board in boards if len(choose_maps(board)))
    bold = {winner for board in boards if is_searched(cells) for winner in winners(board)}
    kinds = dict.fromkeys(tuple(options) for options in numbers.loc[numbers["source"] == HERE, "options"])
    tables = []
    for axes in kinds:
        alike = numbers[[set(options) == set(axes) for options in numbers["options"]]]
        tables.append(_table(alike, axes, is_sweep(cells), bold, notes, best, experiment))
    shown = "\n".join(line for table in tables for line in table)
    rules = [*([BEST_RULE] if best else []), *_bold_rule(cells, boards), *stale_text(stale)]
    legend = [
        *(f"- {rule}" for rule in rules),
        *(f"- {mark.strip()} {text}" for mark, text in LEGEND.items() if mark in shown),
        *(
            f"- {_raised(i)} {note.text}" if note.about else f"- {note.text}"
            for i, note in enumerate(notes, 1)
        ),
        *_origins(numbers),
    ]
    title = f"# {experiment.name.capitalize()}: {experiment.title}"
    blocks = [[title], _facts(cells), *tables, legend]
    page = "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
    links = [f"![{name.removesuffix('.png')}](../figures/{name})\n" for name in figures]
    return "\n".join([page, *links])


def _maps_by_validation(board: DataFrame) -> tuple[Labels, Entries]:
    """The row of the maps that validation chooses."""
    chosen = choose_maps(board)
    options = cell_options(chosen.iloc[0])
    labels = tuple(BEST_LABEL if name == "model" else str(value) for name, value in options.items())
    entries = {
        cell["dataset"]: f"{cell_number(cell)} ({cell['row'].partition('-')[2]})"
        for _, cell in chosen.iterrows()
    }
    return labels, entries


def _bold_rule(cells: DataFrame, boards: Sequence[DataFrame]) -> list[str]:
    if not is_searched(cells):
        return []
    columns = [column for board in boards for _, column in board.groupby("dataset")]
    return [bold_rule() if any(len(paired_scores(column)) > 1 for column in columns) else NO_TEST]


def _table(
    numbers: DataFrame,
    axes: Labels,
    sweep: bool,
    bold: Collection[tuple[str, str]],
    notes: Sequence[Footnote],
    best: Mapping[Labels, Entries],
    experiment: Experiment,
) -> list[str]:
    """The lines of one table: cells that have the same kinds of options."""
    listed = [
        place(cell.dataset, cell.options, axes, sweep)
        for cell in experiment.cells()
        if set(cell.options) == set(axes)
    ]
    places = [place(n["dataset"], n["options"], axes, sweep) for _, n in numbers.iterrows()]
    numbers = numbers.assign(labels=[labels for labels, _ in places], column=[column for _, column in places])
    ours = numbers[numbers["source"] == HERE]
    columns = natural_order(_sort_as(ours["column"], [column for _, column in listed]))
    heads = ("dataset", *axes[:-1]) if sweep else axes
    lines: list[Labels] = [
        (*labels, HERE, *(entries.get(column, NOT_RUN) for column in columns))
        for labels, entries in best.items()
        if len(labels) == len(heads)
    ]
    run = set(ours["labels"])
    grid = dict(list(numbers[numbers["column"].isin(columns)].groupby(["labels", "source"], sort=False)))
    rows = _sort_as(dict.fromkeys(labels for labels, _ in grid), [labels for labels, _ in listed])
    mark = _marker(notes)
    for labels in sorted(rows, key=lambda row: row not in run):
        shown = labels if labels in run else (*labels[:-1], f"{labels[-1]} {QUOTED}")
        for source in (HERE, *SOURCES):
            if (labels, source) in grid:
                entries = _entries(grid[labels, source], bold if source == HERE else ())
                texts = (entries.get(column, NOT_RUN) for column in columns)
                lines.append((*map(mark, shown), SOURCE_NAMES.get(source, source), *texts))
                shown = ("",) * len(labels)
    tops = column_heads(axes[-1], columns) if sweep else columns
    return _markdown((*heads, "", *map(mark, tops)), lines, left=len(heads) + 1)


def _sort_as(labels: Iterable[Any], order: Sequence[Any]) -> list[Any]:
    """Labels in a given order; others come last, as they came."""
    rank = {label: number for number, label in enumerate(dict.fromkeys(order))}
    return sorted(labels, key=lambda label: rank.get(label, len(rank)))


def _entries(numbers: DataFrame, bold: Collection[tuple[str, str]]) -> Entries:
    entries = {}
    for _, n in numbers.iterrows():
        text = number_text(n["metric"], n["mean"], n["std"], n["note"], n["is_partial"])
        entries[n["column"]] = f"**{text}**" if (n["dataset"], n["cell"]) in bold else text
    return entries


def _markdown(head: Labels, lines: Sequence[Labels], left: int) -> list[str]:
    """Columns padded to one width, so that the plain text reads as a table too."""
    widths = [max(3, *(len(line[i]) for line in (head, *lines))) for i in range(len(head))]

    def pad(line: Sequence[str]) -> str:
        sides = [str.ljust] * left + [str.rjust] * (len(head) - left)
        cells = (side(text, width) for side, text, width in zip(sides, line, widths, strict=True))
        return f"| {' | '.join(cells)} |"

    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return [pad(head), pad(rule), *(pad(line) for line in lines)]


def _facts(cells: DataFrame) -> list[str]:
    """Metric, protocol, search and origin; what differs between cells is given as a range or a list."""
    splits, seeds = range_text(cells["splits"]), range_text(cells["seeds"])
    datasets: dict[str, list[str]] = {}
    for metric, dataset in zip(cells["metric"], cells["dataset"], strict=True):
        datasets.setdefault(metric_name(metric), []).append(dataset)
    metrics = [f"{metric} ({_listed(names)})" for metric, names in datasets.items()]
    searched = cells[cells["is_searched"]]
    if searched.empty:
        search = "Settings are fixed, nothing was searched."
    else:
        trials, seconds = range_text(searched["trials"]), range_text(map(round, searched["search_seconds"]))
        search = f"Settings are the best on validation of {trials} trials in {seconds} s per cell."
    return [
        f"- Test {', '.join(metrics) if len(metrics) > 1 else next(iter(datasets))}, mean over {splits} "
        f"{'split' if splits == '1' else 'splits'} × {seeds} {'seed' if seeds == '1' else 'seeds'}"
        f"{deviation_text(cells)}.",
        f"- Protocol {_listed(cells['protocol'])}, features {_listed(cells['features'])}, "
        f"training rules {_listed(cells['rules'])}.",
        f"- {search} {len(cells)} {'cell' if len(cells) == 1 else 'cells'} took "
        f"{clock_text(sum(cells['seconds']))} on {'; '.join(dict.fromkeys(cells['device']))}, "
        f"commit {_listed(cells['commit'].str[:COMMIT_LETTERS])}.",
    ]


def _listed(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _marker(notes: Sequence[Footnote]) -> Callable[[str], str]:
    """Adds the small figures of the footnotes that concern a label."""

    def mark(label: str) -> str:
        name = label.removesuffix(f" {QUOTED}")
        figures = [_raised(i) for i, note in enumerate(notes, 1) if note.concerns(name)]
        return " ".join([label, *figures])

    return mark


def _raised(number: int) -> str:
    return str(number).translate(RAISED)


def _origins(numbers: DataFrame) -> list[str]:
    """Where the literature's numbers and those of the published code come from."""
    quoted = numbers[numbers["source"].isin(("literature", "published-code")) & (numbers["note"] != "")]
    return [
        f"- {SOURCE_NAMES.get(source, source).capitalize()}: {note} "
        f"({_listed(str(v) for options in group['options'] for v in options.values())}; "
        f"{_listed(group['dataset'])})."
        for (source, note), group in quoted.groupby(["source", "note"], sort=False)
    ]
