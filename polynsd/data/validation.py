"""Checks of graphs, in vectorised passes that change nothing.

    check_arrays(graph)    types, shapes and ranges of the arrays of a `Graph`
    check_graph(data)      whether a model can be trained on PyG's `Data`
    finite_float32(…)      numbers from outside as float32, none of them infinite

`check_arrays` holds for every graph the library reads or writes and costs milliseconds per million edges. It
says nothing about whether a graph can be learned from: a split may be empty, a training node unlabelled.
`check_graph` runs before every training. It does not look for what is legal but odd, such as isolated nodes,
loops or repeated edges; `y` may be missing, since predicting needs no labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.errors import DataError, GraphError
from polynsd.sparse import is_sparse, list_entries, stored_values

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from polynsd.data.graph import Graph
    from polynsd.data.splits import Masks

MAX_NODES = 2**32  # two node numbers make one 64-bit number, by which duplicate edges are found
MAX_CLASSES = 10_000  # what is computed per pair of classes must fit into memory
INTEGERS = ("int32", "int64")
FLOATS = ("float32",)
INTEGER_TENSORS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

Array = NDArray[Any]
Extents = tuple[int | str, ...]  # an extent that is free goes by a letter


def check_arrays(graph: Graph) -> None:
    """Raises unless all arrays have the types, shapes and ranges the `Graph` promises.

    Raises:
        DataError: the first violation: what was expected, how many entries break it, where the first is.
    """
    if not 0 <= graph.num_nodes <= MAX_NODES:
        raise DataError(f"a graph has 0 to {MAX_NODES} nodes; got num_nodes={graph.num_nodes}.")
    _check_edges(graph.edge_index, graph.num_nodes)
    if graph.edge_weight is not None:
        weight = expect_array("edge_weight", graph.edge_weight, FLOATS, (graph.num_edges,))
        _expect_finite("edge_weight", weight)
        expect_all(weight >= 0, "edge_weight must not be negative", weight, "Keep signs in edge_attr.")
    if graph.edge_attr is not None:
        attributes = expect_array("edge_attr", graph.edge_attr, FLOATS, (graph.num_edges, "f"))
        _expect_finite("edge_attr", attributes)
    if graph.x is not None:
        _check_features(graph.x, graph.num_nodes)
    if graph.y is not None:
        _check_y(graph.y, graph.num_nodes)
    for protocol, masks in graph.masks.items():
        check_masks(protocol, masks, graph.num_nodes)
    if graph.node_ids is not None:
        _check_ids(graph.node_ids, graph.num_nodes)
    _check_names(graph)


def check_masks(protocol: str, masks: Masks, num_nodes: int) -> None:
    """Raises unless the three parts are boolean, of one shape [S, N], and disjoint."""
    train = expect_array(f"the train masks of '{protocol}'", masks.train, ("bool",), ("S", num_nodes))
    val = expect_array(f"the val masks of '{protocol}'", masks.val, ("bool",), train.shape)
    test = expect_array(f"the test masks of '{protocol}'", masks.test, ("bool",), train.shape)
    parts = train.astype(np.uint8) + val + test
    expect_all(
        parts <= 1,
        f"train, val and test of '{protocol}' must be disjoint in every split",
        parts,
        "Places are [split, node]; take the node out of all parts but one.",
    )


def check_csr(indptr: object, indices: object, data: object, shape: tuple[int, int]) -> None:
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


def expect_array(name: str, value: object, dtypes: tuple[str, ...], shape: Extents) -> Array:
    """The value, if it is an array of one of the dtypes and of this shape; otherwise a `DataError`."""
    if isinstance(value, np.ndarray):
        fits = value.ndim == len(shape) and all(
            isinstance(wanted, str) or extent == wanted
            for extent, wanted in zip(value.shape, shape, strict=False)
        )
        if fits and value.dtype.name in dtypes and value.dtype.isnative:
            return value
    raise DataError(
        f"{name} must be {' or '.join(dtypes)} of shape [{', '.join(map(str, shape))}]; "
        f"got {describe_value(value)}. Convert it with astype and reshape."
    )


def expect_all(valid: Array, rule: str, values: Array, remedy: str) -> None:
    """Raises unless the rule is valid everywhere; says how often it is not, and where first."""
    if valid.all():
        return
    index = tuple(int(i) for i in np.unravel_index(valid.argmin(), valid.shape))
    where = index[0] if len(index) == 1 else list(index)
    count = valid.size - int(np.count_nonzero(valid))
    first = f"the first at {where} ({str(values[index].tolist())[:80]})"
    raise DataError(f"{rule}; {count} of {valid.size} break this, {first}. {remedy}")


def finite_float32(
    numbers: Any, origin: str, allow_nan: bool = False, remedy: str = "Correct them."
) -> NDArray[np.float32]:
    """The numbers as float32; infinite ones, or those that become infinite, are an error."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(numbers).astype(np.float32)
    wrong = np.isinf(values) if allow_nan else ~np.isfinite(values)
    if wrong.any():
        row = int(np.argwhere(wrong)[0, 0])
        raise DataError(
            f"{origin}: every value must be finite and fit into float32; {int(wrong.sum())} do not, the "
            f"first in row {row + 1}. {remedy}"
        )
    return values


