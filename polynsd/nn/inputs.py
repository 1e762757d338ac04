"""What a layer or model is called with, checked and brought onto half-edges once."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from polynsd.errors import ConfigError, ShapeError
from polynsd.topology import Topology, as_topology


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
    if edge_weight is not None:
        edge_weight = topology.symmetric_weight(edge_weight).to(x.dtype)
    if edge_attr is not None:
        edge_attr = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
        edge_attr = topology.per_half_edge(edge_attr.to(x.dtype))
    return GraphInput(topology, edge_weight, edge_attr, batch)


def check_features(x: Tensor, in_channels: int) -> None:
    """Raises unless x is `[..., N, in_channels]` and floating."""
    if x.dim() < 2 or (in_channels >= 0 and x.size(-1) != in_channels):
        wanted = "in_channels" if in_channels < 0 else in_channels
        raise ShapeError(f"features must have shape [N, {wanted}]; got {list(x.shape)}.")
    if not x.is_floating_point():
        raise ShapeError(f"features must be floating point; got {x.dtype}. Convert them with x.float().")


def linear(in_channels: int, out_channels: int) -> nn.Module:
    """A linear layer with bias; `in_channels=-1` is inferred at the first call, as everywhere in PyG."""
    if in_channels == -1:
        from torch_geometric.nn.dense import Linear

        return Linear(-1, out_channels)
    if in_channels < 1 or out_channels < 1:
        raise ConfigError(
            f"channels must be at least 1 (or -1 for in_channels, to infer it); got {in_channels} and "
            f"{out_channels}."
        )
    return nn.Linear(in_channels, out_channels)
