"""The shape of a cloud of matrices: directions, clusters, tails."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist
from scipy.stats import kurtosis, rankdata

from polynsd.errors import require_choice
from polynsd.optional import load_optional

Numbers = NDArray[np.float64]

EMBEDDINGS = ("pca", "umap")
SPREAD = 1e-9  # of a coordinate, relative to its size: below it there is nothing to see but rounding


def embed(points: Numbers, method: str = "pca") -> Numbers:
    """Points `[n, k]` in the plane: the two directions of largest variance, or UMAP's map.

    UMAP has its own defaults: 15 neighbours, least distance 0.1. Distances between its clusters mean nothing.
    """
    require_choice("embedding", method, EMBEDDINGS)
    if method == "umap":
        umap = load_optional("umap", "UMAP needs", "geometry")
        return np.asarray(umap.UMAP(random_state=42).fit_transform(points), dtype=np.float64)
    centred = points - points.mean(0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    planar = centred @ directions.T
    return np.pad(planar, ((0, 0), (0, 2 - planar.shape[1])))


def separation(points: Numbers, seed: int = 0) -> float:
    """The mean silhouette of two clusters (2-means) in the space of the points; NaN where all are alike.

    Near 1 where there are two tight groups, about 0.3 for a single Gaussian cloud in few dimensions.
    """
    varying = points[:, varies(points)]
    if varying.shape[1] == 0 or len(np.unique(varying, axis=0)) < 3:
        return float("nan")
    _, label = kmeans2(varying, 2, minit="++", rng=seed)
    groups = [label == 0, label == 1]
    if not all(group.sum() > 1 for group in groups):
        return float("nan")
    distances = cdist(varying, varying)
    own, other = np.empty(len(varying)), np.empty(len(varying))
    for here, there in (groups, groups[::-1]):
        own[here] = distances[np.ix_(here, here)].sum(1) / (here.sum() - 1)
        other[here] = distances[np.ix_(here, there)].mean(1)
    return float(((other - own) / np.maximum(own, other)).mean())


def mean_kurtosis(points: Numbers) -> float:
    """The mean excess kurtosis of the coordinates that vary; 0 of a Gaussian, NaN where none varies."""
    moving = varies(points)
    return float(kurtosis(points[:, moving], axis=0).mean()) if moving.any() else float("nan")


def varies(points: Numbers) -> NDArray[np.bool_]:
    """Which coordinates are more than rounding."""
    return np.asarray(points.std(0) > SPREAD * (np.abs(points).max() + SPREAD))


def effective_rank(singular_values: Numbers) -> Numbers:
    """Exp of the entropy of σ / Σσ of matrices, `[..., d]` → `[...]`; 0 of a zero matrix."""
    total = singular_values.sum(-1, keepdims=True)
    p = np.divide(singular_values, total, out=np.zeros_like(singular_values), where=total > 0)
    terms = np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0)
    return np.asarray(np.where(total[..., 0] > 0, np.exp(-terms.sum(-1)), 0.0))


def auc(score: Numbers, is_positive: NDArray[np.bool_]) -> float:
    """The probability that a positive one scores above a negative one; ties count half, NaN without one."""
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if not positives or not negatives:
        return float("nan")
    ranks = rankdata(score)[is_positive].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))
