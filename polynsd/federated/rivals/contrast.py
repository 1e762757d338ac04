"""MOON, FGSSL and FedProto: local losses that compare embeddings, with those of the received model or with
means of classes over all clients.

z_v is the penultimate state of node v. MOON and FGSSL send weights and the number of nodes, FedProto mean
embeddings of classes in place of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize, softplus

from polynsd.errors import DataError, require_choice
from polynsd.federated.backbones import run_with
from polynsd.federated.methods import (
    Array,
    Method,
    Payload,
    RoundFacts,
    ServerState,
    Shapes,
    register_method,
    to_arrays,
)
from polynsd.kernels.ops.edges import sum_at_nodes
from polynsd.topology import Topology
from polynsd.training.replica import eval_mode

if TYPE_CHECKING:
    from polynsd.federated.branches import LocalOutput
    from polynsd.federated.client import LocalClient

VARIANTS = ("coded", "published")
WEAK, STRONG = (0.3, 0.3), (0.8, 0.5)  # shares of edges and of features that an augmentation drops


@register_method("moon")
@dataclass(frozen=True)
class MOON(Method):
    """FedAvg with a contrast between models in the local loss (Li et al., 2021):

        μ · mean_v −log( e^{cos(z_v, g_v)/τ} / (e^{cos(z_v, g_v)/τ} + e^{cos(z_v, p_v)/τ}) )

    g is the embedding by the received model, p that by the client's model of the round before, which a client
    does not have in its first round.
    """

    mu: float = 1.0
    tau: float = 0.5

    def receive(self, client: LocalClient, received: Payload, round: int) -> None:  # noqa: A002
        has_trained = client.epochs > 0
        if has_trained:
            client.memory["previous"] = client.output().embedding
        super().receive(client, received, round)
        if has_trained:
            client.memory["received"] = client.output().embedding

    def local_loss(self, client: LocalClient, output: LocalOutput, round: int) -> Tensor | float:  # noqa: A002
        if "received" not in client.memory:
            return 0.0
        received, previous = client.memory["received"], client.memory["previous"]
        return self.mu * contrast_models(output.embedding, received, previous, self.tau)


def contrast_models(z: Tensor, received: Tensor, previous: Tensor, tau: float) -> Tensor:
    """The mean of −log softmax([cos(z, g), cos(z, p)]/τ)_0 = log(1 + e^{(cos(z, p) − cos(z, g))/τ})."""
    difference = cosine_similarity(z, previous, -1) - cosine_similarity(z, received, -1)
    return softplus(difference / tau).mean()


@register_method("fgssl")
@dataclass(frozen=True)
class FGSSL(Method):
    """FedAvg with distillation from the received model (Huang et al., 2023).

    z is the client's embedding of a graph without 80 % of its edges and 50 % of its features, g the received
    model's of one without 30 % of each. With variant

        coded      weight · mean over edges of KL(softmax(|g_u − g_v|/τ) ‖ softmax(|z_u − z_v|/τ)),
                   all that reaches the loss in OpenFGL's code, whose contrast is computed and dropped
        published  weight · (`contrast_classes` of training nodes + `compare_neighbourhoods`): nodes of one
                   class are brought together, and similarities to neighbours are those of the received model
    """

    variant: str = "coded"
    weight: float = 0.1
    tau: float = 0.1

    def __post_init__(self) -> None:
        require_choice("variant of fgssl", self.variant, VARIANTS)

    def local_loss(self, client: LocalClient, output: LocalOutput, round: int) -> Tensor:  # noqa: A002
        graph, topology = client.graph, client.graph.topology
        draws = torch.Generator().manual_seed((client.seed << 20) + client.epochs)
        x, scores = augment(graph.x, topology, *WEAK, draws)
        with torch.no_grad(), eval_mode(client.causal):
            g = run_with(client.causal, client.received, x, topology, scores).embedding
        x, scores = augment(graph.x, topology, *STRONG, draws)
        z = client.causal.run(x, topology, scores).embedding
        if self.variant == "coded":
            return self.weight * compare_differences(z, g, topology, self.tau)
        nodes = graph.train
        contrast = contrast_classes(z[nodes], g[nodes], graph.y[nodes], self.tau)
        return self.weight * (contrast + compare_neighbourhoods(z, g, topology, self.tau))


def augment(
    x: Tensor, topology: Topology, edges: float, features: float, draws: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The features without some columns, and scores `[H]` that are 0 on some edges."""
    kept = torch.rand(topology.num_edges, generator=draws) >= edges
    columns = torch.rand(x.size(-1), generator=draws) >= features
    return x * columns.to(x), kept.to(x)[topology.edge]


def compare_differences(z: Tensor, g: Tensor, topology: Topology, tau: float) -> Tensor:
    """The mean over edges of KL(softmax(|g_u − g_v|/τ) ‖ softmax(|z_u − z_v|/τ)), over coordinates."""
    ours, theirs = (((h[topology.row] - h[topology.col]).abs() / tau).log_softmax(-1) for h in (z, g))
    return (theirs.exp() * (theirs - ours)).sum(-1).sum() / max(topology.num_half_edges, 1)


def compare_neighbourhoods(z: Tensor, g: Tensor, topology: Topology, tau: float) -> Tensor:
    """The mean of KL(G_v ‖ Z_v), 0 without neighbours, with Z_v = softmax_{u ∈ N(v)}(cos(z_v, z_u)/τ)."""

    def log_shares(h: Tensor) -> Tensor:
        logits = cosine_similarity(h[topology.row], h[topology.col], -1) / tau  # at most 1/τ
        total = sum_at_nodes(logits.exp().unsqueeze(-1), topology.pattern, -2).squeeze(-1)
        return logits - total[topology.row].log()

    ours, theirs = log_shares(z), log_shares(g)
    return (theirs.exp() * (theirs - ours)).sum() / topology.num_nodes


def contrast_classes(z: Tensor, g: Tensor, y: Tensor, tau: float) -> Tensor:
    """mean_v −(1/|P_v|) Σ_{p ∈ P_v} log softmax_p(cos(z_v, g_p)/τ), P_v the nodes of the class of v."""
    logs = (normalize(z, dim=-1) @ normalize(g, dim=-1).mT / tau).log_softmax(-1)
    positive = (y[:, None] == y[None, :]).to(logs)
    return -((positive * logs).sum(-1) / positive.sum(-1)).mean()


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

    def describe_reply(self, facts: RoundFacts) -> Shapes:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model = self.build(facts.config, facts.num_features, facts.num_classes).eval()
            pair = Topology.from_edge_index(torch.tensor([[0], [1]]), 2)
            width = model.run(torch.zeros(2, facts.num_features), pair).embedding.size(-1)
        return {"prototypes": (facts.num_classes, width), "has_class": (facts.num_classes,)}

    def check(self, reply: Payload) -> None:
        wrong = [value for value in reply.arrays["has_class"].tolist() if value not in (0, 1)]
        if wrong:
            raise DataError(f"sent has_class = {wrong[0]:g}; it is 1 for a class that there is, 0 otherwise")

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
