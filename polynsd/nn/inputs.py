"""What a layer or model is called with, checked and brought onto half-edges once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from polynsd.errors import DataError, GraphError, ShapeError, require_at_least
from polynsd.kernels.ops.batching import is_transformed
from polynsd.memo import TensorMemo, can_read_values
from polynsd.sparse import stored_values
from polynsd.topology import Topology, as_topology, carried_weight

ONE_KIND = (
    "A sheaf Laplacian is symmetric on one set of nodes, so there is neither bipartite input nor to_hetero; "
    "use data.to_homogeneous(), with the type of a node as features and that of an edge as edge_attr "
    "(edge_dim)."
)


class GraphInput(NamedTuple):
    """A graph with optional weights and features on its half-edges."""

    topology: Topology
    edge_weight: Tensor | None  # [H]
    edge_attr: Tensor | None  # [H, f]
    batch: Tensor | None  # [N]


def prepare_graph(
    x: Tensor,
    edge_index: Any,
    edge_weight: Tensor | None = None,
    edge_attr: Tensor | None = None,
    batch: Tensor | None = None,
) -> GraphInput:
    """From PyG's conventions (values per column of `edge_index`) to half-edges."""
    topology = as_topology(edge_index, x.size(-2))
    if batch is None and hasattr(edge_index, "edge_index"):
        batch = getattr(edge_index, "batch", None)  # PyG's Batch
    if batch is not None:
        _require_tensor("batch", batch)
        _check_batch(batch, topology)
    if edge_weight is None:
        edge_weight = carried_weight(edge_index)
    if edge_weight is not None:
        _require_tensor("edge_weight", edge_weight)
        edge_weight = half_edge_weights(edge_weight, topology, x)
    if edge_attr is not None:
        _require_tensor("edge_attr", edge_attr)
        if can_read_values() and not is_transformed():
            _checked_features(edge_attr, partial(_check_finite, "edge_attr", edge_attr))
        edge_attr = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
        edge_attr = topology.per_half_edge(edge_attr.to(x.dtype))
    return GraphInput(topology, edge_weight, edge_attr, batch)


def _require_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise ShapeError(f"{name} must be a tensor; got {type(value).__name__}. Use torch.as_tensor.")


_half_weights = TensorMemo[Tensor]()


def half_edge_weights(weight: Tensor, topology: Topology, x: Tensor) -> Tensor:
    """`[H]` `Topology.symmetric_weight` as x stores numbers; of a constant it is found once."""

    def find() -> Tensor:
        return topology.symmetric_weight(weight.to(x.device)).to(x.dtype)

    if weight.requires_grad or torch.compiler.is_compiling():
        return find()
    return _half_weights(weight, find, topology, x.device, x.dtype)


_checked_batches, _checked_features = TensorMemo[None](), TensorMemo[None]()


def _check_batch(batch: Tensor, topology: Topology) -> None:
    if batch.shape != (topology.num_nodes,) or batch.is_floating_point():
        raise _batch_error(topology, f"{batch.dtype} of shape {list(batch.shape)}")
    if can_read_values():
        _checked_batches(batch, lambda: _check_graph_numbers(batch, topology), topology)


def _check_graph_numbers(batch: Tensor, topology: Topology) -> None:
    if bool((batch.diff() < 0).any()):
        raise _batch_error(topology, "numbers in another order")
    if len(batch) and int(batch[0]) < 0:
        raise _batch_error(topology, f"{int(batch[0])}")
    if bool((batch[topology.row] != batch[topology.col]).any()):
        raise GraphError("an edge joins two graphs of the batch; check edge_index or batch.")


def _batch_error(topology: Topology, found: str) -> ShapeError:
    return ShapeError(
        f"batch must hold the graph number, from 0, of each of the {topology.num_nodes} nodes in ascending "
        f"order; got {found}. torch_geometric.data.Batch makes it so."
    )


def check_features(model: nn.Module, x: Tensor) -> None:
    """Raises unless x is `[..., N, model.in_channels]`, finite and of the model's dtype."""
    if not isinstance(x, Tensor):
        raise ShapeError(
            ONE_KIND
            if isinstance(x, Proxy | tuple | list | dict)
            else f"features must be a tensor [N, F]; got {type(x).__name__}. Use torch.as_tensor."
        )
    in_channels = cast(int, model.in_channels)
    if x.dim() < 2 or (in_channels >= 0 and x.size(-1) != in_channels):
        wanted = "in_channels" if in_channels < 0 else in_channels
        raise ShapeError(f"features must have shape [N, {wanted}]; got {list(x.shape)}.")
    if x.is_complex():
        raise ShapeError(
            f"features must be real; got {x.dtype}. Give real and imaginary parts as two columns."
        )
    if not x.is_floating_point():
        raise ShapeError(f"features must be floating point; got {x.dtype}. Convert them with x.float().")
    if can_read_values() and not is_transformed():
        _checked_features(x, partial(_check_finite, "features", x))
    if not torch.compiler.is_compiling():
        _check_dtype(model, x)


def _check_dtype(model: nn.Module, x: Tensor) -> None:
    """Autocast brings half and single precision together; nothing brings double and single together."""
    expected = next((p.dtype for p in model.parameters() if p.is_floating_point()), x.dtype)
    is_cast = torch.is_autocast_enabled(x.device.type) and torch.float64 not in (x.dtype, expected)
    if x.dtype != expected and not is_cast:
        raise ShapeError(
            f"features must have the dtype of the model, {expected}; got {x.dtype}. "
            f"Convert them with x.to({expected}), or the model with model.to({x.dtype})."
        )


def _check_finite(name: str, values: Tensor) -> None:
    if not bool(torch.isfinite(stored_values(values)).all()):
        raise DataError(f"{name} must be finite; got NaN or infinity. Fill or drop them first.")


def linear(in_channels: int, out_channels: int) -> nn.Module:
    """A linear layer with bias; `in_channels=-1` is inferred at the first call, as everywhere in PyG."""
    if in_channels == -1:
        from torch_geometric.nn.dense import Linear

        return Linear(-1, out_channels)
    require_at_least("in_channels (or -1 to infer it)", in_channels, 1)
    require_at_least("out_channels", out_channels, 1)
    return nn.Linear(in_channels, out_channels)
