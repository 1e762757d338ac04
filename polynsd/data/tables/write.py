"""Graphs and predictions as files, under the user's ids and class names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.convert import to_networkx, to_pandas
from polynsd.data.graph import Graph
from polynsd.data.tables.files import (
    GRAPHML,
    TABLE_EXTENSIONS,
    FilePath,
    explain_write_errors,
    extension_of,
    write_table,
)
from polynsd.data.validation import finite_float32
from polynsd.errors import ShapeError, require_choice
from polynsd.optional import load_table_package

if TYPE_CHECKING:
    import pandas as pd

ARCHIVE = ".npz"

logger = logging.getLogger("polynsd")


def predictions_table(graph: Graph, values: Any) -> pd.DataFrame:
    """A row per node: `id`, `prediction`, and one column of probabilities per class.

    Args:
        graph: the graph that was predicted.
        values: probabilities `[N, C]`, the prediction being the class of the largest; for regression
            the predicted values `[N]`. Arrays or tensors.

    A class called "id" or "prediction" has its probabilities under "class id" or "class prediction".
    """
    pd = load_table_package("pandas")
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
