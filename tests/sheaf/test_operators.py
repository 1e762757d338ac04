"""Laplacians of graphs, connections, directed graphs and edges are their dense matrices, and filters are."""

import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse
from torch.autograd import gradcheck
from torch_geometric.data import Data

from polynsd import DataError, GraphError, ShapeError, Topology
from polynsd.sheaf import (
    connection_laplacian,
    graph_laplacian,
    hodge_laplacian,
    magnetic_laplacian,
)
from polynsd.spectral import PolynomialFilter, SymmetricOperator
from polynsd.testing import check_spectral_operator, random_tensor

PAGE = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
# 0–1–2 and 1–2–3 are triangles, 4 hangs on, 5 is alone; 1 → 2 goes both ways
EDGES = torch.tensor([[0, 1, 2, 0, 3, 3, 4], [1, 2, 1, 2, 1, 2, 3]])
PAIRS = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4))
TRIANGLES = ((0, 1, 2), (1, 2, 3))
N, E = 6, len(PAIRS)
GRAPH = Topology.from_edge_index(EDGES, N)


def adjacency():
    A = torch.zeros(N, N, dtype=torch.float64)
    A[EDGES[0], EDGES[1]] = 1.0
    return A


def normalised(L):
    scale = torch.where(L.diagonal().real > 0, L.diagonal().real, torch.inf).rsqrt()
    return scale[:, None] * L * scale


@pytest.mark.parametrize("normalization", ["none", "sheaf"])
def test_the_laplacian_of_a_graph(normalization):
    A = ((adjacency() + adjacency().T) > 0).double()
    L = A.sum(1).diag() - A
    dense = normalised(L) if normalization == "sheaf" else L
    found = graph_laplacian(GRAPH, normalization=normalization, stalk_dim=2, dtype=torch.float64)
    check_spectral_operator(found, torch.kron(dense, torch.eye(2).double()), 2)


def rotations(raw):
    return torch.matrix_exp(raw - raw.mT)


@pytest.mark.parametrize("normalization", ["none", "sheaf"])
def test_the_laplacian_of_a_connection(normalization):
    turn = rotations(random_tensor(E, 3, 3))
    dense = torch.zeros(N, 3, N, 3, dtype=torch.float64)
    for e, (v, u) in enumerate(PAIRS):
        dense[v, :, u], dense[u, :, v] = -turn[e], -turn[e].mT
        for node in (v, u):
            dense[node, :, node] += torch.eye(3)
    dense = dense.reshape(3 * N, 3 * N)
    dense = normalised(dense) if normalization == "sheaf" else dense
    check_spectral_operator(connection_laplacian(GRAPH, turn, normalization=normalization), dense, 3)


@pytest.mark.parametrize("normalization", ["none", "sheaf"])
@pytest.mark.parametrize("charge", [0.0, 0.25, 0.1])
def test_the_laplacian_of_a_directed_graph(charge, normalization):
    A = adjacency()
    weight = (A + A.T) / 2
    L = weight.sum(1).diag() - weight * torch.exp(2j * torch.pi * charge * (A - A.T))
    assert torch.equal(L, L.mH)
    L = normalised(L) if normalization == "sheaf" else L
    real = torch.stack([torch.stack([L.real, -L.imag], -1), torch.stack([L.imag, L.real], -1)], -2)
    found = magnetic_laplacian(EDGES, charge, N, normalization=normalization, dtype=torch.float64)
    check_spectral_operator(found, real.permute(0, 2, 1, 3).reshape(2 * N, 2 * N), 2)
    z = torch.view_as_complex(random_tensor(N, 3, 2))
    product = found @ torch.view_as_real(z).transpose(1, 2)
    torch.testing.assert_close(torch.view_as_complex(product.transpose(1, 2).contiguous()), L @ z)


@pytest.mark.parametrize("filled", [None, TRIANGLES[1:], ()])
def test_the_laplacian_of_edges(filled):
    B1, B2 = torch.zeros(N, E).double(), torch.zeros(E, 2).double()
    for e, (v, u) in enumerate(PAIRS):
        B1[v, e], B1[u, e] = -1.0, 1.0
    for t, (a, b, c) in enumerate(TRIANGLES if filled is None else filled):
        B2[PAIRS.index((a, b)), t], B2[PAIRS.index((b, c)), t], B2[PAIRS.index((a, c)), t] = 1, 1, -1
    assert not (B1 @ B2).any()
    given = None if filled is None else torch.tensor(filled, dtype=torch.long).reshape(-1, 3)
    found = hodge_laplacian(GRAPH, given, torch.float64)
    check_spectral_operator(found, B1.T @ B1 + B2 @ B2.T, 1)
    with pytest.raises(ShapeError, match="no edge of the graph"):
        hodge_laplacian(EDGES, torch.tensor([[0, 1, 3]]))


