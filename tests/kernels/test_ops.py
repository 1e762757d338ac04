"""The library's operations are good citizens of PyTorch: compiled, vmapped and differentiated."""

import pytest
import torch
from torch.autograd.functional import hessian
from torch.func import grad, jacrev, vmap
from torch.library import opcheck

from polynsd import kernels
from polynsd.kernels.ops.blocks import block_apply, block_multiply, block_outer, symmetric_eigen
from polynsd.kernels.ops.edges import gather, segment_sum, swap
from polynsd.kernels.ops.filter import _apply_filter, filter_gradient
from polynsd.kernels.ops.householder import _product, householder_gradient
from polynsd.kernels.ops.linear import linear_map, weight_gradient
from polynsd.testing import assert_close, pairwise_cases, random_sheaf, random_tensor

pytestmark = pytest.mark.usefixtures("no_tracer")  # others cover this code

N, D, C = 8, 2, 3
OPS = torch.ops.polynsd


def operator(family, replicas=1):
    L = random_sheaf("isolated nodes", family, D, "sheaf-augmented", lead=(replicas,)).laplacian()
    return L.blocks


def filter_inputs(family, degree, replicas):
    """(diag, off, x, φ) with replicas of everything or of the signal alone, and the pattern."""
    A = operator(family, replicas[0])
    diag, off = (t.expand(*t.shape[:-2], D, t.size(-1)) for t in (A.diag, A.off))
    x = random_tensor(replicas[1], N, D, C, seed=1)
    return (diag.contiguous(), off.contiguous(), x, random_tensor(replicas[0], degree + 1, seed=2)), A.pattern


def gradient_inputs(family, degree, replicas, blocks_wanted=True):
    inputs, pattern = filter_inputs(family, degree, replicas)
    y, last, before = OPS.filter(*inputs, *pattern)
    g = random_tensor(*y.shape, seed=3)
    return (g, *inputs, last, before), (*pattern, blocks_wanted)


def edge_values(size, seed=4):
    return (random_tensor(2, size, C, seed=seed),)


def symmetric(count):
    A = random_tensor(count, D, D, seed=5)
    return (A + A.mT,)


PATTERN = operator("general").pattern
H = PATTERN.row.numel()

# name: (the operation, its differentiable arguments, the others)
CASES = {
    "gather": (OPS.gather, edge_values(N), (*PATTERN, False)),
    "gather at columns": (OPS.gather, edge_values(N), (*PATTERN, True)),
    "segment_sum": (OPS.segment_sum, edge_values(H), (*PATTERN, False)),
    "segment_sum at columns": (OPS.segment_sum, edge_values(H), (*PATTERN, True)),
    "swap": (OPS.swap, edge_values(H), (PATTERN.twin,)),
    "linear": (OPS.linear, (random_tensor(2, N, C), random_tensor(2, D, C, seed=1)), ()),
    "linear of shared features": (OPS.linear, (random_tensor(1, N, C), random_tensor(2, D, C, seed=1)), ()),
    "weight_gradient": (OPS.weight_gradient, (random_tensor(2, N, D), random_tensor(2, N, C, seed=1)), ()),
    "block_multiply": (
        OPS.block_multiply,
        (random_tensor(5, D, D), random_tensor(5, D, D, seed=1)),
        (True, False),
    ),
    "a single product": (
        OPS.block_multiply,
        (random_tensor(1, D, D), random_tensor(1, D, D, seed=1)),
        (False, True),
    ),
    "block_apply": (OPS.block_apply, (random_tensor(5, D, D), random_tensor(5, D, C, seed=1)), (False,)),
    "block_apply, transposed": (
        OPS.block_apply,
        (random_tensor(5, D, D), random_tensor(5, D, C, seed=1)),
        (True,),
    ),
    "block_outer": (OPS.block_outer, (random_tensor(5, D, C), random_tensor(5, D, C, seed=1)), ()),
    "householder": (OPS.householder, (random_tensor(5, 3),), (3,)),
    "householder_gradient": (
        OPS.householder_gradient,
        (random_tensor(5, 3), random_tensor(5, 3, 3, seed=1), random_tensor(5, 3, 3, seed=2)),
        (),
    ),
    "symmetric_eigen": (OPS.symmetric_eigen, symmetric(5), ()),
}
for family, degree, replicas in pairwise_cases(("diagonal", "general"), (0, 1, 3), ((1, 2), (1, 1))):
    name = f"{family}, K = {degree}, {replicas} replicas"
    tensors, pattern = filter_inputs(family, degree, replicas)
    CASES[f"filter, {name}"] = (OPS.filter, tensors, tuple(pattern))
    CASES[f"filter_gradient, {name}"] = (OPS.filter_gradient, *gradient_inputs(family, degree, replicas))

CHECKED = ("diagonal, K = 1, (1, 1) replicas", "general, K = 1, (1, 2) replicas")
every_operation = pytest.mark.parametrize(("op", "tensors", "rest"), CASES.values(), ids=CASES)
FUNCTIONS = {
    OPS.gather: gather,
    OPS.segment_sum: segment_sum,
    OPS.swap: swap,
    OPS.linear: linear_map,
    OPS.weight_gradient: weight_gradient,
    OPS.block_multiply: block_multiply,
    OPS.block_apply: block_apply,
    OPS.block_outer: block_outer,
    OPS.householder: _product,
    OPS.householder_gradient: householder_gradient,
    OPS.filter: _apply_filter,
    OPS.filter_gradient: filter_gradient,
}


