"""A degree-K filter of a given Laplacian sees K hops; a layer that learns its maps sees one more.

Proposition "K-hop locality" (prop. polysd-khop) and lemma "support of powers and walks". The extra
hop comes from the normalisation: the block (v, u) of D^{−1/2} L D^{−1/2} depends on D_u, hence on
the features of all neighbours of u.
"""

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import BASES, laplacians, law, matrix_of, path, random, seeds

from polynsd import LayerConfig, PolynomialFilter
from polynsd.nn import SheafLayer

DEGREE = 3


def distances(topology):
    """[N, N] numbers of hops; N where there is no walk."""
    n = topology.num_nodes
    graph = nx.Graph(zip(topology.row.tolist(), topology.col.tolist(), strict=True))
    graph.add_nodes_from(range(n))
    hops = torch.full((n, n), n)
    for v, lengths in nx.all_pairs_shortest_path_length(graph):
        for u, length in lengths.items():
            hops[v, u] = length
    return hops


@law
@given(laplacians(), st.integers(0, 4), st.sampled_from(BASES), seeds)
def test_blocks_beyond_K_hops_are_exactly_zero(L, K, basis, seed):
    p = PolynomialFilter(basis, K, "free", "high-pass" if K else "none").double()
    torch.nn.init.normal_(p.theta, generator=torch.Generator().manual_seed(seed))
    n, d = L.topology.num_nodes, L.stalk_dim
    blocks = matrix_of(lambda x: p(L, x), L).detach().reshape(n, d, n, d)
    assert (blocks.abs().amax((1, 3))[distances(L.topology) > K] == 0).all()


def reach(**options):
    """Hops to the farthest node that one layer's output at node 0 depends on, on a path."""
    config = LayerConfig(stalk_dim=2, degree=DEGREE, **options)
    torch.manual_seed(0)
    layer = SheafLayer(1, config).double()
    topology = path(DEGREE + 4)
    x = random(1, topology.num_nodes, config.total_stalk_dim, 1)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, topology)[0], x)
    return int((jacobian.abs().amax((0, 1, 3, 4)) > 1e-12).nonzero().max())


@pytest.mark.parametrize("maps", ["diagonal", "general"])
@pytest.mark.parametrize("normalization", ["sheaf", "sheaf-augmented"])
def test_a_learned_normalised_sheaf_adds_one_hop(maps, normalization):
    assert reach(maps=maps, normalization=normalization) == DEGREE + 1


@pytest.mark.parametrize("normalization", ["none", "degree"])
@pytest.mark.parametrize("maps", ["identity", "diagonal", "general"])
def test_without_a_learned_normaliser_there_is_no_extra_hop(maps, normalization):
    assert reach(maps=maps, normalization=normalization) == DEGREE


def test_orthogonal_maps_have_a_constant_normaliser_unless_edges_are_weighted():
    assert reach(maps="orthogonal") == DEGREE
    assert reach(maps="orthogonal", edge_weights=True) == DEGREE + 1


def test_one_step_of_neural_sheaf_diffusion_reads_two_hops():
    assert reach(maps="diagonal", filter="diffusion") == 2
