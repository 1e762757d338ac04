"""Predictions as a table, under the owner's ids and class names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.graph import Graph
from polynsd.data.tables.columns import finite_float32
from polynsd.data.tables.optional import load
from polynsd.errors import ShapeError

if TYPE_CHECKING:
    import pandas as pd

RESERVED = ("id", "prediction")


def predictions_table(graph: Graph, values: Any) -> pd.DataFrame:
    """A row per node: `id`, `prediction`, and one column of probabilities per class.

    Args:
        graph: the graph that was predicted.
        values: probabilities `[N, C]`, the prediction being the class of the largest; for regression
            the predicted values `[N]`. Arrays or tensors.

    A class called "id" or "prediction" has its probabilities under "class id" or "class prediction".
    """
    pd = load("pandas")
    numbers = finite_float32(_numpy(values), "predictions")
    if graph.is_regression or (graph.y is None and numbers.ndim == 1):
        _require_shape(numbers.shape, ((graph.num_nodes,), (graph.num_nodes, 1)))
        return pd.DataFrame({"id": graph.ids, "prediction": numbers.reshape(-1)})
    names = _class_names(graph, numbers)
    _require_shape(numbers.shape, ((graph.num_nodes, max(len(names), graph.num_classes)),))
    winners = np.array(names, dtype=object)[numbers.argmax(axis=1)]
    columns = [f"class {name}" if name in RESERVED else name for name in names]
    table = pd.DataFrame(numbers, columns=columns)
    table.insert(0, "id", graph.ids)
    table.insert(1, "prediction", winners)
    return table


def _numpy(values: Any) -> NDArray[Any]:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _class_names(graph: Graph, numbers: NDArray[np.float32]) -> tuple[str, ...]:
    """The names of as many classes as were predicted; their numbers where the owner gave no names."""
    count = numbers.shape[1] if numbers.ndim == 2 else 0
    return graph.class_names[:count] if graph.class_names else tuple(map(str, range(count)))


def _require_shape(shape: tuple[int, ...], expected: tuple[tuple[int, ...], ...]) -> None:
    if shape not in expected or 0 in shape:
        wanted = " or ".join(str(list(one)) for one in expected)
        raise ShapeError(
            f"predictions must have shape {wanted} for this graph; got {list(shape)}. Give one row per node "
            "and one column per class."
        )
