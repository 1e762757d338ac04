"""What a sheaf Laplacian refuses: shapes that do not fit, maps that are not numbers, singular degrees."""

from __future__ import annotations

import torch
from torch import Tensor

from polynsd.errors import DataError, GraphError, ShapeError
from polynsd.kernels.ops import blocks
from polynsd.kernels.ops.batching import is_transformed
from polynsd.memo import TensorMemo, can_read_values
from polynsd.topology import Topology

_checked_maps = TensorMemo[None]()


def check_signal_shape(x: Tensor, num_nodes: int, stalk_dim: int) -> Tensor:
    """The signal itself; raises unless it is `[..., N, d, C]`."""
    if x.dim() < 3 or tuple(x.shape[-3:-1]) != (num_nodes, stalk_dim):
        raise ShapeError(
            f"a signal on this sheaf must have shape [..., {num_nodes}, {stalk_dim}, C] "
            f"(nodes, stalk, channels); got {list(x.shape)}."
        )
    return x


def check_maps(maps: Tensor, topology: Topology, stalk_dim: int | None) -> None:
    """Raises unless there is a map for every half-edge, on stalks of that dimension."""
    shape, H = list(maps.shape), topology.num_half_edges
    if maps.dim() < 3 or maps.size(-3) != H or maps.size(-1) not in (1, maps.size(-2)):
        raise ShapeError(
            f"restriction maps must have shape [..., {H}, d, d] (one per half-edge), or [..., {H}, d, 1] "
            f"for diagonal maps; got {shape}. Give diagonal maps [{H}, d] a last dimension: maps[..., None]."
        )
    if maps.size(-2) == 0:
        raise ShapeError(f"the stalk dimension must be at least 1; got maps of shape {shape}.")
    if stalk_dim is not None and maps.size(-2) not in (1, stalk_dim):
        raise ShapeError(f"maps of shape {shape} act on stalks of dimension {shape[-2]}; got {stalk_dim=}.")


def check_given_maps(maps: Tensor) -> None:
    """Raises unless maps that are data are finite; those that a network computes diverge as it does.

    What has a history, or is computed without one in inference, was not given.
    """
    if can_read_values() and maps.is_leaf and torch.is_grad_enabled() and not is_transformed():
        _checked_maps(maps, lambda: _check_finite(maps))


def _check_finite(maps: Tensor) -> None:
    broken = ~maps.isfinite()
    if bool(broken.any()):
        half_edge = int(broken.any(-1).any(-1).nonzero()[0, -1])
        raise DataError(f"restriction maps must be finite; that of half-edge {half_edge} is not.")


def check_invertible(degree: Tensor) -> None:
    """Raises unless the blocks `[..., N, d, d]` have inverses."""
    values, _ = blocks.eigh(degree)
    least = values.amax(-1) * degree.size(-1) * torch.finfo(degree.dtype).eps
    singular = values.amin(-1) <= least
    if bool(singular.any()):
        node = int(singular.nonzero()[0, -1])
        raise GraphError(
            f"normalization='sheaf' needs invertible degree blocks, but that of node {node} is singular; "
            "use normalization='sheaf-augmented'."
        )
