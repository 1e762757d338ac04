"""Every number of every record is in the table once, with what others have printed below it."""

import re
from dataclasses import replace

import pandas
import pytest
from invented_records import invent, invent_search, summary

from polynsd import PolyNSDError
from polynsd_paper.experiments import get_experiment
from polynsd_paper.records import Score
from polynsd_paper.tables.experiment_page import experiment_page
from polynsd_paper.tables.formatting import natural_order
from polynsd_paper.tables.printed_numbers import read_printed
from polynsd_paper.tables.writer import cells_table

BOARD = [
    invent(
        "leaderboard", "texas", {"model": "polynsd-diagonal"}, 0.8511, 0.0321, search=invent_search(30, 0.9)
    ),
    invent(
        "leaderboard", "cora", {"model": "polynsd-diagonal"}, 0.8822, 0.0123, search=invent_search(40, 0.9)
    ),
    invent("leaderboard", "cora", {"model": "tuned-gcn"}, 0.8733, 0.0111),
]
SWEEP = [
    invent("k-sweep", "texas", {"maps": maps, "K": K}, 0.8 + 0.001 * K + i / 100)
    for i, maps in enumerate(("diagonal", "general"))
    for K in (16, 2, 1)
]


def cells(line):
    return [text.strip() for text in line.strip("|").split("|")]


def table(page):
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return [cells(line) for line in lines if not re.match(r"\| -", line)]


def page_of(*records, name=None, **options):
    """The page of an experiment; under another name nobody has printed anything for it."""
    experiment = get_experiment(records[0].experiment)
    return experiment_page(replace(experiment, name=name or experiment.name), summary(*records), **options)


def board(**options):
    return page_of(*BOARD, **options)


def test_rows_are_cells_and_columns_datasets():
    head, first, paper, code, second, *_ = table(board())
    assert head == ["model", "", "texas ¹", "cora"]
    assert first == ["polynsd-diagonal ²", "here", "85.11 ± 3.21", "88.22 ± 1.23"]
    assert paper == ["", "paper", "90.00 ± 4.68", "88.79 ± 1.13"]
    assert code == ["", "published code", "83.51 ± 5.05", "86.90 ± 1.78"]
    assert second == ["tuned-gcn", "here", "—", "87.33 ± 1.11"]


def test_rows_of_others_are_marked_and_come_last():
    rows = table(board())[5:]
    assert all(row[0].split()[1] == "†" and row[1] in ("paper", "literature") for row in rows)
    assert ["geom-gcn †", "paper", "66.76 ± 2.72", "85.35 ± 1.57"] in rows
    assert ["ssp †", "literature", "—", "90.16"] in rows
    assert "- † Quoted" in board()
    assert "†" not in page_of(*BOARD, name="mine")


def test_no_number_is_lost():
    page = board()
    for mean, std in zip(summary(*BOARD)["mean"], summary(*BOARD)["std"], strict=True):
        assert f"{100 * mean:.2f} ± {100 * std:.2f}" in page
    shown = [entry for row in table(page)[1:] for entry in row[2:] if entry != "—"]
    printed = read_printed("leaderboard")
    printed = printed[printed["dataset"].isin(["texas", "cora"]) & printed["mean"].notna()]
    assert len(shown) == len(BOARD) + len(printed)


def test_footnotes_that_apply_stand_below():
    page = board()
    texas, polynsd = (line for line in page.splitlines() if re.match("- [¹²] ", line))
    assert "60/20/20" in texas
    assert "eight bases" in polynsd
    assert "Cornell" not in page
    assert "run again with chebyshev1, K = 15, not tuned (polynsd-diagonal; texas)" in page


def test_how_the_numbers_came_about():
    page = board()
    words = "mean over 10 splits × 1 seed ± population standard deviation (ddof 0) of the split means."
    assert f"Test accuracy in %, {words}" in page
    assert "Protocol geom-gcn, features row, training rules paper." in page
    assert "best on validation of 30–40 trials in 600 s per cell. 3 cells took 0:03:00 on a machine" in page
    assert "commit 0123abc" in page
    assert "nothing was searched" in page_of(*SWEEP)


def test_one_cell_several_devices_and_long_commits_read_well():
    (first, other, _) = BOARD
    long = replace(other, device="another, faster", commit="8c69cb78c756a225e2e6a756d0591b156449ec3b")
    assert " 1 cell took 0:01:00 on a machine, commit 0123abc." in page_of(first)
    assert "on a machine; another, faster, commit 0123abc, 8c69cb78c7." in page_of(first, long)


def test_the_mark_of_a_quoted_row_stands_beside_its_model():
    cell = {"rule": "random-60-20-20", "model": "mlp"}
    records = [invent("malignant", "texas", cell, 0.8, search=invent_search(4, 0.9))]
    rows = table(page_of(*records))[2:]
    assert rows
    assert all(row[0] == "luan-60-20-20" and " †" in row[1] for row in rows)


