"""What makes the arrays of a `Graph` consistent, checked in vectorised passes.

`check(graph)` holds for every graph the library reads or writes and costs milliseconds per million
edges. It says nothing about whether a graph can be learned from: a split may be empty, a training
node unlabelled. `polynsd.data.check_graph` is the check before training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.graph import Features, Graph, Masks
from polynsd.errors import DataError

MAX_NODES = 2**32  # two node numbers make one 64-bit number, by which duplicate edges are found
MAX_CLASSES = 10_000  # what is computed per pair of classes must fit into memory
SPARE_NODES, NODES_PER_END = 1000, 10  # how many nodes without an edge are believed
INTEGERS = ("int32", "int64")
FLOATS = ("float32",)
MASKS = ("bool",)

Array = NDArray[Any]
Extents = tuple[int | str, ...]  # an extent that is free goes by a letter


def check(graph: Graph) -> None:
    """Raises unless all arrays have the types, shapes and ranges the `Graph` promises.

    Raises:
        DataError: the first violation: what was expected, how many entries break it, where the first is.
    """
    if not 0 <= graph.num_nodes <= MAX_NODES:
        raise DataError(f"a graph has 0 to {MAX_NODES} nodes; got num_nodes={graph.num_nodes}.")
    _check_edges(graph.edge_index, graph.num_nodes)
    _check_edge_values(graph)
    if graph.x is not None:
        _check_features(graph.x, graph.num_nodes)
    if graph.y is not None:
        _check_targets(graph.y, graph.num_nodes)
    for protocol, masks in graph.masks.items():
        check_masks(protocol, masks, graph.num_nodes)
    if graph.node_ids is not None:
        _check_ids(graph.node_ids, graph.num_nodes)
    _check_names(graph)


def count_nodes(arrays: Mapping[str, Array], x: Features, masks: Mapping[str, Masks]) -> int:
    """N, on which the rows of all arrays must agree; without a row per node, the largest id + 1."""
    tables = {key: arrays[key] for key in ("y", "node_ids") if key in arrays} | (
        {} if x is None else {"x": x}
    )
    rows: dict[str, int] = {key: table.shape[0] for key, table in tables.items() if table.ndim}
    rows |= {f"masks of '{name}'": parts.train.shape[-1] for name, parts in masks.items() if parts.train.ndim}
    if "num_nodes" in arrays:
        rows["num_nodes"] = int(expect_array("num_nodes", arrays["num_nodes"], INTEGERS, ()))
    if not rows:
        edge_index = expect_array("edge_index", arrays["edge_index"], INTEGERS, (2, "E"))
        return _plausible_count(int(edge_index.max(initial=-1)) + 1, edge_index.shape[1])
    if len(set(rows.values())) > 1:
        listing = ", ".join(f"{key} {count}" for key, count in rows.items())
        raise DataError(f"arrays must agree on the number of nodes; got {listing}. Give each a row per node.")
    return next(iter(rows.values()))


def _plausible_count(num_nodes: int, num_edges: int) -> int:
    """The number of nodes, unless so few edges more likely hold a wrong node number."""
    if num_nodes > SPARE_NODES + NODES_PER_END * 2 * num_edges:
        raise DataError(
            f"{num_edges} edges name node {num_nodes - 1}, and no array has a row per node to confirm that "
            f"there are {num_nodes}. Correct edge_index, or store the number as num_nodes."
        )
    return num_nodes


def csr_features(indptr: Array, indices: Array, data: Array, extents: Array) -> Features:
    """The sparse features these arrays describe, checked before SciPy sees them."""
    rows, columns = expect_array("x_shape", extents, INTEGERS, (2,)).tolist()
    if rows < 0 or columns < 0:
        raise DataError(f"x_shape must not be negative; got {[rows, columns]}. Rebuild the sparse features.")
    _check_csr(indptr, indices, data, (rows, columns))
    return sparse.csr_matrix((data, indices, indptr), shape=(rows, columns))


def expect_array(name: str, value: object, dtypes: tuple[str, ...], shape: Extents) -> Array:
    """The value, once it has proved to be an array of one of the dtypes and of this shape."""
    if isinstance(value, np.ndarray):
        fits = value.ndim == len(shape) and all(
            isinstance(wanted, str) or extent == wanted
            for extent, wanted in zip(value.shape, shape, strict=False)
        )
        if fits and value.dtype.name in dtypes and value.dtype.isnative:
            return value
    raise DataError(
        f"{name} must be {' or '.join(dtypes)} of shape [{', '.join(map(str, shape))}]; "
        f"got {_describe(value)}. Convert it with astype and reshape."
    )


def expect_all(valid: Array, rule: str, values: Array, remedy: str) -> None:
    """Raises unless the rule is valid everywhere; tells how often it is not, and where first."""
    if valid.all():
        return
    place = tuple(int(index) for index in np.unravel_index(valid.argmin(), valid.shape))
    where = place[0] if len(place) == 1 else list(place)
    count = valid.size - int(np.count_nonzero(valid))
    first = f"the first at {where} ({str(values[place].tolist())[:80]})"
    raise DataError(f"{rule}; {count} of {valid.size} break this, {first}. {remedy}")


def _check_csr(indptr: object, indices: object, data: object, shape: tuple[int, int]) -> None:
    """Raises unless the three arrays are a CSR matrix of this shape with finite values."""
    rows, columns = shape
    data = expect_array("x_data", data, FLOATS, ("nnz",))
    indices = expect_array("x_indices", indices, INTEGERS, (data.size,))
    indptr = expect_array("x_indptr", indptr, INTEGERS, (rows + 1,))
    if indptr[0] != 0 or indptr[-1] != data.size:
        raise DataError(
            f"x_indptr must run from 0 to the {data.size} stored values; it runs from {indptr[0]} to "
            f"{indptr[-1]}. Write the features of a scipy.sparse.csr_matrix."
        )
    expect_all(
        indptr[1:] >= indptr[:-1], "x_indptr must not decrease", indptr[1:], "Rebuild the sparse features."
    )
    expect_all(
        (indices >= 0) & (indices < columns),
        f"x_indices must be column numbers below {columns}",
        indices,
        "Rebuild the sparse features, or correct their shape.",
    )
    _expect_finite("x", data)


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {list(value.shape)}"
    return f"a {type(value).__name__}"


def _first_occurrences(values: Array) -> NDArray[np.bool_]:
    is_first = np.zeros(values.size, dtype=bool)
    is_first[np.unique(values, return_index=True)[1]] = True
    return is_first


def _expect_finite(name: str, values: Array) -> None:
    expect_all(np.isfinite(values), f"{name} must be finite", values, "Fill or drop these entries.")


def _check_edges(edges: object, num_nodes: int) -> None:
    edge_index = expect_array("edge_index", edges, INTEGERS, (2, "E"))
    source, target = edge_index
    expect_all(
        (edge_index >= 0) & (edge_index < num_nodes),
        f"edge_index must hold node numbers below {num_nodes}",
        edge_index,
        "Renumber the nodes, or add the missing rows.",
    )
    pairs = edge_index.T
    expect_all(source != target, "edges must join two different nodes", pairs, "Remove the self edges.")
    expect_all(source < target, "edges must be written as u < v", pairs, "Sort each column of edge_index.")
    keys = source.astype(np.uint64) << np.uint64(32) | target.astype(np.uint64)
    ordered = np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():
        is_first = _first_occurrences(keys)
        expect_all(is_first, "every edge must be there once", pairs, "Use np.unique(edge_index, axis=1).")


def _check_edge_values(graph: Graph) -> None:
    if graph.edge_weight is not None:
        weight = expect_array("edge_weight", graph.edge_weight, FLOATS, (graph.num_edges,))
        _expect_finite("edge_weight", weight)
        expect_all(weight >= 0, "edge_weight must not be negative", weight, "Keep signs in edge_attr.")
    if graph.edge_attr is not None:
        attributes = expect_array("edge_attr", graph.edge_attr, FLOATS, (graph.num_edges, "f"))
        _expect_finite("edge_attr", attributes)


def _check_features(x: Features, num_nodes: int) -> None:
    if not sparse.issparse(x):
        _expect_finite("x", expect_array("x", x, FLOATS, (num_nodes, "F")))
    elif x.format != "csr" or x.shape[0] != num_nodes:
        raise DataError(
            f"sparse x must be a CSR matrix with {num_nodes} rows; got {x.format} of shape "
            f"{list(x.shape)}. Convert with x.tocsr()."
        )
    else:
        _check_csr(x.indptr, x.indices, x.data, x.shape)


def _check_targets(y: Array, num_nodes: int) -> None:
    if np.ndim(y) == 2:
        expect_array("y", y, FLOATS, (num_nodes, "T"))
    else:
        expect_array("y", y, ("int64", *FLOATS), (num_nodes,))
    if y.dtype.kind == "i":
        expect_all(y >= -1, "labels y must be at least -1 (-1 = none)", y, "Number the classes from 0.")
        expect_all(y < MAX_CLASSES, f"labels y must be below {MAX_CLASSES}", y, "Number the classes from 0.")
    else:
        expect_all(~np.isinf(y), "targets y must be finite or NaN (NaN = none)", y, "Correct or drop them.")


def check_masks(protocol: str, masks: Masks, num_nodes: int) -> None:
    """Raises unless the three parts are boolean, of one shape [S, N], and disjoint."""
    train = expect_array(f"the train masks of '{protocol}'", masks.train, MASKS, ("S", num_nodes))
    val = expect_array(f"the val masks of '{protocol}'", masks.val, MASKS, train.shape)
    test = expect_array(f"the test masks of '{protocol}'", masks.test, MASKS, train.shape)
    parts = train.astype(np.uint8) + val + test
    expect_all(
        parts <= 1,
        f"train, val and test of '{protocol}' must be disjoint in every split",
        parts,
        "Places are [split, node]; take the node out of all parts but one.",
    )


def _check_ids(node_ids: Array, num_nodes: int) -> None:
    if np.shape(node_ids) != (num_nodes,) or getattr(node_ids, "dtype", np.dtype("O")).kind not in "iuU":
        raise DataError(
            f"node_ids must be an array of {num_nodes} integers or strings; got {_describe(node_ids)}. "
            "Convert with np.array(ids, dtype=str)."
        )
    is_first = _first_occurrences(node_ids)
    expect_all(is_first, "node_ids must differ from each other", node_ids, "Merge or rename these nodes.")


def _check_names(graph: Graph) -> None:
    classes, features = graph.class_names, graph.feature_names
    if not all(isinstance(name, str) for name in (*(classes or ()), *(features or ()))):
        raise DataError("class_names and feature_names must be strings. Convert with str().")
    if classes is not None and len(classes) < graph.num_classes:
        raise DataError(
            f"class_names must name all {graph.num_classes} classes; got {len(classes)}. Add the others."
        )
    if classes is not None and len(set(classes)) < len(classes):
        name = next(name for name in classes if classes.count(name) > 1)
        raise DataError(f"class_names must differ from each other; {name!r} occurs again. Rename one.")
    if features is not None and len(features) != graph.num_features:
        raise DataError(
            f"feature_names must name the {graph.num_features} columns of x; got {len(features)}."
        )
