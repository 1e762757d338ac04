"""Sections of README.md and docs/ that are made from records, between marks such as `<!-- results:begin -->`.

    python -m polynsd_paper.doc_sections            # all pages, from results/
    python -m polynsd_paper.doc_sections RESULTS

It also draws `paper-comparison.png`, `learned-maps.png` and `planted-transport.png` in `figures/`. A test
says when a section is out of date.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING

from polynsd.errors import DataError, PolyNSDError
from polynsd.stats import bold_rule
from polynsd_paper.choosing import changes_table, compare_maps, controls_table, controls_text, planted_text
from polynsd_paper.choosing_figures import maps_figure, planted_figure
from polynsd_paper.claims.comparisons import compare_same_maps, difference_text, find_cell
from polynsd_paper.claims.gaps import points_text
from polynsd_paper.estimator_sections import estimator_sections
from polynsd_paper.experiment_page import BEST_LABEL, NO_TEST
from polynsd_paper.experiments import EXPERIMENTS
from polynsd_paper.experiments.block import TRANSPORT
from polynsd_paper.experiments.models import FAMILIES, WITH_ADJACENCY
from polynsd_paper.experiments.searched import FILTERED, LEADERBOARD, PLATONOV, STANDARD, WEBKB
from polynsd_paper.formatting import NOT_RUN, cell_number, deviation_text, markdown_table, range_text
from polynsd_paper.leaderboards import (
    OURS,
    architecture,
    best_on_validation,
    choose_maps,
    complete,
    paired_scores,
    rank_rows,
    winners,
)
from polynsd_paper.paper_comparison import HEAD, TEXT, compare_with_paper, comparison_figure
from polynsd_paper.published import published
from polynsd_paper.records import load_records, summarize

if TYPE_CHECKING:
    from pandas import DataFrame

WIDTH = 150
SMALL_GRAPHS = ("texas", "wisconsin", "cornell")
CONTROL_ROWS = (*(f"nsd-{maps}" for maps in FAMILIES), "identity-sheaf", "poly-spectral", "mlp", "gcn")
OTHER_ROWS = 5  # of the leaderboard's table, chosen by rank
BEYOND = ("polynsd-constant", "identity-sheaf-shortcut", *WITH_ADJACENCY)  # not in the paper
ROW_NOTES = {  # what has to be known of a row, if it is there
    "polynsd-constant": "polynsd-constant: maps that start constant, of any family; not in the paper.",
    "identity-sheaf": "identity-sheaf: PolyNSD whose maps are all the identity.",
    "identity-sheaf-shortcut": "identity-sheaf-shortcut: the same with the options of polynsd-constant.",
    "poly-spectral": "poly-spectral: the filter without a sheaf (stalks of dimension one, 96 channels "
    "instead of 32, a normalisation of its own).",
    "polynsd+adjacency": "+adjacency: edges are features too, on the two graphs full of copies.",
}


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
    """The front page: PolyNSD as validation chooses it, what its maps add, and simpler models."""
    cells, lines = complete(cells), []
    searched = cells[cells["experiment"].isin((LEADERBOARD.name, FILTERED.name, PLATONOV.name))]
    for dataset in TRANSPORT.datasets:
        ours = cells[(cells["experiment"] == TRANSPORT.name) & (cells["dataset"] == dataset)]
        best = best_on_validation(ours)
        if best is None:
            continue
        rivals = searched[searched["dataset"] == dataset]
        nsd = best_on_validation(rivals[rivals["row"].str.startswith("nsd-")])
        others = [nsd, *(find_cell(rivals, row=row) for row in ("tuned-gcn", "gcn", "mlp"))]
        maps = difference_text(find_cell(ours, variant="learned maps"), find_cell(ours, variant="same reach"))
        numbers = (NOT_RUN if cell is None else cell_number(cell) for cell in (best, *others))
        lines.append((dataset, *numbers, maps))
    if not lines:
        raise DataError("there are no records of `transport`; run `polynsd reproduce transport` first.")
    head = ("graph", "PolyNSD", "NSD", "tuned GCN", "GCN", "MLP", "learned maps add")
    text = wrap(
        "Test accuracy in % (ROC AUC on minesweeper and tolokers), ten splits × three seeds ± deviation over "
        f"splits; {NOT_RUN} not run. PolyNSD: options chosen by validation out of a few dozen tries per "
        "graph, learned or identity maps by validation. The others: best on validation of 8 to 24 "
        "configurations. *Learned maps add*: the same model minus that with identity maps, in points with "
        "95 % intervals, **bold** where these do not contain zero. [docs/choosing.md](docs/choosing.md) says "
        "where maps pay, [docs/findings.md](docs/findings.md) compares with the paper.",
    )
    return f"{markdown_table(head, lines)}\n\n{text}"


def leaderboard_section(cells: DataFrame) -> str:
    """The nine standard graphs: PolyNSD, its controls, the best others, and the paper's rows."""
    board = complete(cells[(cells["experiment"] == LEADERBOARD.name) & cells["dataset"].isin(STANDARD)])
    if board.empty:
        raise DataError("the leaderboard has no records; run `polynsd reproduce leaderboard` first.")
    bold, others = winners(board), strongest_others(board)
    rows = {BEST_LABEL: _texts(choose_maps(board), 100)}
    for model in (*OURS, *BEYOND, *CONTROL_ROWS, *others):
        rows[model] = _texts(board[board["row"] == model], 100, bold)
    rows = {label: row for label, row in rows.items() if row}
    has_gaps = any(len(row) < len(STANDARD) for row in rows.values())
    numbers = published(LEADERBOARD.name)
    for model in OURS:
        printed = numbers[(numbers["key"] == f"model={model}") & (numbers["source"] == "paper")]
        rows[f"*paper:* {model}"] = _texts(printed[printed["mean"].notna()], 1)
    lines = [(label, *(row.get(name, NOT_RUN) for name in STANDARD)) for label, row in rows.items()]
    trained = set(board["row"])
    searched = board[board["is_searched"]]
    best = [f"the {len(others)} others with the best mean rank on all graphs"] if others else []
    columns = [column for _, column in board.groupby("dataset")]
    text = wrap(
        f"Test accuracy in %, mean over {range_text(board['splits'])} splits × {range_text(board['seeds'])} "
        f"seeds{deviation_text(board)}.",
        f"{len(trained)} models, each with the best on validation of {range_text(searched['trials'])} "
        f"configurations; shown are {' and '.join(['PolyNSD with its controls', *best])}. "
        "[leaderboard.md](../results/tables/leaderboard.md) has all.",
        *([f"{NOT_RUN} not run."] if has_gaps else []),
        "`cornell` carries the features and labels of Texas on Cornell's edges, as in most papers; "
        "`cornell_fixed` is the corrected graph.",
        f"{BEST_LABEL}: on every graph the family with the best validation.",
        *(note for model, note in ROW_NOTES.items() if model in trained),
        bold_rule() if any(len(paired_scores(column)) > 1 for column in columns) else NO_TEST,
        "Rivals are all models, also those not shown. The paper's rows are as printed: its texas has a "
        "quarter more training nodes, and its bases were chosen on test nodes "
        "([reproducing.md](reproducing.md#what-differs-from-the-paper)).",
    )
    return f"{markdown_table(('', *STANDARD), lines)}\n\n{text}"


