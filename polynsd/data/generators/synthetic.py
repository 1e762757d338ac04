"""Parts that every synthetic generator uses: edge lists, argument checks and the final `Data`.

Private: call `heterophilous_graph`, `minesweeper`, `street_graph` or `syntax_chain` instead.
"""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.errors import ConfigError, require_at_least

if TYPE_CHECKING:
    from torch_geometric.data import Data

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

S = TypeVar("S", bound=Any)  # a NamedTuple of generators


def require_probability(name: str, value: float) -> None:
    """Raises unless 0 <= value <= 1."""
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"{name} must lie in [0, 1]; got {value!r}.")


def named_streams(kind: type[S], seed: int) -> S:
    """One independent random generator for every field of a named tuple."""
    require_at_least("seed", seed, 0)
    children = np.random.SeedSequence(seed).spawn(len(kind._fields))
    return kind(*map(np.random.default_rng, children))


def pair_keys(source: IntArray, target: IntArray, num_nodes: int) -> IntArray:
    """One integer per unordered pair: min(u, v)·N + max(u, v)."""
    return np.minimum(source, target) * num_nodes + np.maximum(source, target)


def undirected_edge_index(source: IntArray, target: IntArray, num_nodes: int) -> IntArray:
    """Both directions of every edge, sorted by row then column, without duplicates and loops."""
    proper = source != target
    source, target = source[proper], target[proper]
    keys = np.sort(np.concatenate([source * num_nodes + target, target * num_nodes + source]))
    distinct = keys[np.diff(keys, prepend=-1) > 0]  # ten times faster than np.unique, which hashes
    return np.stack(np.divmod(distinct, num_nodes))


def inter_class_fraction(edge_index: IntArray, labels: IntArray) -> float:
    """Share of edges whose ends differ in class; NaN for a graph without edges."""
    if edge_index.shape[1] == 0:
        return float("nan")
    return float(np.mean(labels[edge_index[0]] != labels[edge_index[1]]))


def labelled_graph(name: str, x: FloatArray, ends: tuple[IntArray, IntArray], labels: IntArray) -> "Data":
    """A `Data` with x float32, edge_index and y int64, `name` and the realised `heterophily`."""
    from torch_geometric.data import Data

    edge_index = undirected_edge_index(*ends, labels.size)
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(edge_index),
        y=torch.from_numpy(labels),
        name=name,
        heterophily=inter_class_fraction(edge_index, labels),
    )
