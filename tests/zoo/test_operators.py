"""The matrices of the zoo are what their names say, are found once, and do not outlive their graph."""

import gc
import weakref

import pytest
import torch
from replica_law import graph, smoothing
from torch_geometric.data import Data

from polynsd import ConfigError, Topology
from polynsd.testing.samples import GRAPHS, random_edges
from polynsd.zoo.operators import (
    adjacency_matrix,
    gcn_matrix,
    mean_matrix,
    no_weights,
    remembered,
    symmetric_matrix,
    two_hop_matrix,
)


def normalised(A):
    """D^{−1/2} A D^{−1/2}, with zero rows for isolated nodes."""
    scale = torch.where(A.sum(1) > 0, A.sum(1), 1.0).rsqrt()
    return scale[:, None] * A * scale


def at_distance_two(A):
    """By the definition: reached in two steps, not in one, not the node itself."""
    return ((A @ A > 0) & (A == 0)).double().fill_diagonal_(0.0)


MATRICES = {
    adjacency_matrix: lambda A: A,
    gcn_matrix: smoothing,
    symmetric_matrix: normalised,
    mean_matrix: lambda A: A / A.sum(1, keepdim=True).clamp(min=1),
    two_hop_matrix: lambda A: normalised(at_distance_two(A)),
}
every_matrix = pytest.mark.parametrize("matrix", MATRICES, ids=lambda matrix: matrix.__name__)


@pytest.mark.parametrize("name", GRAPHS)
@every_matrix
def test_a_matrix_is_its_formula_and_so_is_its_gradient(matrix, name):
    x, edge_index, A = graph(name)
    dense, S = MATRICES[matrix](A), matrix(edge_index, len(x), x)
    z = x.clone().requires_grad_()
    torch.testing.assert_close(S(z), dense @ x)
    g = torch.randn_like(x)
    S(z).backward(g)
    torch.testing.assert_close(z.grad, dense.T @ g)


@every_matrix
def test_replicas_share_a_matrix(matrix):
    edge_index, z = random_edges(9, 20), torch.randn(4, 9, 3)
    together = torch.vmap(lambda one: matrix(edge_index, 9, one)(one))(z)
    torch.testing.assert_close(together, torch.stack([matrix(edge_index, 9, one)(one) for one in z]))


@every_matrix
def test_a_graph_is_looked_at_once_and_again_when_it_changes(matrix):
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    first = matrix(edge_index, 9, x)
    assert matrix(edge_index, 9, x) is first
    assert matrix(edge_index, 9, x.double()).values.dtype is torch.double
    edge_index[:, :5] = 0
    changed = matrix(edge_index, 9, x)
    torch.testing.assert_close(changed(x), matrix(edge_index.clone(), 9, x)(x))
    assert changed.values.numel() != first.values.numel()


def test_matrices_of_one_graph_do_not_displace_each_other():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    found = [matrix(edge_index, 9, x) for matrix in MATRICES]
    assert all(matrix(edge_index, 9, x) is one for matrix, one in zip(MATRICES, found, strict=True))


def test_a_matrix_ends_with_its_graph():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    values = [weakref.ref(matrix(edge_index, 9, x).values) for matrix in MATRICES]
    gc.collect()
    assert all(one() is not None for one in values)
    del edge_index
    gc.collect()
    assert all(one() is None for one in values)


def test_any_description_of_a_graph_will_do():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    expected = gcn_matrix(edge_index, 9, x)(x)
    for other in (Topology.from_edge_index(edge_index, 9), Data(edge_index=edge_index, num_nodes=9)):
        torch.testing.assert_close(gcn_matrix(other, 9, x)(x), expected)


def test_what_is_found_without_gradients_can_be_trained_with():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3, requires_grad=True)
    with torch.inference_mode():
        gcn_matrix(edge_index, 9, x)
    gcn_matrix(edge_index, 9, x)(x).sum().backward()


def test_half_precision_signals_are_multiplied_in_full():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    S = gcn_matrix(edge_index, 9, x)
    torch.testing.assert_close(S(x.bfloat16()), S(x.bfloat16().float()))


def test_remembered_functions_keep_name_and_description():
    @remembered
    def degrees(topology, like):
        """Degrees."""
        return topology.degree.to(like.dtype)

    edge_index = torch.tensor([[0, 0], [1, 2]])
    assert (degrees.__name__, degrees.__doc__) == ("degrees", "Degrees.")
    assert degrees(edge_index, 4, torch.ones(1)).tolist() == [2.0, 1.0, 1.0, 0.0]


def test_weights_that_would_be_ignored_are_refused():
    no_weights("SomeNet", None)
    with pytest.raises(ConfigError, match="SomeNet has no use for edge_weight; leave it out"):
        no_weights("SomeNet", torch.ones(3))
