"""Checks that a graph can be learned from, run before any training.

The checks read the tensors and change nothing. They do not look for what is legal but odd, such as
isolated nodes, loops or repeated edges; `y` may be missing, since predicting needs no labels.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from polynsd.errors import DataError, GraphError

if TYPE_CHECKING:
    from torch_geometric.data import Data


def check_graph(data: "Data", regression: bool = False) -> None:
    """Raises unless features, labels (if any) and edges are usable.

    Args:
        data: The graph.
        regression: Whether `y` holds real-valued targets instead of class numbers.

    Raises:
        DataError: `x` or `y` is missing, malformed or not finite, or there are no nodes.
        GraphError: `edge_index` is malformed or names nodes that do not exist.
    """
    x, y, edge_index = (getattr(data, name, None) for name in ("x", "y", "edge_index"))
    num_nodes = _check_features(x)
    if y is not None:
        check_targets(y) if regression else check_labels(y)
        if y.size(0) != num_nodes:
            raise DataError(
                f"y needs one label per node; got {y.size(0)} labels for {num_nodes} rows of x. "
                "Use -1 for nodes without a label."
            )
    _check_edges(edge_index, num_nodes)


def check_labels(y: Tensor) -> None:
    """Raises unless `y` is an integer vector of class numbers, -1 meaning unlabelled."""
    if not isinstance(y, Tensor) or y.dim() != 1 or not _is_integer(y):
        raise DataError(
            f"y must be an integer tensor of shape [num_nodes]; got {describe(y)}. "
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
            f"[num_nodes, num_targets]; got {describe(y)}. Convert with y.float()."
        )
    if bool(y.isinf().any()):
        raise DataError("regression targets y must be finite. Use NaN for nodes whose target is unknown.")


def _check_features(x: Tensor | None) -> int:
    """The number of nodes, once `x` has proved to be a finite matrix with rows."""
    if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point() or x.layout != torch.strided:
        raise DataError(
            f"x must be a dense floating-point tensor of shape [num_nodes, num_features]; "
            f"got {describe(x)}. Convert with x.float() or x.to_dense()."
        )
    if x.size(0) == 0:
        raise DataError("a graph needs at least one node; x has no rows. Check how it was loaded.")
    finite = torch.isfinite(x)
    if not finite.all():
        first = int((~finite).any(dim=1).nonzero()[0])
        raise DataError(
            f"x must be finite; {int((~finite).sum())} entries are NaN or infinite, the first in "
            f"row {first}. Fill or drop them before training."
        )
    return x.size(0)


def _check_edges(edge_index: Tensor | None, num_nodes: int) -> None:
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.dtype != torch.int64
        or edge_index.dim() != 2
        or edge_index.size(0) != 2
    ):
        raise GraphError(
            f"edge_index must be an int64 tensor of shape [2, num_edges]; got "
            f"{describe(edge_index)}. For a list of pairs use "
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


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def describe(value: object) -> str:
    """What came instead of the expected tensor, for the text of an error."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {list(value.shape)} ({value.layout})"
    return "nothing" if value is None else f"a {type(value).__name__}"
