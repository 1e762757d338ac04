"""Graphs back to pandas and NetworkX: the owner's ids, class names, features, weights.

Splits are not exported. Features without names are called x0, x1, …; edge features edge_attr0, ….
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from polynsd.data.graph import Graph
from polynsd.data.own.optional import load
from polynsd.errors import ConfigError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd


def to_pandas(graph: Graph, id_column: str = "id", label: str = "label") -> tuple[pd.DataFrame, pd.DataFrame]:
    """The edge table (source, target, …) and the node table (id, features, label).

    Classes come as an ordered categorical under their names, with gaps where there is no label.
    """
    pd = load("pandas")
    source, target = graph.ids[graph.edge_index]
    edges = pd.DataFrame({"source": source, "target": target, **_edge_columns(graph)})
    names = _feature_names(graph)
    _require_free([id_column, label], names)
    nodes = (
        pd.DataFrame(_dense(graph), columns=names) if names else pd.DataFrame(index=range(graph.num_nodes))
    )
    nodes.insert(0, id_column, graph.ids)
    if graph.y is not None:
        nodes[label] = _label_column(graph)
    return edges, nodes


def to_networkx(graph: Graph, label: str = "label") -> nx.Graph:
    """A NetworkX graph whose nodes are the owner's ids; unlabelled nodes have no attribute `label`."""
    import networkx as nx

    result, ids, names = nx.Graph(name=graph.name), graph.ids.tolist(), _feature_names(graph)
    _require_free([label], names)
    result.add_nodes_from(ids)
    for node, row in zip(ids, _dense(graph).tolist() if names else (), strict=False):
        result.nodes[node].update(zip(names, row, strict=True))
    for row, value in _known_labels(graph):
        result.nodes[ids[row]][label] = value
    columns = _edge_columns(graph)
    rows = zip(*(values.tolist() for values in columns.values()), strict=True) if columns else None
    for u, v in graph.edge_index.T.tolist():
        result.add_edge(ids[u], ids[v], **dict(zip(columns, next(rows), strict=True)) if rows else {})
    return result


def _edge_columns(graph: Graph) -> dict[str, Any]:
    columns = {} if graph.edge_weight is None else {"weight": graph.edge_weight}
    if graph.edge_attr is not None:
        columns |= {f"edge_attr{i}": values for i, values in enumerate(graph.edge_attr.T)}
    return columns


def _feature_names(graph: Graph) -> list[str]:
    return list(graph.feature_names or (f"x{i}" for i in range(graph.num_features)))


def _dense(graph: Graph) -> Any:
    return graph.x.toarray() if sparse.issparse(graph.x) else graph.x


def _label_column(graph: Graph) -> Any:
    """The labels as a pandas Series, missing where there is none."""
    pd = load("pandas")
    if graph.is_regression:
        return pd.Series(graph.y)
    if graph.class_names is None:
        return pd.Series(graph.y, dtype="Int64").mask(graph.y == -1)
    return pd.Series(pd.Categorical.from_codes(graph.y, graph.class_names, ordered=True))


def _known_labels(graph: Graph) -> Iterator[tuple[int, Any]]:
    """The row and the label (class name, class number or target) of every labelled node."""
    if graph.y is None:
        return
    known = ~np.isnan(graph.y) if graph.is_regression else graph.y >= 0
    for row in np.flatnonzero(known).tolist():
        value = graph.y[row].item()
        yield row, graph.class_names[value] if graph.class_names else value


def _require_free(reserved: list[str], features: list[str]) -> None:
    taken = sorted(set(reserved) & set(features))
    if taken:
        raise ConfigError(
            f"a feature is already called {taken[0]!r}; choose another name, e.g. id_column='node' or "
            "label='class'."
        )
