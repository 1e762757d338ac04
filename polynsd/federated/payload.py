"""What travels between server and clients, and what stays with a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import DataError

Array = NDArray[Any]


@dataclass(frozen=True)
class Payload:
    """Named arrays and named numbers: all that ever travels, in either direction."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Of arrays and numbers, without the frame of the transport."""
        return sum(array.nbytes for array in self.arrays.values()) + 8 * len(self.numbers)


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
    ids: Array | None = None  # [n] the nodes' names

    def __post_init__(self) -> None:
        n = len(self.x)
        for name in ("y", "train", "val", "test"):
            if getattr(self, name).shape != (n,):
                raise DataError(f"{name} must have shape [{n}]; got {list(getattr(self, name).shape)}.")
        if not bool(self.train.any()):
            raise DataError("the client has no training node; use fewer clients or another partition.")

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
