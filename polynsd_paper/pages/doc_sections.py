"""Sections of README.md and docs/ that are made from records, between marks such as `<!-- results:begin -->`.

    python -m polynsd_paper.pages.doc_sections            # all pages, from results/
    python -m polynsd_paper.pages.doc_sections RESULTS

It also draws `paper-comparison.png`, `learned-maps.png` and `planted-transport.png` in `figures/`. A test
says when a section is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING

from polynsd.bench.comparison import (
    Table,
    compare_methods,
    describe_estimates,
    explain_failures,
    score_table,
    summary_table,
    verdict,
)
from polynsd.bench.estimators import Record, read_records
from polynsd.errors import DataError, PolyNSDError
from polynsd.stats import Comparison, Family, judge_family
from polynsd.stats.families import LOSS, TIE, UNDECIDED, WIN
from polynsd_paper.claims.comparisons import find_cell, select
from polynsd_paper.experiments import EXPERIMENTS
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.searched import FILTERED, LEADERBOARD, PLATONOV
from polynsd_paper.experiments.webkb import WEBKB_FOLDS
from polynsd_paper.pages.choosing import (
    changes_table,
    compare_maps,
    controls_table,
    controls_text,
    planted_text,
)
from polynsd_paper.pages.choosing_figures import maps_figure, planted_figure
from polynsd_paper.pages.front_page import HEAD as HEAD_OF_FRONT
from polynsd_paper.pages.front_page import front_family, front_rows, front_table, front_text
from polynsd_paper.pages.paper_comparison import HEAD, TEXT, compare_with_paper, comparison_figure
from polynsd_paper.records import load_records, summarize
from polynsd_paper.tables.formatting import NOT_RUN, cell_number, machine_text, markdown_table, points_text
from polynsd_paper.tables.leaderboards import compare_cells, complete, counted_once

if TYPE_CHECKING:
    from pandas import DataFrame

WIDTH = 150
ESTIMATOR_RECORDS = "estimator.jsonl"  # of `polynsd bench estimator`
BOARDS = (LEADERBOARD.name, FILTERED.name, PLATONOV.name)


def replace_section(text: str, name: str, section: str) -> str:
    """The text with another section between the marks of that name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not (has_begin and has_end):
        raise DataError(f"the page has no section '{name}'; put {begin} and {end} where it belongs.")
    return f"{before}{begin}\n{section}\n{end}{after}"


def wrap(*sentences: str) -> str:
    """The sentences as a paragraph of lines of `WIDTH` letters."""
    return fill(" ".join(sentences), WIDTH, break_on_hyphens=False, break_long_words=False)


def front_section(cells: DataFrame) -> str:
    """The front page: PolyNSD, its matched control and rivals, with adjusted counts."""
    rows = front_rows(cells)
    if all(row.cells["PolyNSD"] is None for row in rows):
        raise DataError("there are no records of PolyNSD; run `polynsd reproduce transport` first.")
    return "\n\n".join([front_table(rows), *map(wrap, front_text(rows))])


def comparison_section(cells: DataFrame) -> str:
    """What the paper prints for PolyNSD beside what was trained here."""
    lines = [graph.line() for graph in compare_with_paper(cells)]
    return f"{markdown_table(HEAD, lines)}\n\n{wrap(' '.join(TEXT.split()))}"


def families_section(cells: DataFrame) -> str:
    """PolyNSD against its controls and rivals over graphs, Holm-adjusted in both forms of the correction."""
    rows, lines = front_rows(cells), []
    for name in HEAD_OF_FRONT[2:-1]:
        both = [front_family(rows, name, is_classic=is_classic) for is_classic in (False, True)]
        lines.append(_family_line(name, *both))
    board = complete(select(cells, experiment=BOARDS, dataset=counted_once(cells["dataset"].unique())))
    for title, pairs in _board_pairs(board).items():
        found = {name: gap for name, gap in pairs.items() if gap is not None}
        classic = {name: gap.as_classic() for name, gap in found.items()}
        lines.append(_family_line(title, judge_family(found), judge_family(classic)))
    text = wrap(
        "PolyNSD − another model: pairs compared, mean difference in points, how many are wins, losses and "
        "ties (differences shown to be below one point), Holm-adjusted in each row; in brackets with Nadeau "
        "and Bengio's own correction. The first two rows are the families fixed in advance; the first "
        "five are those of the front page, the others have families of maps one by one, on all graphs of the "
        "searched tables, Cornell's copy of Texas left out.",
    )
    head = ("PolyNSD against", "pairs", "points", "wins", "losses", "ties", "undecided")
    return f"{markdown_table(head, lines)}\n\n{text}"


def _family_line(title: str, family: Family, classic: Family) -> tuple[str, ...]:
    differences = [outcome.comparison.difference for outcome in family.outcomes.values()]
    if not differences:
        return (title, "0", *[NOT_RUN] * 5)
    counts = (f"{family.count(v)} ({classic.count(v)})" for v in (WIN, LOSS, TIE, UNDECIDED))
    return (title, str(len(differences)), points_text(fmean(differences)), *counts)


def _board_pairs(board: DataFrame) -> dict[str, dict[str, Comparison | None]]:
    """By rival, and by graph and family of maps: PolyNSD − that rival in the searched tables."""
    found: dict[str, dict[str, Comparison | None]] = {}
    for dataset, column in board.groupby("dataset", sort=False):
        for maps in FAMILIES:
            ours = find_cell(column, row=f"polynsd-{maps}")
            rivals = {
                "NSD, the same maps": f"nsd-{maps}",
                "identity maps, searched alone": "identity-sheaf",
                "the filter without a sheaf": "poly-spectral",
            }
            for title, row in rivals.items():
                pair = compare_cells(ours, find_cell(column, row=row))
                found.setdefault(title, {})[f"{dataset}, {maps}"] = pair
    return found


