"""What is found out about a model before it trains as replicas: one pass, and the memory it needs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from polynsd.errors import ConfigError
from polynsd.spectral.filter import PolynomialFilter
from polynsd.training.dropout import DropoutRates

logger = logging.getLogger("polynsd")

MEMORY_SHARE = 0.6  # of the free memory
PASSES = 3  # a backward pass holds gradients and temporaries beside what was saved

Predict = Callable[[nn.Module], Tensor]  # the output of a model on the graph


@dataclass(frozen=True)
class Probe:
    """What one pass through a model on a graph shows."""

    rates: tuple[float, ...]  # of dropout, in the order of the calls
    moving: tuple[str, ...]  # names of the buffers that training changes
    saved_bytes: int  # what a step keeps for its backward pass
    output: Tensor | None  # [N, O] in evaluation mode, where it was asked for


def probe(model: nn.Module, predict: Predict, counts_bytes: bool = True, needs_output: bool = True) -> Probe:
    """One pass in training mode, after which buffers are what they were, and one in evaluation mode.

    Without `counts_bytes` nothing is kept for a backward pass, and `saved_bytes` is 0. Without `needs_output`
    there is no second pass.
    """
    materialize(model, predict)
    before, random_state = {name: b.clone() for name, b in model.named_buffers()}, _random_state(model)
    saved: dict[int, int] = {}
    parameters = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}

    def keep(t: Tensor) -> Any:
        storage = t.untyped_storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage.nbytes()
        return t

    with (
        torch.set_grad_enabled(counts_bytes),
        DropoutRates() as stream,
        torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t),
    ):
        predict(model.train())
    if not torch.equal(_random_state(model), random_state):
        raise ConfigError(
            "replicas draw random numbers in dropout only, each by its own seed; this model draws random "
            "numbers elsewhere too, so its replicas would depend on each other."
        )
    moving = [name for name, buffer in model.named_buffers() if not torch.equal(buffer, before[name])]
    model.eval()
    with torch.no_grad():
        for name in moving:
            model.get_buffer(name).copy_(before[name])
        output = predict(model) if needs_output else None
    return Probe(tuple(stream.rates), tuple(moving), sum(saved.values()), output)


def _random_state(model: nn.Module) -> Tensor:
    device = next(model.parameters()).device
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def materialize(model: nn.Module, predict: Predict) -> bool:
    """Runs lazy layers once, so that they have parameters; whether there are any."""
    has_lazy = any(is_lazy(p) for p in (*model.parameters(), *model.buffers()))
    if has_lazy:
        with torch.no_grad():
            predict(model.eval())
    return has_lazy


def build_undrawn(build: Callable[[], nn.Module], device: torch.device) -> nn.Module:
    """What `build` makes, but nothing is drawn: numbers are what memory holds, except those of filters.

    Lazy layers, which learn their sizes from data, cannot be built so.
    """
    with torch.device("meta"):
        model = build()
    return model.to_empty(device=device)


@torch.no_grad()
def begin_like(model: nn.Module, other: nn.Module) -> nn.Module:
    """The model with the numbers of another of the same shape; filters of other degrees keep theirs."""
    pairs = zip(model.modules(), other.modules(), strict=True)
    own_filters = [a for a, b in pairs if isinstance(a, PolynomialFilter) and a.degree != b.degree]
    kept = {id(t) for module in own_filters for t in (*module.parameters(), *module.buffers())}
    mine, theirs = ((*each.parameters(), *each.buffers()) for each in (model, other))
    for own, given in zip(mine, theirs, strict=True):
        if id(own) not in kept:
            own.copy_(given)
    return model


def is_vectorisable(run: Callable[[], object]) -> bool:
    """Whether a vmapped pass through a model works; if not, the reason is logged."""
    try:
        run()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        _warn_once(str(error).splitlines()[0])
        return False
    return True


@cache
def _warn_once(reason: str) -> None:
    logger.warning("torch.vmap does not take this model, so its replicas train in turns: %s", reason)


def replicas_at_once(count: int, bytes_each: int, device: torch.device) -> int:
    """How many replicas fit into the free memory: at most `count`, at least one."""
    free = free_bytes(device)
    if free is None:
        return count
    return max(1, min(count, int(MEMORY_SHARE * free) // max(PASSES * bytes_each, 1)))


def free_bytes(device: torch.device) -> int | None:
    """Free memory of the device, or of the host; None where it is not known."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    amounts = [amount for amount in (_host_bytes(), _container_bytes()) if amount is not None]
    return min(amounts, default=None)


def _host_bytes() -> int | None:
    match = re.search(r"MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"))
    return int(match[1]) * 1024 if match else None


def _container_bytes() -> int | None:
    """What a control group leaves to its processes."""
    limit, used = (_read(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    return max(int(limit) - int(used), 0) if limit.isdigit() and used.isdigit() else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
