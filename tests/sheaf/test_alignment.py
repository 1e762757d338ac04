"""Alignment of transports: exact up to a basis, against brute force, and about zero for unrelated ones."""

import math

import pytest
import torch

from polynsd.errors import ConfigError, ShapeError
from polynsd.sheaf import transport_alignment, transports
from polynsd.sheaf.orthogonal import euler, matrix_exp
from polynsd.topology import Topology

every_dimension = pytest.mark.parametrize("d", [1, 2, 3, 4])


def orthogonal(*shape, seed=0):
    """Matrices of both determinants, float64."""
    generator = torch.Generator().manual_seed(seed)
    Q = torch.linalg.qr(torch.randn(*shape, shape[-1], dtype=torch.float64, generator=generator))[0]
    return Q * torch.randn(*shape[:-1], 1, shape[-1], dtype=torch.float64, generator=generator).sign()


def ring(num_nodes):
    nodes = torch.arange(num_nodes)
    chords = [torch.stack([nodes, (nodes + step) % num_nodes]) for step in (1, 5)]
    return Topology.from_edge_index(torch.cat(chords, dim=1), num_nodes)


@every_dimension
def test_a_change_of_basis_changes_nothing(d):
    """1 for T = Gᵀ P G, and the same for noisy transports in any basis; G of both determinants."""
    topology = ring(60)
    frames = orthogonal(60, d)
    planted = transports(topology, frames, "nodes")
    noisy = transports(topology, frames + 0.4 * orthogonal(60, d, seed=1), "nodes")
    bases = orthogonal(6, 1, d, seed=2)
    torch.testing.assert_close(
        transport_alignment(bases.mT @ planted @ bases, planted), torch.ones(6, dtype=torch.float64)
    )
    aligned = transport_alignment(noisy, planted)
    turned = transport_alignment(bases.mT @ noisy @ bases, planted)
    torch.testing.assert_close(turned, aligned.expand(6), atol=1e-6, rtol=0)
    assert aligned >= (noisy * planted).sum((-2, -1)).mean() / d - 1e-12


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_no_basis_does_better(d, noise):
    """Brute force over 20,000 bases; planted and learned transports from little to nothing in common."""
    topology = ring(40)
    frames = orthogonal(40, d)
    learned, planted = (
        transports(topology, maps, "nodes") for maps in (frames + noise * orthogonal(40, d, seed=1), frames)
    )
    G = orthogonal(20_000, d, seed=2)
    M = torch.einsum("hli,hkj->lkij", planted, learned) / planted.size(0)
    brute = (torch.einsum("lkij,nij->nlk", M, G) * G).sum((-2, -1)).max() / d
    aligned = transport_alignment(learned, planted)
    assert brute - 1e-9 <= aligned <= brute + 0.02


def test_rotations_of_the_plane_have_a_closed_form():
    """Rotations commute, a reflection turns the other way: the better mean of cos(α ∓ β)."""
    alpha, beta = torch.randn(2, 50, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 8
    T, P = euler(alpha, 2), euler(beta, 2)
    means = [(2 * math.pi * (alpha - sign * beta)).cos().mean() for sign in (1, -1)]
    torch.testing.assert_close(transport_alignment(T, P), max(means))


@pytest.mark.parametrize("d", [2, 3, 4])
def test_unrelated_rotations_are_not_aligned(d):
    params = torch.randn(2, 400, d * (d - 1) // 2, generator=torch.Generator().manual_seed(0)) * 3
    planted, learned = (transports(ring(400), matrix_exp(p, d), "nodes") for p in params)
    assert -1e-3 < transport_alignment(learned, planted) < 0.1


def test_transports_are_polar_factors_of_the_couplings():
    topology = ring(20)
    maps = orthogonal(topology.num_half_edges, 3) * torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    coupling = maps.mT @ maps[topology.twin]
    transported = transports(topology, maps)
    torch.testing.assert_close(transported @ transported.mT, torch.eye(3).double().expand_as(maps))
    stretch = transported.mT @ coupling
    torch.testing.assert_close(stretch, stretch.mT)
    assert (torch.linalg.eigvalsh(stretch) > 0).all()
    torch.testing.assert_close(transported[topology.twin], transported.mT)


def test_maps_on_nodes_and_diagonal_maps():
    topology = ring(20)
    frames = orthogonal(20, 2)
    on_nodes = transports(topology, 3 * frames, "nodes")  # conformal: the scale drops out
    torch.testing.assert_close(on_nodes, transports(topology, frames[topology.row]))
    torch.testing.assert_close(on_nodes, frames[topology.row].mT @ frames[topology.col])
    signs = torch.tensor([[1.0], [-2.0]]).expand(topology.num_half_edges, 2, 1)
    torch.testing.assert_close(
        transports(topology, signs), torch.eye(2).expand(topology.num_half_edges, 2, 2)
    )


def test_wrong_shapes_raise_one_clear_error():
    topology = ring(20)
    with pytest.raises(ShapeError, match=r"maps on nodes must have shape \[..., 20, d, d\]"):
        transports(topology, torch.eye(2).expand(80, 2, 2), "nodes")
    with pytest.raises(ConfigError, match="maps_on"):
        transports(topology, torch.eye(2).expand(80, 2, 2), "faces")
    with pytest.raises(ShapeError, match="the same shape"):
        transport_alignment(torch.eye(2).expand(80, 2, 2), torch.eye(3).expand(80, 3, 3))
