"""Graphs from pandas, NetworkX, SciPy and PyG, under the owner's ids.

Directed or repeated edges are merged as in `polynsd.data.edges`: values given for several copies of an
edge, such as its two directions, are averaged, and the report in the log says how many differed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.edges import MergedEdges, merge_edges
from polynsd.data.graph import Features, Graph
from polynsd.data.tables.assemble import assemble
from polynsd.data.tables.columns import finite_float32
from polynsd.data.tables.masks import read_masks
from polynsd.data.tables.options import ReadOptions
from polynsd.data.tables.report import log_report
from polynsd.data.tables.tables import ID, SOURCE, TARGET, Table
from polynsd.data.tables.weights import non_negative
from polynsd.errors import DataError, GraphError, ShapeError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data

logger = logging.getLogger("polynsd")


def from_pandas(
    edges: pd.DataFrame, nodes: pd.DataFrame | None = None, *, name: str = "graph", **options: Any
) -> Graph:
    """From an edge table and a node table; `options` are those of `ReadOptions`."""
    node_table = None if nodes is None else Table.from_frame(nodes, "nodes")
    edge_table = Table.from_frame(edges, "edges")
    graph, report = assemble(edge_table, node_table, ReadOptions.of(**options), name)
    log_report(name, report)
    return graph


def from_networkx(graph: nx.Graph, *, name: str = "graph", **options: Any) -> Graph:
    """From a NetworkX graph of any kind, its attributes taken as columns; `options` as in `ReadOptions`.

    Nodes must be integers or strings; they are the ids.
    """
    _require_simple_nodes(graph)
    triples = list(graph.edges(data=True))
    ends = {SOURCE: [edge[0] for edge in triples], TARGET: [edge[1] for edge in triples]}
    edges = Table.from_records("the edges of the NetworkX graph", ends, (edge[2] for edge in triples))
    ids, records = list(graph.nodes), (attributes for _, attributes in graph.nodes(data=True))
    nodes = Table.from_records("the nodes of the NetworkX graph", {ID: ids}, records)
    result, report = assemble(edges, nodes, ReadOptions.of(**options).with_reserved_ids(), name)
    log_report(name, report)
    return result


def from_scipy(adjacency: Any, x: Any = None, y: Any = None, *, name: str = "graph") -> Graph:
    """From a square matrix, sparse or dense; an entry of zero is no edge.

    Entries become edge weights unless all of them are 1; A_uv and A_vu are averaged where both are
    there.
    """
    matrix = sparse.csr_array(adjacency, copy=True)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"an adjacency matrix must be square; got shape {matrix.shape}.")
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"an adjacency matrix must hold real numbers; got {matrix.dtype}.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    entries, num_nodes = matrix.tocoo(), matrix.shape[0]
    weight = non_negative(finite_float32(entries.data, "the adjacency matrix"), "the adjacency matrix")
    given = None if (weight == 1).all() else weight
    edges = _logged(name, merge_edges(np.stack([entries.row, entries.col]), num_nodes, given))
    return Graph(
        name,
        edges.edge_index,
        num_nodes,
        x=None if x is None else _features(x, num_nodes),
        y=None if y is None else _labels(y, num_nodes),
        edge_weight=edges.weight,
    )


def from_pyg(data: Data, *, node_ids: Any = None, name: str | None = None) -> Graph:
    """From PyG's `Data`, with edges in one or both directions; its masks become the splits.

    The owner's ids are taken from `node_ids`, in the order of the rows, or from `data.node_ids`,
    where `to_pyg` leaves them, as it does `data.class_names` and `data.feature_names`.
    """
    node_ids = getattr(data, "node_ids", None) if node_ids is None else node_ids
    num_nodes = int(data.num_nodes or 0)
    weight, attr = (_edge_values(data, key) for key in ("edge_weight", "edge_attr"))
    if weight is not None:
        weight = non_negative(weight[:, 0], "edge_weight")
    name = name or getattr(data, "name", None) or "graph"
    edges = _logged(name, merge_edges(_pairs(data, num_nodes), num_nodes, weight, attr))
    graph = Graph(
        name,
        edges.edge_index,
        num_nodes,
        x=None if data.x is None else _features(_numpy(data.x), num_nodes),
        y=None if data.y is None else _labels(_numpy(data.y), num_nodes),
        masks=read_masks(data, num_nodes),
        edge_weight=edges.weight,
        edge_attr=edges.attr,
        node_ids=None if node_ids is None else _ids(node_ids, num_nodes),
    )
    return replace(graph, **_names(data, graph))


def _require_simple_nodes(graph: nx.Graph) -> None:
    is_id = [isinstance(node, int | str | np.integer) and not isinstance(node, bool) for node in graph]
    if not all(is_id):
        strange = list(graph)[is_id.index(False)]
        raise DataError(
            f"the nodes of a NetworkX graph must be integers or strings, as they are the ids; got "
            f"{strange!r}. Rename them, e.g. with networkx.relabel_nodes(graph, str)."
        )


def _logged(name: str, edges: MergedEdges) -> MergedEdges:
    logger.info("%s: %s", name, edges.report)
    return edges


def _numpy(tensor: Any) -> NDArray[Any]:
    dense = tensor.to_dense() if getattr(tensor, "is_sparse", False) else tensor
    return dense.detach().cpu().numpy()


def _pairs(data: Data, num_nodes: int) -> NDArray[Any]:
    """The given edges `[2, M]`, within range."""
    if data.edge_index is None:
        raise GraphError("data.edge_index was expected; it is missing. Convert adj_t to an edge_index first.")
    pairs = _numpy(data.edge_index)
    if pairs.ndim != 2 or len(pairs) != 2 or pairs.dtype.kind not in "iu":
        raise GraphError(
            f"edge_index must be integers of shape [2, E]; got {pairs.dtype} {list(pairs.shape)}."
        )
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < num_nodes:
        raise GraphError(
            f"edge_index must hold node numbers from 0 to {num_nodes - 1}; got {pairs.min()} to "
            f"{pairs.max()}. Renumber the nodes, or set num_nodes."
        )
    return pairs


def _edge_values(data: Data, key: str) -> NDArray[np.float32] | None:
    """Edge weights or features `[M, k]`."""
    tensor = getattr(data, key, None)
    if tensor is None:
        return None
    values = finite_float32(_numpy(tensor), key)
    rows = data.edge_index.shape[1] if data.edge_index is not None else 0
    width = values.shape[1:]
    if len(values) != rows or len(width) > 1 or (key == "edge_weight" and width not in ((), (1,))):
        raise ShapeError(f"{key} needs one row per column of edge_index ({rows}); got {list(values.shape)}.")
    return values.reshape(rows, *(width or (1,)))


def _names(data: Data, graph: Graph) -> dict[str, Any]:
    """The names of classes and features that `data` carries, if there are as many as it takes."""
    counts = {"class_names": graph.num_classes, "feature_names": graph.num_features}
    given = {key: tuple(map(str, getattr(data, key, None) or ())) for key in counts}
    fitting = {key: names for key, names in given.items() if len(names) == counts[key] and names}
    if len(given["class_names"]) > graph.num_classes > 0:
        fitting["class_names"] = given["class_names"]  # not every class needs to have nodes
    for key in given.keys() - fitting.keys():
        if given[key]:
            logger.warning("%s: %s are left out: %d for %d.", graph.name, key, len(given[key]), counts[key])
    return fitting


def _features(x: Any, num_nodes: int) -> Features:
    values: Features = sparse.csr_matrix(x, dtype=np.float32) if sparse.issparse(x) else np.asarray(x)
    if values.ndim != 2 or values.shape[0] != num_nodes:
        raise ShapeError(f"x must have shape [{num_nodes}, num_features]; got {list(values.shape)}.")
    if not sparse.issparse(values):
        return finite_float32(values, "x")
    finite_float32(values.data, "x")
    return values


def _labels(y: Any, num_nodes: int) -> NDArray[Any]:
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (num_nodes,) or values.dtype.kind not in "biuf":
        raise ShapeError(
            f"y must be one class number or target per node, shape [{num_nodes}]; got {values.dtype} "
            f"{list(values.shape)}."
        )
    if values.dtype.kind == "f":
        return finite_float32(values, "y", allow_nan=True)
    classes = values.astype(np.int64)
    if classes.size and classes.min() < -1:
        raise DataError(f"class numbers begin at 0, and −1 means unlabelled; got {classes.min()}.")
    return classes


def _ids(node_ids: Any, num_nodes: int) -> NDArray[Any]:
    ids = np.asarray(node_ids)
    if ids.shape != (num_nodes,) or ids.dtype.kind not in "iuU" or np.unique(ids).size != num_nodes:
        raise DataError(
            f"node_ids must be {num_nodes} different integers or strings; got {ids.dtype} {list(ids.shape)}."
        )
    return ids