def webkb_section(cells: DataFrame) -> str:
    """Published splits beside repeated ten-fold ones, for the models that have both."""
    folds = complete(select(cells, experiment=WEBKB_FOLDS.name))
    fixed = complete(select(cells, experiment=LEADERBOARD.name))
    lines = [
        (cell["dataset"], cell["row"], cell_number(other), cell_number(cell))
        for _, cell in folds.iterrows()
        for other in [find_cell(fixed, dataset=cell["dataset"], row=cell["row"])]
    ]
    if not lines:
        return "Not trained yet: `polynsd reproduce webkb`."
    head = ("graph", "model", "ten published splits", "five times ten folds")
    return markdown_table(head, lines, left=2)


def spent_section(cells: DataFrame) -> str:
    """What all records together took."""
    cells = cells.assign(all_seconds=cells["seconds"] + cells["search_seconds"])
    lines = [
        f"{len(group)} records on {machine_text(*machine)}: {group['all_seconds'].sum() / 3600:.1f} hours of "
        f"processes, {int(group['trials'].sum()):,} trials"
        for machine, group in sorted(cells.groupby(["device", "precision"]), key=lambda pair: -len(pair[1]))
    ]
    return wrap(f"{'; '.join(lines)}. Several processes share a GPU, so its own time is less.")


def maps_section(cells: DataFrame) -> str:
    """Learned maps minus their controls, graph by graph."""
    comparisons = compare_maps(cells)
    return f"{controls_table(comparisons)}\n\n{wrap(*controls_text(cells, comparisons))}"


def changes_section(records: DataFrame) -> str:
    """The parts of the block by what validation loses or gains without them."""
    text = wrap(
        "Validation accuracy minus that of the block as it is, in points, mean over ten splits of each graph "
        "and over graphs, with 95 % intervals; **bold** where these do not contain zero. *Better on*: on how "
        "many of the graphs the mean is higher.",
    )
    return f"{changes_table(records)}\n\n{text}"


def experiments_section() -> str:
    """The experiments, what each shows, its name in the paper, and how long it takes."""
    lines = [(f"`{e.name}`", e.title, e.paper or "–", e.minutes) for e in EXPERIMENTS.values()]
    return markdown_table(("experiment", "what it shows", "in the paper", "takes"), lines, left=4)


def sections(records: DataFrame) -> dict[str, dict[str, str]]:
    """All generated sections: page → name → text, from the current records of all experiments."""
    cells = summarize(records)
    return {
        "README.md": {"results": front_section(cells)},
        "docs/findings.md": {
            "results": comparison_section(cells),
            "families": families_section(cells),
            "webkb": webkb_section(cells),
            "spent": spent_section(cells),
        },
        "docs/choosing.md": {
            "maps": maps_section(cells),
            "planted": wrap(*planted_text(cells)),
            "changes": changes_section(records),
        },
        "docs/reproducing.md": {"experiments": experiments_section()},
    }


def estimator_sections(results: Path) -> dict[str, dict[str, str]]:
    """How the default estimator fares: page → name → text; empty where its comparison has not been run."""
    path = results / ESTIMATOR_RECORDS
    if not path.is_file():
        return {}
    records = read_records(path)
    return {
        "README.md": {"estimator": short_section(records)},
        "docs/comparison.md": {"estimator": full_section(records)},
    }


def short_section(records: list[Record]) -> str:
    """On how many graphs the estimator is level with the best rival."""
    return _items(map(verdict, compare_methods(records)))


def full_section(records: list[Record]) -> str:
    """All that was measured: the summary with seconds, the estimates, and every graph."""
    boards = compare_methods(records)
    lines = [*map(verdict, boards), *map(describe_estimates, boards), *explain_failures(records)]
    parts = [_markdown(summary_table(boards)), _items(lines)]
    for table in map(score_table, boards):
        parts += [f"**{table.title[0].upper()}{table.title[1:]}**", _markdown(table)]
    return "\n\n".join(parts)


def _markdown(table: Table) -> str:
    return markdown_table(table.header, table.rows)


def _items(lines: Iterable[str]) -> str:
    return "\n".join(fill(f"- {line}", WIDTH, subsequent_indent="  ") for line in lines)


def update_pages(results: Path, root: Path = Path()) -> None:
    """Writes all generated sections of the pages below `root`, and the figure of the comparison."""
    records = load_records(results)
    records = records[records["is_current"]]
    for pages in (sections(records), estimator_sections(results)):
        for page, texts in pages.items():
            text = (root / page).read_text(encoding="utf-8")
            for name, section in texts.items():
                text = replace_section(text, name, section)
            (root / page).write_text(text, encoding="utf-8")
    cells, figures = summarize(records), results / "figures"
    comparison_figure(figures / "paper-comparison.png", compare_with_paper(cells))
    maps_figure(figures / "learned-maps.png", compare_maps(cells))
    planted_figure(figures / "planted-transport.png", cells)


if __name__ == "__main__":
    try:
        update_pages(Path(*sys.argv[1:2] or ["results"]))
    except (PolyNSDError, OSError) as error:
        sys.exit(f"doc_sections: {error}")
