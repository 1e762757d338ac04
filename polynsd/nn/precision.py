"""Mixed precision: what `torch.autocast` may lower, and what it may not.

Dense linear maps (encoder, decoder, mixing) may run in half precision. Restriction maps, degree blocks
and their inverse roots, and the filter's recurrence may not: an error of 2⁻⁸ in L̃ leaves its spectrum
outside [−1, 1], where T_k grows, and the fast kernels compute in float32 and float64 only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from polynsd.errors import require_choice

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

M = TypeVar("M", bound=Callable[..., Any])


def autocast(precision: str, device: torch.device | str) -> AbstractContextManager[object]:
    """Linear maps inside the `with` block run in `bf16` or `fp16`; with `float32` nothing changes.

    For forward passes and losses only; `backward()` goes outside. Gradients of `fp16` may underflow and need
    `grad_scaler`.
    """
    require_choice("precision", precision, PRECISIONS)
    if precision == "float32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=PRECISIONS[precision])


def grad_scaler(precision: str, device: torch.device | str) -> torch.amp.GradScaler:
    """Scales losses up before `backward()` under `fp16`; does nothing otherwise."""
    require_choice("precision", precision, PRECISIONS)
    return torch.amp.GradScaler(torch.device(device).type, enabled=precision == "fp16")


@contextmanager
def exact_products() -> Iterator[None]:
    """Matrix products inside the `with` block are not rounded to TF32, whatever the user allows elsewhere."""
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(allowed)


def in_full_precision(method: M) -> M:
    """A method that autocast does not reach: its first argument becomes float32 (or stays float64)."""

    @wraps(method)
    def run(self: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not _is_lowered(x.device.type):
            return method(self, x, *args, **kwargs)
        with torch.autocast(x.device.type, enabled=False):
            return method(self, x if x.dtype == torch.float64 else x.float(), *args, **kwargs)

    return cast(M, run)


def _is_lowered(device_type: str) -> bool:
    return device_type != "meta" and torch.is_autocast_enabled(device_type)
