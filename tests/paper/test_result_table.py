"""Every number of every record is in the table once, with what others have printed below it."""

import csv
import re
from dataclasses import replace

import pytest
from invented_records import invent, invent_search

from polynsd import PolyNSDError
from polynsd_paper.published import cell_text, published
from polynsd_paper.records import Score
from polynsd_paper.remarks import remarks_for
from polynsd_paper.result_numbers import natural_order, tidy_rows, write_csv
from polynsd_paper.result_table import result_page

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


def board(**options):
    return result_page("Board", BOARD, published("leaderboard"), remarks_for("leaderboard"), **options)


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
    assert "†" not in result_page("Board", BOARD)


def test_no_number_is_lost():
    page = board()
    for record in BOARD:
        assert f"{100 * record.mean:.2f} ± {100 * record.std:.2f}" in page
    shown = [entry for row in table(page)[1:] for entry in row[2:] if entry != "—"]
    wanted = [
        one for one in published("leaderboard") if one.dataset in ("texas", "cora") and one.mean is not None
    ]
    assert len(shown) == len(BOARD) + len(wanted)


def test_bold_is_what_was_asked_for():
    page = board(bold={("cora", cell_text({"model": "tuned-gcn"}))})
    assert re.findall(r"\*\*(.*?)\*\*", page) == ["87.33 ± 1.11"]


def test_remarks_that_apply_stand_below():
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
    assert "nothing was searched" in result_page("Fixed", SWEEP, sweep=True)


def test_one_cell_several_devices_and_long_commits_read_well():
    (one, other, _) = BOARD
    long = replace(other, device="another, faster", commit="8c69cb78c756a225e2e6a756d0591b156449ec3b")
    assert " 1 cell took 0:01:00 on a machine, commit 0123abc." in result_page("Board", [one])
    assert "on a machine; another, faster, commit 0123abc, 8c69cb78c7." in result_page("Board", [one, long])


def test_the_mark_of_a_quoted_row_stands_beside_its_model():
    records = [invent("malignant", "texas", {"rule": "random-60-20-20", "model": "mlp"}, 0.8)]
    rows = table(result_page("Malignant", records, published("malignant")))[2:]
    assert rows
    assert all(row[0] == "luan-60-20-20" and row[1].endswith(" †") for row in rows)


def test_of_one_split_the_deviation_is_that_over_seeds():
    scores = tuple(Score(0, seed, 0.5, test, 1, 1) for seed, test in enumerate((0.5, 0.6, 0.7)))
    record = replace(BOARD[2], scores=scores, ddof=1)
    page = result_page("City", [record])
    assert "mean over 1 split × 3 seeds ± sample standard deviation (ddof 1) over the seeds." in page
    assert "60.00 ± 10.00" in page
    page = result_page("City", [replace(record, scores=scores[:1])])
    assert "±" not in page
    assert table(page)[1][2] == "50.00"


def test_partial_numbers_are_marked():
    part = replace(BOARD[2], settings={"first": 3}, scores=BOARD[2].scores[:3])
    page = result_page("Board", [*BOARD[:2], part])
    assert table(page)[2][3].endswith(" ‡")
    assert "- ‡ Of the first splits only" in page
    assert "‡" not in board()


def test_every_metric_is_named_with_its_datasets():
    records = [
        invent("platonov", "questions", {"model": "gt"}, 0.77, metric="roc_auc"),
        invent("platonov", "roman_empire", {"model": "gt"}, 0.87),
        invent("platonov", "own", {"model": "gt"}, 0.5, metric="r2"),
    ]
    page = result_page("Platonov", records)
    assert "ROC AUC in % (questions), accuracy in % (roman_empire), R² (own)" in page
    assert table(page)[1] == ["gt", "here", "77.00 ± 2.00", "87.00 ± 2.00", "0.500 ± 0.020"]


def test_a_sweep_runs_across_by_size():
    page = result_page("K", SWEEP, published("k-sweep"), remarks_for("k-sweep"), sweep=True)
    head, first, sweep, *_ = table(page)
    assert head == ["dataset", "maps", "", "K=1", "K=2", "K=16"]
    assert first == ["texas ¹", "diagonal", "here", "80.10 ± 2.00", "80.20 ± 2.00", "81.60 ± 2.00"]
    assert sweep == ["", "", "authors' sweep", "81.32 ± 7.01", "83.16 ± 6.36", "85.53 ± 3.95"]


def test_a_basis_meets_the_printed_one_whatever_its_index():
    records = [invent("bases", "cora", {"maps": "general", "basis": "gegenbauer(1.5)"}, 0.88)]
    _, ours, paper, *_ = table(result_page("Bases", records, published("bases"), remarks_for("bases")))
    assert ours[:3] == ["general", "gegenbauer(1.5) ²", "here"]
    assert paper[:3] == ["", "", "paper"]


def test_cells_of_other_options_have_a_table_of_their_own():
    records = [
        invent("nsd-vs-poly", "squirrel", {"model": "nsd-general", "layers": 32}, 0.2),
        invent("nsd-vs-poly", "squirrel", {"model": "polynsd-general", "K": 8}, 0.4),
    ]
    rows = table(result_page("Both", records, published("nsd-vs-poly"), sweep=True))
    assert [row[-1] for row in rows if row[0] == "dataset"] == ["layers=32", "K=8"]
    assert ["", "", "paper", "OOM"] in rows


def test_columns_line_up_in_plain_text():
    lines = [line for line in board().splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1


def test_nothing_to_tabulate_is_said():
    with pytest.raises(PolyNSDError, match="no records to tabulate"):
        result_page("Empty", [])


def test_csv_reads_back(tmp_path):
    path = write_csv(tmp_path / "a" / "board.csv", tidy_rows(BOARD, published("leaderboard")))
    with path.open(encoding="utf-8", newline="") as file:
        back = list(csv.DictReader(file))
    assert [(row["dataset"], row["model"]) for row in back] == [
        (record.dataset, record.cell["model"]) for record in BOARD
    ]
    assert (float(back[0]["mean"]), float(back[0]["std"])) == (0.8511, 0.0321)
    assert (back[0]["splits"], back[0]["trials"], back[0]["commit"]) == ("10", "30", "0123abc")
    assert [back[0][f"{source}_mean"] for source in ("paper", "code", "literature")] == ["0.9", "0.8351", ""]


def test_labels_that_differ_in_their_numbers_are_sorted_by_them():
    assert natural_order(["N=500 degree=10", "N=100 degree=6", "N=500 degree=2"]) == [
        "N=100 degree=6",
        "N=500 degree=2",
        "N=500 degree=10",
    ]
    assert natural_order(["16", "0.5", "2", "2"]) == ["0.5", "2", "16"]
    assert natural_order(["legendre", "chebyshev2", "chebyshev1"]) == ["legendre", "chebyshev2", "chebyshev1"]


def test_rows_that_follow_from_others_come_first_and_notes_before_remarks():
    page = board(derived={("chosen",): {"cora": "88.22 (general)"}}, notes=["A rule."])
    assert table(page)[1] == ["chosen", "here", "—", "88.22 (general)"]
    assert page.index("- A rule.") < page.index("- † Quoted")