@pytest.mark.filterwarnings("ignore")  # of the compiler, about itself
@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("name", [name for name in CASES if "filter" not in name or name.endswith(CHECKED)])
def test_pytorch_finds_nothing_wrong(name):
    """Schema, autograd registration, shape rule and ahead-of-time compilation."""
    op, tensors, rest = CASES[name]
    differentiable = op in FUNCTIONS
    opcheck(op.default, (*(t.clone().requires_grad_(differentiable) for t in tensors), *rest))


@every_operation
def test_vmap_is_a_loop(op, tensors, rest):
    """Over every argument alone, in any place, and over all of them."""
    choices = [[i == j for j in range(len(tensors))] for i in range(len(tensors))]
    for place, choice in enumerate([*choices, [True] * len(tensors)]):
        stacks = [
            torch.stack([t, 2 * t, t - t.flip(0)], place % 2) if chosen else t
            for t, chosen in zip(tensors, choice, strict=True)
        ]
        dims = tuple(place % 2 if chosen else None for chosen in choice)
        found = vmap(lambda *t: op(*t, *rest), dims)(*stacks)
        for r in range(3):
            single = (t if d is None else t.select(d, r) for t, d in zip(stacks, dims, strict=True))
            expected = op(*(t.contiguous() for t in single), *rest)
            for value, truth in zip(as_tuple(found), as_tuple(expected), strict=True):
                assert_close(value[r], truth, f"replica {r} of {choice}")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] in FUNCTIONS])
def test_both_registrations_of_a_gradient_agree(name):
    """`torch.compile` sees the operation's own, everything else that of the `autograd.Function`."""
    op, tensors, rest = CASES[name]
    results = []
    for function in (op, FUNCTIONS[op]):
        leaves = [t.clone().requires_grad_() for t in tensors]
        y = as_tuple(function(*leaves, *rest))[0]
        results.append(
            torch.autograd.grad(y.square().sum(), leaves, allow_unused=True, materialize_grads=True)
        )
    for value, truth in zip(*results, strict=True):
        assert torch.equal(value, truth)


def as_tuple(result):
    return (result,) if isinstance(result, torch.Tensor) else result


def energies(A):
    """‖p(A) x‖² as a function of (x, φ, diag, off): through the operations, and through plain autograd."""

    def using(function):
        return lambda x, phi, diag, off: function(A._replace(diag=diag, off=off), phi, x, 1.0).square().sum()

    return using(kernels.chebyshev_filter), using(kernels.chebyshev_filter_autograd)


every_filter = pytest.mark.parametrize("degree", [0, 1, 4])
every_family = pytest.mark.parametrize("family", ["diagonal", "general"])
NAMES = ("x", "phi", "diag", "off")


def arguments(family, degree):
    A = random_sheaf("one edge", family, D, "sheaf-augmented").laplacian().blocks
    return A, (random_tensor(2, D, C, seed=1), random_tensor(degree + 1, seed=2), A.diag, A.off)


@every_filter
@every_family
def test_functional_gradients(family, degree):
    A, values = arguments(family, degree)
    function, plain = energies(A)
    for i, name in enumerate(NAMES):
        assert_close(grad(function, i)(*values), grad(plain, i)(*values), name)


@pytest.mark.parametrize(
    ("family", "degree", "over"), pairwise_cases(["diagonal", "general"], [0, 1, 4], range(4))
)
def test_vmapped_gradients(family, degree, over):
    A, values = arguments(family, degree)
    function, plain = energies(A)
    stack = torch.stack([values[over], values[over] / 2, -values[over]])
    dims = tuple(0 if i == over else None for i in range(4))
    for i, name in enumerate(NAMES):
        found = vmap(grad(function, i), dims)(*values[:over], stack, *values[over + 1 :])
        loop = [grad(plain, i)(*values[:over], t, *values[over + 1 :]) for t in stack]
        assert_close(found, torch.stack(loop), name)


@every_filter
@every_family
def test_second_derivatives(family, degree):
    """By `torch.func`, reverse over reverse, and by a double backward pass."""
    A, values = arguments(family, degree)
    function, plain = energies(A)
    truth, found = hessian(plain, values), hessian(function, values)
    for i, name in enumerate(NAMES):
        functional = jacrev(grad(function, i), (0, 1, 2, 3))(*values)
        for j, other in enumerate(NAMES):
            assert_close(found[i][j], truth[i][j], f"double backward, {name} and {other}")
            assert_close(functional[j], truth[i][j], f"torch.func, {name} and {other}")


def test_eigenvectors_solve_the_equation():
    (A,) = symmetric(5)
    values, Q = symmetric_eigen(A)
    assert_close(A @ Q, Q * values[:, None], "A Q")
    assert_close(Q.mT @ Q, torch.eye(D).expand_as(A), "Qᵀ Q")
