"""What travels between server and clients, and what stays with a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS
from polynsd.errors import DataError

if TYPE_CHECKING:
    from polynsd.federated.partition import Partition

Array = NDArray[Any]


@dataclass(frozen=True)
class Payload:
    """Named arrays and named numbers: all that ever travels, in either direction."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientData:
    """The graph of one client; nothing of it ever leaves the client."""

    x: Tensor  # [n, F]
    edge_index: Tensor  # [2, m] both directions of every edge
    y: Tensor  # [n] int64 classes, −1 where there is none
    train: Tensor  # [n] bool, as the two below
    val: Tensor
    test: Tensor
    num_classes: int  # of all clients

    def __post_init__(self) -> None:
        n = len(self.x)
        for name in ("y", "train", "val", "test"):
            if getattr(self, name).shape != (n,):
                raise DataError(f"{name} must have shape [{n}]; got {list(getattr(self, name).shape)}.")
        if not bool(self.train.any()):
            raise DataError("the client has no training node; use fewer clients or another partition.")

    @classmethod
    def of(cls, graph: Graph, num_classes: int) -> ClientData:
        """From a graph with labels and the masks `default`, of which the first split counts.

        Args:
            graph: e.g. one of a `Partition`.
            num_classes: of all clients.
        """
        if graph.y is None or graph.is_regression or "default" not in graph.masks:
            raise DataError(f"{graph.name} needs classes and masks 'default' to be a client's graph.")
        edges = torch.as_tensor(np.ascontiguousarray(graph.edge_index), dtype=torch.long)
        train, val, test = (
            torch.as_tensor(getattr(graph.masks["default"], part)[0].copy()) for part in PARTS
        )
        return cls(
            torch.as_tensor(graph.dense_x).clone(),
            torch.cat([edges, edges.flip(0)], 1),
            torch.as_tensor(graph.y).long().clone(),
            train,
            val,
            test,
            num_classes,
        )

    @property
    def num_nodes(self) -> int:
        return len(self.x)

    @property
    def num_features(self) -> int:
        return self.x.size(1)

    def to(self, device: torch.device | str) -> ClientData:
        """The same on another device."""
        names = ("x", "edge_index", "y", "train", "val", "test")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    """Tensors as arrays of their own."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def pool_clients(partition: Partition, graph: Graph | None = None) -> ClientData:
    """All clients as one, for the training that federated ones are compared with: the union of their graphs
    with their splits.

    Args:
        partition: the clients.
        graph: the one that was divided, whose edges between clients count too; without it they stay lost.
    """
    numbers = np.unique(np.concatenate(partition.nodes))
    places = [np.searchsorted(numbers, nodes) for nodes in partition.nodes]
    if graph is not None and len(numbers) != graph.num_nodes:
        raise DataError(f"the clients have {len(numbers)} of {graph.num_nodes} nodes; pool them without it.")
    first = ClientData.of(partition.graphs[0], partition.num_classes)
    x, y = first.x.new_zeros(len(numbers), first.num_features), first.y.new_full((len(numbers),), -1)
    masks = {part: torch.zeros(len(numbers), dtype=torch.bool) for part in PARTS}
    edges = []
    for place, member in zip(places, partition.graphs, strict=True):
        data, rows = ClientData.of(member, partition.num_classes), torch.as_tensor(place)
        x[rows], y[rows] = data.x, data.y
        edges.append(rows[data.edge_index])
        for part in PARTS:
            masks[part][rows] |= getattr(data, part)
    if graph is not None:
        whole = torch.as_tensor(np.ascontiguousarray(graph.edge_index), dtype=torch.long)
        edges = [whole, whole.flip(0)]
    union = torch.unique(torch.cat(edges, 1), dim=1)  # clients may overlap
    return ClientData(x, union, y, **masks, num_classes=partition.num_classes)
