"""Hypothesis strategies for graphs and sheaves, corner cases first. Needs the `dev` extra."""

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.testing.samples import FAMILIES, random_maps, stalk_dims
from polynsd.testing.sheaves import SampleSheaf, random_sheaf
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


def raw_maps(topology: Topology, max_dim: int = 4) -> SearchStrategy[tuple[Tensor, int]]:
    """Maps of any family on every half-edge of a graph, and their stalk dimension."""
    return st.builds(
        lambda family, seed: (random_maps(family[0], topology, family[1], seed=seed), family[1]),
        families(max_dim),
        seeds,
    )


def sheaves(max_nodes: int = 7, max_dim: int = 3) -> SearchStrategy[SampleSheaf]:
    """Any graph × family × normalization, with or without edge weights."""
    return st.builds(
        lambda topology, family, normalization, weighted, seed: random_sheaf(
            topology, *family, normalization, weighted=weighted, seed=seed
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
