"""A direct sum is the operator with block-diagonal maps, in every respect."""

import pytest
import torch

from polynsd import LayerConfig, ShapeError
from polynsd.nn.layer import SheafLayer
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf.direct_sum import DirectSum
from polynsd.sheaf.families import append_channels
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.topology import Topology

EDGES = torch.tensor([[0, 0, 1, 2, 2, 4], [1, 2, 2, 3, 4, 3]])
TOPOLOGY = Topology.from_edge_index(EDGES, 7)  # with two isolated nodes
CHANNELS = ("signless", "laplacian")
CASES = [
    (maps, rule)
    for maps in ("orthogonal", "general")
    for rule in ("none", "degree", "sheaf-augmented", "sheaf")
]


def pair(maps, normalization, **options):
    """The operator of a layer, and the same with 5 × 5 blocks."""
    torch.manual_seed(0)
    own = {"stalk_dim": 3, "maps": maps, "fixed_channels": CHANNELS, "normalization": normalization}
    layer = SheafLayer(2, LayerConfig(**PUBLISHED_LAYER | own | options)).double()
    x = torch.randn(7, 5, 2, dtype=torch.float64)
    weight = TOPOLOGY.symmetric_weight(torch.arange(1.0, 7.0, dtype=torch.float64))
    L = layer.laplacian(x, TOPOLOGY, weight)
    whole = append_channels(L.parts[0].maps, CHANNELS, TOPOLOGY, 3)
    return layer, x, L, SheafLaplacian(TOPOLOGY, whole, normalization, edge_weight=weight)


@pytest.mark.parametrize(("maps", "normalization"), CASES)
def test_it_is_the_operator_with_block_diagonal_maps(maps, normalization):
    layer, x, L, whole = pair(maps, normalization)
    assert isinstance(L, DirectSum)
    torch.testing.assert_close(L @ x, whole @ x)
    torch.testing.assert_close(L.to_dense(), whole.to_dense())
    torch.testing.assert_close(L.diagonal_blocks, whole.diagonal_blocks)
    torch.testing.assert_close(L.energy(x), whole.energy(x))
    torch.testing.assert_close(layer.filter(L, x), layer.filter(whole, x))
    bounds = [torch.as_tensor(one.lambda_max()).double() for one in (L, whole)]
    torch.testing.assert_close(*bounds)
    assert (L.shape, L.stalk_dim, L.dtype, L.device) == (whole.shape, 5, whole.dtype, whole.device)


def test_its_lanczos_bound_covers_the_spectrum():
    _, _, L, whole = pair("general", "degree")
    assert (
        float(torch.as_tensor(L.lambda_max("lanczos")).max()) >= torch.linalg.eigvalsh(whole.to_dense()).max()
    )


def test_a_layer_is_the_same_function_and_has_the_same_gradients():
    layer, x, L, whole = pair("general", "sheaf-augmented")
    gradients = [
        torch.autograd.grad(
            layer.diffuse(x, one).square().sum(), layer.learner.parameters(), retain_graph=True
        )
        for one in (L, whole)
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_a_signal_of_another_shape_is_refused():
    _, x, L, _ = pair("general", "sheaf-augmented")
    with pytest.raises(ShapeError, match=r"\[\.\.\., 7, 5, C\]"):
        L @ x[:, :3]


def test_diagonal_maps_stay_one_operator():
    layer = SheafLayer(2, LayerConfig(maps="diagonal", stalk_dim=3, fixed_channels=CHANNELS))
    assert isinstance(layer.laplacian(torch.randn(7, 5, 2), TOPOLOGY), SheafLaplacian)
