"""The algebra of blocks is the algebra of the matrices they stand for."""

from functools import partial
from itertools import product

import pytest
import torch

from polynsd import kernels
from polynsd.kernels.gpu.schedule import interpreted
from polynsd.kernels.ops import blocks
from polynsd.testing import assert_close, gradients, random_tensor
from polynsd.testing.dense import dense_maps

D = 3
SHAPES = {"matrix": (D, D), "diagonal": (D, 1), "scalar": (1, 1)}
every_kind = pytest.mark.parametrize("kind", SHAPES)


def block(kind, seed=0):
    return random_tensor(2, 4, *SHAPES[kind], seed=seed)


def dense(value, d=D):
    return dense_maps(value, d)


@every_kind
def test_dense_form(kind):
    assert torch.equal(blocks.to_dense(block(kind), D), dense(block(kind)))


@every_kind
def test_apply(kind):
    x = random_tensor(2, 4, D, 5, seed=1)
    assert_close(blocks.apply(block(kind), x), dense(block(kind)) @ x, "B x")
    assert_close(blocks.apply(block(kind), x, transpose=True), dense(block(kind)).mT @ x, "Bᵀ x")
    assert_close(blocks.apply(block(kind)[0], x), dense(block(kind))[0] @ x, "the same B for all replicas")


@every_kind
def test_transpose(kind):
    assert torch.equal(dense(blocks.transpose(block(kind))), dense(block(kind)).mT)


@pytest.mark.parametrize(("left", "right"), list(product(SHAPES, SHAPES)))
def test_multiply(left, right):
    a, b = block(left), block(right, seed=1)
    assert_close(dense(blocks.multiply(a, b)), dense(a) @ dense(b), "A B")


@every_kind
def test_outer_is_the_derivative_of_a_form(kind):
    """∂⟨l, B r⟩/∂B in the shape of B, as autograd finds it."""
    left, right = random_tensor(2, 4, D, 5, seed=2), random_tensor(2, 4, D, 5, seed=3)
    B = block(kind).requires_grad_()
    (expected,) = torch.autograd.grad((left * blocks.apply(B, right)).sum(), B)
    assert_close(blocks.outer(left, right, B), expected, "outer")


def test_one_dimensional_stalks():
    """For d = 1 matrix, diagonal and scalar are the same thing."""
    one, x = random_tensor(4, 1, 1), random_tensor(4, 1, 5, seed=1)
    assert blocks.is_elementwise(one)
    assert_close(blocks.apply(one, x), one * x, "apply")
    assert_close(blocks.outer(x, 2 * x, one), 2 * x @ x.mT, "outer")
    assert torch.equal(blocks.to_dense(one, 1), one)


@every_kind
def test_identity(kind):
    B = block(kind)
    assert_close(dense(B + blocks.identity_like(B)), dense(B) + torch.eye(D), "B + I")


@every_kind
def test_spectral_norm(kind):
    B = blocks.multiply(block(kind), blocks.transpose(block(kind))) * -1.0
    assert_close(blocks.spectral_norm(B), torch.linalg.matrix_norm(dense(B), ord=2), "norm")


@pytest.mark.parametrize("transpose", [False, True])
def test_products_are_twice_differentiable(transpose):
    B, x = random_tensor(2, D, D).requires_grad_(), random_tensor(2, D, 2, seed=1).requires_grad_()
    function = partial(blocks.apply, transpose=transpose)
    assert torch.autograd.gradcheck(function, (B, x))
    assert torch.autograd.gradgradcheck(function, (B, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "name", [name for name in ("reference", "cpu", "gpu") if name in kernels.available()]
)
def test_signs_and_permutations_round_nothing(name, dtype):
    """A signed permutation moves numbers and changes none of them."""
    order, sign = torch.tensor([2, 0, 1]), torch.tensor([-1.0, 1.0, -1.0], dtype=dtype)
    Q = (torch.eye(D, dtype=dtype)[order] * sign[:, None]).expand(4, D, D)
    x = random_tensor(4, D, 19, dtype=dtype) * 1e3
    device = "cpu" if name != "gpu" or interpreted() else "cuda"
    with kernels.use(name):
        y = blocks.apply(Q.to(device), x.to(device))
        assert torch.equal(y.cpu(), sign[:, None] * x[:, order])
        assert torch.equal(blocks.apply(Q.to(device), y, transpose=True).cpu(), x)


@every_kind
def test_products_are_differentiable(kind):
    x = random_tensor(2, 4, D, 5, seed=1)
    found = gradients(blocks.apply, [block(kind), x])
    expected = gradients(lambda B, x: dense(B) @ x, [block(kind), x])
    for name, value, truth in zip(("B", "x"), found, expected, strict=True):
        assert_close(value, truth, name)
