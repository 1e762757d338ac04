"""Checkpointing changes what is kept, and nothing else: outputs, gradients and dropout are the same."""

import pytest
import torch
from published_block import published
from scale_graphs import awkward_graph
from torch.func import functional_call
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from polynsd import ModelConfig
from polynsd.errors import ConfigError
from polynsd.training.population import map_replicas
from polynsd.zoo import build_model

DATA = awkward_graph(num_nodes=60, num_edges=120)


class CountedDropout(TorchFunctionMode):
    """Answers dropout by the number of the call."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not functional.dropout:
            return func(*args, **(kwargs or {}))
        self.calls += 1
        place = torch.arange(args[0].numel(), dtype=torch.float64).reshape(args[0].shape)
        return args[0] * (torch.sin(place * 17 + self.calls) > -0.3)


def step(is_checkpointed, mode=None, **options):
    """(output, gradients, numbers kept for the backward pass)."""
    torch.manual_seed(0)
    model = published(
        5, 6, 3, 3, degree=3, dropout=0.3, checkpoint_layers=is_checkpointed, **options
    ).double()
    kept = 0

    def pack(t):
        nonlocal kept
        kept += t.numel()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        if mode is None:
            output = model(DATA.x, DATA.edge_index)
        else:
            with mode:
                output = model(DATA.x, DATA.edge_index)
    gradients = torch.autograd.grad(output.square().sum(), list(model.parameters()))
    return output.detach(), torch.cat([g.flatten() for g in gradients]), kept


@pytest.mark.parametrize("options", [{}, {"maps": "general"}, {"shared_maps": True, "shared_filter": True}])
@pytest.mark.parametrize("mode", [None, CountedDropout], ids=["torch's dropout", "counted dropout"])
def test_the_same_with_less_memory(options, mode):
    plain, saving = (step(flag, mode and mode(), **options) for flag in (False, True))
    assert torch.equal(plain[0], saving[0])
    assert torch.equal(plain[1], saving[1])
    assert saving[2] < (0.7 if "shared_maps" in options else 0.2) * plain[2]


def test_backward_twice():
    model = published(5, 4, 2, 3, dropout=0.4, checkpoint_layers=True).double()
    with CountedDropout():
        loss = model(DATA.x, DATA.edge_index).square().sum()
    first, again = (torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_evaluation_keeps_nothing_and_needs_nothing():
    model = published(5, 4, 2, 3, checkpoint_layers=True).double().eval()
    with torch.no_grad():
        inside = model(DATA.x, DATA.edge_index)
    assert torch.equal(inside, model(DATA.x, DATA.edge_index).detach())


def test_autocast_is_the_same_the_second_time():
    data = awkward_graph(dtype=torch.float32)
    found = []
    for flag in (False, True):
        torch.manual_seed(0)
        model = published(5, 4, 2, 3, checkpoint_layers=flag)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(data.x, data.edge_index).float().square().sum()
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_configurations_know_it():
    model = build_model(ModelConfig(checkpoint_layers=True), 5, 3)
    assert model.checkpoint_layers
    with pytest.raises(ConfigError, match="gcn has no use for checkpoint_layers"):
        build_model(ModelConfig(model="gcn", checkpoint_layers=True), 5, 3)


def test_replicas_are_looped_over_where_vmap_cannot_go():
    found = []
    for flag in (False, True):
        torch.manual_seed(0)
        model = published(5, 4, 2, 3, checkpoint_layers=flag).double()
        rows = {name: torch.stack([p, 2 * p]).detach() for name, p in model.named_parameters()}
        rows = {name: p.requires_grad_() for name, p in rows.items()}
        call = map_replicas(lambda one: functional_call(model, one, (DATA.x, DATA.edge_index)), not flag)  # noqa: B023
        output = call(rows)
        found.append((output, *torch.autograd.grad(output.square().sum(), list(rows.values()))))
    assert all(torch.allclose(a, b) for a, b in zip(*found, strict=True))
    with pytest.raises(ConfigError, match=r"does not work under torch\.func"):
        torch.vmap(lambda one: functional_call(model, one, (DATA.x, DATA.edge_index)))(rows)
