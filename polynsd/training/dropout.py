"""Dropout that depends on its seed alone, so that a replica draws the same masks with and without others.

A generator's numbers depend on how many were drawn before. Here the mask of a dropout is a function of
(seed, epoch, call, position). While a `DropoutStream` is active it handles every call of
`torch.nn.functional.dropout`, whichever model makes it, also inside `torch.vmap`, where each replica has its
own seed and rates. On a GPU it also hands linear maps to `kernels/ops/linear.py`, which computes the same
with a faster gradient of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from polynsd.devices import wide_dtype
from polynsd.errors import ConfigError
from polynsd.kernels.ops.linear import linear
from polynsd.kernels.ops.training import dropout, hash32

OTHER_DROPOUTS = (
    functional.alpha_dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.feature_alpha_dropout,
)


class _Interception(TorchFunctionMode):
    """Handles calls of dropout, and of linear maps on a GPU; every other function runs as usual."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout:
            return self.dropout(*args, **kwargs)
        if func is functional.linear and _gains_from_pieces(*args, **kwargs):
            return linear(*args, **kwargs)
        if func in OTHER_DROPOUTS:
            raise ConfigError(f"replicas know functional.dropout only; the model calls {func.__name__}.")
        return func(*args, **kwargs)

    def dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
        raise NotImplementedError


def _gains_from_pieces(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:  # noqa: A002
    """Whether the gradient of the weight is a sum over nodes on a GPU, in full precision."""
    return input.is_cuda and input.dim() == 2 and not torch.is_autocast_enabled("cuda")


class DropoutRates(_Interception):
    """Records the dropout rates of a pass in the order of the calls; nothing is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
        if training:
            self.rates.append(p)
        return input


class DropoutStream(_Interception):
    """The dropout of one forward pass.

    Args:
        seed: an integer tensor without dimensions, one per replica under `torch.vmap`.
        epoch: an integer tensor without dimensions, the number of the pass.
        rates: `[calls]` the rate of every call in training; the models of a batch may differ in them.
        used: which calls drop anything, in some replica at least.
    """

    def __init__(self, seed: Tensor, epoch: Tensor, rates: Tensor, used: Sequence[bool]) -> None:
        super().__init__()
        calls = torch.arange(len(used), device=seed.device)  # all keys at once: they are a handful of numbers
        self._keys = hash32(hash32(hash32(seed) + epoch) + calls)
        self._rates, self._used, self._call = rates, used, 0

    def dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
        if not training:
            return input
        call, self._call = self._call, self._call + 1
        if not self._used[call]:
            return input
        return dropout(input, self._keys[call], self._rates[call])


class EndlessDropout(_Interception):
    """The dropout of passes whose calls are not known beforehand; rates are those of the calls.

    Args:
        seed: an integer tensor without dimensions, one per replica under `torch.vmap`.
        epoch: an integer tensor without dimensions, the number of the pass.
    """

    def __init__(self, seed: Tensor, epoch: Tensor) -> None:
        super().__init__()
        self._key, self._call = hash32(hash32(seed) + epoch), 0

    def dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
        if not training or p == 0:
            return input
        self._call += 1
        rate = torch.full((), p, dtype=wide_dtype(input.device), device=input.device)
        return dropout(input, hash32(self._key + self._call), rate)
