"""The best split of every node of many trees at once, from histograms.

A node with gradients G and hessians H gains G_l²/(H_l + λ) + G_r²/(H_r + λ) − G²/(H + λ) by a split in two.
Rows are known by the bins that their values fall into, and a split sends those up to a bin to the left.
Gradients are integers, so that sums do not depend on their order: every device finds the same split, and the
first of equal ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from polynsd.kernels.registry import available

BINS = 63  # of a column at most
NO_SPLIT = 255  # in place of a bin; no bin is beyond it, so all rows go to the left
ENTRIES = 2**24  # of an array of the sums of PyTorch


class Level(NamedTuple):
    """A level of K trees that grow together, with F columns and n rows."""

    codes: Tensor  # [F, n] uint8, the bins of the rows
    columns: Tensor  # [C] those to look at
    place: Tensor  # [K, n] the node that a row is in
    g: Tensor  # [K, n] int64 gradients
    h: Tensor  # [K, n] int64 hessians
    nodes: int  # of a tree


class Rule(NamedTuple):
    """Which splits there may be."""

    leaf: int  # rows on either side at least
    penalty: Tensor  # [] λ, in the unit of the hessians
    least: Tensor  # [] hessian on either side at least


FindSplits = Callable[[Level, Rule], tuple[Tensor, Tensor]]


def find_splits(device: torch.device) -> FindSplits:
    """What finds the splits on a device: our loops where Numba is installed, else PyTorch."""
    return _compiled() if device.type == "cpu" and "cpu" in available() else best_splits


@cache
def _compiled() -> FindSplits:
    from polynsd.kernels.cpu.splits import best_splits as compiled

    return compiled


def best_splits(level: Level, rule: Rule) -> tuple[Tensor, Tensor]:
    """`[K, nodes]` of every node the column of the best split, and the last bin that goes to the left.

    The bin is NO_SPLIT, and the column 0, where nothing is gained.
    """
    (K, n), C = level.place.shape, len(level.columns)
    trees = max(ENTRIES // max(C * n, 1), 1)
    parts = []
    for start in range(0, K, trees):
        some = slice(start, start + trees)
        part = level._replace(place=level.place[some], g=level.g[some], h=level.h[some])
        parts.append(_best_of(part, rule))
    best, bins = (torch.cat(part) for part in zip(*parts, strict=True))
    return torch.where(bins == NO_SPLIT, 0, level.columns[best]), bins


def _best_of(level: Level, rule: Rule) -> tuple[Tensor, Tensor]:
    """The same, with the place of the column in `level.columns`."""
    place, g, h, nodes = level.place, level.g, level.h, level.nodes
    codes = level.codes[level.columns].long()
    K, (C, n) = len(place), codes.shape
    column = torch.arange(C, device=codes.device)[:, None]
    index = ((place[:, None] * C + column) * BINS + codes).flatten(1)

    def add(values: Tensor) -> Tensor:
        sums = values.new_zeros(K, nodes * C * BINS)
        sums.scatter_add_(1, index, values[:, None].expand(K, C, n).flatten(1))
        return sums.view(K, nodes, C, BINS).cumsum(-1)

    G, H, count = add(g), add(h), add(torch.ones_like(g))
    (G_l, G_r), (H_l, H_r), (n_l, n_r) = ((t[..., :-1], t[..., -1:] - t[..., :-1]) for t in (G, H, count))
    whole = _score(G[..., -1:], H[..., -1:], rule.penalty)
    gain = _score(G_l, H_l, rule.penalty) + _score(G_r, H_r, rule.penalty) - whole
    allowed = (n_l >= rule.leaf) & (n_r >= rule.leaf) & (H_l >= rule.least) & (H_r >= rule.least)
    gain = torch.where(allowed, gain, 0.0).flatten(2)
    top = gain.amax(-1, keepdim=True)
    places = torch.arange(gain.size(-1), device=gain.device)
    first = torch.where(gain == top, places, gain.size(-1)).amin(-1)
    bins = torch.where(top[..., 0] > 0, first % (BINS - 1), NO_SPLIT)
    return first // (BINS - 1), bins


def _score(G: Tensor, H: Tensor, penalty: Tensor) -> Tensor:
    """G² / (H + λ)."""
    G = G.double()
    return G * G / (H.double() + penalty)
