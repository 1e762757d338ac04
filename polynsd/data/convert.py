"""Graphs from PyG and SciPy, and to PyG, pandas and NetworkX, under the user's ids.

    graph = Graph.from_pyg(data);  data = graph.to_pyg()      # the methods of `Graph` are these functions

Directed or repeated edges are merged by `polynsd.data.edges.merge_edges`: values given for several copies of
an edge, such as its two directions, are averaged, and the report in the log says how many differed. Only PyG
gets the splits. In pandas and NetworkX several targets are called label_0, label_1, …; features without names
x0, x1, …; edge features edge_attr0, …. `polynsd.data.tables.read` is the way back.
"""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.edges import MergedEdges, merge_edges
from polynsd.data.graph import Graph
from polynsd.data.splits import mask_keys, read_masks
from polynsd.data.validation import check_arrays, finite_float32, require_non_negative
from polynsd.errors import ConfigError, DataError, GraphError, ShapeError
from polynsd.optional import load_table_package
from polynsd.sparse import is_sparse, to_scipy, to_tensor

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data

logger = logging.getLogger("polynsd")


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


def to_pyg(graph: Graph, *, keep_sparse: bool = False) -> Data:
    """PyG's `Data` with copies of everything; ids and names as attributes, extras left out.

    Both directions of every edge are there, features are dense unless they shall stay sparse, and masks have
    the shape [N, S]: those of `default` as `train_mask`, …, those of a protocol `public` as
    `public_train_mask`, ….
    """
    from torch_geometric.data import Data

    once = torch.from_numpy(graph.edge_index.astype(np.int64))
    data = Data(edge_index=torch.cat([once, once.flip(0)], 1), num_nodes=graph.num_nodes, name=graph.name)
    if keep_sparse and sparse.issparse(graph.x):
        data.x = to_tensor(graph.x, torch.float32)
    elif graph.x is not None:
        data.x = _copy_tensor(graph.dense_x).float()
    if graph.y is not None:
        data.y = _copy_tensor(graph.y)
    for key in ("edge_weight", "edge_attr"):
        values = getattr(graph, key)
        if values is not None:
            setattr(data, key, _copy_tensor(np.concatenate([values, values])))
    for key in ("node_ids", "class_names", "feature_names"):
        if getattr(graph, key) is not None:
            setattr(data, key, copy(getattr(graph, key)))
    for protocol, masks in graph.masks.items():
        for key, mask in zip(mask_keys(protocol), masks.parts, strict=True):
            setattr(data, key, _copy_tensor(mask.T))
    return data


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


def to_pandas(graph: Graph, id_column: str = "id", label: str = "label") -> tuple[pd.DataFrame, pd.DataFrame]:
    """The edge table (source, target, …) and the node table (id, features, label).

    Classes come as an ordered categorical under their names, with gaps where there is no label.
    """
    pd = load_table_package("pandas")
    source, target = graph.ids[graph.edge_index]
    edges = pd.DataFrame({"source": source, "target": target, **_edge_columns(graph)})
    names, labels = _feature_names(graph), _label_columns(graph, label)
    _require_free([id_column, label, *labels], names)
    nodes = pd.DataFrame(graph.dense_x, columns=names, index=range(graph.num_nodes))
    nodes.insert(0, id_column, graph.ids)
    for column, values in labels.items():
        if graph.is_regression:
            nodes[column] = values
        elif graph.class_names is None:
            nodes[column] = pd.Series(values, dtype="Int64").mask(values == -1)
        else:
            nodes[column] = pd.Categorical.from_codes(values, graph.class_names, ordered=True)
    return edges, nodes


def to_networkx(graph: Graph, label: str = "label") -> nx.Graph:
    """A NetworkX graph whose nodes are the user's ids; unlabelled nodes have no attribute `label`."""
    import networkx as nx

    result, ids, names = nx.Graph(name=graph.name), graph.ids.tolist(), _feature_names(graph)
    labels = _label_columns(graph, label)
    _require_free([label, *labels], names)
    result.add_nodes_from(ids)
    for node, row in zip(ids, graph.dense_x.tolist(), strict=True):
        result.nodes[node].update(zip(names, row, strict=True))
    for key, values in labels.items():
        has_label = ~np.isnan(values) if graph.is_regression else values >= 0
        for row in np.flatnonzero(has_label).tolist():
            value = values[row].item()
            result.nodes[ids[row]][key] = graph.class_names[value] if graph.class_names else value
    columns = _edge_columns(graph)
    rows = np.stack(list(columns.values()), 1).tolist() if columns else [()] * graph.num_edges
    for (u, v), values in zip(graph.edge_index.T.tolist(), rows, strict=True):
        result.add_edge(ids[u], ids[v], **dict(zip(columns, values, strict=True)))
    return result


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


def _to_numpy(tensor: Any) -> Any:
    """An array, or SciPy's matrix of a sparse tensor."""
    return to_scipy(tensor) if is_sparse(tensor) else tensor.detach().cpu().numpy()


def _copy_tensor(values: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(values, order="C"))


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
    result = {}
    for key, count in (("class_names", graph.num_classes), ("feature_names", graph.num_features)):
        names = tuple(map(str, getattr(data, key, None) or ()))
        # not every class needs to have nodes
        if names and (len(names) == count or (key == "class_names" and len(names) > count > 0)):
            result[key] = names
        elif names:
            logger.warning("%s: %s are left out: %d for %d.", graph.name, key, len(names), count)
    return result


def _edge_columns(graph: Graph) -> dict[str, Any]:
    columns = {} if graph.edge_weight is None else {"weight": graph.edge_weight}
    if graph.edge_attr is not None:
        columns |= {f"edge_attr{i}": values for i, values in enumerate(graph.edge_attr.T)}
    return columns


def _feature_names(graph: Graph) -> list[str]:
    return list(graph.feature_names or (f"x{i}" for i in range(graph.num_features)))


def _label_columns(graph: Graph, label: str) -> dict[str, NDArray[Any]]:
    """The labels under their name; targets [N, T] as a column each."""
    if graph.y is None:
        return {}
    if graph.y.ndim == 1:
        return {label: graph.y}
    return {f"{label}_{i}": target for i, target in enumerate(graph.y.T)}


def _require_free(reserved: list[str], features: list[str]) -> None:
    taken = sorted(set(reserved) & set(features))
    if taken:
        raise ConfigError(
            f"a feature is already called {taken[0]!r}; choose another name, e.g. id_column='node' or "
            "label='class'."
        )
