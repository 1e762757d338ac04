"""A halo is the subgraph on all nodes within so many hops, core first, with everything they carry."""

import pytest
import torch
import torch_geometric.loader
from hypothesis import given
from hypothesis import strategies as st
from published_block import published
from scale_graphs import awkward_graph, path_graph, shaken, thirds
from torch_geometric.data import Data

from polynsd.errors import ConfigError, GraphError
from polynsd.scale import Halos, halo_drift, members, neighbor_batches, partition, receptive_field
from polynsd.testing.strategies import edge_lists
from polynsd.training import get_task


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


# Drift shrinks with the depth of the halos and is gone at the exact one, for outputs and gradients


@pytest.mark.parametrize("maps", ["diagonal", "general"])
def test_drift_shrinks_to_nothing(maps):
    data, model = path_graph(120), shaken(published(5, 3, 2, 3, degree=2, stalk_dim=2, maps=maps), size=0.1)
    exact = receptive_field(model)
    table = halo_drift(
        model, data, partition(data, 6), range(exact + 1), task=get_task("accuracy"), train=thirds(120).train
    )
    assert [row.depth for row in table] == list(range(exact + 1))
    for drift in ([row.output for row in table], [row.gradient for row in table]):
        assert drift[-1] < 1e-12
        assert all(
            later < max(1.2 * drift[i], 1e-12) for i, later in enumerate(drift[1:])
        )  # roughly monotone
        assert drift[0] > 100 * drift[exact - 1] > 0
    assert table[0].nodes == pytest.approx(1 / 6)
    assert table[-1].nodes > table[0].nodes
    assert table[0].largest > 0


def test_some_parts_say_enough():
    data, model = path_graph(60), shaken(published(5, 3, 1, 3, degree=1, stalk_dim=2))
    some = members(partition(data, 6))[:2]
    (row,) = halo_drift(model, data, some, [0])
    assert row.gradient is None
    assert row.output > 0


def test_a_global_model_is_compared_with_the_whole_graph():
    data = path_graph(30)
    model = shaken(published(5, 3, 1, 3, degree=2, stalk_dim=2, lambda_max="lanczos"), size=0.1)
    labels = partition(data, 3)
    near, all_of_it = halo_drift(model, data, labels, [1, 30], task=get_task("accuracy"))
    assert near.output > 1e-6
    assert all_of_it.output < 1e-3  # the estimate of λ_max depends on the order of the nodes


def test_all_nodes_count_unless_told():
    data, model = path_graph(20), shaken(published(5, 3, 1, 3, degree=1, stalk_dim=2))
    (row,) = halo_drift(model, data, partition(data, 4), [receptive_field(model)], task=get_task("accuracy"))
    assert row.gradient is not None
    assert row.gradient < 1e-12
    assert torch.isfinite(torch.tensor(row.gradient))


# NeighborLoader is PyG's; we say when it is not there, and pass its batches on


def test_its_absence_is_told(monkeypatch):
    monkeypatch.setattr("polynsd.scale.halo._sampler_is_installed", lambda: False)
    with pytest.raises(ConfigError, match="pyg-lib"):
        neighbor_batches(path_graph(), torch.arange(4), [2, 2], 2)


def test_batches_are_halos(monkeypatch):
    class Loader:
        """Takes all neighbours, as `num_neighbors=[-1, -1]` does."""

        def __init__(self, data, num_neighbors, input_nodes, batch_size, shuffle):
            self.halos = [Halos(data).around(c, len(num_neighbors)) for c in input_nodes.split(batch_size)]

        def __iter__(self):
            for halo in self.halos:
                halo.data.n_id, halo.data.batch_size = halo.nodes, halo.num_core
                yield halo.data

    monkeypatch.setattr("polynsd.scale.halo._sampler_is_installed", lambda: True)
    monkeypatch.setattr(torch_geometric.loader, "NeighborLoader", Loader)
    first, second = neighbor_batches(path_graph(), torch.arange(3), [-1, -1], 2, shuffle=False)
    assert first.core.tolist() == [0, 1]
    assert first.nodes.tolist() == [0, 1, 2, 3]
    assert second.num_core == 1
    assert second.depth == 2
