"""Many models on many datasets: average ranks, and which of them can be told apart (Demšar, JMLR 2006)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from polynsd.errors import ShapeError, require_at_least, require_choice
from polynsd.stats.families import holm
from polynsd.stats.scores import Array, require_finite, require_inside, round_scores
from polynsd.stats.signed_rank import signed_rank

POST_HOC = ("nemenyi", "wilcoxon-holm")


@dataclass(frozen=True)
class Friedman:
    """The test that all models rank alike: χ²_F, and F_F of Iman and Davenport with its p-value."""

    chi_square: float
    f: float
    p: float


@dataclass(frozen=True)
class Ranking:
    """Models from the best average rank to the worst.

    Attributes:
        models: names, best first.
        ranks: their average ranks; 1 would be best on every dataset.
        cliques: first and last index (from 0) of every maximal run of models among which no two differ.
        datasets: how many datasets were ranked.
        friedman: the test of all models at once; where its p exceeds α, no pair need be looked at.
        post_hoc: how pairs were tested, one of `POST_HOC`.
        alpha: level of the tests of pairs.
        critical_difference: of average ranks, for Nemenyi's test only.
    """

    models: tuple[str, ...]
    ranks: tuple[float, ...]
    cliques: tuple[tuple[int, int], ...]
    datasets: int
    friedman: Friedman
    post_hoc: str
    alpha: float
    critical_difference: float | None = None


def rank_models(
    scores: Mapping[str, ArrayLike], *, post_hoc: str = "nemenyi", alpha: float = 0.05
) -> Ranking:
    """Ranks models by their scores on the same datasets (one score per dataset, higher is better).

    "nemenyi" tells two models apart where their average ranks differ by at least the critical difference;
    "wilcoxon-holm" tests every pair by the exact signed-rank test over datasets, Holm-adjusted over all
    pairs, which does not depend on the other models but needs many datasets: p is at least 2^(1 − datasets).
    """
    require_choice("post_hoc", post_hoc, POST_HOC)
    require_inside("alpha", alpha)
    table = _dataset_table(scores)
    mean_ranks = dataset_ranks(table).mean(axis=0)
    order = np.argsort(mean_ranks, kind="stable")
    names, ranks = list(scores), mean_ranks[order]
    limit = critical_difference(len(names), len(table), alpha) if post_hoc == "nemenyi" else None
    if limit is None:
        alike = pairwise_wilcoxon(table[:, order]) > alpha
    else:
        alike = np.abs(ranks[:, None] - ranks[None, :]) < limit
    return Ranking(
        models=tuple(names[i] for i in order),
        ranks=tuple(ranks.tolist()),
        cliques=maximal_runs(alike),
        datasets=len(table),
        friedman=friedman(table),
        post_hoc=post_hoc,
        alpha=alpha,
        critical_difference=limit,
    )


def _dataset_table(scores: Mapping[str, ArrayLike]) -> Array:
    columns = {name: np.asarray(column, dtype=np.float64) for name, column in scores.items()}
    require_at_least("the number of models", len(columns), 2)
    shapes = {column.shape for column in columns.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1:
        shapes_text = ", ".join(f"{name}: {list(column.shape)}" for name, column in columns.items())
        raise ShapeError(f"every model needs one score for each of the same datasets; got {shapes_text}.")
    for name, column in columns.items():
        require_finite(column, f"scores of {name}")
    table = np.stack(list(columns.values()), axis=1)  # [datasets, models]
    require_at_least("the number of datasets", len(table), 2)
    return table


def dataset_ranks(table: Array) -> Array:
    """Ranks within every row of [datasets, models]: 1 for the greatest, ties share their mean rank."""
    return stats.rankdata(-round_scores(table), axis=1)


def friedman(table: Array) -> Friedman:
    """Friedman's test on [datasets, models], corrected for ties and by Iman and Davenport.

    With N datasets, k models, ranks r and their column sums R:

        χ² = (k − 1) Σⱼ (Rⱼ − N(k + 1)/2)² / Σᵢⱼ (rᵢⱼ − (k + 1)/2)²,    F = (N − 1) χ² / (N(k − 1) − χ²),

    and F has k − 1 and (k − 1)(N − 1) degrees of freedom. χ² alone is known to reject too rarely.
    """
    N, k = table.shape
    centred = dataset_ranks(table) - (k + 1) / 2
    spread = float((centred**2).sum())
    if spread == 0:  # all models equal on all datasets
        return Friedman(0.0, 0.0, 1.0)
    chi_square = (k - 1) * float((centred.sum(axis=0) ** 2).sum()) / spread
    room = N * (k - 1) - chi_square
    if room <= 1e-9 * chi_square:  # the same order on every dataset
        return Friedman(chi_square, math.inf, 0.0)
    f = (N - 1) * chi_square / room
    return Friedman(chi_square, f, float(stats.f.sf(f, k - 1, (k - 1) * (N - 1))))


def critical_difference(num_models: int, num_datasets: int, alpha: float = 0.05) -> float:
    """Nemenyi's q_α √(k(k + 1) / 6N), with q_α the studentized range for k groups and ∞ degrees, over √2."""
    q = float(stats.studentized_range.ppf(1 - alpha, num_models, np.inf)) / math.sqrt(2)
    return q * math.sqrt(num_models * (num_models + 1) / (6 * num_datasets))


def pairwise_wilcoxon(table: Array) -> Array:
    """Holm-adjusted p-values [models, models] of the signed-rank test over datasets; 1 on the diagonal."""
    k = table.shape[1]
    pairs = list(combinations(range(k), 2))
    p = np.ones((k, k))
    adjusted = holm([signed_rank(table[:, i] - table[:, j]).p for i, j in pairs])
    for (i, j), value in zip(pairs, adjusted, strict=True):
        p[i, j] = p[j, i] = value
    return p


def maximal_runs(alike: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """Runs of at least two neighbours, all alike in pairs, that no longer such run contains."""
    runs: list[tuple[int, int]] = []
    for first in range(len(alike)):
        last = first
        while last + 1 < len(alike) and alike[first : last + 1, last + 1].all():
            last += 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return tuple(runs)
