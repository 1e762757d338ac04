"""What a filter costs: K products with L, and memory for training that does not grow with K. (C25, C26)

The paper's "two work buffers, independent of K" holds for inference; ordinary autograd keeps every T_k for
training, and "K layers of NSD" is short of one product for the correction. Here the reversible recurrence
makes the first statement true for training, and the correction is folded into the same series.
"""

import pytest
import torch
from random_sheaves import build

from polynsd import PolynomialFilter, SheafLaplacian, kernels
from polynsd.nn import NSD, PolyNSD
from polynsd.testing import example_graph, random_tensor
from polynsd_paper.claims.cost import count_model_products, count_products
from polynsd_paper.claims.samples import path, random_signal


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
    frozen = build("general", path(20), d=3)
    return SheafLaplacian(frozen.topology, frozen.maps.requires_grad_())


def training_memory(L, K, apply=kernels.chebyshev_filter):
    x, phi = random_signal(L, channels=8).requires_grad_(), torch.ones(K + 1).double().requires_grad_()
    return saved_bytes(lambda: apply(L.blocks, phi, x, 1.0)) - 8 * K  # φ itself has K + 1 numbers


def test_training_memory_does_not_grow_with_the_degree(L):
    assert training_memory(L, 2) == training_memory(L, 64)


def test_ordinary_autograd_keeps_every_polynomial(L):
    state = random_signal(L, channels=8).numel() * 8
    growth = training_memory(L, 64, kernels.chebyshev_filter_autograd)
    growth -= training_memory(L, 2, kernels.chebyshev_filter_autograd)
    assert growth >= 62 * state


def test_inference_keeps_nothing(L):
    p = PolynomialFilter("chebyshev1", 16).double()
    with torch.no_grad():
        assert saved_bytes(lambda: p(L, random_signal(L))) == 0


@pytest.mark.parametrize("correction", ["none", "linear", "high-pass"])
@pytest.mark.parametrize("K", [1, 2, 7])
def test_a_filter_takes_K_products_with_or_without_correction(L, K, correction):
    with count_products() as products:
        PolynomialFilter("legendre", K, correction=correction).double()(L, random_signal(L))
    assert len(products) == K


@pytest.mark.parametrize("K", [1, 5])
def test_a_model_takes_K_products_per_layer_and_NSD_one(K):
    graph, x = example_graph("star"), random_tensor(6, 3).float()
    assert count_model_products(PolyNSD.reference(3, 2, 3, 2, degree=K), x, graph) == 3 * K
    assert count_model_products(NSD(3, 2, 3, 2), x, graph) == 3
