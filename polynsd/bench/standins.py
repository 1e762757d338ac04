"""Stand-ins for benchmark graphs that are not at hand: the same size, and degrees as skewed.

Speed depends on a graph through its number of nodes and edges and through its hubs, which is all
that is imitated. Endpoints are drawn with probability proportional to weights (Chung and Lu) that
are quantiles of a log-normal law,

    w_i ∝ exp(σ Φ⁻¹((i + ½) / N)),

until there are exactly E distinct edges; the largest node is given its neighbours directly, because
so large a share of all nodes cannot be drawn with repetition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import ConfigError

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """What is imitated of a graph."""

    nodes: int
    edges: int
    hub: int  # the largest degree; 0: whatever the weights give
    spread: float  # σ, of the logarithm of the degrees
    features: int
    classes: int


SHAPES = {
    "texas": Shape(183, 279, 104, 0.7, 1703, 5),
    "chameleon": Shape(2_277, 31_371, 732, 1.4, 2_325, 5),
    "squirrel": Shape(5_201, 198_353, 1_903, 1.4, 2_089, 5),
    "tolokers": Shape(11_758, 519_000, 2_138, 1.0, 10, 2),
}


def skewed_edges(shape: Shape, seed: int = 0) -> IntArray:
    """`[2, E]` every edge once, u < v; the same for the same shape and seed."""
    N, E = shape.nodes, shape.edges
    if 4 * E > N * (N - 1):
        raise ConfigError(
            f"{E:,} edges are more than half of all pairs of {N:,} nodes. Give a larger number of nodes."
        )
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(N)  # hubs are anywhere, as in real graphs
    first = 1 if shape.hub else 0
    cumulative = np.cumsum(_weights(N, shape.spread)[first:])
    keys = _pair_keys(np.zeros(shape.hub, dtype=np.int64), 1 + rng.permutation(N - 1)[: shape.hub], N)
    while keys.size < E:
        draws = rng.random((2, 2 * (E - keys.size))) * cumulative[-1]
        source, target = first + np.searchsorted(cumulative, draws)
        keys = _distinct(np.concatenate([keys, _pair_keys(source, target, N)]))[:E]
    ends = numbers[np.stack(np.divmod(keys, N))]
    return np.sort(ends, axis=0)


def _weights(count: int, spread: float) -> NDArray[np.float64]:
    """Largest first."""
    from scipy.special import ndtri  # slow to import

    return np.exp(-spread * ndtri((np.arange(count) + 0.5) / count))


def _pair_keys(source: IntArray, target: IntArray, num_nodes: int) -> IntArray:
    """One number per unordered pair, without loops."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    return (low * num_nodes + high)[low < high]


def _distinct(keys: IntArray) -> IntArray:
    """Without repetitions, in the order of first occurrence."""
    return keys[np.sort(np.unique(keys, return_index=True)[1])]
