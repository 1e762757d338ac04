"""Training memory of the filter does not grow with the degree."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from polynsd.kernels import chebyshev_filter, chebyshev_filter_autograd
from polynsd.sheaf import SheafLaplacian
from polynsd.testing import random_maps, random_sheaf, random_tensor


def saved_bytes(function, family, degree):
    """Bytes that autograd keeps for the backward pass, the K + 1 coefficients not counted."""
    sheaf = random_sheaf("complete", family, 3, "sheaf-augmented")
    maps = random_maps(family, sheaf.topology, 3).requires_grad_()
    A = SheafLaplacian(sheaf.topology, maps, stalk_dim=3).blocks
    x, phi = random_tensor(5, 3, 4).requires_grad_(), random_tensor(degree + 1).requires_grad_()
    kept = []

    def pack(tensor):
        kept.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        function(A, phi, x, 1.0)
    return sum(tensor.nbytes for tensor in kept if tensor.numel() != degree + 1)


@pytest.mark.parametrize("family", ["diagonal", "orthogonal", "general"])
def test_saved_tensors_are_the_same_at_every_degree(family):
    assert saved_bytes(chebyshev_filter, family, 4) == saved_bytes(chebyshev_filter, family, 64) > 0


@pytest.mark.parametrize("family", ["diagonal", "orthogonal", "general"])
def test_plain_autograd_keeps_every_step(family):
    at_4, at_64 = (saved_bytes(chebyshev_filter_autograd, family, degree) for degree in (4, 64))
    assert at_64 > 10 * at_4


def test_inference_keeps_nothing():
    A = random_sheaf("complete", "general", 3, "sheaf-augmented").laplacian().blocks
    x, phi = random_tensor(5, 3, 4).requires_grad_(), random_tensor(5)
    with torch.no_grad():
        y = chebyshev_filter(A, phi, x, 1.0)
    assert y.grad_fn is None
