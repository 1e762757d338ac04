"""The printed numbers are all there, each once, and say what the tables say; footnotes name what exists."""

import pandas
import pytest

from polynsd import ConfigError
from polynsd.zoo.registry import ZOO
from polynsd_paper.experiment import cell_text
from polynsd_paper.tables.printed_numbers import (
    SOURCES,
    cell_key,
    find_printed,
    footnotes_for,
    parse_cell,
    read_printed,
)

COUNTS = {
    "leaderboard": {"paper": 29 * 9, "published-code": 7, "literature": 17},
    "bases": {"paper": 3 * 8 * 9},
    "filtered": {"paper": 27 * 2, "literature": 6},
    "platonov": {"paper": 27 * 5, "literature": 22},
    "malignant": {"paper": 14 * 4},
    "depth": {"paper": 13 * 5 * 4},
    "k-sweep": {"paper": 3 * 5 * 3, "authors-sweep": 9 * 3 * 6},
    "nsd-vs-poly": {"paper": 3 * 45},
    "stalk": {"authors-sweep": 4 * 3 * 4},
    "city": {"paper": 16 * 4},
}
ALL = pandas.concat(read_printed(name) for name in COUNTS)


def test_all_numbers_are_there():
    counts = {name: read_printed(name)["source"].value_counts().to_dict() for name in COUNTS}
    assert counts == COUNTS


def test_a_cell_has_one_number_per_source():
    assert not ALL.duplicated(["experiment", "dataset", "key", "source"]).any()


def test_numbers_are_percentages_or_explained():
    assert set(ALL["source"]) == set(SOURCES)
    assert ALL["mean"].dropna().between(0, 100, inclusive="neither").all()
    assert ALL["std"].dropna().between(0, 25, inclusive="left").all()
    missing = ALL.loc[ALL["mean"].isna(), "note"]
    assert missing.value_counts().to_dict() == {"OOM": 17, "INS": 8, "N/A": 7}


def test_the_leaderboard_of_polynsd_is_the_best_basis_on_test():
    bases, board = read_printed("bases"), read_printed("leaderboard")
    bases = bases.assign(model="polynsd-" + bases["key"].str.extract(r"maps=(\w+)")[0])
    best = bases.groupby(["dataset", "model"], as_index=False)["mean"].agg(["max", "count"])
    board = board[board["source"] == "paper"].assign(model=board["key"].str.removeprefix("model="))
    both = board.merge(best, on=["dataset", "model"])
    assert len(both) == 27
    assert (both["count"] == 8).all()
    assert (both["mean"] == both["max"]).all()


@pytest.mark.parametrize(
    ("experiment", "dataset", "cell", "source", "mean", "std"),
    [
        ("leaderboard", "cora", "model=polynsd-diagonal", "paper", 88.79, 1.13),
        ("leaderboard", "texas", "model=nsd-orthogonal", "paper", 85.95, 5.51),
        ("leaderboard", "texas", "model=polynsd-diagonal", "published-code", 83.51, 5.05),
        ("platonov", "minesweeper", "model=polynsd-general", "paper", 98.86, 0.55),
        ("platonov", "roman_empire", "model=residual-gcn", "paper", 73.69, 0.74),
        ("platonov", "roman_empire", "model=polynormer", "literature", 92.55, 0.37),
        ("k-sweep", "texas", "K=16;maps=diagonal", "authors-sweep", 85.53, 3.95),
        ("stalk", "film", "maps=orthogonal;stalk_dim=3", "authors-sweep", 37.47, 0.86),
        ("nsd-vs-poly", "chameleon", "model=nsd-orthogonal;hidden=16", "paper", 46.75, 10.70),
    ],
)
def test_numbers_are_found_by_their_cell(experiment, dataset, cell, source, mean, std):
    number = find_printed(read_printed(experiment), dataset, cell, source)
    assert (number["mean"], number["std"]) == (mean, std)


def test_cells_read_back_and_compare_by_meaning():
    assert all(cell_text(parse_cell(cell)) == cell for cell in ALL["cell"])
    assert cell_key("maps=diagonal;K=4") == cell_key("K=4;maps=diagonal")
    assert cell_key("basis=jacobi(0.5, 0)") == cell_key("basis=jacobi")
    assert cell_key("K=4") != cell_key("K=40")


def test_what_nobody_printed():
    assert read_printed("no such experiment").empty
    assert find_printed(read_printed("leaderboard"), "texas", "model=no such") is None
    with pytest.raises(ConfigError, match=r"unknown source 'papre'.*Did you mean 'paper'"):
        find_printed(read_printed("leaderboard"), "texas", "model=gcn", "papre")


def test_models_are_ours_or_quoted_under_a_plain_name():
    models = set(ALL["key"].str.extract("model=([^;]+)")[0].dropna())
    assert all(name == name.lower() and " " not in name for name in models)
    of_the_zoo = models & set(ZOO)
    assert len(of_the_zoo) >= 35
    assert {"h2gcn", "risnn-not", "jdsnn-now", "resnet-sgc", "tuned-gcn", "polynormer"} <= of_the_zoo


def test_footnotes_name_labels_that_exist():
    options = ALL["cell"].map(parse_cell)
    labels = {*ALL["dataset"], *(value for cell in options for value in cell.values())}
    for name in COUNTS:
        for note in footnotes_for(name):
            assert note.text.endswith(".")
            assert set(note.about) <= labels


def test_footnotes_are_chosen_by_label():
    texas = footnotes_for("leaderboard", ["texas"])
    assert [note.about for note in texas] == [("texas",)]
    assert "60/20/20" in texas[0].text
    cornell = footnotes_for("malignant", ["cornell"])
    assert {"cornell"} == {label for note in cornell for label in note.about}
    assert len([note for note in footnotes_for("bases", ["jacobi(0.5, 0)"]) if note.about]) == 2
    assert len(footnotes_for("leaderboard")) >= 5