def test_gradients_reach_connections_and_charges():
    filter_, x = PolynomialFilter("legendre", 4).double(), random_tensor(N, 2, 2)
    raw = random_tensor(E, 2, 2).requires_grad_()
    charge = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda raw: filter_(connection_laplacian(GRAPH, rotations(raw)), x, 8.0), raw)
    assert gradcheck(lambda q: filter_(magnetic_laplacian(EDGES, q, N, normalization="sheaf"), x), charge)


def test_a_matrix_is_an_operator_within_gershgorins_bound():
    M = sparse.random_array((7, 7), density=0.4, rng=np.random.default_rng(0))
    matrix = sparse.coo_array(M @ M.T)
    found = SymmetricOperator.from_matrix(matrix, dtype=torch.float64)
    assert found.lambda_max() == pytest.approx(abs(matrix.toarray()).sum(1).max())
    check_spectral_operator(found, torch.as_tensor(matrix.toarray()), 1)
    with pytest.raises(GraphError, match="symmetric matrix"):
        SymmetricOperator.from_matrix(M)
    M.data[0] = np.nan
    with pytest.raises(GraphError, match="finite"):
        SymmetricOperator.from_matrix(M + M.T)


def test_a_contract_finds_a_bound_that_is_too_small_and_a_negative_eigenvalue():
    matrix = sparse.csr_array(
        np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])
    )  # no minor of two tells
    dense = torch.as_tensor(matrix.toarray())
    with pytest.raises(AssertionError, match="below 0"):
        check_spectral_operator(SymmetricOperator.from_matrix(matrix, dtype=torch.float64), dense, 1)
    shifted = SymmetricOperator.from_matrix(matrix + sparse.eye_array(3), 1.5, torch.float64)
    with pytest.raises(AssertionError, match="exceeds the bound"):
        check_spectral_operator(shifted, dense + torch.eye(3), 1)


def test_what_is_no_semidefinite_matrix_is_refused():
    adjacency = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(GraphError, match="take the Laplacian: graph_laplacian"):
        SymmetricOperator.from_matrix(adjacency)
    for matrix in (np.eye(3), torch.eye(3), sparse.csr_array((2, 3))):
        with pytest.raises(ShapeError, match="square sparse matrix of SciPy; got"):
            SymmetricOperator.from_matrix(matrix)
    small = sparse.csr_array(np.array([[100, 0, 100], [0, 100, 0], [100, 0, 100]], dtype=np.int8))
    found = SymmetricOperator.from_matrix(small, dtype=torch.float64)
    assert found.lambda_max() == 200  # not within a byte
    np.testing.assert_array_equal(found.to_dense(), small.toarray())


def weighted_graphs():
    """A graph with weights in every form that carries them, and its D − A."""
    A = np.triu(np.arange(1.0, 26).reshape(5, 5) % 4, 1)
    A += A.T
    coo = sparse.coo_array(A)
    edge_index = torch.as_tensor(np.stack([coo.row, coo.col])).long()
    weight = torch.as_tensor(coo.data)
    both = np.r_[coo.row, coo.row], np.r_[coo.col, coo.col]
    graphs = [
        coo,
        sparse.coo_array((np.r_[coo.data, coo.data] / 2, both)),  # entries in two parts
        Data(edge_index=edge_index, edge_weight=weight, num_nodes=5),
        torch.sparse_coo_tensor(edge_index, weight, (5, 5)),
        nx.from_scipy_sparse_array(coo),
    ]
    return graphs, edge_index, weight, torch.as_tensor(np.diag(A.sum(1)) - A)


def test_weights_that_a_graph_carries_are_used():
    graphs, edge_index, weight, dense = weighted_graphs()
    for graph in graphs:
        torch.testing.assert_close(graph_laplacian(graph, dtype=torch.float64).to_dense(), dense)
    given = graph_laplacian(edge_index, 6, edge_weight=weight, dtype=torch.float64)  # with an isolated node
    torch.testing.assert_close(given.to_dense()[:5, :5], dense)
    eye = torch.eye(1, dtype=torch.float64).expand(len(weight) // 2, 1, 1)
    torch.testing.assert_close(connection_laplacian(graphs[0], eye).to_dense(), dense)
    with pytest.raises(ShapeError, match="directed edges, without weights; got coo_array"):
        magnetic_laplacian(graphs[0])


def test_a_connection_must_be_orthogonal():
    raw = random_tensor(E, 3, 3)
    with pytest.raises(DataError, match=r"OᵀO = I; at edge \d.*torch.matrix_exp"):
        connection_laplacian(GRAPH, raw)
    almost = rotations(raw).half().double()
    connection_laplacian(GRAPH, almost)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_print_what_the_page_says(number, capsys):
    exec(EXAMPLES[number], {})
    expected = re.findall(r"# (True|torch\.Size.*|6\.0 .*)$", EXAMPLES[number], re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected
