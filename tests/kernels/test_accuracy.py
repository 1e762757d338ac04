"""On the benchmark graphs the fast kernels agree with the reference in float64, for every basis up to K = 32.

The bound is 1e-5 in float32 and 1e-12 in float64, in the norm of each tensor: output and all
gradients. On a CPU only a part is tried, to save time; POLYNSD_THOROUGH=1 asks for all of it.
"""

import os
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from torch.func import functional_call

from polynsd import SheafLaplacian, Topology, kernels
from polynsd.data import heterophilous_graph
from polynsd.spectral import PolynomialFilter
from polynsd.testing import random_maps, random_tensor
from polynsd.testing.compare import relative_error

needs_data = pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
GPU = torch.cuda.is_available()
THOROUGH = GPU or "POLYNSD_THOROUGH" in os.environ
DEVICE, CHANNELS = ("cuda", 16) if GPU else ("cpu", 2)
BASES = [
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "gegenbauer(1.5)",
    "jacobi(0.5, -0.5)", "monomial",
]  # fmt: skip
GRAPHS = ("texas", "chameleon", "squirrel", "tolokers", "minesweeper")
ALL = [*product(GRAPHS, ("diagonal", "general"), BASES)]
QUICK = [
    *(("texas", "diagonal", basis) for basis in BASES),
    ("chameleon", "diagonal", "legendre"), ("chameleon", "general", "monomial"),
]  # fmt: skip
LIMITS = {torch.float32: 1e-5, torch.float64: 1e-12}


def graph(name):
    if name == "generated":
        return Topology.from_data(heterophilous_graph(300, degree=8, seed=0).to_pyg())
    archive = np.load(f"{os.environ['POLYNSD_DATA']}/{name}.npz")
    return Topology.from_edge_index(torch.as_tensor(archive["edge_index"]), len(archive["y"]))


@cache
def exact_blocks(name, family):
    """A normalised Laplacian with random maps, in float64."""
    topology = graph(name)
    maps = random_maps(family, topology, 4).to(DEVICE)
    return SheafLaplacian(topology.to(DEVICE), maps).blocks


def output_and_gradients(A, basis, K, dtype):
    """In float64 for the truth; the same numbers, rounded, in float32."""
    module = PolynomialFilter(basis, K, "free", "linear").to(device=DEVICE, dtype=dtype)
    parameters = {"theta": random_tensor(K + 1, seed=1) / (K + 1), "alpha": random_tensor(1, seed=2)[0]}
    inputs = [*parameters.values(), random_tensor(A.pattern.num_nodes, 4, CHANNELS, seed=3), A.diag, A.off]
    inputs = [t.to(device=DEVICE, dtype=dtype).requires_grad_() for t in inputs]
    theta, alpha, x, diag, off = inputs
    operator = Blocks(A._replace(diag=diag, off=off))
    y = functional_call(module, {"theta": theta, "alpha": alpha}, (operator, x))
    weight = random_tensor(*y.shape, seed=4).to(y)
    return [y, *torch.autograd.grad((weight * y).sum(), inputs)]


class Blocks:
    """An operator given by its blocks, with spectrum in [0, 2]."""

    def __init__(self, blocks):
        self.blocks = blocks

    def lambda_max(self, method="analytic"):
        return 2.0

    def check_signal(self, x):
        return x


def check(name, family, basis, K=32):
    A = exact_blocks(name, family)
    with kernels.use("reference"):
        truth = output_and_gradients(A, basis, K, torch.float64)
    for dtype, limit in LIMITS.items():
        found = output_and_gradients(A, basis, K, dtype)
        names = ("y", "theta", "alpha", "x", "diag", "off")
        errors = {name: relative_error(a, b) for name, a, b in zip(names, found, truth, strict=True)}
        assert max(errors.values()) <= limit, (dtype, errors)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("basis", BASES)
def test_generated_graph(basis):
    check("generated", "general" if BASES.index(basis) % 2 else "diagonal", basis)


@needs_data
@pytest.mark.data
@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(("name", "family", "basis"), ALL if THOROUGH else QUICK)
def test_benchmark_graphs(name, family, basis):
    check(name, family, basis)
