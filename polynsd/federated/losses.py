"""What a client minimises: cross entropy, dependence of two branches, negative entropy.

All take `nodes`, `[n]` weights that are 1 at nodes and 0 where a graph was only padded.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(logits: Tensor, y: Tensor, train: Tensor) -> Tensor:
    """The mean over training nodes (bool `[n]`) of −log softmax(logits)_y."""
    chosen = logits.log_softmax(-1).gather(-1, y.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -torch.where(train, chosen, 0.0).sum(-1) / train.sum(-1)


def hsic(a: Tensor, b: Tensor, nodes: Tensor) -> Tensor:
    """Dependence of two sets of logits, (1/n) tr(R aaᵀ R bbᵀ) = (1/n) ‖aᵀ R b‖²_F with R = I − 11ᵀ/n.

    The biased estimate of HSIC with linear kernels, from a matrix of classes × classes.
    """
    count, weights = nodes.sum(-1), nodes.unsqueeze(-1)
    centred = weights * (a - (weights * a).sum(-2, keepdim=True) / count)
    return (centred.mT @ b).square().sum((-2, -1)) / count


def negative_entropy(logits: Tensor, nodes: Tensor, reduction: str = "mean") -> Tensor:
    """Σ_v Σ_k p_vk log p_vk with p = softmax(logits), or its mean over nodes."""
    logs = functional.log_softmax(logits, -1)
    total = (nodes * (logs.exp() * logs).sum(-1)).sum(-1)
    return total if reduction == "sum" else total / nodes.sum(-1)
