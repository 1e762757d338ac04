"""One function on all replicas: by `torch.vmap`, or where a model does not admit that, in a loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

logger = logging.getLogger("polynsd")


def over_replicas(function: Callable[..., Tensor], is_vectorised: bool) -> Callable[..., Tensor]:
    """The function on arguments with a leading dimension of replicas."""
    if is_vectorised:
        return torch.vmap(function)

    def loop(*args: Any) -> Tensor:
        count = len(tree_leaves(args)[0])
        return torch.stack([function(*tree_map(lambda t, r=r: t[r], args)) for r in range(count)])

    return loop


def is_vectorisable(run: Callable[[], object]) -> bool:
    """Whether a vmapped pass through a model works; if not, the reason is logged."""
    try:
        run()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        tell_once(str(error).splitlines()[0])
        return False
    return True


@cache
def tell_once(reason: str) -> None:
    """The reason why replicas gain nothing here."""
    logger.warning("torch.vmap does not take this model, so its replicas train in turns: %s", reason)
