"""Replicas and scales: whatever is stacked, the result is that of a loop."""

from itertools import product

import pytest
import torch

from polynsd.kernels import chebyshev_filter
from polynsd.sheaf import SheafLaplacian
from polynsd.spectral import PolynomialFilter
from polynsd.testing import assert_close, batch_of, gradients, random_maps, random_sheaf, random_tensor
from polynsd.testing.backends import dense_filter

R = 3
STACKED = [choice for choice in product([False, True], repeat=3) if any(choice)]  # maps, φ, x


def replicas(t, stacked):
    return list(t) if stacked else [t] * R


@pytest.mark.parametrize("degree", [0, 1, 3])
@pytest.mark.parametrize("family", ["identity", "diagonal", "general"])
@pytest.mark.parametrize("stacked", STACKED, ids=lambda s: "maps {}, phi {}, x {}".format(*map(int, s)))
def test_stacks_broadcast(stacked, family, degree):
    leads = [(R,) if choice else () for choice in stacked]
    A = random_sheaf("isolated nodes", family, 2, "sheaf-augmented", lead=leads[0]).laplacian().blocks
    phi, x = random_tensor(*leads[1], degree + 1, seed=1), random_tensor(*leads[2], 8, 2, 3, seed=2)

    def together(diag, off, phi, x):
        return chebyshev_filter(A._replace(diag=diag, off=off), phi, x, 1.0)

    def one_by_one(diag, off, phi, x):
        parts = zip(
            replicas(diag, stacked[0]),
            replicas(off, stacked[0]),
            replicas(phi, stacked[1]),
            replicas(x, stacked[2]),
            strict=True,
        )
        return torch.stack([together(*part) for part in parts])

    inputs = [A.diag, A.off, phi, x]
    assert_close(together(*inputs), one_by_one(*inputs), "filter")
    found, expected = gradients(together, inputs), gradients(one_by_one, inputs)
    for name, value, truth in zip(("diag", "off", "phi", "x"), found, expected, strict=True):
        assert_close(value, truth, f"gradient of {name}")


GRAPHS = ("path", "multigraph", "one node")


@pytest.mark.parametrize("normalization", ["none", "degree"])
@pytest.mark.parametrize("number", range(len(GRAPHS)), ids=GRAPHS)
def test_every_graph_of_a_batch_has_its_own_scale(number, normalization):
    """The filter of a batch is, graph by graph, the dense filter with that graph's own λ_max."""
    topology, batch = batch_of(*GRAPHS)
    own = batch == number
    rows = own.repeat_interleave(2)
    x, module = random_tensor(topology.num_nodes, 2, 3), PolynomialFilter("legendre", 4).double()

    def batched(maps):
        return module(SheafLaplacian(topology, maps, normalization, batch=batch), x)[own]

    def alone(maps):
        L = SheafLaplacian(topology, maps, normalization, batch=batch)
        lam_max = float(2 * torch.linalg.matrix_norm(L.diagonal_blocks[own].detach(), ord=2).max())
        scale = 2 / lam_max if lam_max else 0.0
        return dense_filter(L.to_dense()[rows][:, rows], module.chebyshev_coefficients(), x[own], scale)

    maps = random_maps("general", topology, 2)
    assert_close(batched(maps), alone(maps), "filter")
    assert_close(gradients(batched, [maps])[0], gradients(alone, [maps])[0], "gradient of maps")


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
@pytest.mark.parametrize("normalization", ["none", "degree", "sheaf", "sheaf-augmented"])
@pytest.mark.parametrize("graph", ["no edges", "one node"])
def test_without_edges_the_filter_is_its_value_at_zero(graph, normalization, degree):
    """L = 0, so that y = p(−1) x, even where λ_max = 0."""
    L = random_sheaf(graph, "general", 2, normalization).laplacian()
    x = random_tensor(L.topology.num_nodes, 2, 3)
    module = PolynomialFilter("jacobi(0.5, 0)", degree, correction="linear").double()
    torch.nn.init.constant_(module.alpha, 0.3)
    expected = module.response(torch.zeros((), dtype=torch.float64)) * x
    assert_close(module(L, x), expected, "filter")
    assert_close(module(L, x, L.lambda_max("lanczos")), expected, "filter with the Lanczos bound")


def test_a_number_and_a_tensor_are_the_same_scale():
    A = random_sheaf("star", "general", 2, "sheaf").laplacian().blocks
    phi, x = random_tensor(6), random_tensor(6, 2, 3, seed=1)
    for scale in (0.0, 0.7):
        as_tensor = torch.tensor(scale, dtype=torch.float64).reshape(1, 1, 1)
        assert_close(chebyshev_filter(A, phi, x, as_tensor), chebyshev_filter(A, phi, x, scale), "scale")
