"""A stack of sheaves `[R, ...]` does what its members do one by one."""

from dataclasses import replace

import pytest
import torch

from polynsd.errors import ShapeError
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.testing import FAMILIES, assert_close, random_sheaf, random_tensor, random_weights

R, D = 3, 2
every_normalization = pytest.mark.parametrize("normalization", NORMALIZATIONS)
every_family = pytest.mark.parametrize("family", FAMILIES)


def stack(function):
    return torch.stack([torch.as_tensor(function(r)) for r in range(R)])


def signal(*lead):
    return random_tensor(*lead, 8, D, 4, seed=5)


@every_normalization
@every_family
def test_a_stack_of_maps(family, normalization):
    sheaf = random_sheaf("isolated nodes", family, D, normalization, weighted=True, lead=(R,))
    L, x = sheaf.laplacian(), signal(R)
    assert_close(L @ x, stack(lambda r: sheaf.replica(r).laplacian() @ x[r]), "L @ x")
    assert_close(L.energy(x), stack(lambda r: sheaf.replica(r).laplacian().energy(x[r])), "energy")
    assert_close(L.to_dense(), stack(lambda r: sheaf.replica(r).dense()), "to_dense")
    blocks = stack(lambda r: sheaf.replica(r).laplacian().diagonal_blocks)
    assert_close(L.diagonal_blocks, blocks, "diagonal_blocks")


@pytest.mark.parametrize("method", ["analytic", "lanczos"])
@every_normalization
@every_family
def test_bounds_of_a_stack(family, normalization, method):
    sheaf = random_sheaf("star", family, D, normalization, lead=(R,))
    bound = torch.as_tensor(sheaf.laplacian().lambda_max(method), dtype=torch.float64)
    single = stack(lambda r: sheaf.replica(r).laplacian().lambda_max(method)).double()
    assert_close(bound.expand(R, 1, 1, 1).flatten(), single.flatten(), method)


@every_family
def test_shared_maps_and_a_stack_of_signals(family):
    L, x = random_sheaf("isolated nodes", family, D, "sheaf-augmented").laplacian(), signal(R)
    assert_close(L @ x, stack(lambda r: L @ x[r]), "L @ x")
    assert_close(L.energy(x), stack(lambda r: L.energy(x[r])), "energy")


@every_family
def test_a_stack_of_maps_and_a_shared_signal(family):
    sheaf, x = random_sheaf("isolated nodes", family, D, "sheaf-augmented", lead=(R,)), signal()
    L = sheaf.laplacian()
    assert_close(L @ x, stack(lambda r: sheaf.replica(r).laplacian() @ x), "L @ x")
    assert_close(L.energy(x), stack(lambda r: sheaf.replica(r).laplacian().energy(x)), "energy")


@every_normalization
@every_family
def test_shared_maps_and_a_stack_of_weights(family, normalization):
    sheaf = random_sheaf("isolated nodes", family, D, normalization)
    sheaf = replace(sheaf, edge_weight=random_weights(sheaf.topology, lead=(R,)))
    L, x = sheaf.laplacian(), signal(R)
    assert_close(L @ x, stack(lambda r: sheaf.replica(r).laplacian() @ x[r]), "L @ x")
    assert_close(L.energy(x), stack(lambda r: sheaf.replica(r).laplacian().energy(x[r])), "energy")
    assert_close(L.to_dense(), stack(lambda r: sheaf.replica(r).dense()), "to_dense")


def test_two_replica_dimensions():
    sheaf = random_sheaf("star", "general", D, "sheaf", lead=(2, R))
    x = random_tensor(2, R, 6, D, 4)
    rows = [replace(sheaf, maps=maps).laplacian() @ part for maps, part in zip(sheaf.maps, x, strict=True)]
    assert_close(sheaf.laplacian() @ x, torch.stack(rows), "L @ x")


def test_a_stack_has_no_single_sparse_form():
    with pytest.raises(ShapeError, match="needs a single operator"):
        random_sheaf("star", "general", D, lead=(R,)).laplacian().to_sparse()
