"""Hypothesis strategies for graphs and sheaves, corner cases first. Needs the `dev` extra."""

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.testing.samples import FAMILIES, SampleSheaf, random_sheaf, stalk_dims
from polynsd.topology import Topology

EdgeList = tuple[Tensor, int]  # edge_index [2, E], number of nodes

seeds: SearchStrategy[int] = st.integers(0, 2**16)
normalizations: SearchStrategy[str] = st.sampled_from(NORMALIZATIONS)


def edge_lists(max_nodes: int = 8) -> SearchStrategy[EdgeList]:
    """Edge lists as people give them: isolated nodes, loops, parallel and one-way edges, none at all."""
    sizes = st.integers(1, max_nodes)
    shapes = [sizes.map(_empty), sizes.map(_path), sizes.map(_star), sizes.map(_complete)]
    return st.one_of(*shapes, sizes.flatmap(_any_edges))


def topologies(max_nodes: int = 8) -> SearchStrategy[Topology]:
    """The same graphs as half-edge structures."""
    return edge_lists(max_nodes).map(lambda edges: Topology.from_edge_index(*edges))


def families(max_dim: int = 4) -> SearchStrategy[tuple[str, int]]:
    """A family of maps with a stalk dimension that it admits."""
    return st.sampled_from([(name, d) for name in FAMILIES for d in stalk_dims(name, max_dim)])


def raw_parameters(num_params: int, num_maps: int = 3, largest: float = 1.0) -> SearchStrategy[Tensor]:
    """[num_maps, num_params] raw numbers of maps; zeros, extremes and repetitions are likely."""
    numbers = st.floats(-largest, largest, allow_subnormal=False)
    size = num_maps * num_params
    return st.lists(numbers, min_size=size, max_size=size).map(
        lambda values: torch.tensor(values, dtype=torch.float64).reshape(num_maps, num_params)
    )


def sheaves(max_nodes: int = 7, max_dim: int = 3) -> SearchStrategy[SampleSheaf]:
    """Any graph × family × normalization, with or without edge weights."""
    return st.builds(
        lambda topology, family, normalization, weighted, seed: random_sheaf(
            topology, family[0], family[1], normalization, weighted=weighted, seed=seed
        ),
        topologies(max_nodes),
        families(max_dim),
        normalizations,
        st.booleans(),
        seeds,
    )


def _empty(n: int) -> EdgeList:
    return torch.empty(2, 0, dtype=torch.long), n


def _path(n: int) -> EdgeList:
    return torch.stack([torch.arange(n - 1), torch.arange(1, n)]), n


def _star(n: int) -> EdgeList:
    return torch.stack([torch.zeros(n - 1, dtype=torch.long), torch.arange(1, n)]), n


def _complete(n: int) -> EdgeList:
    return torch.combinations(torch.arange(n), 2).t(), n


def _any_edges(n: int) -> SearchStrategy[EdgeList]:
    pairs = st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3 * n)
    return pairs.map(lambda edges: (torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), n))
