"""FedProto: clients share what a class looks like, not their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from polynsd.federated.methods import Method, ServerState, register_method
from polynsd.federated.payload import Array, Payload, to_arrays

if TYPE_CHECKING:
    from polynsd.federated.branches import LocalOutput
    from polynsd.federated.client import LocalClient


@register_method("fedproto")
@dataclass(frozen=True)
class FedProto(Method):
    """No weight travels. A client sends the prototype p_ic of every class c that it has, the mean embedding
    of its training nodes of that class (Tan et al., 2022); the server returns

        p_c = Σ_i n_i p_ic / Σ_i n_i    over the clients i that have class c,

    and the local loss has λ Σ_c mean_{v ∈ c} ‖z_v − p_c‖²/D in addition. Published code averages zero vectors
    of clients that lack the class too, which moves prototypes to the origin.
    """

    weight: float = 1.0  # λ
    leaves: ClassVar[str] = "the mean embedding of every class, which classes there are, number of nodes"

    def shared(self, model: nn.Module) -> dict[str, nn.Parameter]:
        return {}

    def receive(self, client: LocalClient, received: Payload, round: int) -> None:  # noqa: A002
        for name, array in received.arrays.items():
            client.memory[name] = torch.tensor(array).to(client.data.x)

    def local_loss(self, client: LocalClient, output: LocalOutput, round: int) -> Tensor | float:  # noqa: A002
        if "prototypes" not in client.memory:
            return 0.0
        z, y = output.embedding[client.graph.train], client.graph.y[client.graph.train]
        prototypes, known = client.memory["prototypes"], client.memory["has_class"]
        return self.weight * distance_from_prototypes(z, y, prototypes, known)

    def send(self, client: LocalClient, round: int) -> Payload:  # noqa: A002
        z, y = client.output().embedding[client.graph.train], client.graph.y[client.graph.train]
        prototypes, has_class = mean_by_class(z, y, client.data.num_classes)
        arrays = to_arrays({"prototypes": prototypes, "has_class": has_class})
        return Payload(arrays, {"num_nodes": client.data.num_nodes})

    def aggregate(self, replies: Mapping[int, Payload], state: ServerState) -> Payload:
        return Payload(average_prototypes(replies))


def mean_by_class(z: Tensor, y: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """`[C, D]` mean embeddings, zero where there is none, and `[C]` 1 where there is one."""
    members = (y[:, None] == torch.arange(num_classes, device=y.device)).to(z)  # [m, C]
    counts = members.sum(0)
    return members.mT @ z / counts.clamp(min=1)[:, None], (counts > 0).to(z)


def distance_from_prototypes(z: Tensor, y: Tensor, prototypes: Tensor, known: Tensor) -> Tensor:
    """Σ_c mean over nodes v of class c and coordinates of (z_v − p_c)², over the classes that have a p_c."""
    errors = (z - prototypes[y]).square().mean(-1)
    members = (y[:, None] == torch.arange(len(known), device=y.device)).to(z)
    return (known * (members.mT @ errors) / members.sum(0).clamp(min=1)).sum()


def average_prototypes(replies: Mapping[int, Payload]) -> dict[str, Array]:
    """p_c over the clients that have the class, weighted by their numbers of nodes."""
    ordered = [reply for _, reply in sorted(replies.items())]
    nodes = np.array([reply.numbers["num_nodes"] for reply in ordered])
    weights = nodes[:, None] * np.stack([reply.arrays["has_class"] for reply in ordered])  # [K, C]
    prototypes = np.stack([reply.arrays["prototypes"] for reply in ordered])
    total = weights.sum(0)
    means = np.einsum("kc,kcd->cd", weights, prototypes) / np.where(total > 0, total, 1)[:, None]
    return {"prototypes": means.astype(prototypes.dtype), "has_class": (total > 0).astype(prototypes.dtype)}