def strongest_others(board: DataFrame) -> list[str]:
    """The models of other architectures with the best mean rank, of those that have all datasets."""
    shown = {architecture(model) for model in (*OURS, *CONTROL_ROWS)}
    others = board[[architecture(row) not in shown for row in board["row"]]]
    counts = others["row"].value_counts()
    return rank_rows(others[others["row"].map(counts) == len(STANDARD)])[:OTHER_ROWS]


def _texts(numbers: DataFrame, scale: int, bold: Collection[tuple[str, str]] = ()) -> dict[str, str]:
    """`87.1 ± 1.2` by dataset, bold where (dataset, cell) is a winner."""
    texts = {}
    for number in numbers.itertuples():
        text = f"{scale * number.mean:.1f}"
        if not math.isnan(number.std):
            text += f" ± {scale * number.std:.1f}"
        texts[number.dataset] = f"**{text}**" if (number.dataset, number.cell) in bold else text
    return texts


def comparison_section(cells: DataFrame) -> str:
    """What the paper prints for PolyNSD beside what was trained here."""
    lines = [graph.line() for graph in compare_with_paper(cells)]
    return f"{markdown_table(HEAD, lines)}\n\n{wrap(' '.join(TEXT.split()))}"


def differences_section(cells: DataFrame) -> str:
    """PolyNSD minus its controls and the best other model, in points with 95 % intervals."""
    lines = []
    for graph in compare_with_paper(cells):
        ours = graph.all_options if graph.here is None else graph.here
        assert ours is not None
        maps = ours["row"].partition("-")[2]
        controls = ("identity-sheaf", "poly-spectral", f"nsd-{maps}" if maps in FAMILIES else "")
        others = [find_cell(graph.column, row=name) for name in controls]
        best = graph.best_other
        name = "" if best is None else f" ({best['row']})"
        gaps = (difference_text(ours, other) for other in others)
        lines.append((graph.label, ours["row"], *gaps, difference_text(ours, best) + name))
    head = ("graph", "PolyNSD", "− identity maps", "− no sheaf", "− NSD, same maps", "− best other")
    board = complete(cells[(cells["experiment"] == LEADERBOARD.name) & cells["dataset"].isin(STANDARD)])
    nsd = compare_same_maps(board)
    text = wrap(
        "Test score of PolyNSD (the family of maps with the best validation, or all options where no family "
        "is trained) minus that of another model on the same splits, in points, with the 95 % interval of "
        "the corrected resampled t-test. **Bold**: the interval does not contain zero. Over all families of "
        f"maps on the nine standard graphs, PolyNSD is better than NSD with the same maps in {nsd.better} of "
        f"{len(nsd)} comparisons and worse in {nsd.worse}; the others are undecided.",
    )
    return f"{markdown_table(head, lines, left=2)}\n\n{text}"


