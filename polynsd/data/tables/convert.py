"""Graphs from pandas, NetworkX, SciPy and PyG, under the user's ids.

Directed or repeated edges are merged by `polynsd.data.edges.merge_edges`: values given for several copies of
an edge, such as its two directions, are averaged, and the report in the log says how many differed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.edges import MergedEdges, merge_edges
from polynsd.data.graph import Graph
from polynsd.data.splits import read_masks
from polynsd.data.tables.features import require_non_negative
from polynsd.data.tables.options import ID, SOURCE, TARGET, ReadOptions
from polynsd.data.tables.read import build_graph
from polynsd.data.tables.table import Table, finite_float32
from polynsd.data.validation import check_arrays
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
    result = build_graph(edge_table, node_table, ReadOptions.from_keywords(**options), name)
    result.report.log(name)
    return result.graph


def from_networkx(graph: nx.Graph, *, name: str = "graph", **options: Any) -> Graph:
    """From a NetworkX graph of any kind, its attributes taken as columns; `options` as in `ReadOptions`.

    Nodes must be integers or strings; they are the ids.
    """
    for node in graph.nodes:
        if not isinstance(node, int | str | np.integer) or isinstance(node, bool):
            raise DataError(
                f"the nodes of a NetworkX graph must be integers or strings, as they are the ids; got "
                f"{node!r}. Rename them, e.g. with networkx.relabel_nodes(graph, str)."
            )
    triples = list(graph.edges(data=True))
    ends = {SOURCE: [edge[0] for edge in triples], TARGET: [edge[1] for edge in triples]}
    attributes = [edge[2] for edge in triples]
    edges = Table.from_records("the edges of the NetworkX graph", ends, attributes)
    ids, attributes = list(graph.nodes), [attributes for _, attributes in graph.nodes(data=True)]
    nodes = Table.from_records("the nodes of the NetworkX graph", {ID: ids}, attributes)
    result = build_graph(edges, nodes, ReadOptions.from_keywords(**options).with_reserved_ids(), name)
    result.report.log(name)
    return result.graph


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
    origin = "the adjacency matrix"
    weight = require_non_negative(finite_float32(entries.data, origin), origin)
    pairs = np.stack([entries.row, entries.col])
    edges = merge_edges(pairs, num_nodes, None if (weight == 1).all() else weight)
    return _make_graph(name, edges, num_nodes, x, y)


def from_pyg(data: Data, *, node_ids: Any = None, name: str | None = None) -> Graph:
    """From PyG's `Data`, with edges in one or both directions; its masks become the splits.

    The user's ids are taken from `node_ids`, in the order of the rows, or from `data.node_ids`,
    where `to_pyg` leaves them, as it does `data.class_names` and `data.feature_names`.
    """
    name = name or getattr(data, "name", None) or "graph"
    num_nodes = int(data.num_nodes or 0)
    weight, attr = (_read_edge_values(data, key) for key in ("edge_weight", "edge_attr"))
    if weight is not None:
        weight = require_non_negative(weight[:, 0], "edge_weight")
    edges = merge_edges(_read_pairs(data, num_nodes), num_nodes, weight, attr)
    x, y = (None if values is None else _to_numpy(values) for values in (data.x, data.y))
    graph = _make_graph(name, edges, num_nodes, x, y)
    node_ids = getattr(data, "node_ids", None) if node_ids is None else node_ids
    graph = replace(
        graph,
        masks=read_masks(data),
        node_ids=None if node_ids is None else np.asarray(node_ids),
        **_read_names(data, graph),
    )
    check_arrays(graph)
    return graph


def _make_graph(name: str, edges: MergedEdges, num_nodes: int, x: Any, y: Any) -> Graph:
    """A graph with features `[N, F]` and with labels or targets `[N]`, `[N, 1]` or `[N, T]`, checked."""
    logger.info("%s: %s", name, edges.report)
    with np.errstate(over="ignore"):  # what does not fit into float32 is infinite, which is found below
        if x is not None:
            x = sparse.csr_matrix(x, dtype=np.float32) if sparse.issparse(x) else np.asarray(x, np.float32)
        if y is not None:
            y = np.asarray(y)
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
            if y.dtype.kind in "biuf":
                y = y.astype(np.float32 if y.dtype.kind == "f" else np.int64)
    graph = Graph(name, edges.edge_index, num_nodes, x, y, edge_weight=edges.weight, edge_attr=edges.attr)
    check_arrays(graph)
    return graph


def _to_numpy(tensor: Any) -> NDArray[Any]:
    dense = tensor.to_dense() if getattr(tensor, "is_sparse", False) else tensor
    return dense.detach().cpu().numpy()


def _read_pairs(data: Data, num_nodes: int) -> NDArray[Any]:
    """The given edges `[2, M]`, within range."""
    if data.edge_index is None:
        raise GraphError("data.edge_index was expected; it is missing. Convert adj_t to an edge_index first.")
    pairs = _to_numpy(data.edge_index)
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


def _read_edge_values(data: Data, key: str) -> NDArray[np.float32] | None:
    """Edge weights or features `[M, k]`."""
    tensor = getattr(data, key, None)
    if tensor is None:
        return None
    values = finite_float32(_to_numpy(tensor), key)
    rows = data.edge_index.shape[1] if data.edge_index is not None else 0
    width = values.shape[1:]
    if len(values) != rows or len(width) > 1 or (key == "edge_weight" and width not in ((), (1,))):
        raise ShapeError(f"{key} needs one row per column of edge_index ({rows}); got {list(values.shape)}.")
    return values.reshape(rows, *(width or (1,)))


def _read_names(data: Data, graph: Graph) -> dict[str, Any]:
    """The names of classes and features that `data` carries, if there are as many as it takes."""
    names = {}
    for key, count in (("class_names", graph.num_classes), ("feature_names", graph.num_features)):
        given = tuple(map(str, getattr(data, key, None) or ()))
        # not every class needs to have nodes
        if len(given) == count or (key == "class_names" and len(given) > count > 0):
            names[key] = given
        elif given:
            logger.warning("%s: %s are left out: %d for %d.", graph.name, key, len(given), count)
    return {key: given for key, given in names.items() if given}
