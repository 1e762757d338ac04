"""Every node is in one part; parts are of equal size; the seed decides; a cut goes through one component."""

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scale_graphs import awkward_graph, path_graph

from polynsd.errors import ConfigError
from polynsd.scale import cut_share, members, partition
from polynsd.testing.strategies import edge_lists
from polynsd.topology import Topology


@given(edge_lists(12), st.data())
def test_bfs_parts_differ_by_one_node_at_most(edges, data):
    topology = Topology.from_edge_index(*edges)
    num_parts = data.draw(st.integers(1, topology.num_nodes))
    labels = partition(topology, num_parts, "bfs", seed=data.draw(st.integers(0, 3)))
    sizes = torch.bincount(labels, minlength=num_parts)
    assert labels.shape == (topology.num_nodes,)
    assert sizes.numel() == num_parts
    assert int(sizes.max() - sizes.min()) <= 1


@pytest.mark.parametrize("method", ["bfs", "metis"])
def test_the_seed_decides(method):
    data = awkward_graph(num_nodes=80, num_edges=150)
    first, again = (partition(data, 5, method, seed=1) for _ in range(2))
    assert torch.equal(first, again)
    assert first.max() < 5
    assert torch.bincount(first, minlength=5).max() <= 20


@pytest.mark.parametrize("method", ["bfs", "metis"])
def test_a_path_is_cut_into_pieces(method):
    labels = partition(path_graph(64), 4, method)
    assert int((labels.diff() != 0).sum()) == 3


def test_components_that_fit_are_left_whole():
    ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
    labels = partition(torch.cat([ring + 6 * i for i in range(4)], 1), 4, "bfs")
    assert cut_share(torch.cat([ring + 6 * i for i in range(4)], 1), labels) == 0


def test_bfs_cuts_less_than_chance_does():
    side = 40
    grid = torch.arange(side * side).reshape(side, side)
    right, down = (
        torch.stack([a.reshape(-1), b.reshape(-1)])
        for a, b in ((grid[:, :-1], grid[:, 1:]), (grid[:-1], grid[1:]))
    )
    edge_index = torch.cat([right, down], 1)
    assert cut_share(edge_index, partition(edge_index, 8, "bfs")) < 0.12  # chance: 7/8


def test_long_and_large_graphs_take_no_long_loop():
    """A million half-edges, and a diameter of a hundred thousand: neither is walked in Python."""
    n = 100_000
    random = torch.randint(0, n, (2, 400_000), generator=torch.Generator().manual_seed(0))
    for edge_index in (path_graph(n).edge_index, random):
        sizes = torch.bincount(partition(Topology.from_edge_index(edge_index, n), 16, "bfs"))
        assert sizes.tolist() == [n // 16] * 16


def test_members_leaves_out_empty_parts():
    assert [nodes.tolist() for nodes in members(torch.tensor([2, 0, 2, 0]))] == [[1, 3], [0, 2]]


def test_one_part_and_no_edges():
    lonely = Topology.from_edge_index(torch.empty(2, 0, dtype=torch.long), 5)
    for method in ("bfs", "metis"):
        assert partition(lonely, 1, method).tolist() == [0] * 5
        assert sorted(partition(lonely, 5, method).tolist()) == [0, 1, 2, 3, 4]


def test_refusals(monkeypatch):
    data = path_graph(5)
    with pytest.raises(ConfigError, match="5 nodes cannot be cut into 6 parts"):
        partition(data, 6)
    with pytest.raises(ConfigError, match="num_parts must be an integer"):
        partition(data, 0)
    with pytest.raises(ConfigError, match="choose from: auto, bfs, metis"):
        partition(data, 2, "metric")
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ConfigError, match=r"polynsd\[partition\]"):
        partition(data, 2, "metis")
