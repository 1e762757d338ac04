"""Laws of the half-edge structure, and every way into it."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from polynsd import Topology, as_topology
from polynsd.errors import ConfigError, GraphError, ShapeError
from polynsd.testing import random_edges
from polynsd.testing.strategies import edge_lists
from polynsd.topology import TopologyReport

TRIANGLE_WITH_TAIL = torch.tensor([[0, 1, 2, 2, 1], [1, 2, 0, 3, 0]])  # node 4 is isolated
many = settings(max_examples=100, deadline=None)


def same(a, b):
    names = ("rowptr", "row", "col", "twin", "edge")
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in names)


def assert_laws(t):
    H = torch.arange(t.num_half_edges)
    key = t.row * t.num_nodes + t.col
    assert (key.diff() > 0).all()  # sorted by (row, col), no duplicates
    assert torch.equal(t.twin[t.twin], H)
    assert torch.equal(t.row[t.twin], t.col)
    assert (t.twin != H).all()
    assert torch.equal(t.edge[t.twin], t.edge)
    assert torch.equal(t.edge[t.first_half], torch.arange(t.num_edges))  # numbered by (min, max)
    assert (t.row[t.first_half] < t.col[t.first_half]).all()
    assert torch.equal(torch.repeat_interleave(torch.arange(t.num_nodes), t.degree), t.row)
    assert t.rowptr[0] == 0
    assert t.rowptr[-1] == t.num_half_edges == 2 * t.num_edges


@many
@given(edge_lists())
def test_laws(edges):
    assert_laws(Topology.from_edge_index(*edges))


def test_laws_at_a_hundred_thousand_edges():
    edge_index = random_edges(20_000, 100_000)
    t = Topology.from_edge_index(edge_index, 20_000)
    assert_laws(t)
    kept = t.half_of_input >= 0
    assert torch.equal(t.col[t.half_of_input[kept]], edge_index[0, kept])


@many
@given(edge_lists())
def test_against_brute_force(edges):
    edge_index, num_nodes = edges
    t = Topology.from_edge_index(edge_index, num_nodes)
    columns = list(map(tuple, edge_index.t().tolist()))
    halves = sorted({pair for a, b in columns if a != b for pair in ((a, b), (b, a))})
    number = {pair: h for h, pair in enumerate(halves)}
    assert list(zip(t.row.tolist(), t.col.tolist(), strict=True)) == halves
    assert t.twin.tolist() == [number[u, v] for v, u in halves]
    assert t.half_of_input.tolist() == [number.get((b, a), -1) for a, b in columns]
    directed = {pair for pair in columns if pair[0] != pair[1]}
    loops = sum(a == b for a, b in columns)
    assert t.report == TopologyReport(
        given=len(columns),
        self_loops=loops,
        duplicates=len(columns) - loops - len(directed),
        one_way=sum((b, a) not in directed for a, b in directed),
    )


@many
@given(edge_lists())
def test_degrees_are_those_of_networkx(edges):
    edge_index, num_nodes = edges
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((a, b) for a, b in edge_index.t().tolist() if a != b)
    t = Topology.from_edge_index(edge_index, num_nodes)
    assert t.degree.tolist() == [graph.degree[v] for v in range(num_nodes)]
    assert t.num_edges == graph.number_of_edges()


def test_report_says_what_was_merged_and_dropped(caplog):
    with caplog.at_level("INFO", logger="polynsd"):
        t = Topology.from_edge_index(torch.tensor([[0, 0, 1, 2, 1], [1, 1, 0, 2, 2]]))
        Topology.from_edge_index(torch.tensor([[0, 1], [1, 0]]))  # clean, so nothing is said
    text = "5 edges given: 1 self-loops dropped, 1 duplicates merged, 1 one-way edges made undirected"
    assert str(t.report) == text
    assert caplog.messages == [text]


def adjacency(layout=None):
    dense = torch.zeros(5, 5)
    dense[TRIANGLE_WITH_TAIL[0], TRIANGLE_WITH_TAIL[1]] = 2.5
    return dense.to_sparse(layout=layout or torch.sparse_coo)


def named_graph():
    graph = nx.Graph()
    graph.add_nodes_from("abcde")
    graph.add_edges_from(("abcde"[i], "abcde"[j]) for i, j in TRIANGLE_WITH_TAIL.t().tolist())
    return graph


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize(
    "make",
    [
        lambda: TRIANGLE_WITH_TAIL.int(),
        lambda: EdgeIndex(TRIANGLE_WITH_TAIL, sparse_size=(5, 5)),
        adjacency,
        lambda: adjacency(torch.sparse_csr),
        lambda: sp.coo_matrix((np.ones(5), TRIANGLE_WITH_TAIL.numpy()), shape=(5, 5)),
        lambda: sp.csr_array((np.ones(5), TRIANGLE_WITH_TAIL.numpy()), shape=(5, 5)),
        named_graph,
        lambda: nx.MultiDiGraph(named_graph()),
        lambda: Data(edge_index=TRIANGLE_WITH_TAIL, num_nodes=5),
        lambda: Topology.from_edge_index(TRIANGLE_WITH_TAIL, 5),
    ],
    ids=[
        "int32",
        "EdgeIndex",
        "COO",
        "CSR",
        "spmatrix",
        "sparray",
        "names",
        "MultiDiGraph",
        "Data",
        "itself",
    ],
)
def test_every_input_gives_the_same_structure(make):
    assert same(as_topology(make(), 5), Topology.from_edge_index(TRIANGLE_WITH_TAIL, 5))


def test_number_of_nodes_when_none_is_given():
    assert as_topology(TRIANGLE_WITH_TAIL).num_nodes == 4  # the largest id decides
    assert as_topology(EdgeIndex(TRIANGLE_WITH_TAIL, sparse_size=(7, 7))).num_nodes == 7


def test_the_structure_of_a_tensor_is_remembered_until_it_is_written_to():
    edge_index = TRIANGLE_WITH_TAIL.clone()
    first = as_topology(edge_index, 5)
    assert as_topology(edge_index, 5) is first
    assert as_topology(edge_index.clone(), 5) is not first
    assert as_topology(edge_index, 6).num_nodes == 6
    edge_index[0, 3] = 4
    assert as_topology(edge_index, 5).degree.tolist() == [2, 2, 2, 1, 1]


def test_inference_tensors_are_welcome():
    with torch.inference_mode():
        assert as_topology(TRIANGLE_WITH_TAIL.clone()).num_edges == 4


@pytest.mark.parametrize("num_nodes", [0, 3])
def test_no_edges(num_nodes):
    t = Topology.from_edge_index(torch.empty(2, 0, dtype=torch.long), num_nodes)
    assert (t.num_nodes, t.num_edges) == (num_nodes, 0)
    assert t.degree.tolist() == [0] * num_nodes
    assert t.per_half_edge(torch.empty(0, 2)).shape == (0, 2)


def test_values_are_averaged_over_parallel_edges_and_shared_with_the_twin():
    t = Topology.from_edge_index(torch.tensor([[0, 0, 1, 2, 1], [1, 1, 0, 2, 2]]))
    values = torch.tensor([[1.0, 10.0], [3.0, 20.0], [5.0, 50.0], [9.0, 9.0], [7.0, 70.0]])
    halves = zip(t.row.tolist(), t.col.tolist(), strict=True)
    spread = dict(zip(halves, t.per_half_edge(values).tolist(), strict=True))
    assert spread[1, 0] == [2.0, 15.0]  # mean of the two columns 0 → 1
    assert spread[0, 1] == [5.0, 50.0]  # the column 1 → 0
    assert spread[2, 1] == [7.0, 70.0]  # the column 1 → 2 …
    assert spread[1, 2] == [7.0, 70.0]  # … whose reverse was not given
    assert torch.autograd.gradcheck(t.per_half_edge, values.double().requires_grad_())


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_symmetric_weights(shape):
    t = Topology.from_edge_index(TRIANGLE_WITH_TAIL)
    weight = t.symmetric_weight(torch.tensor([1.0, 2.0, 3.0, 4.0, 1.0]).reshape(shape))
    assert torch.equal(weight, weight[t.twin])
    assert weight[t.first_half].tolist() == [1.0, 3.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("weight", "error", "text"),
    [
        (torch.tensor([1.0, 2.0, 3.0, 4.0, 9.0]), GraphError, "equal in both directions"),
        (torch.tensor([-1.0, 2.0, 3.0, 4.0, -1.0]), GraphError, "must not be negative"),
        (torch.ones(4), ShapeError, r"one value per column .* \(5\); got 4"),
        (torch.ones(5, 2), ShapeError, "edge_weight"),
    ],
)
def test_bad_weights(weight, error, text):
    with pytest.raises(error, match=text):
        Topology.from_edge_index(TRIANGLE_WITH_TAIL).symmetric_weight(weight)


@pytest.mark.parametrize(
    ("edge_index", "num_nodes", "error", "text"),
    [
        (torch.tensor([[0], [5]]), 5, GraphError, "names node 5, but there are only 5 nodes"),
        (torch.tensor([[0], [-1]]), 5, GraphError, "must not be negative; edge_index holds -1"),
        (torch.tensor([[0.0], [1.0]]), 5, ShapeError, "must hold integers; got torch.float32"),
        (torch.tensor([[True], [False]]), 5, ShapeError, "must hold integers; got torch.bool"),
        (torch.tensor([0, 1]), 5, ShapeError, r"shape \[2, E\]; got \[2\]"),
        (torch.tensor([[0, 1, 2]]).t(), 5, ShapeError, r"shape \[2, E\]; got \[3, 1\]"),
        (torch.tensor([[0], [1]]), -1, ConfigError, "num_nodes must be an integer of at least 0"),
    ],
)
def test_bad_edges(edge_index, num_nodes, error, text):
    with pytest.raises(error, match=text):
        as_topology(edge_index, num_nodes)


@pytest.mark.parametrize("graph", [sp.coo_array(np.ones((2, 3))), torch.ones(3, 2).to_sparse()])
def test_a_rectangular_adjacency_is_refused(graph):
    with pytest.raises(ShapeError, match="must be square"):
        as_topology(graph)


@pytest.mark.parametrize(
    ("graph", "error", "text"),
    [
        ([[0, 1]], GraphError, "a graph must be an edge_index tensor .* got list"),
        (Data(x=torch.ones(3, 1)), GraphError, "edge_index"),
        (Topology.from_edge_index(TRIANGLE_WITH_TAIL), ShapeError, "has 4 nodes but the features have 9"),
    ],
    ids=["list", "Data without edges", "size"],
)
def test_what_is_not_a_graph(graph, error, text):
    with pytest.raises(error, match=text):
        as_topology(graph, 9)


def test_moves_between_devices_and_prints():
    t = Topology.from_edge_index(TRIANGLE_WITH_TAIL)
    moved = t.to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor)]
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 6
    assert moved.report == t.report
    assert repr(t) == "Topology(num_nodes=4, num_edges=4)"
