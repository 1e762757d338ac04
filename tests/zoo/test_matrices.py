"""The matrices of the zoo are what their names say, are found once, and do not outlive their graph."""

import gc
import weakref

import pytest
import torch
from torch_geometric.data import Data
from zoo_laws import graph, mean, normalised, smoothing, weighted_graph

from polynsd import ConfigError, Topology
from polynsd.errors import GraphError
from polynsd.testing.samples import GRAPHS, random_edges
from polynsd.zoo.matrices import (
    adjacency_matrix,
    gcn_matrix,
    mean_matrix,
    once_per_features,
    once_per_graph,
    powers,
    refuse_weights,
    symmetric_matrix,
    two_hop_matrix,
)


def at_distance_two(A):
    """By the definition: reached in two steps, not in one, not the node itself."""
    return ((A @ A > 0) & (A == 0)).double().fill_diagonal_(0.0)


MATRICES = {
    adjacency_matrix: lambda A: A,
    gcn_matrix: smoothing,
    symmetric_matrix: normalised,
    mean_matrix: mean,
    two_hop_matrix: lambda A: normalised(at_distance_two(A)),
}
every_matrix = pytest.mark.parametrize("matrix", MATRICES, ids=lambda matrix: matrix.__name__)


def assert_multiplies(S, dense, x):
    """S z and its gradient are those of a dense matrix."""
    z, g = x.clone().requires_grad_(), torch.randn_like(x)
    torch.testing.assert_close(S(z), dense @ x)
    S(z).backward(g)
    torch.testing.assert_close(z.grad, dense.T @ g)


@pytest.mark.parametrize("name", GRAPHS)
@every_matrix
def test_a_matrix_is_its_formula_and_so_is_its_gradient(matrix, name):
    x, edge_index, A = graph(name)
    assert_multiplies(matrix(edge_index, x), MATRICES[matrix](A), x)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("matrix", [gcn_matrix, symmetric_matrix])
def test_weights_are_those_of_the_matrix(matrix, name):
    x, edge_index, weight, A = weighted_graph(name)
    S = matrix(edge_index, x, weight)
    assert_multiplies(S, MATRICES[matrix](A), x)
    assert matrix(edge_index, x, weight) is S


def test_weights_that_contradict_each_other_or_want_gradients_are_refused():
    x, edge_index, weight, _ = weighted_graph("path")
    with pytest.raises(ConfigError, match=r"would get no gradient; detach\(\) it"):
        gcn_matrix(edge_index, x, weight.clone().requires_grad_())
    weight[0] += 1
    with pytest.raises(GraphError, match="both directions"):
        gcn_matrix(edge_index, x, weight)


@every_matrix
def test_replicas_share_a_matrix(matrix):
    edge_index, z = random_edges(9, 20), torch.randn(4, 9, 3)
    together = torch.vmap(lambda signal: matrix(edge_index, signal)(signal))(z)
    torch.testing.assert_close(together, torch.stack([matrix(edge_index, signal)(signal) for signal in z]))


@every_matrix
def test_a_graph_is_looked_at_once_and_again_when_it_changes(matrix):
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    first = matrix(edge_index, x)
    assert matrix(edge_index, x) is first
    assert matrix(edge_index, x.double()).values.dtype is torch.double
    edge_index[:, :5] = 0
    changed = matrix(edge_index, x)
    torch.testing.assert_close(changed(x), matrix(edge_index.clone(), x)(x))
    assert changed.values.numel() != first.values.numel()


def test_matrices_of_one_graph_do_not_displace_each_other_and_end_with_it():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    found = [matrix(edge_index, x) for matrix in MATRICES]
    assert all(matrix(edge_index, x) is S for matrix, S in zip(MATRICES, found, strict=True))
    values = [weakref.ref(S.values) for S in found]
    del found, edge_index
    gc.collect()
    assert all(value() is None for value in values)


def test_any_description_of_a_graph_will_do():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    expected = gcn_matrix(edge_index, x)(x)
    for other in (Topology.from_edge_index(edge_index, 9), Data(edge_index=edge_index, num_nodes=9)):
        torch.testing.assert_close(gcn_matrix(other, x)(x), expected)


def test_what_is_found_without_gradients_can_be_trained_with():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3, requires_grad=True)
    with torch.inference_mode():
        gcn_matrix(edge_index, x)
    gcn_matrix(edge_index, x)(x).sum().backward()


def test_half_precision_signals_are_multiplied_in_full():
    edge_index, x = random_edges(9, 20), torch.randn(9, 3)
    S = gcn_matrix(edge_index, x)
    torch.testing.assert_close(S(x.bfloat16()), S(x.bfloat16().float()))


def test_functions_of_graphs_keep_name_and_description():
    @once_per_graph
    def degrees(topology, x):
        """Degrees."""
        return topology.degree.to(x.dtype)

    assert (degrees.__name__, degrees.__doc__) == ("degrees", "Degrees.")
    assert degrees(torch.tensor([[0, 0], [1, 2]]), torch.ones(4, 1)).tolist() == [2.0, 1.0, 1.0, 0.0]


def test_powers_of_two_matrices_do_not_displace_each_other():
    x, edge_index, _ = graph("path")
    matrices = [find(edge_index, x) for find in (gcn_matrix, symmetric_matrix)]
    found = [once_per_features(powers, S, x, 3) for S in matrices]
    for S, first in zip(matrices, found, strict=True):
        torch.testing.assert_close(first[2], S(S(S(x))))
        assert once_per_features(powers, S, x, 3) is first
        assert len(once_per_features(powers, S, x, 1)) == 1
        assert once_per_features(powers, S, x, 0) == []


def test_powers_follow_the_features_carry_gradients_and_end_with_them():
    x, S = torch.randn(9, 3), gcn_matrix(random_edges(9, 20), torch.randn(9, 3))
    before = once_per_features(powers, S, x, 2)[0]
    x.mul_(2.0)
    torch.testing.assert_close(once_per_features(powers, S, x, 2)[0], 2 * before)
    assert once_per_features(powers, S, x.clone().requires_grad_(), 2)[1].requires_grad
    alive = weakref.ref(once_per_features(powers, S, x, 2)[0])
    del x
    gc.collect()
    assert alive() is None


def test_weights_that_would_be_ignored_are_refused():
    refuse_weights("SomeNet", None)
    with pytest.raises(ConfigError, match="SomeNet has no use for edge_weight; leave it out"):
        refuse_weights("SomeNet", torch.ones(3))
