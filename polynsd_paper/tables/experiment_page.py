"""The page of an experiment in Markdown: our numbers, and below each what others have printed for the cell.

A table has a row per cell and a column per dataset; for a sweep the last option of the cells runs across and
the datasets run down. Rows that we have not run are marked † and come behind ours, numbers of the first
splits only are marked ‡, and small figures lead to the footnotes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polynsd.errors import DataError
from polynsd.report.output import clock_text
from polynsd.stats import bold_rule
from polynsd_paper.experiment import Experiment
from polynsd_paper.tables.formatting import (
    NOT_RUN,
    NUMBER,
    SOURCE_NAMES,
    cell_number,
    deviation_text,
    gap_text,
    join_unique,
    markdown_table,
    metric_name,
    natural_order,
    number_text,
    range_text,
)
from polynsd_paper.tables.leaderboards import (
    ADDED,
    choose_maps,
    control_gaps,
    leaderboards,
    paired_scores,
    winners,
)
from polynsd_paper.tables.marks import MEANINGS
from polynsd_paper.tables.printed_numbers import (
    HERE,
    SOURCES,
    Footnote,
    collect_numbers,
    footnotes_for,
    parse_cell,
    read_printed,
)

if TYPE_CHECKING:
    from pandas import DataFrame

QUOTED = "†"
LEGEND = {
    QUOTED: "Quoted, not run here.",
    **MEANINGS,
    f"{NOT_RUN} ": "Not run here, or not printed there.",
}
ADDED_RULE = (
    f"{ADDED}: the row minus its matched control, the same configuration with identity maps, in points with "
    "the 95 % interval over splits; bold where that does not contain zero."
)
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
COMMIT_LETTERS = 10
BEST_LABEL = "polynsd (maps by validation)"
BEST_RULE = f"{BEST_LABEL}: on every dataset the family with the best validation, in brackets."
NO_TEST = "Nothing is bold: a test needs the scores of two models on three splits at least."
STALE = "Records left out because they were trained with other settings: {}."

Labels = tuple[str, ...]
Texts = Mapping[str, str]  # by column


def is_searched(cells: DataFrame) -> bool:
    """Whether models were searched, so that they are rivals."""
    return bool(cells["is_searched"].any())


def is_sweep(cells: DataFrame) -> bool:
    """Whether something beside rows and datasets varies, and nothing was searched."""
    return not is_searched(cells) and bool(cells["cell"].str.contains(";").any())


def stale_text(count: int) -> list[str]:
    """The sentence about records that are not shown; none where there are none."""
    return [STALE.format(count)] if count else []


def table_position(
    dataset: str, options: Mapping[str, Any], axes: Sequence[str], sweep: bool
) -> tuple[Labels, str]:
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
    sweep, searched = is_sweep(cells), is_searched(cells)
    numbers = collect_numbers(cells, read_printed(experiment.name))
    labels = {value for options in numbers["options"] for value in options.values()} | set(numbers["dataset"])
    notes = footnotes_for(experiment.name, labels)
    boards = [] if sweep else [board for _, board in leaderboards(cells)]
    best = {labels: texts for board in boards for labels, texts in _maps_by_validation(board)}
    bold = {winner for board in boards if searched for winner in winners(board)}
    added = {key: gap_text(gap, 2) for key, gap in control_gaps(cells).items()}
    kinds = dict.fromkeys(tuple(parse_cell(cell)) for cell in cells["cell"])
    tables = []
    for axes in kinds:
        alike = numbers[[set(options) == set(axes) for options in numbers["options"]]]
        listed = [
            table_position(cell.dataset, cell.options, axes, sweep)
            for cell in experiment.cells()
            if set(cell.options) == set(axes)
        ]
        tables.append(_table(alike, axes, sweep, bold, notes, best, listed, added))
    shown = "\n".join(tables)
    columns = [column for board in boards for _, column in board.groupby("dataset")]
    can_test = any(len(paired_scores(column)) > 1 for column in columns)
    rules = [
        *([BEST_RULE] if best else []),
        *([ADDED_RULE] if added else []),
        *([bold_rule() if can_test else NO_TEST] if searched else []),
        *stale_text(stale),
    ]
    legend = [
        *(f"- {rule}" for rule in rules),
        *(f"- {mark.strip()} {text}" for mark, text in LEGEND.items() if mark in shown),
        *(
            f"- {_raised(i)} {note.text}" if note.about else f"- {note.text}"
            for i, note in enumerate(notes, 1)
        ),
        *_origins(numbers),
    ]
    blocks = [title_of(experiment), "\n".join(_facts(cells)), *tables, "\n".join(legend)]
    page = "\n\n".join(filter(None, blocks)) + "\n"
    links = [f"![{name.removesuffix('.png')}](../figures/{name})\n" for name in figures]
    return "\n".join([page, *links])


def title_of(experiment: Experiment) -> str:
    """The first line of the page."""
    return f"# {experiment.name.capitalize()}: {experiment.title}"


def _maps_by_validation(board: DataFrame) -> list[tuple[Labels, Texts]]:
    """The row of the maps that validation chooses, with its labels; none where it cannot choose."""
    chosen = choose_maps(board)
    if chosen.empty:
        return []
    options = {**parse_cell(chosen["cell"].iloc[0]), "model": BEST_LABEL}
    texts = {
        cell["dataset"]: f"{cell_number(cell)} ({cell['row'].partition('-')[2]})"
        for _, cell in chosen.iterrows()
    }
    return [(tuple(options.values()), texts)]


def _table(
    numbers: DataFrame,
    axes: Labels,
    sweep: bool,
    bold: Collection[tuple[str, str]],
    notes: Sequence[Footnote],
    best: Mapping[Labels, Texts],
    listed: Sequence[tuple[Labels, str]],
    added: Mapping[tuple[str, str], str],
) -> str:
    """One table: cells that have the same kinds of options, in the order of the listed positions.

    Below a row that has controls stands what its maps add.
    """
    grid: dict[tuple[Labels, str], dict[str, str]] = defaultdict(dict)
    for number in numbers.itertuples():
        labels, column = table_position(number.dataset, number.options, axes, sweep)
        text = number_text(number.metric, number.mean, number.std, number.note, number.marks)
        is_bold = number.source == HERE and (number.dataset, number.cell) in bold
        grid[labels, number.source][column] = f"**{text}**" if is_bold else text
        if number.source == HERE and (number.dataset, number.cell) in added:
            grid[labels, ADDED][column] = added[number.dataset, number.cell]
    ours = {labels: texts for (labels, source), texts in grid.items() if source == HERE}
    trained = dict.fromkeys(column for texts in ours.values() for column in texts)
    columns = natural_order(_sort_as(trained, [column for _, column in listed]))
    heads = ("dataset", *axes[:-1]) if sweep else axes
    lines: list[Labels] = [
        (*labels, HERE, *(texts.get(column, NOT_RUN) for column in columns))
        for labels, texts in best.items()
        if len(labels) == len(heads)
    ]

    def mark(label: str) -> str:
        """Adds the small figures of the footnotes that concern a label."""
        name = label.removesuffix(f" {QUOTED}")
        return " ".join([label, *(_raised(i) for i, note in enumerate(notes, 1) if note.concerns(name))])

    filled = dict.fromkeys(labels for (labels, _), texts in grid.items() if set(texts) & set(columns))
    rows = _sort_as(filled, [labels for labels, _ in listed])
    for labels in sorted(rows, key=lambda row: row not in ours):
        shown = labels if labels in ours else (*labels[:-1], f"{labels[-1]} {QUOTED}")
        for source in (HERE, ADDED, *SOURCES):
            texts = grid.get((labels, source), {})
            if set(texts) & set(columns):
                entries = (texts.get(column, NOT_RUN) for column in columns)
                lines.append((*map(mark, shown), SOURCE_NAMES.get(source, source), *entries))
                shown = ("",) * len(labels)
    tops = column_heads(axes[-1], columns) if sweep else columns
    return markdown_table((*heads, "", *map(mark, tops)), lines, left=len(heads) + 1, is_padded=True)


def _sort_as(labels: Iterable[Any], order: Sequence[Any]) -> list[Any]:
    """Labels in a given order; others come last, as they came."""
    rank = {label: number for number, label in enumerate(dict.fromkeys(order))}
    return sorted(labels, key=lambda label: rank.get(label, len(rank)))


def _facts(cells: DataFrame) -> list[str]:
    """Metric, protocol, search and origin; what differs between cells is given as a range or a list."""
    splits, seeds = range_text(cells["splits"]), range_text(cells["seeds"])
    datasets = cells.groupby("metric", sort=False)["dataset"]
    metrics = [f"{metric_name(metric)} ({join_unique(names)})" for metric, names in datasets]
    if len(metrics) == 1:
        metrics = [metric_name(cells["metric"].iloc[0])]
    searched = cells[cells["is_searched"]]
    if any(configuration.get("grid") for configuration in cells["configuration"]):
        search = "Some settings were chosen by validation, see below; the others are fixed."
    elif searched.empty:
        search = "Settings are fixed, nothing was searched."
    else:
        trials, seconds = range_text(searched["trials"]), range_text(map(round, searched["search_seconds"]))
        search = f"Settings are the best on validation of {trials} trials in {seconds} s per cell."
    return [
        f"- Test {', '.join(metrics)}, mean over {splits} "
        f"{'split' if splits == '1' else 'splits'} × {seeds} {'seed' if seeds == '1' else 'seeds'}"
        f"{deviation_text(cells)}.",
        f"- Protocol {join_unique(cells['protocol'])}, features {join_unique(cells['features'])}, "
        f"training rules {join_unique(cells['rules'])}.",
        f"- {search} {len(cells)} {'cell' if len(cells) == 1 else 'cells'} took "
        f"{clock_text(sum(cells['seconds']))} on {'; '.join(dict.fromkeys(cells['device']))}, "
        f"commit {join_unique(cells['commit'].str[:COMMIT_LETTERS])}.",
    ]


def _raised(number: int) -> str:
    return str(number).translate(RAISED)


def _origins(numbers: DataFrame) -> list[str]:
    """Where the literature's numbers and those of the published code come from."""
    quoted = numbers[numbers["source"].isin(("literature", "published-code")) & (numbers["note"] != "")]
    return [
        f"- {SOURCE_NAMES.get(source, source).capitalize()}: {note} "
        f"({join_unique(v for options in group['options'] for v in options.values())}; "
        f"{join_unique(group['dataset'])})."
        for (source, note), group in quoted.groupby(["source", "note"], sort=False)
    ]