def require_non_negative(weight: NDArray[np.float32], origin: str) -> NDArray[np.float32]:
    """The weights; raises if one is negative."""
    if (weight < 0).any():
        raise GraphError(
            f"{origin}: weights must not be negative, because the Laplacian would not be positive "
            f"semidefinite; got {float(weight.min())}. Shift them, or keep the sign as an edge feature."
        )
    return weight


def describe_value(value: object) -> str:
    """What came instead of the expected array or tensor, for the text of an error."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {list(value.shape)}"
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {list(value.shape)} ({value.layout})"
    return "nothing" if value is None else f"a {type(value).__name__}"


def _expect_finite(name: str, values: Array) -> None:
    expect_all(np.isfinite(values), f"{name} must be finite", values, "Fill or drop these entries.")


def _expect_distinct(keys: Array, rule: str, values: Array, remedy: str) -> None:
    ordered = np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():
        is_first = np.zeros(keys.size, dtype=bool)
        is_first[np.unique(keys, return_index=True)[1]] = True
        expect_all(is_first, rule, values, remedy)


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
    _expect_distinct(keys, "every edge must be there once", pairs, "Use np.unique(edge_index, axis=1).")


def _check_features(x: Any, num_nodes: int) -> None:
    if not sparse.issparse(x):
        _expect_finite("x", expect_array("x", x, FLOATS, (num_nodes, "F")))
    elif x.format != "csr" or x.shape[0] != num_nodes:
        raise DataError(
            f"sparse x must be a CSR matrix with {num_nodes} rows; got {x.format} of shape "
            f"{list(x.shape)}. Convert with x.tocsr()."
        )
    else:
        check_csr(x.indptr, x.indices, x.data, x.shape)


def _check_y(y: Array, num_nodes: int) -> None:
    if np.ndim(y) == 2:
        expect_array("y", y, FLOATS, (num_nodes, "T"))
    else:
        expect_array("y", y, ("int64", *FLOATS), (num_nodes,))
    if y.dtype.kind == "i":
        expect_all(y >= -1, "labels y must be at least -1 (-1 = none)", y, "Number the classes from 0.")
        expect_all(y < MAX_CLASSES, f"labels y must be below {MAX_CLASSES}", y, "Number the classes from 0.")
    else:
        expect_all(~np.isinf(y), "targets y must be finite or NaN (NaN = none)", y, "Correct or drop them.")


def _check_ids(node_ids: Array, num_nodes: int) -> None:
    if np.shape(node_ids) != (num_nodes,) or getattr(node_ids, "dtype", np.dtype("O")).kind not in "iuU":
        raise DataError(
            f"node_ids must be an array of {num_nodes} integers or strings; got {describe_value(node_ids)}. "
            "Convert with np.array(ids, dtype=str)."
        )
    _expect_distinct(
        node_ids, "node_ids must differ from each other", node_ids, "Merge or rename these nodes."
    )


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


def check_graph(data: Data, regression: bool = False) -> None:
    """Raises unless features, labels (if any) and edges are usable.

    Args:
        data: The graph.
        regression: Whether `y` holds real-valued targets instead of class numbers.

    Raises:
        DataError: `x` or `y` is missing, malformed or not finite, or there are no nodes.
        GraphError: `edge_index` is malformed or names nodes that do not exist.
    """
    if hasattr(data, "to_pyg"):
        raise DataError("models train on PyG's Data; got a Graph. Convert it with graph.to_pyg().")
    x, y, edge_index = (getattr(data, name, None) for name in ("x", "y", "edge_index"))
    num_nodes = _check_feature_tensor(x)
    if y is not None:
        check_targets(y) if regression else check_labels(y)
        if y.size(0) != num_nodes:
            raise DataError(
                f"y needs one label per node; got {y.size(0)} labels for {num_nodes} rows of x. "
                "Use -1 for nodes without a label."
            )
    _check_edge_tensor(edge_index, num_nodes)


def check_labels(y: Tensor) -> None:
    """Raises unless `y` is an integer vector of class numbers, -1 meaning unlabelled."""
    if not isinstance(y, Tensor) or y.dim() != 1 or y.dtype not in INTEGER_TENSORS:
        raise DataError(
            f"y must be an integer tensor of shape [num_nodes]; got {describe_value(y)}. "
            "Number the classes from 0 and use -1 for nodes without a label."
        )
    if y.numel() and int(y.min()) < -1:
        raise DataError(
            f"labels must be at least -1 (-1 = unlabelled); got {int(y.min())}. Number the classes from 0."
        )


def check_targets(y: Tensor) -> None:
    """Raises unless `y` holds finite real-valued targets, NaN meaning unknown."""
    if not isinstance(y, Tensor) or y.dim() not in (1, 2) or not y.is_floating_point():
        raise DataError(
            "regression targets y must be a floating-point tensor of shape [num_nodes] or "
            f"[num_nodes, num_targets]; got {describe_value(y)}. Convert with y.float()."
        )
    if bool(y.isinf().any()):
        raise DataError("regression targets y must be finite. Use NaN for nodes whose target is unknown.")


def _check_feature_tensor(x: Tensor | None) -> int:
    """The number of rows of `x`, which must be a finite matrix with at least one."""
    if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
        raise DataError(
            f"x must be a floating-point tensor of shape [num_nodes, num_features]; "
            f"got {describe_value(x)}. Convert with x.float()."
        )
    if x.size(0) == 0:
        raise DataError("a graph needs at least one node; x has no rows. Check how it was loaded.")
    is_wrong = ~torch.isfinite(stored_values(x))
    if is_wrong.any():
        row = list_entries(x)[0][is_wrong.nonzero()[0, 0]] if is_sparse(x) else is_wrong.nonzero()[0, 0]
        raise DataError(
            f"x must be finite; {int(is_wrong.sum())} entries are NaN or infinite, the first in "
            f"row {int(row)}. Fill or drop them before training."
        )
    return x.size(0)


def _check_edge_tensor(edge_index: Tensor | None, num_nodes: int) -> None:
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.dtype != torch.int64
        or edge_index.dim() != 2
        or edge_index.size(0) != 2
    ):
        raise GraphError(
            f"edge_index must be an int64 tensor of shape [2, num_edges]; got "
            f"{describe_value(edge_index)}. For a list of pairs use "
            "torch.tensor(pairs, dtype=torch.long).t()."
        )
    if edge_index.numel() == 0:
        return
    low, high = (int(end) for end in edge_index.aminmax())
    if low < 0 or high >= num_nodes:
        wrong = low if low < 0 else high
        raise GraphError(
            f"edge_index must hold node numbers from 0 to {num_nodes - 1}; got {wrong}. "
            "Renumber the nodes, or add the missing rows to x."
        )
