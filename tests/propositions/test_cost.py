"""What a filter costs: K products with L, and memory for training that does not grow with K.

The paper's "two work buffers, independent of K" holds for inference; ordinary autograd keeps every
T_k for training, and "K layers of NSD" is short of one product for the correction. Here the
reversible recurrence makes the first claim true for training, and the correction is folded into
the same series.
"""

import pytest
import torch
from random_sheaves import path, random_maps, signal

from polynsd import PolynomialFilter, SheafLaplacian, kernels
from polynsd.kernels.ops import reference


def saved_bytes(compute):
    """Bytes that autograd keeps for the backward pass."""
    kept = {}

    def keep(tensor):
        kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        compute()
    return sum(kept.values())


@pytest.fixture
def L():
    edges = path(20)
    return SheafLaplacian(edges, random_maps("general", edges, 3).requires_grad_())


def training_memory(L, K, apply=kernels.chebyshev_filter):
    x, phi = signal(L, channels=8).requires_grad_(), torch.ones(K + 1).double().requires_grad_()
    return saved_bytes(lambda: apply(L.blocks, phi, x, 1.0)) - 8 * K  # φ itself has K + 1 numbers


def test_training_memory_does_not_grow_with_the_degree(L):
    assert training_memory(L, 2) == training_memory(L, 64)


def test_ordinary_autograd_keeps_every_polynomial(L):
    state = signal(L, channels=8).numel() * 8
    growth = training_memory(L, 64, kernels.chebyshev_filter_autograd)
    growth -= training_memory(L, 2, kernels.chebyshev_filter_autograd)
    assert growth >= 62 * state


def test_inference_keeps_nothing(L):
    p = PolynomialFilter("chebyshev1", 16).double()
    with torch.no_grad():
        assert saved_bytes(lambda: p(L, signal(L))) == 0


@pytest.mark.parametrize("correction", ["none", "linear", "high-pass"])
@pytest.mark.parametrize("K", [1, 2, 7])
def test_a_filter_takes_K_products_with_or_without_correction(L, K, correction, monkeypatch):
    calls, product = [], reference.block_product
    monkeypatch.setattr(reference, "block_product", lambda *a: calls.append(1) or product(*a))
    with kernels.use("reference"):
        PolynomialFilter("legendre", K, correction=correction).double()(L, signal(L))
    assert len(calls) == K
