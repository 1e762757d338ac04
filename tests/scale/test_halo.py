"""A halo is the subgraph on all nodes within so many hops, core first, with everything they carry."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scale_graphs import awkward_graph, path_graph
from torch_geometric.data import Data

from polynsd.errors import ConfigError, GraphError
from polynsd.scale import Halos
from polynsd.testing.strategies import edge_lists


def within(edge_index, num_nodes, core, depth):
    """By powers of the adjacency matrix."""
    step = torch.eye(num_nodes)
    step[edge_index[0], edge_index[1]] = step[edge_index[1], edge_index[0]] = 1
    reached = torch.zeros(num_nodes)
    reached[core] = 1
    for _ in range(depth):
        reached = (step @ reached > 0).float()
    return set(reached.nonzero().squeeze(-1).tolist())


@given(edge_lists(9), st.integers(0, 4), st.data())
def test_nodes_and_edges_are_those_of_the_induced_subgraph(edges, depth, data):
    edge_index, n = edges
    core = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True)))
    graph = Data(edge_index=edge_index, number=torch.arange(edge_index.size(1)), num_nodes=n)
    graph.x = torch.arange(n)[:, None].float()
    halo = Halos(graph).around(core, depth)
    inside = within(edge_index, n, core, depth)
    assert set(halo.nodes.tolist()) == inside
    assert len(halo.nodes) == len(inside) == halo.data.num_nodes
    assert torch.equal(halo.core, core)
    assert torch.equal(halo.data.x[:, 0].long(), halo.nodes)
    columns = [i for i, (a, b) in enumerate(edge_index.t().tolist()) if a in inside and b in inside]
    assert torch.equal(halo.nodes[halo.data.edge_index], edge_index[:, columns])


def test_edge_values_stay_with_their_columns():
    data = awkward_graph(weighted=True)
    halo = Halos(data).around(torch.tensor([30, 2]), 2)
    whole = {tuple(c): i for i, c in enumerate(data.edge_index.t().tolist())}
    for column, (a, b) in enumerate(halo.nodes[halo.data.edge_index].t().tolist()):
        assert halo.data.edge_weight[column] == data.edge_weight[whole[a, b]]
    assert halo.data.edge_attr.shape == (halo.data.num_edges, 2)
    assert torch.equal(halo.data.y, data.y[halo.nodes])


def test_as_many_edges_as_nodes_confuse_nobody():
    nodes = torch.arange(6)
    ring = torch.stack([nodes, (nodes + 1) % 6])
    data = Data(x=torch.randn(6, 2), edge_index=ring, edge_weight=torch.arange(6.0))
    halo = Halos(data).around(torch.tensor([0]), 1)
    assert torch.equal(halo.data.x, data.x[[0, 1, 5]])
    assert halo.data.edge_weight.tolist() == [0.0, 5.0]


def test_lists_of_nodes_are_carried_too():
    data = path_graph(4)
    data.name = ["a", "b", "c", "d"]
    data.title = "a path"  # belongs to the graph
    halo = Halos(data).around(torch.tensor([2]), 1)
    assert halo.data.name == ["c", "b", "d"]
    assert "title" not in halo.data


def test_moving_to_where_it_is_changes_nothing():
    halo = Halos(path_graph()).around(torch.tensor([3]), 1)
    assert halo.to("cpu") is halo
    assert halo.to("meta").data.edge_index.is_meta
    assert not halo.data.edge_index.is_meta


def test_refusals():
    with pytest.raises(GraphError, match="no edge_index"):
        Halos(Data(x=torch.zeros(3, 1)))
    with pytest.raises(ConfigError, match="depth must be an integer of at least 0"):
        Halos(path_graph()).around(torch.tensor([0]), -1)
