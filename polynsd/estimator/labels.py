"""Labels and masks: which nodes have a label, and which are meant.

In a graph a node without a label is one to predict: NaN or None, and −1 among integer classes; a number
to regress on may be −1. In a plain table every row has a label, and −1 is a class like any other.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from polynsd.data import Graph
from polynsd.errors import DataError, ShapeError
from polynsd.estimator.sklearn_compat import check_table_labels, is_given

logger = logging.getLogger("polynsd")

UNLABELLED = -1
UNKNOWN = -2  # a label that is none of the classes: never right
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels as they were given `[N]`, and which nodes have one."""

    values: NDArray[Any]
    has_label: Mask


def read_labels(y: Any, num_nodes: int, in_table: bool, is_regression: bool) -> Labels:
    """Labels that were given, one per node; those in a plain table are all known."""
    values = check_table_labels(y, is_regression) if in_table else _to_array(y)
    if is_regression and values.dtype.kind == "O":
        values = _to_numbers(values)
    if values.shape != (num_nodes,):
        raise ShapeError(f"y must hold one label per node, [{num_nodes}]; got {list(values.shape)}.")
    has_label = np.ones(num_nodes, dtype=bool) if in_table else _find_labels(values, is_regression)
    if not has_label.any():
        raise DataError("no node has a label, and some are needed. Check the labels, or pass y.")
    if not is_regression:
        _warn_of_signs(values, has_label)
    return Labels(values, has_label)


def graph_labels(graph: Graph) -> NDArray[Any] | None:
    """The labels that a graph carries, as class names where it has them; None where a node has no class."""
    if graph.y is None or graph.class_names is None or graph.is_regression:
        return graph.y
    names = np.array([*graph.class_names, None], dtype=object)
    return names[graph.y]


def labelled_mask(name: str, nodes: Any, has_label: Mask) -> Mask:
    """A mask `[N]` from a mask or from node numbers; every node in it must have a label."""
    count = len(has_label)
    values = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
    mask = np.zeros(count, dtype=bool)
    if values.dtype == bool and values.shape == (count,):
        mask |= values
    elif (
        values.dtype.kind in "iu"
        and values.ndim == 1
        and values.size
        and 0 <= values.min() <= values.max() < count
    ):
        mask[values] = True
    else:
        raise ShapeError(
            f"{name} must be a mask [{count}] or node numbers from 0 to {count - 1}; got "
            f"{values.dtype} {list(values.shape)}."
        )
    without = int((mask & ~has_label).sum())
    if without:
        raise DataError(f"{name} holds {without} nodes without a label; leave them out.")
    return mask


def read_groups(groups: Any, num_nodes: int, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """`[N]` the number of every node's group; −1 where it has none.

    Args:
        groups: numbers or names, of all nodes or of those in `rows`; a gap or −1 is no group.
        num_nodes: N.
        rows: the nodes that have one; all by default.
    """
    values = _to_array(groups)
    places = np.arange(num_nodes) if rows is None else rows
    if values.shape != places.shape:
        raise ShapeError(f"groups must hold one group per node, [{len(places)}]; got {list(values.shape)}.")
    has_group, numbers = _find_labels(values, is_regression=False), np.full(num_nodes, -1)
    named = values[has_group].astype(np.str_) if values.dtype.kind == "O" else values[has_group]
    numbers[places[has_group]] = np.unique(named, return_inverse=True)[1]
    return numbers


def sort_classes(labels: Labels) -> NDArray[Any]:
    """The different labels in order, as strings if all of them are."""
    try:
        classes = np.unique(labels.values[labels.has_label])
    except TypeError as error:
        raise DataError("classes must be of one type, all strings or all numbers; they are mixed.") from error
    if classes.dtype.kind == "f" and (classes != np.floor(classes)).any():
        raise DataError(
            "Unknown label type: continuous. Classes are no fractions; use SheafRegressor for numbers."
        )
    is_text = classes.dtype.kind == "O" and all(isinstance(name, str) for name in classes)
    return classes.astype(np.str_) if is_text else classes


def encode_classes(labels: Labels, classes: NDArray[Any]) -> NDArray[np.int64]:
    """The index of every label in `classes`; −1 without a label, −2 for others."""
    number = {name: index for index, name in enumerate(classes.tolist())}
    distinct, codes = np.unique(labels.values[labels.has_label], return_inverse=True)
    numbers = np.full(len(labels.has_label), UNLABELLED, dtype=np.int64)
    numbers[labels.has_label] = np.array([number.get(name, UNKNOWN) for name in distinct.tolist()])[codes]
    return numbers


def _to_array(y: Any) -> NDArray[Any]:
    if y is None:
        raise DataError("there are no labels; pass y, or read the graph with label=….")
    values = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _find_labels(values: NDArray[Any], is_regression: bool) -> Mask:
    if values.dtype.kind == "f":
        return ~np.isnan(values)
    if values.dtype.kind == "i" and not is_regression:
        return values != UNLABELLED
    if values.dtype.kind == "O":
        return np.array([is_given(value) for value in values])
    return np.ones(len(values), dtype=bool)


def _to_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Targets with gaps as floats, NaN in the gaps; as they are if there is anything else among them."""
    given = np.array([is_given(value) for value in values.ravel()]).reshape(values.shape)
    if not all(isinstance(value, int | float | np.number) for value in values[given]):
        return values
    return np.where(given, values, np.nan).astype(np.float64)


def _warn_of_signs(values: NDArray[Any], has_label: Mask) -> None:
    """−1 beside +1 alone, or beside other negative classes, was probably meant as a class."""
    count = int((~has_label).sum())
    if not count or values.dtype.kind != "i":
        return
    classes = np.unique(values[has_label]).tolist()
    if classes[0] < UNLABELLED or classes == [1]:
        logger.warning(
            "%d labels are -1, which means 'no label', beside the classes %s; if -1 is a class, rename it.",
            count,
            ", ".join(map(str, classes)),
        )
