"""Learned maps beside their controls: which cells are compared, how, and what is drawn."""

import re
from dataclasses import replace

import pytest
from invented_cells import invent_comparison
from invented_records import invent, summary

from polynsd.errors import DataError
from polynsd_paper.claims.comparisons import compare_graphs
from polynsd_paper.experiments.generated import ALIGNMENT, PLANTED
from polynsd_paper.pages.choosing import (
    changes_table,
    compare_maps,
    compare_published,
    controls_text,
    mean_interval,
    planted_text,
)
from polynsd_paper.pages.choosing_figures import maps_figure, planted_figure
from polynsd_paper.records import records_table
from polynsd_paper.tables.leaderboards import compare_cells

IN_BLOCK = {
    "as it is": 0.8,
    "identity maps, same reach": 0.7,
    "identity maps, no trunk": 0.5,
    "gate tanh": 0.6,
}
THREE = {"learned maps": 0.9, "same reach": 0.7, "identity maps": 0.6}
BLOCK = [invent("block", "cora", {"change": name}, mean) for name, mean in IN_BLOCK.items()]
GRAPHS = [
    invent(
        PLANTED.name,
        "planted",
        cell.options,
        THREE.get(cell.options["variant"], 0.5),
        measured={ALIGNMENT: [0.9]},
    )
    for cell in PLANTED.cells()
]
PANELS = [
    invent("panels", "heterophily", {"variant": name, "heterophily": 0.75}, mean)
    for name, mean in THREE.items()
]
PUBLISHED = [
    invent("synthetic", "noise-diff", {"setting": "noise=0.2", "model": name}, mean)
    for name, mean in (("polynsd-diagonal", 0.6), ("identity-sheaf", 0.7))
]


def test_maps_and_trunk_are_compared_with_what_lacks_them():
    block, *planted, panels = compare_maps(summary(*BLOCK, *GRAPHS, *PANELS))
    assert [block.label, planted[1].label, panels.label] == [
        "cora", "planted, spread 0.65, noise 1.5", "heterophily 0.75",
    ]  # fmt: skip
    for comparison, maps, trunk in ((block, 0.1, 0.2), (planted[0], 0.2, 0.1), (panels, 0.2, 0.1)):
        assert comparison.by_maps.difference == pytest.approx(maps)
        assert comparison.by_trunk.difference == pytest.approx(trunk)


def test_splits_of_one_graph_are_worth_less_than_graphs_of_their_own():
    block, panels = compare_maps(summary(*BLOCK, *PANELS))
    assert block.by_maps == compare_cells(block.learned, block.same_reach)
    assert panels.by_maps == compare_graphs(panels.learned["scores"][:, 0], panels.same_reach["scores"][:, 0])


def test_without_a_control_there_is_nothing_to_compare():
    partial = replace(BLOCK[1], settings={"first": 3})
    with pytest.raises(DataError, match="polynsd reproduce planted"):
        compare_maps(summary(BLOCK[0], partial))


def test_the_text_has_the_means_of_the_block_and_of_the_published_maps():
    cells = summary(*BLOCK, *PUBLISHED)
    text = " ".join(controls_text(cells, compare_maps(cells)))
    assert "maps add 10.0 points" in text
    assert "the trunk adds 20.0 to identity maps (20.0 on validation)" in text
    assert "by −10.0 points on average over 1 settings" in text
    assert len(compare_published(summary(*BLOCK))) == 0


def test_planted_sheaves_have_a_control_of_wider_reach_and_an_alignment():
    text = " ".join(planted_text(summary(*GRAPHS)))
    assert len(re.findall(r"\*\*40\.0 \(.*?\)\*\* at spread 0\.\d+, noise", text)) == 4
    assert "0.90 (0.90 to 0.90) at spread 0.65, noise 2.5" in text


def test_changes_of_the_block_are_sorted_by_validation():
    lines = [line.split(" | ") for line in changes_table(records_table(BLOCK)).splitlines()[2:]]
    names = [line[0].strip("| ") for line in lines]
    assert names == ["identity maps, same reach", "gate tanh", "identity maps, no trunk"]
    assert lines[1][1].strip("*").startswith("−20.00 (")
    assert {line[2].strip("| ") for line in lines} == {"0 of 1"}


def test_an_average_of_independent_differences_is_surer_than_each():
    assert mean_interval([invent_comparison(0.0, 0.2)] * 4) == pytest.approx((0.1, 0.05, 0.15))


def test_the_pictures_are_drawn(tmp_path):
    cells = summary(*BLOCK, *GRAPHS, *PANELS)
    assert maps_figure(tmp_path / "maps.png", compare_maps(cells)).stat().st_size > 10_000
    assert planted_figure(tmp_path / "planted.png", cells).stat().st_size > 10_000
