"""Activation checkpointing: a layer keeps its input only, and is computed again in the backward pass.

The second computation must see the same parameters and random numbers as the first:

* parameters given by `torch.func.functional_call` may be gone by then, so they are kept;
* PyTorch restores its own random state; a `TorchFunctionMode` that replaces dropout and counts its calls is
  copied before the layer, and the copy is entered again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from copy import copy
from types import MethodType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

from polynsd.errors import ConfigError
from polynsd.kernels.ops.batching import is_transformed


class CheckpointError(ConfigError, RuntimeError):
    """Raised under `torch.func`; a RuntimeError too, as PyTorch's own errors there are."""


def run_checkpointed(method: MethodType, *args: Any) -> Tensor:
    """`method(*args)` of a layer, keeping its arguments and parameters only for the backward pass."""
    if not torch.is_grad_enabled():
        return method(*args)
    if is_transformed():
        raise CheckpointError(
            "checkpoint_layers does not work under torch.func; leave it out, or loop over the replicas."
        )
    step = _Step(method)
    state = {**dict(step.named_parameters()), **dict(step.named_buffers())}
    result: Tensor = checkpoint(
        lambda *args: functional_call(step, state, args), *args, use_reentrant=False, context_fn=_contexts
    )
    return result


class _Step(nn.Module):
    """A method of a layer as a module, so that it can be called with given parameters."""

    def __init__(self, method: MethodType) -> None:
        super().__init__()
        self.layer, self._method = method.__self__, method

    def forward(self, *args: Any) -> Any:
        return self._method(*args)


def _contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    return nullcontext(), FunctionModes()


class FunctionModes:
    """Copies of the function modes that are active now; can be entered many times."""

    def __init__(self) -> None:
        self._modes = [copy(mode) for mode in _get_current_function_mode_stack()]
        self._entered: list[ExitStack] = []

    def __enter__(self) -> None:
        stack = ExitStack()
        for mode in self._modes:
            stack.enter_context(copy(mode))
        self._entered.append(stack)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, value, trace)
