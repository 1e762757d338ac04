"""On the constant sheaf the library is what everybody knows: Chebyshev filters of the graph Laplacian."""

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_NODES, close, features
from torch_geometric.nn import ChebConv
from torch_geometric.utils import get_laplacian, to_dense_adj

from polynsd import LayerConfig, PolynomialFilter, SheafLaplacian, Topology
from polynsd.nn import SheafLayer
from polynsd.published import PUBLISHED_LAYER

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, 6)  # without node 6: PyG gives isolated nodes L_vv = 1, we 0
THETA = torch.tensor([0.3, -1.2, 0.7, 0.5, -0.4]).double()
C = 3


def graph_laplacian(d=1):
    ones = torch.ones(TOPOLOGY.num_half_edges, 1, 1).double()
    return SheafLaplacian(TOPOLOGY, ones, "sheaf", stalk_dim=d)


def cheb_conv(x):
    """PyG's layer with weights θ_k I: Σ θ_k T_k(L̃) x."""
    conv = ChebConv(C, C, K=len(THETA), bias=False).double()
    for lin, theta in zip(conv.lins, THETA, strict=True):
        lin.weight.data = theta * torch.eye(C).double()
    return conv(x, EDGE_INDEX, lambda_max=torch.tensor(2.0).double()).detach()


def free_layer(d=1):
    options = {
        "stalk_dim": d, "maps": "identity", "normalization": "sheaf", "degree": len(THETA) - 1,
        "coefficients": "free", "correction": "none", "mixing": "none", "gate": "none",
        "activation": "identity",
    }  # fmt: skip
    layer = SheafLayer(C, LayerConfig(**PUBLISHED_LAYER | options)).double().requires_grad_(False)
    layer.filter.theta.copy_(THETA)
    return layer


def test_the_operator_is_pygs_normalised_laplacian():
    index, weight = get_laplacian(EDGE_INDEX, normalization="sym", dtype=torch.float64)
    assert close(graph_laplacian().to_dense(), to_dense_adj(index, edge_attr=weight)[0])


def test_a_free_filter_is_chebconv():
    x = features(6, C)
    p = PolynomialFilter("chebyshev1", len(THETA) - 1, "free").double().requires_grad_(False)
    p.theta.copy_(THETA)
    assert close(p(graph_laplacian(), x[:, None]).squeeze(1), cheb_conv(x))


def test_a_bare_layer_is_the_identity_minus_chebconv():
    x = features(6, C)
    assert close(free_layer()(x[:, None], TOPOLOGY).squeeze(1), x - cheb_conv(x))


@pytest.mark.parametrize("d", [2, 5])
def test_larger_stalks_are_independent_copies(d):
    x = features(6, d * C).reshape(6, d, C)
    copies = [free_layer()(x[:, i : i + 1], TOPOLOGY) for i in range(d)]
    assert close(free_layer(d)(x, TOPOLOGY), torch.cat(copies, 1))


def test_isolated_nodes_are_at_frequency_zero():
    whole = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
    x = features(NUM_NODES, C)[:, None]
    p_at_zero = (THETA * (-1) ** torch.arange(len(THETA))).sum()
    assert close(free_layer()(x, whole)[6], (1 - p_at_zero) * x[6])