def test_of_one_split_the_deviation_is_that_over_seeds():
    scores = tuple(Score(0, seed, 0.5, test, 1, 1) for seed, test in enumerate((0.5, 0.6, 0.7)))
    record = replace(BOARD[2], scores=scores, ddof=1)
    page = page_of(record, name="mine")
    assert "mean over 1 split × 3 seeds ± sample standard deviation (ddof 1) over the seeds." in page
    assert "60.00 ± 10.00" in page
    page = page_of(replace(record, scores=scores[:1]), name="mine")
    assert "±" not in page
    assert table(page)[1][2] == "50.00"


def test_partial_numbers_are_marked():
    part = replace(BOARD[2], settings={"first": 3}, scores=BOARD[2].scores[:3])
    page = page_of(*BOARD[:2], part, name="mine")
    assert table(page)[2][3].endswith(" ‡")
    assert "- ‡ Of the first splits only" in page
    assert "‡" not in board()


def test_every_metric_is_named_with_its_datasets():
    records = [
        invent("platonov", "questions", {"model": "gt"}, 0.77, metric="roc_auc"),
        invent("platonov", "roman_empire", {"model": "gt"}, 0.87),
        invent("platonov", "own", {"model": "gt"}, 0.5, metric="r2"),
    ]
    page = page_of(*records, name="mine")
    assert "ROC AUC in % (questions), accuracy in % (roman_empire), R² (own)" in page
    assert table(page)[1] == ["gt", "here", "87.00 ± 2.00", "77.00 ± 2.00", "0.500 ± 0.020"]


def test_a_sweep_runs_across_by_size():
    page = page_of(*SWEEP)
    head, first, sweep, *_ = table(page)
    assert head == ["dataset", "maps", "", "K=1", "K=2", "K=16"]
    assert first == ["texas ¹", "diagonal", "here", "80.10 ± 2.00", "80.20 ± 2.00", "81.60 ± 2.00"]
    assert sweep == ["", "", "authors' sweep", "81.32 ± 7.01", "83.16 ± 6.36", "85.53 ± 3.95"]


def test_a_basis_meets_the_printed_one_whatever_its_index():
    records = [invent("bases", "cora", {"maps": "general", "basis": "gegenbauer(1.5)"}, 0.88)]
    assert table(page_of(*records))[:3] == [
        ["dataset", "maps", "", "gegenbauer(1.5) ²"],
        ["cora", "general", "here", "88.00 ± 2.00"],
        ["", "", "paper", "87.85 ± 0.99"],
    ]


def test_cells_of_other_options_have_a_table_of_their_own():
    records = [
        invent("nsd-vs-poly", "squirrel", {"model": "nsd-general", "layers": 32}, 0.2),
        invent("nsd-vs-poly", "squirrel", {"model": "polynsd-general", "K": 8}, 0.4),
    ]
    rows = table(page_of(*records))
    assert [row[-1] for row in rows if row[0] == "dataset"] == ["layers=32", "K=8"]
    assert ["", "", "paper", "OOM"] in rows


def test_columns_line_up_in_plain_text():
    lines = [line for line in board().splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1


def test_nothing_to_tabulate_is_said():
    with pytest.raises(PolyNSDError, match="no records to tabulate"):
        experiment_page(get_experiment("leaderboard"), summary(*BOARD)[:0])


def test_printed_numbers_stand_beside_ours_in_the_csv(tmp_path):
    cells_table(summary(*BOARD), read_printed("leaderboard")).to_csv(tmp_path / "board.csv", index=False)
    back = pandas.read_csv(tmp_path / "board.csv", keep_default_na=False, dtype=str)
    assert list(zip(back["dataset"], back["model"], strict=True)) == [
        (record.dataset, record.cell["model"]) for record in BOARD
    ]
    first = back.iloc[0]
    assert (first["mean"], first["std"]) == ("0.8511", "0.0321")
    assert (first["splits"], first["trials"], first["commit"]) == ("10", "30", "0123abc")
    assert [first[f"{source}_mean"] for source in ("paper", "code", "literature")] == ["0.9", "0.8351", ""]


def test_labels_that_differ_in_their_numbers_are_sorted_by_them():
    assert natural_order(["N=500 degree=10", "N=100 degree=6", "N=500 degree=2"]) == [
        "N=100 degree=6",
        "N=500 degree=2",
        "N=500 degree=10",
    ]
    assert natural_order(["16", "0.5", "2", "2"]) == ["0.5", "2", "16"]
    assert natural_order(["legendre", "chebyshev2", "chebyshev1"]) == ["legendre", "chebyshev2", "chebyshev1"]


def test_what_is_stale_is_said_before_the_footnotes_and_figures_are_linked():
    page = board(stale=2, figures=["leaderboard.png"])
    assert page.index("trained with other settings: 2.") < page.index("- † Quoted")
    assert "![leaderboard](../figures/leaderboard.png)" in page
    assert "- — Not run here" in page