def causes_section(records: DataFrame) -> str:
    """Measurements behind the reasons why printed numbers are not reached."""
    cells = summarize(records)
    bases = cells[(cells["experiment"] == "bases") & (cells["maps"] == "diagonal")]
    greatest = [
        f"{points_text(max(group['mean']) - fmean(group['mean']))} on {dataset}"
        for dataset, group in bases.groupby("dataset", sort=False)
        if dataset in SMALL_GRAPHS
    ]
    suites = cells[cells["experiment"].isin(("leaderboard", "filtered")) & cells["is_searched"]]
    drop = suites["search_val"] - suites["val"]
    small = drop[suites["dataset"].isin(SMALL_GRAPHS)]
    run_off = drop.groupby(suites["dataset"]).mean().drop([*WEBKB], errors="ignore")
    filtered = cells[cells["experiment"] == "filtered"]
    gaps = []
    for dataset, column in filtered.groupby("dataset", sort=False):
        constant = find_cell(column, row="polynsd-constant")
        others = [find_cell(column, row=name) for name in ("polynsd-diagonal", "identity-sheaf-shortcut")]
        texts = (difference_text(constant, other) for other in others)
        gaps.append(f"{', '.join(texts)} on {dataset}")
    is_deep = (records["experiment"] == "platonov") & (records["row"] == "polynsd-constant")
    deep = records[is_deep & (records["dataset"] == "minesweeper")]
    limit, best_epoch = max(deep["epochs"], default=0), deep["best_epoch"].mean()
    lines = [
        ("Greatest of eight bases above their mean, diagonal maps", "; ".join(greatest)),
        (
            "Validation of a search's winner, lower with fresh seeds: texas, wisconsin, cornell",
            f"{points_text(small.mean())} on average, {points_text(small.max())} at most",
        ),
        (
            "The same on graphs with a run-off on all splits",
            f"{points_text(run_off.min())} to {points_text(run_off.max())} on average",
        ),
        ("polynsd-constant − polynsd-diagonal, − identity-sheaf-shortcut", "; ".join(gaps)),
        (
            f"Trainings of polynsd-constant on minesweeper that the limit of {limit:,} epochs ended",
            f"{(deep['epochs'] == limit).mean():.0%}; best epoch {best_epoch:.0f} on average",
        ),
    ]
    text = wrap("In points of accuracy; intervals as above.")
    return f"{markdown_table(('measured', ''), lines, left=2)}\n\n{text}"


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
            "leaderboard": leaderboard_section(cells),
            "results": comparison_section(cells),
            "differences": differences_section(cells),
            "causes": causes_section(records),
        },
        "docs/choosing.md": {
            "maps": maps_section(cells),
            "planted": wrap(*planted_text(cells)),
            "changes": changes_section(records),
        },
        "docs/reproducing.md": {"experiments": experiments_section()},
    }


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
