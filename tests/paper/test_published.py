"""The printed numbers are all there, each once, and say what the tables say; footnotes name what exists."""

from collections import Counter

import pytest

from polynsd import ConfigError
from polynsd.zoo.registry import ZOO
from polynsd_paper.experiment import cell_text
from polynsd_paper.footnotes import all_footnotes, footnotes_for
from polynsd_paper.published import (
    SOURCES,
    cell_key,
    find_published,
    parse_cell,
    published,
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
EVERYTHING = [one for name in COUNTS for one in published(name)]
MAPS = ("diagonal", "orthogonal", "general")


@pytest.mark.parametrize("experiment", COUNTS)
def test_all_numbers_are_there(experiment):
    assert Counter(one.source for one in published(experiment)) == COUNTS[experiment]


def test_a_cell_has_one_number_per_source():
    keys = Counter((one.experiment, one.dataset, cell_key(one.cell), one.source) for one in EVERYTHING)
    assert max(keys.values()) == 1


def test_numbers_are_percentages_or_explained():
    for one in EVERYTHING:
        assert one.source in SOURCES
        if one.mean is None:
            assert one.note in ("OOM", "INS", "N/A")
        else:
            assert 0 < one.mean < 100
            assert one.std is None or 0 <= one.std < 25
    assert Counter(one.note for one in EVERYTHING if one.mean is None) == {
        "OOM": 17,
        "INS": 8,
        "N/A": 7,
    }


def test_the_leaderboard_of_polynsd_is_the_best_basis_on_test():
    """27 cells, and each is the greatest of eight printed test means: checked on the data."""
    bases = published("bases")
    cells = [one for one in published("leaderboard") if one.cell["model"].startswith("polynsd-")]
    cells = [one for one in cells if one.source == "paper"]
    assert len(cells) == 27
    for one in cells:
        maps = one.cell["model"].removeprefix("polynsd-")
        assert maps in MAPS
        rivals = [b.mean for b in bases if b.dataset == one.dataset and b.cell["maps"] == maps]
        assert len(rivals) == 8
        assert one.mean == max(rivals)


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
def test_known_numbers(experiment, dataset, cell, source, mean, std):
    found = find_published(published(experiment), dataset, parse_cell(cell), source)
    assert (found.mean, found.std) == (mean, std)


def test_cells_read_back_and_compare_by_meaning():
    for one in EVERYTHING:
        assert parse_cell(cell_text(one.cell)) == one.cell
    assert cell_key({"maps": "diagonal", "K": 4}) == cell_key({"K": "4", "maps": "diagonal"})
    assert cell_key({"basis": "jacobi(0.5, 0)"}) == cell_key({"basis": "jacobi"})
    assert cell_key({"K": 4}) != cell_key({"K": 40})


def test_what_nobody_printed():
    assert published("no such experiment") == []
    assert find_published(published("leaderboard"), "texas", {"model": "no such"}) is None
    with pytest.raises(ConfigError, match=r"unknown source 'papre'.*Did you mean 'paper'"):
        find_published([], "texas", {}, "papre")


def test_models_are_ours_or_quoted_under_a_plain_name():
    models = {one.cell["model"] for one in EVERYTHING if "model" in one.cell}
    assert all(name == name.lower() and " " not in name for name in models)
    of_the_zoo = models & set(ZOO)
    assert len(of_the_zoo) >= 35
    assert {"h2gcn", "risnn-not", "jdsnn-now", "resnet-sgc", "tuned-gcn", "polynormer"} <= of_the_zoo


def test_footnotes_name_experiments_and_labels_that_exist():
    for note in all_footnotes():
        assert set(note.experiments) <= set(COUNTS)
        assert note.text.endswith(".")
        labels = {
            label
            for name in note.experiments
            for one in published(name)
            for label in (one.dataset, *one.cell.values())
        }
        assert set(note.about) <= labels


def test_footnotes_are_chosen_by_label():
    texas = footnotes_for("leaderboard", ["texas"])
    assert [note.about for note in texas] == [("texas",)]
    assert "60/20/20" in texas[0].text
    assert {"cornell"} == {label for r in footnotes_for("malignant", ["cornell"]) for label in r.about}
    assert len([r for r in footnotes_for("bases", ["jacobi(0.5, 0)"]) if r.about]) == 2
    assert len(footnotes_for("leaderboard")) >= 5
