"""Preprocessing of features by named rules.

    raw                  as they are
    row-normalize        every row divided by its sum; for counts and other non-negative features
    nsd-normalize        the rule of the reference implementation of Neural Sheaf Diffusion, to the letter:
                         minus the smallest entry of the matrix, then each row over max(its sum, 1)
    standardize(train)   every column to mean 0 and deviation 1 over the training nodes
    standardize          the same over all nodes; features only, so no label is looked at
    adjacency            [X ‖ A]: who the neighbours are, as N further features of 0 and 1

Rules are joined by +: `row-normalize+adjacency`. With `adjacency` a model is tied to its graph.
On bags of words, with zeros somewhere and row sums of at least 1, the two row rules agree. Do not
use `nsd-normalize` on real-valued features: the shift turns all rows into nearly the same constant
vector. Results under different rules are not comparable, so a graph records the rules it went through:
`applied_rules(graph)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.graph import Features, Graph
from polynsd.data.splits import Split
from polynsd.errors import ConfigError, DataError, require_choice

RECORD = "preprocessing"  # key among the extras of a graph


def apply(rule: str, graph: Graph, split: Split | None = None) -> Graph:
    """The graph with preprocessed features; sparse ones stay sparse unless the rule shifts them.

    Args:
        rule: one of `RULES`, or several joined by +, which are applied in turn.
        graph: any graph with features.
        split: where the training nodes are taken from, for rules that need them.
    """
    for name in rule.split("+"):
        require_choice("preprocessing", name, RULES)
        if name == "raw":
            continue
        if graph.x is None:
            raise DataError(
                f"preprocessing needs features; '{graph.name}' has none. Load the dataset with its features, "
                "or give the graph some."
            )
        graph = replace(
            graph,
            x=RULES[name](graph, split),
            feature_names=None if name == "adjacency" else graph.feature_names,
            extras={**graph.extras, RECORD: np.array([*applied_rules(graph), name])},
        )
    return graph


def applied_rules(graph: Graph) -> tuple[str, ...]:
    """The rules a graph has gone through, in order; none means raw features."""
    return tuple(graph.extras[RECORD].tolist()) if RECORD in graph.extras else ()


def _row_normalize(graph: Graph, split: Split | None) -> Features:
    least = _smallest(graph.x)
    if not least >= 0:
        raise DataError(
            f"row-normalize needs non-negative features; '{graph.name}' has {least:g}. "
            "Use raw or standardize(train)."
        )
    sums = _row_sums(graph.x)
    return _scale_rows(graph.x, np.where(sums > 0, sums, 1.0))


def _nsd_normalize(graph: Graph, split: Split | None) -> Features:
    least = _smallest(graph.x)
    shifted = graph.x if least == 0 else graph.dense_x - least
    return _scale_rows(shifted, np.maximum(_row_sums(shifted), 1.0))


def _standardize_by_training(graph: Graph, split: Split | None) -> Features:
    if split is None:
        raise ConfigError("standardize(train) needs to know the training nodes; pass a split.")
    if split.train.numel() != graph.num_nodes:
        raise DataError(
            f"the split is one of {split.train.numel()} nodes; '{graph.name}' has {graph.num_nodes}. "
            "Pass a split of this graph."
        )
    return _standardize(graph, split.train.cpu().numpy())


def _standardize(graph: Graph, nodes: NDArray[np.bool_]) -> Features:
    x = graph.dense_x.astype(np.float64)
    mean, deviation = x[nodes].mean(axis=0), x[nodes].std(axis=0)
    is_constant = deviation <= np.finfo(np.float32).eps * np.abs(mean)
    return ((x - mean) / np.where(is_constant, 1.0, deviation)).astype(np.float32)


def _append_adjacency(graph: Graph, split: Split | None) -> Features:
    (u, v), ones = graph.edge_index, np.ones(graph.edge_index.shape[1], dtype=np.float32)
    half = sparse.coo_matrix((ones, (u, v)), shape=(graph.num_nodes,) * 2)  # every edge once
    return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(graph.x), half + half.T]), dtype=np.float32)


RULES: Mapping[str, Callable[[Graph, Split | None], Features]] = {
    "raw": lambda graph, split: graph.x,
    "row-normalize": _row_normalize,
    "nsd-normalize": _nsd_normalize,
    "standardize(train)": _standardize_by_training,
    "standardize": lambda graph, split: _standardize(graph, np.ones(graph.num_nodes, dtype=bool)),
    "adjacency": _append_adjacency,
}


def _smallest(x: Features) -> float:
    return float(x.min()) if min(x.shape) else 0.0


def _row_sums(x: Features) -> NDArray[np.float64]:
    return np.asarray(x.sum(axis=1, dtype=np.float64)).reshape(-1)


def _scale_rows(x: Features, divisors: NDArray[np.float64]) -> Features:
    if not sparse.issparse(x):
        return (x / divisors[:, None]).astype(np.float32)
    data = x.data / np.repeat(divisors, np.diff(x.indptr))
    return sparse.csr_matrix((data.astype(np.float32), x.indices, x.indptr), shape=x.shape)
