"""A graph as the model sees it.

In double precision, so that a prediction does not depend on the order of nodes or on other components.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.data import Graph
from polynsd.errors import DataError
from polynsd.estimator.inputs import features_of
from polynsd.estimator.scaling import Scaling

if TYPE_CHECKING:
    from torch_geometric.data import Data


def as_data(graph: Graph, features: Scaling, edge_features: Scaling | None) -> Data:
    """PyG's `Data` with scaled features and both directions of every edge."""
    from torch_geometric.data import Data

    once = torch.from_numpy(graph.edge_index.astype(np.int64))
    data = Data(edge_index=torch.cat([once, once.flip(0)], 1), num_nodes=graph.num_nodes)
    data.x = torch.from_numpy(features.apply(features_of(graph)))
    if graph.edge_weight is not None:
        data.edge_weight = _both_ways(graph.edge_weight)
    if graph.edge_attr is not None and edge_features is not None:
        data.edge_attr = _both_ways(edge_features.apply(graph.edge_attr.astype(np.float64)))
    return data


def edge_inputs(data: Data, has_weights: bool, edge_dim: int) -> dict[str, Tensor]:
    """What the model is given of the edges, which must carry what those of `fit` did."""
    if not data.num_edges:
        return {"edge_attr": data.x.new_zeros(0, edge_dim)} if edge_dim else {}
    if has_weights != (data.edge_weight is not None):
        wanted, came = ("with", "without") if has_weights else ("without", "with")
        raise DataError(
            f"the model was fitted {wanted} edge weights; this graph comes {came} them. Give it the same."
        )
    found = 0 if data.edge_attr is None else data.edge_attr.size(1)
    if edge_dim and found != edge_dim:
        raise DataError(
            f"the model was fitted with {edge_dim} edge features; this graph has {found}. Give it the same."
        )
    extra = {"edge_weight": data.edge_weight} if has_weights else {}
    return {**extra, "edge_attr": data.edge_attr} if edge_dim else extra


def _both_ways(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.concatenate([values, values]).astype(np.float64))
