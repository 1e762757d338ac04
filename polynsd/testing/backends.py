"""Contract of a kernel backend: product and filter, judged by dense linear algebra in float64."""

from typing import Protocol

import torch
from torch import Tensor

from polynsd.kernels import BlockOperator
from polynsd.testing.compare import TOLERANCE, assert_close, assert_same_gradients
from polynsd.testing.dense import dense_maps
from polynsd.testing.samples import random_sheaf, random_tensor

STALKS = (("identity", 3), ("diagonal", 3), ("general", 3), ("general", 1))
GRAPHS = ("isolated nodes", "star", "no edges")
DEGREES = (0, 1, 2, 7)


class Products(Protocol):
    """What is judged: `polynsd.kernels` with a backend in use, or something that takes its place."""

    def block_product(self, A: BlockOperator, x: Tensor) -> Tensor: ...

    def chebyshev_filter(self, A: BlockOperator, phi: Tensor, x: Tensor, scale: Tensor | float) -> Tensor: ...


def check_backend(
    backend: Products,
    dtype: torch.dtype = torch.float64,
    graphs: tuple[str, ...] = GRAPHS,
    degrees: tuple[int, ...] = DEGREES,
    stalks: tuple[tuple[str, int], ...] = STALKS,
) -> None:
    """Values and gradients for scalar, diagonal and dense blocks, without and with replicas."""
    for family, d in stalks:
        for graph in graphs:
            A = random_sheaf(graph, family, d, "sheaf-augmented", dtype=dtype).laplacian().blocks
            check_product(backend, A, d)
            for degree in degrees:
                check_filter(backend, A, d, degree)
        stack = random_sheaf(graphs[0], family, d, "sheaf-augmented", dtype=dtype, lead=(2,)).laplacian()
        check_replicas(backend, stack.blocks, d, degrees[-1])


def check_product(backend: Products, A: BlockOperator, d: int) -> None:
    """A x and its gradients."""
    x = random_tensor(A.pattern.num_nodes, d, 3, dtype=A.diag.dtype)
    inputs = {"x": x, "diag": A.diag, "off": A.off}

    def product(x: Tensor, diag: Tensor, off: Tensor) -> Tensor:
        return backend.block_product(A._replace(diag=diag, off=off), x)

    def truth(x: Tensor, diag: Tensor, off: Tensor) -> Tensor:
        return (dense_operator(A._replace(diag=diag, off=off), d) @ x.flatten(0, 1)).reshape(x.shape)

    assert_close(product(*inputs.values()), truth(*(t.double() for t in inputs.values())), "block_product")
    assert_same_gradients(product, truth, inputs)


def check_filter(backend: Products, A: BlockOperator, d: int, degree: int, scale: float = 1.0) -> None:
    """Σ_k φ_k T_k(s A − I) x and its gradients."""
    x = random_tensor(A.pattern.num_nodes, d, 3, seed=1, dtype=A.diag.dtype)
    phi = random_tensor(degree + 1, seed=2, dtype=A.diag.dtype)
    inputs = {"x": x, "phi": phi, "diag": A.diag, "off": A.off}

    def filtered(x: Tensor, phi: Tensor, diag: Tensor, off: Tensor) -> Tensor:
        return backend.chebyshev_filter(A._replace(diag=diag, off=off), phi, x, scale)

    def truth(x: Tensor, phi: Tensor, diag: Tensor, off: Tensor) -> Tensor:
        return dense_filter(dense_operator(A._replace(diag=diag, off=off), d), phi, x, scale)

    assert_close(filtered(*inputs.values()), truth(*(t.double() for t in inputs.values())), "filter")
    assert_same_gradients(filtered, truth, inputs)


def check_replicas(backend: Products, A: BlockOperator, d: int, degree: int) -> None:
    """A stack of operators does to a stack of signals what each operator does to its own."""
    count = A.diag.size(0)
    x = random_tensor(count, A.pattern.num_nodes, d, 3, seed=3, dtype=A.diag.dtype)
    phi = random_tensor(count, degree + 1, seed=4, dtype=A.diag.dtype)
    single = [A._replace(diag=A.diag[r], off=A.off[r]) for r in range(count)]
    products = torch.stack([backend.block_product(single[r], x[r]) for r in range(count)])
    filtered = torch.stack([backend.chebyshev_filter(single[r], phi[r], x[r], 1.0) for r in range(count)])
    limit = TOLERANCE[x.dtype]
    assert_close(backend.block_product(A, x), products, "block_product of replicas", limit)
    assert_close(backend.chebyshev_filter(A, phi, x, 1.0), filtered, "filter of replicas", limit)


def dense_operator(A: BlockOperator, d: int) -> Tensor:
    """The float64 matrix `[N d, N d]` of an operator without replicas."""
    N = A.pattern.num_nodes
    diag, off = dense_maps(A.diag, d), dense_maps(A.off, d)
    dense = diag.new_zeros(N, d, N, d)
    for v in range(N):
        dense[v, :, v] = diag[v]
    for h, (v, u) in enumerate(zip(A.pattern.row.tolist(), A.pattern.col.tolist(), strict=True)):
        dense[v, :, u] = off[h]
    return dense.reshape(N * d, N * d)


def dense_filter(A: Tensor, phi: Tensor, x: Tensor, scale: float) -> Tensor:
    """Σ_k φ_k T_k(s A − I) x by the textbook recurrence on a matrix."""
    shifted = scale * A - torch.eye(A.size(0), dtype=A.dtype)
    terms = [x.flatten(0, 1)]
    for k in range(1, phi.numel()):
        step = shifted @ terms[-1]
        terms.append(step if k == 1 else 2 * step - terms[-2])
    return sum((phi[k] * term for k, term in enumerate(terms)), torch.zeros(())).reshape(x.shape)
