"""Graphs and predictions to pandas, NetworkX, PyG and files, under the user's ids and class names.

Only PyG gets the splits. Several targets are called label_0, label_1, …; features without names x0,
x1, …; edge features edge_attr0, ….
"""

from __future__ import annotations

import logging
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS
from polynsd.data.tables.files import (
    GRAPHML,
    TABLE_EXTENSIONS,
    FilePath,
    explain_write_errors,
    extension_of,
    write_table,
)
from polynsd.data.tables.table import finite_float32, load
from polynsd.errors import ConfigError, ShapeError, require_choice

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data

ARCHIVE = ".npz"

logger = logging.getLogger("polynsd")


def to_pandas(graph: Graph, id_column: str = "id", label: str = "label") -> tuple[pd.DataFrame, pd.DataFrame]:
    """The edge table (source, target, …) and the node table (id, features, label).

    Classes come as an ordered categorical under their names, with gaps where there is no label.
    """
    pd = load("pandas")
    source, target = graph.ids[graph.edge_index]
    edges = pd.DataFrame({"source": source, "target": target, **_edge_columns(graph)})
    names = _feature_names(graph)
    labels = _label_columns(graph, label)
    _require_free([id_column, label, *labels], names)
    nodes = (
        pd.DataFrame(graph.dense_x, columns=names) if names else pd.DataFrame(index=range(graph.num_nodes))
    )
    nodes.insert(0, id_column, graph.ids)
    for column, values in labels.items():
        nodes[column] = _label_series(graph, values)
    return edges, nodes


def to_networkx(graph: Graph, label: str = "label") -> nx.Graph:
    """A NetworkX graph whose nodes are the user's ids; unlabelled nodes have no attribute `label`."""
    import networkx as nx

    result, ids, names = nx.Graph(name=graph.name), graph.ids.tolist(), _feature_names(graph)
    labels = _label_columns(graph, label)
    _require_free([label, *labels], names)
    result.add_nodes_from(ids)
    for node, row in zip(ids, graph.dense_x.tolist() if names else (), strict=False):
        result.nodes[node].update(zip(names, row, strict=True))
    for key, values in labels.items():
        has_label = ~np.isnan(values) if graph.is_regression else values >= 0
        for row in np.flatnonzero(has_label).tolist():
            value = values[row].item()
            result.nodes[ids[row]][key] = graph.class_names[value] if graph.class_names else value
    columns = _edge_columns(graph)
    rows = zip(*(values.tolist() for values in columns.values()), strict=True) if columns else None
    for u, v in graph.edge_index.T.tolist():
        result.add_edge(ids[u], ids[v], **dict(zip(columns, next(rows), strict=True)) if rows else {})
    return result


def to_pyg(graph: Graph) -> Data:
    """PyG's `Data` with copies of everything; ids and names as attributes, extras left out.

    Both directions of every edge are there, features are dense, and masks have the shape [N, S]:
    those of `default` as `train_mask`, …, those of a protocol `public` as `public_train_mask`, ….
    """
    from torch_geometric.data import Data

    once = torch.from_numpy(graph.edge_index.astype(np.int64))
    data = Data(edge_index=torch.cat([once, once.flip(0)], 1), num_nodes=graph.num_nodes, name=graph.name)
    if graph.x is not None:
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
        prefix = "" if protocol == "default" else f"{protocol}_"
        for part in PARTS:
            setattr(data, f"{prefix}{part}_mask", _copy_tensor(getattr(masks, part).T))
    return data


def predictions_table(graph: Graph, values: Any) -> pd.DataFrame:
    """A row per node: `id`, `prediction`, and one column of probabilities per class.

    Args:
        graph: the graph that was predicted.
        values: probabilities `[N, C]`, the prediction being the class of the largest; for regression
            the predicted values `[N]`. Arrays or tensors.

    A class called "id" or "prediction" has its probabilities under "class id" or "class prediction".
    """
    pd = load("pandas")
    values = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    numbers = finite_float32(values, "predictions")
    if graph.is_regression or (graph.y is None and numbers.ndim == 1):
        _require_shape(numbers, (graph.num_nodes,), (graph.num_nodes, 1))
        return pd.DataFrame({"id": graph.ids, "prediction": numbers.reshape(-1)})
    num_classes = numbers.shape[1] if numbers.ndim == 2 else 0
    names = (graph.class_names or tuple(map(str, range(num_classes))))[:num_classes]
    _require_shape(numbers, (graph.num_nodes, max(len(names), graph.num_classes)))
    columns = [f"class {name}" if name in ("id", "prediction") else name for name in names]
    table = pd.DataFrame(numbers, columns=columns)
    table.insert(0, "id", graph.ids)
    table.insert(1, "prediction", np.array(names, dtype=object)[numbers.argmax(axis=1)])
    return table


def write_graph(graph: Graph, path: FilePath) -> list[Path]:
    """Writes the graph by extension (tables, GraphML, `.npz`) and returns the files.

    Tables are two files, the edges at `path` and the nodes beside it: `edges.csv` and `edges_nodes.csv`.
    Only archives hold the splits; for the other formats the log says what was left out.
    """
    path, extension = Path(path), extension_of(path)
    require_choice("file extension", extension, (*TABLE_EXTENSIONS, GRAPHML, ARCHIVE))
    if extension == ARCHIVE:
        from polynsd.data.datasets.archive import save_graph

        with explain_write_errors(path):
            save_graph(path, graph)
        return [path]
    if graph.masks or graph.extras:
        logger.warning("%s holds no splits and extras; write a %s file to keep them.", path.name, ARCHIVE)
    if extension == GRAPHML:
        import networkx as nx

        with explain_write_errors(path):
            nx.write_graphml(to_networkx(graph), path)
        return [path]
    nodes_path = path.with_name(f"{path.name[: -len(extension)]}_nodes{extension}")
    for table, file in zip(to_pandas(graph), (path, nodes_path), strict=True):
        write_table(table, file)
    return [path, nodes_path]


def _require_shape(numbers: NDArray[np.float32], *shapes: tuple[int, ...]) -> None:
    if numbers.shape not in shapes or not numbers.size:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        raise ShapeError(
            f"predictions must have shape {wanted} for this graph; got {list(numbers.shape)}. Give one row "
            "per node and one column per class."
        )


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


def _label_series(graph: Graph, values: NDArray[Any]) -> Any:
    """The labels as a pandas Series, missing where there is none."""
    pd = load("pandas")
    if graph.is_regression:
        return pd.Series(values)
    if graph.class_names is None:
        return pd.Series(values, dtype="Int64").mask(values == -1)
    return pd.Series(pd.Categorical.from_codes(values, graph.class_names, ordered=True))


def _require_free(reserved: list[str], features: list[str]) -> None:
    taken = sorted(set(reserved) & set(features))
    if taken:
        raise ConfigError(
            f"a feature is already called {taken[0]!r}; choose another name, e.g. id_column='node' or "
            "label='class'."
        )


def _copy_tensor(values: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(values, order="C"))
