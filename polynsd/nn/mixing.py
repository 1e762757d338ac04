"""Mixing of a state `[..., d, C]` on stalks: of its d coordinates, of its C channels, or of all numbers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

NARROW = 128  # width of a state, up to which W₁ ⊗ W₂ is cheaper than W₁ and W₂


def mixed(x: Tensor, stalk: Tensor | None, channel: Tensor | None) -> Tensor:
    """(I ⊗ W₁) x W₂ᵀ; None stands for the identity."""
    if stalk is not None and channel is not None and x.shape[-2:].numel() <= NARROW:
        return fully_mixed(x, torch.kron(stalk, channel))  # one product in place of N small ones
    x = x if stalk is None else stalk @ x
    return x if channel is None else x @ channel.mT


def fully_mixed(x: Tensor, weight: Tensor) -> Tensor:
    """W vec(x) at every node, W `[dC, dC]`."""
    return functional.linear(x.flatten(-2), weight).unflatten(-1, x.shape[-2:])
