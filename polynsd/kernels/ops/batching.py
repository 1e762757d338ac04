"""Operations inside `torch.vmap`: a vmapped dimension joins the replicas.

`vmap_rule` is the rule that PyTorch asks for. PyTorch needs a quarter of a millisecond to apply such a
rule, which is more than many of the operations take. In the common case, a single `torch.vmap` with nothing
around it, `call_in_vmap` therefore takes the tensors out of their wrappers, applies the rule itself and
wraps the result.

That short cut uses functions of PyTorch that are not documented. They are used in this module only. It is
off where they are missing, with `POLYNSD_FAST_VMAP=0` in the environment, and inside `fast_vmap(False)`;
results are the same, slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polynsd.errors import ConfigError

Rule = Callable[..., tuple[Any, Any]]

functorch: Any = getattr(torch._C, "_functorch", None)
NEEDED = (
    "unwrap_if_dead",
    "get_interpreter_stack",
    "TransformType",
    "maybe_get_level",
    "maybe_get_bdim",
    "get_unwrapped",
    "is_functorch_wrapped_tensor",
    "_add_batch_dim",
)
try:
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as _outside_vmap
except ImportError:
    IS_AVAILABLE = False
else:
    IS_AVAILABLE = functorch is not None and all(hasattr(functorch, name) for name in NEEDED)

_enabled = IS_AVAILABLE and os.environ.get("POLYNSD_FAST_VMAP", "1") != "0"  # of the whole process


@contextmanager
def fast_vmap(enabled: bool) -> Iterator[None]:
    """Inside the `with` block, operations take the short cut through `torch.vmap`, or leave it to PyTorch."""
    global _enabled
    before, _enabled = _enabled, enabled and IS_AVAILABLE
    try:
        yield
    finally:
        _enabled = before


def is_transformed() -> bool:
    """Whether a transform of `torch.func` is active. PyTorch has no public way to ask."""
    return bool(torch._C._are_functorch_transforms_active())


class VmapInfo(NamedTuple):
    """The part of PyTorch's `VmapInfo` that a rule reads."""

    batch_size: int


def vmap_rule(function: Callable[..., Any], batched: int, shares: bool) -> Rule:
    """A vmap rule: the new dimension joins dimension 0 of the first `batched` arguments.

    With `shares`, what all replicas share stays the one that it is.
    """

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        B = info.batch_size
        pairs = list(zip(args[:batched], in_dims[:batched], strict=True))
        R = max(t.size(0) if dim is None else t.movedim(dim, 0).size(1) for t, dim in pairs)
        merged = [
            t if shares and dim is None and t.size(0) == 1 else _merge(t, dim, B, R) for t, dim in pairs
        ]
        result = function(*merged, *args[batched:])
        if isinstance(result, Tensor):
            return result.unflatten(0, (B, R)), 0
        return tuple(t.unflatten(0, (B, R)) for t in result), (0,) * len(result)

    return rule


def _merge(t: Tensor, dim: int | None, B: int, R: int) -> Tensor:
    t = t.unsqueeze(0) if dim is None else t.movedim(dim, 0)
    return t.expand(B, R, *t.shape[2:]).flatten(0, 1)


def call_in_vmap(
    function: Callable[..., Any], untransformed: Callable[..., Any], rule: Rule, args: tuple[Any, ...]
) -> Any:
    """`function(*args)`, by way of its rule if nothing but one `torch.vmap` is active.

    Args:
        function: can be called anywhere.
        untransformed: the same where no transform is active.
        rule: of the function, under `torch.vmap`.
        args: tensors and whatever else.
    """
    if not _enabled:
        return function(*args)
    # tensors may still wear the wrappers of a transform that is over
    args = tuple(functorch.unwrap_if_dead(t) if isinstance(t, Tensor) else t for t in args)
    if not is_transformed():
        return untransformed(*args)
    level = _single_vmap_level()
    if level is None:
        return function(*args)
    is_batched = [isinstance(t, Tensor) and functorch.maybe_get_level(t) == level for t in args]
    if not any(is_batched):
        with _outside_vmap():
            return untransformed(*args)
    dims = tuple(functorch.maybe_get_bdim(t) if b else None for t, b in zip(args, is_batched, strict=True))
    unwrapped = [functorch.get_unwrapped(t) if b else t for t, b in zip(args, is_batched, strict=True)]
    size = next(t.size(dim) for t, dim in zip(unwrapped, dims, strict=True) if dim is not None)
    with _outside_vmap():
        result, _ = rule(VmapInfo(size), dims, *unwrapped)
    if isinstance(result, Tensor):
        return functorch._add_batch_dim(result, 0, level)
    return tuple(functorch._add_batch_dim(t, 0, level) for t in result)


def _single_vmap_level() -> int | None:
    """The level of `torch.vmap` if it is the only active transform."""
    stack = functorch.get_interpreter_stack()
    if stack is None or len(stack) != 1 or stack[0].key() != functorch.TransformType.Vmap:
        return None
    return int(stack[0].level())


def call_on_stack(function: Callable[..., Tensor], tensors: tuple[Tensor, ...], count: int) -> Tensor:
    """Inside one `torch.vmap`, the function of all replicas at once.

    Args:
        function: of tensors with a leading dimension of replicas, to one that has it too.
        tensors: with or without a vmapped dimension.
        count: number of replicas.
    """
    level = _single_vmap_level() if _enabled and is_transformed() else None
    if level is None:
        raise ConfigError(
            "graphs that are stacked need one torch.vmap, and the short cut of POLYNSD_FAST_VMAP."
        )
    whole = []
    for tensor in tensors:
        t = functorch.unwrap_if_dead(tensor)
        if functorch.maybe_get_level(t) == level:
            whole.append(functorch.get_unwrapped(t).movedim(functorch.maybe_get_bdim(t), 0))
        else:
            whole.append(t.expand(count, *t.shape))
    with _outside_vmap():
        result = function(*whole)
    wrapped: Tensor = functorch._add_batch_dim(result, 0, level)
    return wrapped


def all_replicas(t: Tensor) -> Tensor | None:
    """The tensor behind one that is vmapped, with all its replicas; None where it cannot be had."""
    if not _enabled:
        return None if is_transformed() else t
    if not functorch.is_functorch_wrapped_tensor(t):
        return t
    return functorch.get_unwrapped(t) if _single_vmap_level() is not None else None
