"""What an estimator is given, as a `Graph`: a graph, PyG's `Data`, a pair, or a plain table of features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data import Graph
from polynsd.errors import DataError, GraphError, ShapeError
from polynsd.estimator.manners import check_table, count_features, forget_feature_names


def as_graph(estimator: Any, given: Any, edges: Any = None, *, reset: bool = False) -> Graph:
    """The graph of what was given.

    Args:
        estimator: remembers (`reset`), or has remembered, the number and the names of the features.
        given: a `Graph`; PyG's `Data`; a pair (x, edges); or a table of features `[n, F]`.
        edges: with a table: an edge index `[2, E]` or SciPy's sparse adjacency matrix `[n, n]`; none by
            default.
        reset: whether this is `fit`.
    """
    if isinstance(given, tuple) and len(given) == 2:
        given, edges = given
    if not _has_edges(given):
        return _table_graph(check_table(estimator, _plain(given), reset), edges)
    graph = given if isinstance(given, Graph) else Graph.from_pyg(given)
    if edges is not None:
        raise GraphError("the graph has edges of its own; leave edges out, or give its features alone.")
    if graph.x is None:
        raise DataError(
            f"a model needs features of nodes; '{graph.name}' has none. Give it some, e.g. the degree "
            "of every node."
        )
    if reset:
        _remember_features(estimator, graph)
        return graph
    graph = _aligned(estimator, graph)
    count_features(estimator, graph.num_features, reset)
    return graph


def is_table(given: Any, edges: Any = None) -> bool:
    """Whether this is a plain table of features: no graph, no edges."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return edges is None and not is_pair and not _has_edges(given)


def features_of(graph: Graph) -> NDArray[np.float64]:
    """The features, dense and in double precision."""
    x = graph.x.toarray() if sparse.issparse(graph.x) else graph.x
    return np.asarray(x, dtype=np.float64)


def _has_edges(given: Any) -> bool:
    return isinstance(given, Graph) or hasattr(given, "edge_index")


def _plain(given: Any) -> Any:
    return given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given


def _table_graph(x: NDArray[np.float64], edges: Any) -> Graph:
    """A graph of the rows; merged and checked as every edge list is."""
    if sparse.issparse(edges):
        return replace(Graph.from_scipy(edges), x=x)
    if edges is None:
        return Graph("table", np.empty((2, 0), dtype=np.int64), len(x), x=x)
    from torch_geometric.data import Data

    index = np.array(_plain(edges))
    if index.shape == (len(x), len(x)) and len(x) != 2:
        raise ShapeError(
            f"edges must be an edge index [2, E] or a sparse adjacency matrix; got a dense {index.shape}. "
            "Make it sparse: scipy.sparse.csr_array(edges)."
        )
    return replace(Graph.from_pyg(Data(edge_index=torch.from_numpy(index), num_nodes=len(x))), x=x)


def _remember_features(estimator: Any, graph: Graph) -> None:
    forget_feature_names(estimator)
    count_features(estimator, graph.num_features, reset=True)
    if graph.feature_names is not None:
        estimator.feature_names_in_ = np.array(graph.feature_names, dtype=object)


def _aligned(estimator: Any, graph: Graph) -> Graph:
    """The features in the order of `fit`, where both sides have names; others must not be there."""
    known = getattr(estimator, "feature_names_in_", None)
    if known is None or graph.feature_names is None or tuple(known) == graph.feature_names:
        return graph
    place = {name: number for number, name in enumerate(graph.feature_names)}
    missing = [name for name in known if name not in place]
    extra = sorted(place.keys() - set(known))
    if missing or extra:
        raise DataError(
            f"the features must be those of fit; missing: {', '.join(missing) or 'none'}; unknown: "
            f"{', '.join(extra) or 'none'}. Give the graph the same columns."
        )
    return replace(graph, x=graph.x[:, [place[name] for name in known]], feature_names=tuple(known))
