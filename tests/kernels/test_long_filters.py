"""What rounding does to long recurrences, and to those of a spectrum that leaves [0, 2 / scale]."""

import logging

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from polynsd import SheafLaplacian, Topology, kernels
from polynsd.kernels import registry
from polynsd.kernels.ops import drift as drift_ops
from polynsd.testing import assert_close, assert_same_gradients, example_graph, random_maps, random_tensor
from polynsd.testing.backends import dense_filter, dense_operator

INTERPRETED = "gpu" in kernels.available() and not torch.cuda.is_available()
BACKENDS = ["reference", *(["cpu"] if "cpu" in kernels.available() else []), *["gpu"] * INTERPRETED]


def laplacian(topology, family, d):
    """Blocks in float32 with the eigenvalues 0 and, on a path, 2 where maps are the identity."""
    maps = random_maps(family, topology, d, dtype=torch.float32)
    return SheafLaplacian(topology, maps, "sheaf", stalk_dim=d).blocks


def path(N):
    return Topology.from_edge_index(torch.stack([torch.arange(N - 1), torch.arange(1, N)]), N)


def check(A, d, K, scale, tolerance):
    """Values and gradients in float32 against dense matrices in float64."""
    inputs = {
        "x": 1 + random_tensor(A.pattern.num_nodes, d, 2, seed=1, dtype=torch.float32),
        "phi": random_tensor(K + 1, seed=2, dtype=torch.float32),
        "diag": A.diag,
        "off": A.off,
    }

    def filtered(x, phi, diag, off):
        return kernels.chebyshev_filter(A._replace(diag=diag, off=off), phi, x, scale)

    def truth(x, phi, diag, off):
        return dense_filter(dense_operator(A._replace(diag=diag, off=off), d), phi, x, scale)

    exact = truth(*(t.double() for t in inputs.values()))
    assert_close(filtered(*inputs.values()), exact, "filter", tolerance)
    assert_same_gradients(filtered, truth, inputs, tolerance)


@pytest.mark.parametrize(("family", "d"), [("identity", 1), ("general", 2)])
@pytest.mark.parametrize("K", [64, 65, 256, 512])
def test_long_recurrences_keep_four_digits(family, d, K):
    check(laplacian(path(24), family, d), d, K, 1.0, 1e-4)


def test_long_recurrences_take_constant_memory():
    def saved(K):
        A = laplacian(path(6), "identity", 1)
        x, phi, kept = torch.ones(6, 1, 3, requires_grad=True), torch.ones(K + 1), []
        with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            kernels.chebyshev_filter(A._replace(off=A.off.clone().requires_grad_()), phi, x, 1.0)
        return sum(t.nbytes for t in kept if t.numel() != K + 1)

    assert saved(65) == saved(512) > 0


@pytest.mark.parametrize("name", BACKENDS)
def test_gradients_where_the_spectrum_leaves_its_bound(name):
    """T_6 reaches 5e5, so that reversed terms have no digit left."""
    with kernels.use(name):
        check(laplacian(example_graph("one edge"), "diagonal", 2), 2, 6, 3.0, 1e-5)


@pytest.mark.parametrize(("K", "scale"), [(32, 1.15), (64, 1.15), (128, 1.05)])
def test_gradients_of_long_recurrences_where_the_spectrum_leaves_its_bound(K, scale):
    check(laplacian(path(24), "general", 2), 2, K, scale, 1e-4)


def passes(name, scales):
    """(∂diag, ∂off, ∂x, ∂φ, drift) of replicas with these scales."""
    topology = example_graph("one edge")
    diag = torch.stack([torch.full((2, 1, 1), scale - 1) for scale in scales])
    off = torch.stack([torch.full((2, 1, 1), -scale) for scale in scales])
    x, phi = random_tensor(1, 2, 1, 3, dtype=torch.float32), torch.ones(1, 7)
    backend = registry.load_backend(name)
    _, *last = backend.filter_forward(topology.pattern, diag, off, x, phi)
    g = x.expand_as(last[0])
    return backend.filter_backward(topology.pattern, diag, off, x, phi, tuple(last), g, True)


@pytest.mark.parametrize("name", BACKENDS)
def test_the_drift_tells_which_replica_is_lost(name):
    drift = passes(name, (1.0, 3.0))[-1]
    assert drift[0] < 1e-5
    assert drift[1] > 1


def test_a_replica_keeps_its_bits_beside_one_that_is_lost(caplog):
    topology = example_graph("one edge")

    def gradient(scales):
        maps = torch.ones(len(scales), 2, 1, 1, requires_grad=True)
        A = SheafLaplacian(topology, maps, "none").blocks
        x = random_tensor(2, 1, 3, dtype=torch.float32)
        scale = torch.tensor(scales)[:, None, None, None]
        return torch.autograd.grad(kernels.chebyshev_filter(A, torch.ones(7), x, scale).sum(), maps)[0]

    drift_ops._warn.cache_clear()
    with caplog.at_level(logging.WARNING, "polynsd"):
        assert torch.equal(gradient([1.0, 3.0])[0], gradient([1.0])[0])
        gradient([3.0])
    assert caplog.text.count("lam_max is below the spectrum") == 1


def test_off_the_cpu_what_is_lost_is_nan():
    *grads, drift = passes("reference", (1.0, 3.0))
    drift_ops.fill_with_nan(grads, drift > drift_ops.largest_drift(6, torch.float32))
    for t in (grads[0], grads[3]):
        assert t[0].isfinite().all()
        assert t[1].isnan().all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("K", [6, 65])
def test_a_gpu_says_so_without_waiting(K):
    """A CUDA graph can record it."""
    A = SheafLaplacian(example_graph("one edge").to("cuda"), torch.ones(2, 1, 1).cuda(), "none").blocks
    x = random_tensor(2, 1, 3, dtype=torch.float32).cuda()
    leaves = A.diag.requires_grad_(), torch.ones(K + 1).cuda().requires_grad_()

    def gradients(scale):
        y = kernels.chebyshev_filter(A, leaves[1], x, scale)
        return torch.autograd.grad(y.sum(), leaves)

    gradients(1.0)  # which compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        valid, lost = gradients(1.0), gradients(3.0)
    graph.replay()
    assert all(t.isfinite().all() for t in valid)
    assert all(t.isnan().all() for t in lost)
