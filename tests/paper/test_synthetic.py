"""The panels hold the grids of the paper, and every cell is a graph."""

import numpy as np
import pytest

from polynsd.data import heterophilous_graph, heterophily
from polynsd_paper.experiments.synthetic import PANELS, SEEDS

CELLS = {
    "heterophily-diff": 20,
    "heterophily-risnn": 20,
    "noise-diff": 6,
    "noise-risnn": 7,
    "amount-diff": 9,
    "amount-risnn": 9,
}


def values(name, argument):
    return sorted({cell[argument] for cell in PANELS[name].cells()})


def first_graph(name, seed):
    return heterophilous_graph(**next(PANELS[name].cells(seed)))


def test_every_panel_has_its_number_of_distinct_cells():
    assert {name: len(panel) for name, panel in PANELS.items()} == CELLS
    for panel in PANELS.values():
        cells = list(panel.cells())
        assert len({tuple(sorted(cell.items())) for cell in cells}) == len(cells) == len(panel)


@pytest.mark.parametrize("regime", ["diff", "risnn"])
def test_classes_and_nodes_grow_together(regime):
    pairs = {(cell["num_classes"], cell["num_nodes"]) for cell in PANELS[f"heterophily-{regime}"].cells()}
    assert pairs == {(2, 400), (3, 600), (4, 800), (5, 1000)}
    assert values(f"heterophily-{regime}", "heterophily") == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_regimes_differ_in_the_number_of_features():
    assert [values(name, "num_features") for name in PANELS] == [[4], [15], [3], [15], [3], [15]]


def test_the_odd_degree_is_replaced():
    assert values("noise-risnn", "degree") == [4]
    assert all(cell["degree"] % 2 == 0 for panel in PANELS.values() for cell in panel.cells())


@pytest.mark.parametrize("name", PANELS)
def test_graphs_have_their_settings(name):
    for settings in PANELS[name].cells(seed=1):
        graph = heterophilous_graph(**settings)
        assert graph.x.shape == (settings["num_nodes"], settings["num_features"])
        assert 2 * graph.num_edges == settings["num_nodes"] * settings["degree"]
        assert heterophily(graph) == pytest.approx(settings["heterophily"], abs=0.1)


def test_seeds_give_five_different_graphs():
    assert list(SEEDS) == [0, 1, 2, 3, 4]
    firsts = [first_graph("noise-diff", seed) for seed in SEEDS]
    assert len({tuple(graph.edge_index.flatten().tolist()) for graph in firsts}) == 5
    assert np.array_equal(firsts[2].x, first_graph("noise-diff", 2).x)


def test_noise_leaves_labels_and_edges_alone():
    quiet, *_, loud = (heterophilous_graph(**settings) for settings in PANELS["noise-diff"].cells())
    assert np.array_equal(quiet.y, loud.y)
    assert np.array_equal(quiet.edge_index, loud.edge_index)
    assert not np.array_equal(quiet.x, loud.x)
