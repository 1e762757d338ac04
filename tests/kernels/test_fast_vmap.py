"""The short cut through `torch.vmap` changes the time that replicas take, and nothing else."""

import importlib.util

import pytest
import torch
from published_block import published
from torch.func import functional_call, grad, stack_module_state, vmap

from polynsd import SheafLaplacian, Topology, kernels
from polynsd.kernels.ops import batching
from polynsd.testing import random_edges, random_maps, random_tensor

GRAPH = Topology.from_edge_index(random_edges(9, 20), 9)
X, TARGET = random_tensor(9, 5), random_tensor(9, 3, seed=1)


def replicas(maps):
    """Three models that differ in their weights: outputs and gradients of all parameters under one vmap."""
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(published(5, 4, 2, 3, maps=maps, stalk_dim=3, edge_weights=True).double())
    parameters, buffers = stack_module_state(models)

    def loss(parameters, buffers):
        y = functional_call(models[0], (parameters, buffers), (X, GRAPH))
        return (y - TARGET).square().mean(), y

    return vmap(grad(loss, has_aux=True))(parameters, buffers)


def outputs_without_gradients(maps):
    F = random_maps(maps, GRAPH, 3, lead=(4,))
    x = random_tensor(4, 9, 3, 2)
    return vmap(lambda F, x: SheafLaplacian(GRAPH, F) @ x)(F, x)


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
def test_both_ways_give_the_same_numbers(maps):
    assert batching.IS_AVAILABLE
    with kernels.fast_vmap(True):
        gradients, y = replicas(maps)
        product = outputs_without_gradients(maps)
    with kernels.fast_vmap(False):
        other_gradients, other_y = replicas(maps)
        other_product = outputs_without_gradients(maps)
    assert torch.equal(y, other_y)
    assert torch.equal(product, other_product)
    assert all(torch.equal(gradients[name], other_gradients[name]) for name in gradients)


def test_the_switch_ends_with_its_block():
    before = batching._enabled
    with kernels.fast_vmap(False):
        assert not batching._enabled
        with kernels.fast_vmap(True):
            assert batching._enabled
        assert not batching._enabled
    assert batching._enabled == before


@pytest.mark.parametrize(("value", "enabled"), [("0", False), ("1", True)])
def test_an_environment_variable_switches_it_off(value, enabled, monkeypatch):
    monkeypatch.setenv("POLYNSD_FAST_VMAP", value)
    spec = importlib.util.spec_from_file_location("fresh_batching", batching.__file__)
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    assert fresh._enabled is enabled


def test_without_it_only_transforms_hide_values():
    x = random_tensor(3, 2)
    with kernels.fast_vmap(False):
        assert batching.all_replicas(x) is x
        seen = []
        vmap(lambda t: (seen.append(batching.all_replicas(t)), t)[1])(x)
        assert seen == [None]
