"""What an estimator is given, as a `Graph`.

An estimator takes a graph, PyG's `Data`, a NetworkX graph, a pair (x, edges) or a plain table of features: an
array, a sparse matrix, or a DataFrame. Columns of a DataFrame and attributes of a NetworkX graph that are no
plain numbers are encoded as those of files are (`polynsd.data.tables`): categories one-hot, dates as days,
gaps filled and marked. The encoders are kept in `column_encoders_`, so that other graphs are read alike. A
graph without features gets numbers of its structure (`structure.py`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data import Graph
from polynsd.errors import DataError, GraphError, ShapeError
from polynsd.estimator.features import Matrix
from polynsd.estimator.inputs import make_adjacency
from polynsd.estimator.sklearn_compat import check_table, count_features
from polynsd.estimator.structure import COLUMNS, describe_structure
from polynsd.sparse import is_sparse, to_scipy

logger = logging.getLogger("polynsd")

LARGEST = float(np.finfo(np.float32).max)


def as_graph(
    estimator: Any, given: Any, edges: Any = None, *, reset: bool = False, label: str | None = None
) -> Graph:
    """The graph of what was given.

    Args:
        estimator: remembers (`reset`), or has remembered, the number, names and encoders of the features.
        given: a `Graph`; PyG's `Data`; a NetworkX graph; a pair (x, edges); or a table of features `[n, F]`.
        edges: with a table: an edge index `[2, E]` or SciPy's sparse adjacency matrix `[n, n]`; none by
            default.
        reset: whether this is `fit`.
        label: the attribute of a NetworkX graph that holds the labels.
    """
    if isinstance(given, tuple) and len(given) == 2:
        given, edges = given
    if reset:  # what an earlier fit remembered
        for name in ("column_encoders_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    is_networkx = _is_networkx(given)
    if label is not None and not is_networkx:
        raise DataError(f"y={label!r} names an attribute of a NetworkX graph; give the labels themselves.")
    if not is_networkx and not _has_edges(given):
        graph = _read_table(estimator, given, edges, reset)
    elif edges is not None:
        raise GraphError("the graph has edges of its own; leave edges out, or give its features alone.")
    elif is_networkx:
        graph = _read_networkx(estimator, given, label, reset)
    else:
        graph = given if isinstance(given, Graph) else Graph.from_pyg(given)
        graph = _match_features(estimator, _fill_features(graph, reset), reset)
    _check_magnitude(graph.x)
    return graph


def is_table(given: Any, edges: Any = None) -> bool:
    """Whether this is a plain table of features: no graph, no edges."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return edges is None and not is_pair and not _has_edges(given) and not _is_networkx(given)


def _has_edges(given: Any) -> bool:
    return isinstance(given, Graph) or hasattr(given, "edge_index")


def _is_networkx(given: Any) -> bool:
    return hasattr(given, "nodes") and hasattr(given, "edges") and hasattr(given, "adj")


def _fill_features(graph: Graph, reset: bool) -> Graph:
    """The graph, with numbers of its structure as features where it has no others, which `fit` tells."""
    if graph.x is not None:
        return graph
    if not graph.num_edges:
        raise DataError(f"a model needs features or edges; '{graph.name}' has neither. Give it some.")
    if reset:
        columns = ", ".join(COLUMNS)
        logger.warning("%s has no features of nodes; %s of every node are used.", graph.name, columns)
    x = describe_structure(make_adjacency(graph, "plain"))
    return replace(graph, x=x, feature_names=COLUMNS)


def _check_magnitude(x: Matrix) -> None:
    values = x.data if sparse.issparse(x) else x
    if values.dtype == np.float64 and values.size and max(values.max(), -values.min()) > LARGEST:
        raise DataError(f"features must be at most {LARGEST:.1e} in size; some are larger. Rescale them.")


def _match_features(estimator: Any, graph: Graph, reset: bool) -> Graph:
    """Remembers the features, or puts them in the order of `fit`."""
    if reset:
        count_features(estimator, graph.num_features, reset=True)
        if graph.feature_names is not None:
            estimator.feature_names_in_ = np.array(graph.feature_names, dtype=object)
        return graph
    _require_plain_features(estimator)
    graph = _align_features(estimator, graph)
    count_features(estimator, graph.num_features, reset)
    return graph


