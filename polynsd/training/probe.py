"""What has to be known of a model before it is trained in company: found out by one pass through it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from polynsd.errors import ConfigError
from polynsd.training.population import Predict
from polynsd.training.streams import DropoutRates


@dataclass(frozen=True)
class Probe:
    """Facts about a model on a graph."""

    rates: tuple[float, ...]  # of dropout, in the order of the calls
    moving: tuple[str, ...]  # names of the buffers that training changes
    saved_bytes: int  # what a step keeps for its backward pass
    output: Tensor  # [N, O] in evaluation mode


def probe(model: nn.Module, predict: Predict) -> Probe:
    """One pass in training mode, through a copy of the model, and one in evaluation mode."""
    materialise(model, predict)
    twin = copy.deepcopy(model).train()
    before, random_state = {name: b.clone() for name, b in twin.named_buffers()}, _random_state(model)
    saved: dict[int, int] = {}
    known = {t.untyped_storage().data_ptr() for t in (*twin.parameters(), *twin.buffers())}

    def keep(t: Tensor) -> Any:
        storage = t.untyped_storage()
        if storage.data_ptr() not in known:
            saved[storage.data_ptr()] = storage.nbytes()
        return t

    with DropoutRates() as stream, torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        output = predict(twin)
    if not torch.equal(_random_state(model), random_state):
        raise ConfigError(
            "replicas draw random numbers in dropout only, each by its own seed; this model draws random "
            "numbers elsewhere too, so its replicas would depend on each other."
        )
    moving = tuple(name for name, buffer in twin.named_buffers() if not torch.equal(buffer, before[name]))
    del output
    with torch.no_grad():
        return Probe(tuple(stream.rates), moving, sum(saved.values()), predict(model.eval()))


def _random_state(model: nn.Module) -> Tensor:
    device = next(model.parameters()).device
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def materialise(model: nn.Module, predict: Predict) -> None:
    """Lets lazy layers learn their size."""
    if any(is_lazy(p) for p in (*model.parameters(), *model.buffers())):
        with torch.no_grad():
            predict(model.eval())
