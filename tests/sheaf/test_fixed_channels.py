"""Fixed stalk coordinates are the graph's own Laplacians: D − A and D + A."""

import pytest
import torch

from polynsd.sheaf import SheafLaplacian
from polynsd.sheaf.families import append_channels
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.testing import (
    FAMILIES,
    GRAPHS,
    assert_close,
    check_operator,
    dense_laplacian,
    example_graph,
    random_maps,
)

D = 2
SIGN = {"laplacian": -1.0, "signless": 1.0}
every_normalization = pytest.mark.parametrize("normalization", NORMALIZATIONS)


def with_channels(maps, channels, topology):
    return append_channels(maps, channels, topology, D)


def plain_laplacian(topology, sign, normalization):
    """D ± A of the graph, scaled as the table of normalisations says."""
    A = torch.zeros(topology.num_nodes, topology.num_nodes, dtype=torch.float64)
    A[topology.row, topology.col] = 1.0
    degree = A.sum(1)
    root = {
        "none": torch.ones_like(degree),
        "sheaf": torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0.0),
        "sheaf-augmented": (degree + 1).rsqrt(),
        "degree": (degree + 1).rsqrt(),
    }[normalization]
    return root[:, None] * (torch.diag(degree) + sign * A) * root


@pytest.mark.parametrize("channels", [("laplacian",), ("signless",), ("laplacian", "signless", "laplacian")])
@every_normalization
@pytest.mark.parametrize("family", FAMILIES)
def test_channels_are_plain_laplacians_beside_the_learned_sheaf(family, normalization, channels):
    topology = example_graph("isolated nodes")
    maps = random_maps(family, topology, D)
    size = D + len(channels)
    whole = SheafLaplacian(topology, with_channels(maps, channels, topology), normalization).to_dense()
    whole = whole.reshape(topology.num_nodes, size, topology.num_nodes, size)
    learned = dense_laplacian(topology, maps, normalization, stalk_dim=D)
    N = topology.num_nodes
    assert_close(whole[:, :D, :, :D].reshape(N * D, N * D), learned, "learned part")
    for i, name in enumerate(channels, start=D):
        assert_close(whole[:, i, :, i], plain_laplacian(topology, SIGN[name], normalization), name)
        others = [j for j in range(size) if j != i]
        assert not whole[:, i][..., others].any()  # channels do not talk to other coordinates


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("family", ["diagonal", "orthogonal", "general"])
def test_operator_contract_with_channels(family, graph):
    topology = example_graph(graph)
    maps = with_channels(random_maps(family, topology, D), ("laplacian", "signless"), topology)
    options = {"normalization": "sheaf-augmented", "stalk_dim": D + 2}
    L = SheafLaplacian(topology, maps, orthogonal_columns=family != "general", **options)
    check_operator(L, dense_laplacian(topology, maps, **options))


def test_no_channels_leave_the_maps_alone():
    topology = example_graph("path")
    maps = random_maps("general", topology, D)
    assert with_channels(maps, (), topology) is maps


@pytest.mark.parametrize("family", FAMILIES)
def test_every_replica_gets_the_channels(family):
    topology = example_graph("star")
    maps = random_maps(family, topology, D, lead=(3,))
    whole = with_channels(maps, ("signless",), topology)
    single = torch.stack([with_channels(part, ("signless",), topology) for part in maps])
    assert torch.equal(whole, single)


def test_gradients_reach_the_learned_part():
    topology = example_graph("path")
    maps = random_maps("general", topology, D).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: with_channels(m, ("laplacian",), topology), maps)