def _align_features(estimator: Any, graph: Graph) -> Graph:
    """The graph with its features in the order of `fit`, where both have names, which must be the same."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or graph.feature_names is None or tuple(names) == graph.feature_names:
        return graph
    column = {name: number for number, name in enumerate(graph.feature_names)}
    missing = [name for name in names if name not in column]
    extra = sorted(column.keys() - set(names))
    if missing or extra:
        raise DataError(
            f"the features must be those of fit; missing: {', '.join(missing) or 'none'}; unknown: "
            f"{', '.join(extra) or 'none'}. Give the graph the same columns."
        )
    return replace(graph, x=graph.x[:, [column[name] for name in names]], feature_names=tuple(names))


def _require_plain_features(estimator: Any) -> None:
    """Raises if `fit` has encoded columns, which then must be named again."""
    encoders = getattr(estimator, "column_encoders_", None)
    if encoders is not None:
        names = ", ".join(encoder.column for encoder in encoders)
        raise DataError(f"the model was fitted on the columns {names}; give a table or graph that has them.")


def _read_table(estimator: Any, given: Any, edges: Any, reset: bool) -> Graph:
    is_frame = all(hasattr(given, name) for name in ("columns", "dtypes", "reset_index"))
    if is_frame and (_needs_encoding(given) if reset else hasattr(estimator, "column_encoders_")):
        x, names = _encode_frame(estimator, given, reset)
        return replace(_table_graph(x, edges), feature_names=names)
    _require_plain_features(estimator)
    return _table_graph(check_table(estimator, _to_array(given), reset), edges)


def _needs_encoding(frame: Any) -> bool:
    """Whether a column of a DataFrame holds anything but numbers, or has gaps."""
    is_number = all(getattr(dtype, "kind", "O") in "iuf" for dtype in frame.dtypes)
    return not is_number or bool(frame.isna().to_numpy().any())


def _encode_frame(estimator: Any, frame: Any, reset: bool) -> tuple[Matrix, tuple[str, ...]]:
    from polynsd.data.tables.features import encode_columns
    from polynsd.data.tables.problems import Problems
    from polynsd.data.tables.schema import ReadOptions
    from polynsd.data.tables.table import Table

    table, problems = Table.from_frame(frame.reset_index(drop=True), "X"), Problems()
    encoders = None if reset else estimator.column_encoders_
    encoded = encode_columns(table, table.columns, ReadOptions(), encoders, "ignore", problems=problems)
    problems.check()
    if encoded.values is None:
        raise DataError("X has no column of which a feature could be made. Give it another one.")
    for line in encoded.describe():
        logger.info("X: %s", line)
    for reason in encoded.left_out.values():
        logger.warning("left out: %s", reason)
    _warn_of_unseen(encoded.count("unseen"))
    if reset:
        _remember_columns(estimator, encoded.encoders, table.columns)
    return encoded.values, encoded.feature_names


def _read_networkx(estimator: Any, given: Any, label: str | None, reset: bool) -> Graph:
    """The graph of a NetworkX graph, its attribute `weight` taken as the weights of edges."""
    from polynsd.data.tables.read import read_networkx
    from polynsd.data.tables.schema import ReadOptions, TableSchema

    weight = "weight" if any("weight" in attributes for *_, attributes in given.edges(data=True)) else None
    options = ReadOptions(label=label, weight=weight)
    schema = None
    if not reset:
        encoders = getattr(estimator, "column_encoders_", None)
        if encoders is None:
            raise DataError(
                "the model was not fitted on a NetworkX graph; give it what fit got, or "
                "Graph.from_networkx(…) with the same features."
            )
        schema = TableSchema(options, encoders)
    result = read_networkx(given, options, getattr(given, "name", "") or "graph", schema, "ignore")
    result.report.log(result.graph.name)
    _warn_of_unseen(result.unseen)
    graph = _fill_features(result.graph, reset)
    if reset:
        encoders = result.schema.node_features
        _remember_columns(estimator, encoders, [encoder.column for encoder in encoders])
    return graph


def _warn_of_unseen(unseen: Any) -> None:
    for column, count in unseen.items():
        logger.warning("column '%s': %d rows hold a category that fit has not seen.", column, count)


def _remember_columns(estimator: Any, encoders: Any, columns: list[str]) -> None:
    count_features(estimator, len(columns), reset=True)
    estimator.feature_names_in_ = np.array(columns, dtype=object)
    estimator.column_encoders_ = tuple(encoders)


def _to_array(given: Any) -> Any:
    if not isinstance(given, torch.Tensor):
        return given
    return to_scipy(given) if is_sparse(given) else given.detach().cpu().numpy()


def _table_graph(x: Matrix, edges: Any) -> Graph:
    """A graph of the rows; merged and checked as every edge list is."""
    num_nodes = x.shape[0]
    if sparse.issparse(edges):
        graph = Graph.from_scipy(edges)
        if graph.num_nodes != num_nodes:
            raise ShapeError(
                f"edges must join the {num_nodes} rows of the features; got a matrix of "
                f"{graph.num_nodes} rows."
            )
        return replace(graph, x=x)
    if edges is None:
        return Graph("table", np.empty((2, 0), dtype=np.int64), num_nodes, x=x)
    from torch_geometric.data import Data

    index: NDArray[Any] = np.array(_to_array(edges))
    if index.shape == (num_nodes, num_nodes) and num_nodes != 2:
        raise ShapeError(
            f"edges must be an edge index [2, E] or a sparse adjacency matrix; got a dense {index.shape}. "
            "Make it sparse: scipy.sparse.csr_array(edges)."
        )
    return replace(Graph.from_pyg(Data(edge_index=torch.from_numpy(index), num_nodes=num_nodes)), x=x)
