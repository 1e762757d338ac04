"""How a model is called on a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from polynsd.nn import PolyNSD

if TYPE_CHECKING:
    from torch_geometric.data import Data


def output_of(model: nn.Module, data: Data) -> Tensor:
    """What a model says of the data; it sees edge features if it was built to (`edge_dim`)."""
    extra = {}
    if data.edge_weight is not None:
        extra["edge_weight"] = data.edge_weight
    if data.edge_attr is not None and isinstance(model, PolyNSD) and model.config.edge_dim:
        extra["edge_attr"] = data.edge_attr
    return model(data.x, data.edge_index, **extra)
