"""Operations inside `torch.vmap`: a vmapped dimension joins the replicas.

`joining` is the rule that PyTorch asks for. PyTorch needs a quarter of a millisecond to apply such a
rule, which is more than many of the operations take, so in the common case, a single `torch.vmap`
with nothing around it, `called` takes the tensors out of their wrappers, applies the rule itself and
wraps the result. What it uses is not documented; where it is missing, PyTorch's own way is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

Rule = Callable[..., tuple[Any, Any]]
functorch: Any = getattr(torch._C, "_functorch", None)
NEEDED = (
    "unwrap_if_dead",
    "get_interpreter_stack",
    "TransformType",
    "maybe_get_level",
    "maybe_get_bdim",
    "get_unwrapped",
)
try:
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as _outside
except ImportError:
    IS_KNOWN = False
else:
    IS_KNOWN = functorch is not None and all(
        hasattr(functorch, name) for name in (*NEEDED, "unwrap_if_dead", "_add_batch_dim")
    )


class Info(NamedTuple):
    """What a rule is told."""

    batch_size: int


def joining(function: Callable[..., Any], batched: int, shares: bool) -> Rule:
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


def transformed() -> bool:
    """Whether a transform of `torch.func` is active."""
    return bool(torch._C._are_functorch_transforms_active())


def called(
    function: Callable[..., Any], unwatched: Callable[..., Any], rule: Rule, args: tuple[Any, ...]
) -> Any:
    """`function(*args)`, by way of its rule if this is a plain `torch.vmap`.

    Args:
        function: can be called anywhere.
        unwatched: the same where no transform is active.
        rule: of the function, under `torch.vmap`.
        args: tensors and whatever else.
    """
    if not IS_KNOWN:
        return function(*args)
    # tensors may still wear the wrappers of a transform that is over
    args = tuple(functorch.unwrap_if_dead(t) if isinstance(t, Tensor) else t for t in args)
    if not transformed():
        return unwatched(*args)
    level = _plain_vmap()
    if level is None:
        return function(*args)
    is_batched = [isinstance(t, Tensor) and functorch.maybe_get_level(t) == level for t in args]
    if not any(is_batched):
        with _outside():
            return unwatched(*args)
    dims = tuple(functorch.maybe_get_bdim(t) if b else None for t, b in zip(args, is_batched, strict=True))
    plain = [functorch.get_unwrapped(t) if b else t for t, b in zip(args, is_batched, strict=True)]
    size = next(t.size(dim) for t, dim in zip(plain, dims, strict=True) if dim is not None)
    with _outside():
        result, _ = rule(Info(size), dims, *plain)
    if isinstance(result, Tensor):
        return functorch._add_batch_dim(result, 0, level)
    return tuple(functorch._add_batch_dim(t, 0, level) for t in result)


def _plain_vmap() -> int | None:
    """The level of the one `torch.vmap` that is active, and nothing else is."""
    stack = functorch.get_interpreter_stack()
    if stack is None or len(stack) != 1 or stack[0].key() != functorch.TransformType.Vmap:
        return None
    return int(stack[0].level())


def all_replicas(t: Tensor) -> Tensor | None:
    """The tensor behind one that is vmapped, with all its replicas; None where it cannot be had."""
    if not IS_KNOWN:
        return None if transformed() else t
    if not functorch.is_functorch_wrapped_tensor(t):
        return t
    return functorch.get_unwrapped(t) if _plain_vmap() is not None else None
