"""Gradient boosting: a tree for every output in every step, grown together on any device.

    f ← f + η Σ_leaves v 1[leaf],   v = −G / (H + λ),   G = Σ ∂ℓ, H = Σ ∂²ℓ over the rows of the leaf

with cross entropy or half the squared error as ℓ. Trees are grown level by level to a fixed depth; the nodes
of a level look at a part of the columns, drawn anew for every level of every step. Values of a column are
known by their bin, at most 63, so that a split is found from sums over bins (`kernels/ops/splits.py`).
Gradients are rounded to integers, which makes sums exact: trees do not depend on device or threads.

For tables of up to some hundred columns without gaps; `trees.py` makes them of features that are wider.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.estimator.forest import Forest, Numbers
from polynsd.kernels.ops.splits import BINS, NO_SPLIT, Level, Rule, find_splits
from polynsd.training.capture import capture_step

DEPTH = 4
PENALTY = 3.0  # λ
LEAST_HESSIAN = 1e-3  # of a leaf
COLUMN_SHARE = 0.3  # of the columns, that the nodes of a level look at
LOOK = 10  # steps between two looks at validation: on a GPU each makes the host wait
PATIENCE = 15  # a fifteenth of the steps without a gain on validation, at least `LOOK`, ends it
UNIT = 2.0**-30  # of gradients and hessians, relative to the largest
RARE = 1e-12  # what a class is counted as that has no weight


@dataclass(frozen=True)
class Boosting:
    """How trees are grown.

    Attributes:
        rate: η.
        steps: at most.
        leaf: rows in a leaf at least.
        seed: of the columns that are looked at.
    """

    rate: float
    steps: int
    leaf: int
    seed: int


class Boosted(NamedTuple):
    """Trees of all steps up to the best one, and what they give."""

    forest: Forest  # tree t belongs to output t mod K
    start: Numbers  # [K] what they add to
    outputs: Numbers  # [N, K] on all rows of the table, the start included


class Bins(NamedTuple):
    """The columns of a table in bins: a value is in bin b where it is above the first b cuts of its own."""

    codes: Tensor  # [F, N] uint8
    cuts: Tensor  # [F, BINS − 1], filled with ∞

    @classmethod
    def of(cls, table: Tensor, rows: Tensor) -> Bins:
        """Bins with equally many of some rows each, or one for every value where there are few."""
        values = table[rows].T.sort(-1).values
        n, ranks = values.size(1), torch.arange(1, BINS, device=table.device)
        below = (ranks * (n - 1)).div(BINS, rounding_mode="floor")
        cuts = (values[:, below] + values[:, (below + 1).clamp(max=n - 1)]) / 2
        is_new = torch.cat([torch.zeros_like(values[:, :1], dtype=torch.bool), values.diff(dim=-1) > 0], -1)
        few = torch.where(is_new.sum(-1) < BINS)[0]
        cuts[few] = torch.inf
        column, place = torch.where(is_new[few])
        cut = (values[few][column, place] + values[few][column, place - 1]) / 2
        cuts[few[column], is_new[few].cumsum(-1)[column, place] - 1] = cut
        codes = torch.searchsorted(cuts.contiguous(), table.T.contiguous())
        return cls(codes.to(torch.uint8), cuts)


def boost(
    table: Numbers,
    target: NDArray[np.int64] | Numbers,
    rows: NDArray[np.int64],
    judge: Callable[[Tensor], Tensor],
    rules: Boosting,
    weights: Numbers | None = None,
    device: torch.device | None = None,
    deadline: float | None = None,
) -> Boosted:
    """Trees until validation has not gained for a while; those up to the best step.

    Args:
        table: `[N, F]`, finite.
        target: `[n]` of the rows: classes 0 … C − 1, all of which occur, or numbers. K = C; 1 for two classes
            (the second has the output) and for numbers.
        rows: `[n]` of the table, that trees are fitted to.
        judge: of outputs `[N, K]` their loss on validation, on the device.
        rules: how trees are grown.
        weights: `[n]` of the rows.
        device: where to compute.
        deadline: the `time.monotonic()` at which it ends early.
    """
    device = torch.device("cpu") if device is None else device
    growth = _Growth(
        torch.from_numpy(table).to(device), target, torch.from_numpy(rows).to(device), judge, rules, weights
    )
    step = capture_step(growth.grow, "auto", device)
    losses: list[float] = []
    patience = max(rules.steps // PATIENCE, LOOK)
    while len(losses) < rules.steps:
        for _ in range(min(LOOK, rules.steps - len(losses))):
            step()
        losses = growth.losses[: len(losses) + LOOK].tolist()
        is_late = deadline is not None and time.monotonic() > deadline
        if is_late or len(losses) - int(np.argmin(losses)) > patience:
            break
    return growth.result(int(np.argmin(losses)) + 1)


class _Growth:
    """The state of a forest that grows; `grow` works on tensors that stay where they are."""

    def __init__(
        self,
        table: Tensor,
        target: NDArray[np.int64] | Numbers,
        rows: Tensor,
        judge: Callable[[Tensor], Tensor],
        rules: Boosting,
        weights: Numbers | None,
    ) -> None:
        device, (N, F) = table.device, table.shape
        self.rows, self.judge, self.rules = rows, judge, rules
        self.bins = Bins.of(table, rows)
        self.codes = self.bins.codes[:, rows].contiguous()
        self.find = find_splits(device)
        y = torch.from_numpy(target).to(device)
        self.is_regression = y.is_floating_point()
        num_classes = 1 if self.is_regression else int(y.max()) + 1
        K = num_classes if num_classes > 2 else 1
        w = torch.ones(len(y), dtype=torch.float64, device=device)
        self.weights = w if weights is None else torch.from_numpy(weights).to(device, torch.float64)
        if self.is_regression:
            self.y = y.double()[None]
            start = (self.y * self.weights).sum(-1) / self.weights.sum()
        else:
            every = torch.nn.functional.one_hot(y, num_classes).T.double()
            share = ((every * self.weights).sum(-1) / self.weights.sum()).clamp(RARE, 1 - RARE)
            self.y = every[1:] if K == 1 else every
            start = share[1:].logit() if K == 1 else share.log()
        self.start = start
        self.raw = start[:, None].repeat(1, N)
        self.best = self.raw.clone()  # that of the step with the least loss
        generator = np.random.default_rng(rules.seed)
        count = max(int(COLUMN_SHARE * F), 1)
        drawn = [generator.permutation(F)[:count] for _ in range(rules.steps * DEPTH)]
        self.columns = torch.from_numpy(np.stack(drawn)).to(device).view(rules.steps, DEPTH, count)
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self.losses = torch.full((rules.steps,), torch.inf, dtype=torch.float64, device=device)
        shape = (rules.steps, K, 2**DEPTH - 1)  # of inner nodes, level by level
        self.split_columns = torch.zeros(shape, dtype=torch.long, device=device)
        self.split_bins = torch.full(shape, NO_SPLIT, dtype=torch.long, device=device)
        self.values = torch.zeros(rules.steps, K, 2**DEPTH, dtype=torch.float64, device=device)
        self.everyone = torch.arange(N, device=device)

    def grow(self) -> Tensor:
        """A tree for every output; the losses of all steps."""
        rules, K = self.rules, len(self.raw)
        g, h = self._derivatives()
        unit = torch.maximum(g.abs().amax(), h.amax()).clamp(min=torch.finfo(g.dtype).tiny) * UNIT
        g, h = ((t / unit).round().long() for t in (g, h))
        rule = Rule(rules.leaf, PENALTY / unit, LEAST_HESSIAN / unit)
        place = torch.zeros(K, len(self.everyone), dtype=torch.long, device=g.device)
        of_step = self.columns.index_select(0, self.step)[0]
        columns, bins = [], []
        for level in range(DEPTH):
            found = self.find(Level(self.codes, of_step[level], place[:, self.rows], g, h, 2**level), rule)
            code = self.bins.codes[found[0].gather(1, place), self.everyone]
            place = 2 * place + (code > found[1].gather(1, place))
            columns.append(found[0])
            bins.append(found[1])
        leaf = place[:, self.rows]
        G, H = (t.new_zeros(K, 2**DEPTH).scatter_add_(1, leaf, t).double() for t in (g, h))
        values = -rules.rate * G / (H + rule.penalty)
        self.raw += values.gather(1, place)
        loss = self.judge(self.raw.T).double()
        self.best.copy_(torch.where(loss < self.losses.amin(), self.raw, self.best))
        for kept, new in (
            (self.split_columns, torch.cat(columns, 1)),
            (self.split_bins, torch.cat(bins, 1)),
            (self.values, values),
            (self.losses, loss),
        ):
            kept.index_copy_(0, self.step, new[None])
        self.step += 1
        return self.losses

    def _derivatives(self) -> tuple[Tensor, Tensor]:
        """`[K, n]` first and second ones of the loss of the rows, weighted."""
        raw = self.raw[:, self.rows]
        if self.is_regression:
            return (raw - self.y) * self.weights, self.weights[None]
        p = raw.softmax(0) if len(raw) > 1 else raw.sigmoid()
        return (p - self.y) * self.weights, p * (1 - p) * self.weights

    def result(self, steps: int) -> Boosted:
        """The trees of the first steps."""
        parts = (self.split_columns, self.split_bins, self.values)
        columns, bins, values = (t[:steps].flatten(0, 1).cpu().numpy() for t in parts)
        forest = build_forest(columns, bins, values, self.bins.cuts.cpu().numpy())
        forest = forest._replace(output=forest.output % len(self.start))
        return Boosted(forest, self.start.cpu().numpy(), self.best.T.cpu().numpy())


def build_forest(
    columns: NDArray[np.int64], bins: NDArray[np.int64], values: Numbers, cuts: Numbers
) -> Forest:
    """Complete trees as a `Forest`, tree t for output t; nodes that split nothing are left out.

    Args:
        columns: `[T, 2ᴰ − 1]` of the splits, level by level.
        bins: the last bins that go left; NO_SPLIT sends all rows there.
        values: `[T, 2ᴰ]` of the leaves.
        cuts: `[F, BINS − 1]` the upper ends of bins.
    """
    T, inner = columns.shape
    total = inner + values.shape[1]
    splits = np.hstack([bins != NO_SPLIT, np.zeros(values.shape, dtype=bool)])
    stands_for = np.tile(np.arange(total), (T, 1))  # a node without a split: what its left child stands for
    for node in range(inner - 1, -1, -1):
        is_passed = ~splits[:, node]
        stands_for[is_passed, node] = stands_for[is_passed, 2 * node + 1]
    is_used = np.zeros((T, total), dtype=bool)
    every = np.arange(T)
    is_used[every, stands_for[:, 0]] = True
    for node in range(inner):
        parents = every[is_used[:, node] & splits[:, node]]
        for child in (2 * node + 1, 2 * node + 2):
            is_used[parents, stands_for[parents, child]] = True
    number = np.cumsum(is_used.ravel()).reshape(T, total) - 1
    is_inner = is_used & splits
    children = np.zeros((2, T, total), dtype=np.int64)
    for side in (0, 1):
        heirs = stands_for[:, 2 * np.arange(inner) + 1 + side]
        children[side, :, :inner] = np.take_along_axis(number, heirs, 1)
    column = np.hstack([columns, np.zeros(values.shape, dtype=np.int64)])
    cut = cuts[columns, np.minimum(bins, cuts.shape[1] - 1)]
    threshold = np.hstack([cut, np.zeros(values.shape)])
    value = np.hstack([np.zeros(columns.shape), values])
    return Forest(
        feature=np.where(is_inner, column, -1)[is_used],
        threshold=np.where(is_inner, threshold, 0.0)[is_used],
        left=np.where(is_inner, children[0], 0)[is_used],
        right=np.where(is_inner, children[1], 0)[is_used],
        value=value[is_used],
        root=np.take_along_axis(number, stands_for[:, :1], 1)[:, 0],
        output=every.astype(np.int64),
    )
