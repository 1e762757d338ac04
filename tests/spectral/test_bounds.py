"""Lanczos estimates: never below λ_1 on small operators, and blind to the company of other graphs."""

import pytest
import torch
from hypothesis import given, settings

from polynsd.spectral.bounds import INFLATION, lanczos_lambda_max
from polynsd.testing import TOLERANCE, assert_close, batch_of, random_sheaf, random_tensor
from polynsd.testing.strategies import sheaves


def estimate(L, **options):
    return lanczos_lambda_max(L.__matmul__, torch.zeros(probe_shape(L), dtype=L.dtype), **options)


def probe_shape(L):
    return (*L.maps.shape[:-3], L.topology.num_nodes, L.stalk_dim, 1)


def top(matrix):
    return torch.linalg.eigvalsh(matrix.double())[..., -1:]


@settings(max_examples=30, deadline=None)
@given(sheaves())
def test_exhausted_krylov_spaces_find_the_top(sheaf):
    """At most 21 dimensions and 24 steps: what is left is the inflation."""
    assert_close(estimate(sheaf.laplacian()), INFLATION * top(sheaf.dense()), "estimate", tolerance=1e-6)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_never_below_on_random_matrices(seed, dtype):
    """Dense 60 × 60 operators, so that 24 steps do not exhaust anything."""
    B = random_tensor(60, 60, seed=seed)
    A = (B @ B.T).to(dtype)
    bound = lanczos_lambda_max(
        lambda x: (A @ x.flatten(0, 1)).reshape(x.shape), torch.zeros(20, 3, 1, dtype=dtype)
    )
    assert top(A) * (1 - 1e-6) <= bound.double() <= 1.1 * top(A)


@pytest.mark.parametrize("steps", [1, 3, 24])
@pytest.mark.parametrize("normalization", ["none", "sheaf", "sheaf-augmented", "degree"])
def test_graphs_in_a_batch_get_what_they_get_alone(normalization, steps):
    names = ("complete", "path", "no edges", "multigraph", "one node")
    topology, batch = batch_of(*names)
    sheaf = random_sheaf(topology, "general", 2, normalization)
    together = estimate(sheaf.laplacian(), batch=batch, num_graphs=len(names), steps=steps)
    for i, name in enumerate(names):
        alone = random_sheaf(name, "general", 2, normalization)
        alone.maps.copy_(sheaf.maps[batch[topology.row] == i])
        assert_close(together[i : i + 1], estimate(alone.laplacian(), steps=steps), name)


def test_replicas():
    sheaf = random_sheaf("star", "general", 3, lead=(4,))
    single = torch.stack([estimate(sheaf.replica(r).laplacian()) for r in range(4)])
    assert_close(estimate(sheaf.laplacian()), single, "replicas")


def test_the_zero_operator():
    assert estimate(random_sheaf("no edges", "general", 2).laplacian()).tolist() == [0.0]


def test_estimates_are_reproducible_and_carry_no_gradient():
    L = random_sheaf("complete", "general", 2).laplacian()
    L.maps.requires_grad_()
    first = estimate(L)
    torch.manual_seed(1)
    assert torch.equal(estimate(L), first)
    assert not first.requires_grad


def test_one_step_is_a_rayleigh_quotient_plus_its_residual():
    A, seen = random_sheaf("complete", "general", 3).dense(), []

    def product(x):
        seen.append(x.flatten())
        return (A @ x.flatten()).reshape(x.shape)

    bound = lanczos_lambda_max(product, torch.zeros(5, 3, 1, dtype=torch.float64), steps=1)
    v = seen[0]
    quotient = v @ A @ v
    assert v.norm().item() == pytest.approx(1.0)
    assert bound.item() == pytest.approx(INFLATION * (quotient + (A @ v - quotient * v).norm()).item())


def test_more_steps_see_more():
    L = random_sheaf("complete", "general", 3).laplacian()
    exact = INFLATION * top(L.to_dense())
    errors = [float((estimate(L, steps=steps) - exact).abs()) for steps in (1, 4, 15)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-9
