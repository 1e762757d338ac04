"""Graph archives: a `Graph` in one compressed `.npz` file without pickles.

    save_graph("graph.npz", graph);  graph = load_graph("graph.npz")

    edge_index                                int32 or int64 [2, E], every edge once, u < v
    x | x_indptr, x_indices, x_data, x_shape  float32 [N, F], dense or CSR; absent without features
    y                                         int64 [N], −1 = no label; or float32 targets, NaN = none
    train_mask, val_mask, test_mask           bool [S, N] or [N]: the splits `default`
    <protocol>_{train,val,test}_mask          the same for further protocols, such as `public`
    edge_weight, edge_attr                    float32 [E], [E, f]
    node_ids, class_names, feature_names      integers or unicode; unicode [C]; unicode [F]
    num_nodes                                 int64 [], where no other array has a row per node
    unlabelled                                integers: nodes without a label, whatever y says

Every other key is an extra. Nodes in `unlabelled` (Citeseer has 15, with y = 0) get the label −1 (NaN for
targets) and leave all masks as the file is read. `datasets.npz` says what becomes of damaged and hostile
files, and lists names and shapes without reading values. For tables that people edit, use CSV or Parquet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from uuid import uuid4
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.datasets.npz import NpzReader, prefix_errors, to_storable
from polynsd.data.graph import Features, Graph
from polynsd.data.splits import Masks, mask_keys
from polynsd.data.transforms import RECORD
from polynsd.data.validation import INTEGERS, check_arrays, check_csr, expect_all, expect_array
from polynsd.errors import DataError
from polynsd.memory import require_memory

Arrays = dict[str, NDArray[Any]]
FIELDS = ("y", "edge_weight", "edge_attr", "node_ids")
NAMES = ("class_names", "feature_names")
CSR = ("x_indptr", "x_indices", "x_data", "x_shape")
KEYS = {"edge_index", "x", *CSR, *FIELDS, *NAMES, "num_nodes", "unlabelled"}
MASK = re.compile(r"(?:(?!default_)(\w+)_)?(?:train|val|test)_mask", re.ASCII)
ISOLATED_NODES, NODES_PER_EDGE_END = 1000, 10  # plausible numbers, without a count in the file
NODE_BYTES, COLUMN_BYTES = 32, 64  # degrees, components and ids; means, names and weights of a feature
EDGE_COPIES = 3  # of the edges, while they are checked
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip file can hold


def load_graph(path: str | Path, name: str | None = None, extras: bool = False) -> Graph:
    """The graph of a `.npz` file, checked.

    Args:
        path: the file.
        name: of the graph; the name of the file by default.
        extras: whether to read unknown arrays too; the record of preprocessing always is.

    Raises:
        DataError: the file is missing, damaged, hostile or too large (`polynsd.memory`), or holds no valid
            graph.
    """
    path, reader = Path(path), NpzReader(path)
    keys = [key for key in reader.names if extras or _is_known(key) or key == RECORD]
    with prefix_errors(path):
        copies = {"edge_index": EDGE_COPIES}
        require_memory(sum(reader.sizes[key] * copies.get(key, 1) for key in keys), "the graph")
    arrays = reader.read(keys)
    with prefix_errors(path):
        graph = _build_graph(path.stem if name is None else name, arrays)
        check_arrays(graph)
        if "unlabelled" in arrays:
            graph = _remove_labels(graph, arrays["unlabelled"])
    return graph


def save_graph(path: str | Path, graph: Graph) -> Path:
    """Writes a graph to a `.npz` file, all or nothing, and returns the path.

    Equal graphs make equal bytes under one version of zlib.
    """
    path = Path(path)
    with prefix_errors(path):
        check_arrays(graph)
        _write_arrays(path, _to_arrays(graph))
    return path


def _is_known(key: str) -> bool:
    return key in KEYS or MASK.fullmatch(key) is not None


def _require_keys(arrays: Arrays, keys: Sequence[str]) -> None:
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise DataError(
            f"expected the arrays {', '.join(keys)}; there is no {', '.join(missing)} among "
            f"{', '.join(arrays) or 'none'}. Write the file with save_graph."
        )


def _build_graph(name: str, arrays: Arrays) -> Graph:
    """The graph these arrays describe; `check_arrays` comes after."""
    _require_keys(arrays, ["edge_index"])
    fields: dict[str, Any] = {field: arrays[field] for field in FIELDS if field in arrays}
    for field in NAMES:
        names = arrays.get(field)
        if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
            raise DataError(
                f"{field} must be a unicode array of one dimension; got {names.dtype} of shape "
                f"{list(names.shape)}. Write np.array(names, dtype=str)."
            )
        fields[field] = None if names is None else tuple(names.tolist())
    x, masks = _read_features(arrays), {}
    for protocol in sorted({match[1] or "default" for match in map(MASK.fullmatch, arrays) if match}):
        _require_keys(arrays, mask_keys(protocol))
        parts = (arrays[key] for key in mask_keys(protocol))
        masks[protocol] = Masks(*(part[None] if part.ndim == 1 else part for part in parts))
    extras = {key: array for key, array in arrays.items() if not _is_known(key)}
    num_nodes = _count_nodes(arrays, x, masks)
    num_features = x.shape[1] if x is not None and x.ndim == 2 else 0
    require_memory(
        NODE_BYTES * num_nodes + COLUMN_BYTES * num_features,
        f"a graph of {num_nodes:,} nodes and {num_features:,} features",
    )
    return Graph(name, arrays["edge_index"], num_nodes, x, masks=masks, extras=extras, **fields)


def _read_features(arrays: Arrays) -> Features:
    sparse_keys = [key for key in CSR if key in arrays]
    if not sparse_keys:
        return arrays.get("x")
    if "x" in arrays:
        raise DataError(f"features are dense or sparse; got x and {', '.join(sparse_keys)}. Keep one kind.")
    _require_keys(arrays, CSR)
    indptr, indices, data, extents = (arrays[key] for key in CSR)
    rows, columns = expect_array("x_shape", extents, INTEGERS, (2,)).tolist()
    if rows < 0 or columns < 0:
        raise DataError(f"x_shape must not be negative; got {[rows, columns]}. Rebuild the sparse features.")
    check_csr(indptr, indices, data, (rows, columns))  # before SciPy sees them
    return sparse.csr_matrix((data, indices, indptr), shape=(rows, columns))


def _count_nodes(arrays: Arrays, x: Features, masks: dict[str, Masks]) -> int:
    """N, on which the rows of all arrays must agree; without a row per node, the largest id + 1."""
    tables = {"y": arrays.get("y"), "node_ids": arrays.get("node_ids"), "x": x}
    rows = {key: table.shape[0] for key, table in tables.items() if table is not None and table.ndim}
    rows |= {f"masks of '{name}'": parts.train.shape[-1] for name, parts in masks.items() if parts.train.ndim}
    if "num_nodes" in arrays:
        rows["num_nodes"] = int(expect_array("num_nodes", arrays["num_nodes"], INTEGERS, ()))
    if len(set(rows.values())) > 1:
        listing = ", ".join(f"{key} {count}" for key, count in rows.items())
        raise DataError(f"arrays must agree on the number of nodes; got {listing}. Give each a row per node.")
    if rows:
        return next(iter(rows.values()))
    edge_index = expect_array("edge_index", arrays["edge_index"], INTEGERS, (2, "E"))
    num_nodes, num_edges = int(edge_index.max(initial=-1)) + 1, edge_index.shape[1]
    if num_nodes > ISOLATED_NODES + NODES_PER_EDGE_END * 2 * num_edges:  # more likely a wrong node number
        raise DataError(
            f"{num_edges} edges name node {num_nodes - 1}, and no array has a row per node to confirm that "
            f"there are {num_nodes}. Correct edge_index, or store the number as num_nodes."
        )
    return num_nodes


def _remove_labels(graph: Graph, nodes: NDArray[Any]) -> Graph:
    """The graph with these nodes unlabelled and in no mask; its arrays are changed in place."""
    expect_array("unlabelled", nodes, INTEGERS, ("U",))
    exists = (nodes >= 0) & (nodes < graph.num_nodes)
    expect_all(exists, f"unlabelled must be node numbers below {graph.num_nodes}", nodes, "Correct the list.")
    if graph.y is not None:
        graph.y[nodes] = np.nan if graph.is_regression else -1
    for masks in graph.masks.values():
        for mask in masks.parts:
            mask[:, nodes] = False
    return replace(graph)  # a new object has not yet counted its classes


def _to_arrays(graph: Graph) -> Arrays:
    """The arrays of a checked graph, in the order of the file."""
    arrays = {"edge_index": _narrow(graph.edge_index)}
    if sparse.issparse(graph.x):
        numbers = (_narrow(graph.x.indptr), _narrow(graph.x.indices))
        arrays |= zip(CSR, (*numbers, graph.x.data, np.array(graph.x.shape, dtype=np.int64)), strict=True)
    elif graph.x is not None:
        arrays["x"] = graph.x
    arrays |= {field: array for field in FIELDS if (array := getattr(graph, field)) is not None}
    for field in NAMES:
        names = getattr(graph, field)
        if names is not None:
            longest = max(map(len, names), default=0)  # NumPy stores every string as wide as the longest
            require_memory(4 * longest * len(names), f"the array {field}")
            arrays[field] = np.array(names, dtype=np.str_)
            if tuple(arrays[field].tolist()) != names:
                raise DataError(
                    f"{field} cannot be stored exactly: a name ends with a NUL character. Remove it."
                )
    for protocol in sorted(graph.masks):
        arrays |= _mask_arrays(protocol, graph.masks[protocol])
    if graph.x is None and graph.y is None and graph.node_ids is None and not graph.masks:
        arrays["num_nodes"] = np.array(graph.num_nodes, dtype=np.int64)
    clashes = [key for key in graph.extras if _is_known(key)]
    if clashes:
        raise DataError(f"extras must not use names of the format; got {', '.join(clashes)}. Rename them.")
    return arrays | {key: graph.extras[key] for key in sorted(graph.extras)}


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """As int32 where that holds all of these non-negative numbers, so that equal content is equal bytes."""
    fits = numbers.max(initial=0) <= np.iinfo(np.int32).max
    return numbers.astype(np.int32 if fits else np.int64, copy=False)


def _mask_arrays(protocol: str, masks: Masks) -> Arrays:
    keys = mask_keys(protocol)
    if not all(map(MASK.fullmatch, keys)):
        raise DataError(
            "a protocol of splits is named by letters, digits and '_', not beginning with 'default_'; "
            f"got {protocol!r}. Rename it."
        )
    is_flat = protocol != "default" and len(masks) == 1
    return {key: mask[0] if is_flat else mask for key, mask in zip(keys, masks.parts, strict=True)}


def _write_arrays(path: Path, arrays: Arrays) -> None:
    stored = {key: to_storable(key, array) for key, array in arrays.items()}
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent}. Create it first.")
    with replace_file(path) as file, ZipFile(file, "w") as archive:
        for key, array in stored.items():
            info = ZipInfo(f"{key}.npy", EPOCH)
            info.compress_type, info.create_system, info.external_attr = ZIP_DEFLATED, 3, 0o644 << 16
            with archive.open(info, "w", force_zip64=array.nbytes >= 2**31) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """A new file beside `path`, to be written; it takes that name in one step when it is complete."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
