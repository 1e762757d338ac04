"""Results as Markdown: our numbers, and below each what others have printed for the same cell.

A table has a row per cell and a column per dataset; for a sweep the last option of the cells runs across
and the datasets run down. A row that we have not run is marked † and comes behind ours, a number of a few
splits only is marked ‡, a missing one is —, and small figures lead to the remarks below the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from polynsd.errors import DataError
from polynsd.report.output import clock_text
from polynsd_paper.published import SOURCES, Published, cell_text
from polynsd_paper.remarks import Remark
from polynsd_paper.result_numbers import (
    HERE,
    MISSING,
    PARTIAL,
    SOURCE_NAMES,
    Number,
    Place,
    collect,
    column_heads,
    deviation_text,
    metric_name,
    natural_order,
    place,
)

if TYPE_CHECKING:
    from polynsd_paper.experiment import Cell
    from polynsd_paper.records import Record

QUOTED = "†"
MARKS = {QUOTED: "Quoted, not run here.", PARTIAL: "Of the first splits only, and in no comparison."}
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Row = tuple[str, ...]
Label = TypeVar("Label", str, Row)
Lines = list[str]
Bold = Collection[tuple[str, str]]
Derived = Mapping[Row, Mapping[str, str]]
COMMIT = 10  # letters of a commit that are enough to find it


def result_page(
    title: str,
    records: Sequence[Record],
    published: Sequence[Published] = (),
    remarks: Sequence[Remark] = (),
    bold: Bold = (),
    sweep: bool = False,
    derived: Derived | None = None,
    notes: Sequence[str] = (),
    cells: Sequence[Cell] = (),
) -> str:
    """The whole page in Markdown: how the numbers came about, the tables, the remarks that apply.

    Args:
        title: its heading.
        records: one per cell and dataset.
        published: what others have printed for the experiment.
        remarks: on the experiment.
        bold: (dataset, `cell_text(cell)`) of our entries to print in bold.
        sweep: whether the last option of the cells runs across, instead of the datasets.
        derived: rows above all others that follow from the records: labels → entries by column.
        notes: sentences that belong below the tables, before the remarks.
        cells: of the experiment, in whose order rows and columns come; without them that of the records.
    """
    if not records:
        raise DataError("there are no records to tabulate; train some cells of the experiment first.")
    numbers = collect(records, published)
    applying = _applying(remarks, numbers)
    tables = [
        _table(group, axes, sweep, bold, applying, derived or {}, cells) for axes, group in _groups(numbers)
    ]
    shown = "\n".join(line for table in tables for line in table)
    legend = [f"- {note}" for note in notes] + [
        f"- {mark} {text}" for mark, text in MARKS.items() if mark in shown
    ]
    legend += [*_footnotes(applying), *_origins(numbers)]
    blocks = [[f"# {title}"], _facts(records), *tables, legend]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _groups(numbers: Sequence[Number]) -> list[tuple[Row, list[Number]]]:
    """Cells of other options need another table; the options are named in the order of our own cells."""
    axes = list(dict.fromkeys(tuple(one.cell) for one in numbers if one.source == HERE))
    return [(names, [one for one in numbers if set(one.cell) == set(names)]) for names in axes]


def _table(
    numbers: Sequence[Number],
    axes: Row,
    sweep: bool,
    bold: Bold,
    remarks: Sequence[Remark],
    derived: Derived,
    cells: Sequence[Cell],
) -> Lines:
    def where(one: Number) -> Place:
        return place(one.dataset, one.cell, axes, sweep)

    mark = _marker(remarks)
    listed = [place(c.dataset, c.options, axes, sweep) for c in cells if set(c.options) == set(axes)]
    rows, across = [labels for labels, _ in listed], [column for _, column in listed]
    columns = natural_order(_as_listed((where(one)[1] for one in numbers if one.source == HERE), across))
    heads = ("dataset", *axes[:-1]) if sweep else axes
    tops = column_heads(axes[-1], columns) if sweep else columns
    above = [
        (*labels, HERE, *(row.get(column, MISSING) for column in columns))
        for labels, row in derived.items()
        if len(labels) == len(heads)
    ]
    lines = [
        (*(mark(label) for label in labels), SOURCE_NAMES.get(source, source), *_entries(row, columns, bold))
        for labels, source, row in _rows(numbers, where, columns, rows)
    ]
    return _markdown((*heads, "", *map(mark, tops)), [*above, *lines], left=len(heads) + 1)


def _as_listed(found: Iterable[Label], listed: Sequence[Label]) -> list[Label]:
    """What is not listed comes last, as it came."""
    at = {label: number for number, label in enumerate(dict.fromkeys(listed))}
    return sorted(found, key=lambda label: at.get(label, len(at)))


def _rows(
    numbers: Sequence[Number], where: Callable[[Number], Place], columns: Sequence[str], listed: Sequence[Row]
) -> list[tuple[Row, str, dict[str, Number]]]:
    """Labels, source and numbers of every line: our rows first, all sources of a row below each other."""
    grid: dict[Row, dict[str, dict[str, Number]]] = {}
    for one in numbers:
        labels, column = where(one)
        if column in columns:
            grid.setdefault(labels, {}).setdefault(one.source, {})[column] = one
    lines = []
    for labels in sorted(_as_listed(grid, listed), key=lambda labels: HERE not in grid[labels]):
        sources = grid[labels]
        shown = labels if HERE in sources else (*labels[:-1], f"{labels[-1]} {QUOTED}")
        for source in (HERE, *SOURCES):
            if source in sources:
                lines.append((shown, source, sources[source]))
                shown = ("",) * len(labels)
    return lines


def _entries(row: Mapping[str, Number], columns: Sequence[str], bold: Bold) -> Lines:
    texts = {column: str(one) for column, one in row.items()}
    for column, one in row.items():
        if one.source == HERE and (one.dataset, cell_text(one.cell)) in bold:
            texts[column] = f"**{one}**"
    return [texts.get(column, MISSING) for column in columns]


def _markdown(head: Row, lines: Sequence[Sequence[str]], left: int) -> Lines:
    """Columns padded to one width, so that the plain text reads as a table too."""
    widths = [max(3, *(len(line[i]) for line in (head, *lines))) for i in range(len(head))]

    def pad(line: Sequence[str]) -> str:
        sides = [str.ljust] * left + [str.rjust] * (len(head) - left)
        cells = (side(text, width) for side, text, width in zip(sides, line, widths, strict=True))
        return f"| {' | '.join(cells)} |"

    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return [pad(head), pad(rule), *(pad(line) for line in lines)]


def _facts(records: Sequence[Record]) -> Lines:
    """Metric, protocol, search and origin; what differs between cells is given as a range or a list."""
    splits, seeds = map(_range, zip(*(record.by_split().shape for record in records), strict=True))
    searches = [record.search for record in records if record.search]
    trained = clock_text(sum(record.seconds for record in records))
    return [
        f"- Test {_metrics(records)}, mean over {splits} {'split' if splits == '1' else 'splits'} × {seeds} "
        f"{'seed' if seeds == '1' else 'seeds'}{deviation_text(records)}.",
        f"- Protocol {_all(r.protocol for r in records)}, features {_all(r.features for r in records)}, "
        f"training rules {_all(r.rules for r in records)}.",
        f"- {_search(searches)} {len(records)} {'cell' if len(records) == 1 else 'cells'} took {trained} on "
        f"{'; '.join(dict.fromkeys(r.device for r in records))}, "
        f"commit {_all(r.commit[:COMMIT] for r in records)}.",
    ]


def _metrics(records: Sequence[Record]) -> str:
    """`accuracy in %`, or every metric with its datasets."""
    datasets: dict[str, list[str]] = {}
    for record in records:
        datasets.setdefault(metric_name(record.metric), []).append(record.dataset)
    if len(datasets) == 1:
        return next(iter(datasets))
    return ", ".join(f"{metric} ({_all(names)})" for metric, names in datasets.items())


def _search(searches: Sequence[Mapping[str, Any]]) -> str:
    if not searches:
        return "Settings are fixed, nothing was searched."
    trials, seconds = _range(s["trials"] for s in searches), _range(round(s["seconds"]) for s in searches)
    return f"Settings are the best on validation of {trials} trials in {seconds} s per cell."


def _range(values: Iterable[int]) -> str:
    known = sorted(values) or [0]
    return f"{known[0]:,}" if known[0] == known[-1] else f"{known[0]:,}–{known[-1]:,}"


def _all(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _applying(remarks: Sequence[Remark], numbers: Sequence[Number]) -> list[Remark]:
    """Those about something that the table shows; the general ones come last."""
    labels = {str(value) for one in numbers for value in (one.dataset, *one.cell.values())}
    particular = [remark for remark in remarks if any(remark.concerns(label) for label in labels)]
    return particular + [remark for remark in remarks if not remark.about]


def _marker(notes: Sequence[Remark]) -> Callable[[str], str]:
    """Adds the small figures of the remarks that concern a label."""

    def mark(label: str) -> str:
        plain = label.removesuffix(f" {QUOTED}")
        found = [_figure(i) for i, remark in enumerate(notes, 1) if remark.concerns(plain)]
        return f"{label} {' '.join(found)}" if found else label

    return mark


def _figure(number: int) -> str:
    return str(number).translate(RAISED)


def _footnotes(notes: Sequence[Remark]) -> Lines:
    return [f"- {_figure(i)} {one.text}" if one.about else f"- {one.text}" for i, one in enumerate(notes, 1)]


def _origins(numbers: Sequence[Number]) -> Lines:
    """Where the literature's numbers and those of the published code come from."""
    places: dict[tuple[str, str], list[Number]] = {}
    for one in numbers:
        if one.source in ("literature", "published-code") and one.note:
            places.setdefault((one.source, one.note), []).append(one)
    return [
        f"- {SOURCE_NAMES.get(source, source).capitalize()}: {note} "
        f"({_all(str(v) for one in group for v in one.cell.values())}; {_all(one.dataset for one in group)})."
        for (source, note), group in places.items()
    ]
