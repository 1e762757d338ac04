"""Linear maps of replicas: those of PyTorch, with the gradient of the weights summed in pieces."""

import pytest
import torch
from torch.nn import functional

from polynsd.kernels.ops.linear import linear, sum_of_products
from polynsd.testing import assert_close, random_tensor


@pytest.mark.parametrize("pieces", [1, 2, 5, 7])
@pytest.mark.parametrize("replicas", [(3, 3), (3, 1), (1, 3)])
def test_pieces_add_up_to_the_product(pieces, replicas):
    g, x = random_tensor(replicas[0], 23, 4), random_tensor(replicas[1], 23, 2, seed=1)
    assert_close(sum_of_products(g, x, pieces), x.mT @ g, "xᵀ g")


@pytest.mark.parametrize("shape", [(6, 3), (2, 6, 3)])
def test_it_is_the_linear_map_of_pytorch_with_its_gradients(shape):
    inputs = [random_tensor(*shape).requires_grad_(), random_tensor(4, 3, seed=1).requires_grad_()]
    inputs.append(random_tensor(4, seed=2).requires_grad_())
    y, truth = linear(*inputs), functional.linear(*inputs)
    assert_close(y, truth, "y")
    g = random_tensor(*y.shape, seed=3)
    for mine, right in zip(
        torch.autograd.grad(y, inputs, g), torch.autograd.grad(truth, inputs, g), strict=True
    ):
        assert_close(mine, right, "gradient")


def test_replicas_with_shared_features():
    x, W = random_tensor(6, 3), random_tensor(5, 4, 3, seed=1).requires_grad_()
    y = torch.vmap(linear, (None, 0))(x, W)
    assert_close(y, x @ W.mT, "y")
    (gradient,) = torch.autograd.grad(y.square().sum(), W)
    assert_close(gradient, 2 * (y.mT @ x).detach(), "gradient")
