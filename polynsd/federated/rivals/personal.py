"""FedPUB: every client gets its own mean of the others' weights, and masks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from polynsd.errors import ConfigError
from polynsd.federated.backbones import Backbone, Output, build_backbone, run_with
from polynsd.federated.config import FederatedConfig
from polynsd.federated.methods import (
    Method,
    Payload,
    RoundFacts,
    ServerState,
    Shapes,
    average,
    register_method,
    to_arrays,
)
from polynsd.topology import Topology
from polynsd.training.replica import eval_mode

if TYPE_CHECKING:
    from polynsd.federated.branches import LocalOutput
    from polynsd.federated.client import LocalClient

BLOCKS, BLOCK_NODES, DENSITY = 5, 100, 0.1  # of the proxy graph; no edges between blocks
LEAST = 1e-3  # smaller entries of a mask are 0 in evaluation
EMBEDDING = "functional_embedding"


class Masked(Backbone):
    """A network whose matrices are W ⊙ m, with masks m that begin as 1."""

    def __init__(self, model: Backbone) -> None:
        super().__init__()
        self.model = model
        self.names = [name for name, p in model.named_parameters() if p.dim() > 1]
        self.masks = nn.ParameterList(torch.ones_like(model.get_parameter(name)) for name in self.names)

    def run(self, x: Tensor, topology: Topology, scores: Tensor | None = None) -> Output:
        own = dict(self.model.named_parameters())
        masks = [m if self.training else m * (m.abs() >= LEAST) for m in self.masks]
        masked = {name: own[name] * m for name, m in zip(self.names, masks, strict=True)}
        return run_with(self.model, masked, x, topology, scores)


@register_method("fedpub")
@dataclass(frozen=True)
class FedPUB(Method):
    """Personalised weights (Baek et al., 2023). A client trains W ⊙ m; W travels, m stays. Its loss has

        l1 · Σ ‖m‖₁ + l2 · Σ ‖θ − θ_received‖₂    (a sum over tensors)

    in addition, and this term has a gradient (in published code it is computed from detached copies, and has
    none). Client i receives Σ_j α_ij θ_j with α_ij = exp(τ cos(e_i, e_j)) / Σ_j exp(τ cos(e_i, e_j)), where
    e_i is the mean output of client i's network on a random graph that follows from `seed`.
    """

    l1: float = 1e-3
    l2: float = 1e-3
    tau: float = 10.0
    seed: int = 0  # of the random graph
    leaves: ClassVar[str] = "weights without their masks, mean output on a random graph, number of nodes"

    def build(self, config: FederatedConfig, num_features: int, num_classes: int) -> Backbone:
        if config.masks != "none":
            raise ConfigError(f"fedpub has masks of weights, none of edges; got masks='{config.masks}'.")
        return Masked(build_backbone(config, num_features, num_classes))

    def shared(self, model: nn.Module) -> dict[str, nn.Parameter]:
        assert isinstance(model, Masked)
        return dict(model.model.named_parameters())

    def local_loss(self, client: LocalClient, output: LocalOutput, round: int) -> Tensor:  # noqa: A002
        assert isinstance(client.causal, Masked)
        return self.l1 * torch.stack([m.abs().sum() for m in client.causal.masks]).sum()

    def proximal(self, shared: Mapping[str, Tensor], received: Mapping[str, Tensor]) -> Tensor:
        return self.l2 * torch.stack([(p - received[name]).norm() for name, p in shared.items()]).sum()

    def send(self, client: LocalClient, round: int) -> Payload:  # noqa: A002
        x, topology = proxy_graph(client.data.num_features, self.seed)
        with torch.no_grad(), eval_mode(client.causal):
            logits = client.causal.run(x.to(client.data.x), topology.to(client.device)).logits
        reply = super().send(client, round)
        arrays = {**reply.arrays, **to_arrays({EMBEDDING: scale_down(logits.mean(0))})}
        return Payload(arrays, reply.numbers)

    def describe_reply(self, facts: RoundFacts) -> Shapes:
        return {**facts.shared, EMBEDDING: (facts.num_classes,)}

    def aggregate(self, replies: Mapping[int, Payload], state: ServerState) -> dict[int, Payload]:
        order = sorted(replies)
        weights = similarity_weights(np.stack([replies[i].arrays[EMBEDDING] for i in order]), self.tau)
        models = {
            i: Payload({name: array for name, array in replies[i].arrays.items() if name != EMBEDDING})
            for i in order
        }
        return {
            i: Payload(average(models, dict(zip(order, row.tolist(), strict=True))))
            for i, row in zip(order, weights, strict=True)
        }


def scale_down(embedding: Tensor) -> Tensor:
    """The embedding times a power of two, so that no entry is beyond ±1; cosines stay as they are.

    Outputs may be larger than the numbers that a server takes, which are weights.
    """
    exponent = torch.frexp(embedding.abs().max()).exponent.clamp(min=0)
    return torch.ldexp(embedding, -exponent)


def similarity_weights(embeddings: np.ndarray, tau: float) -> np.ndarray:
    """`[K, K]` α_ij = exp(τ cos(e_i, e_j)) / Σ_j exp(τ cos(e_i, e_j)); rows sum to 1.

    An embedding of zeros has cosine 0 with all: its client gets the plain mean.
    """
    unit = embeddings.astype(np.float64)
    norms = np.linalg.norm(unit, axis=1, keepdims=True)
    unit = unit / np.where(norms > 0, norms, 1.0)
    exponents = tau * (unit @ unit.T)
    powers = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@cache
def proxy_graph(num_features: int, seed: int) -> tuple[Tensor, Topology]:
    """Five blocks of 100 nodes, p = 0.1 inside, none between; features N(0, 1). All clients draw the same."""
    draws, nodes = torch.Generator().manual_seed(seed), BLOCKS * BLOCK_NODES
    x = torch.randn(nodes, num_features, generator=draws)
    block = torch.arange(nodes) // BLOCK_NODES
    linked = (torch.rand(nodes, nodes, generator=draws) < DENSITY) & (block[:, None] == block)
    return x, Topology.from_edge_index(linked.triu(1).nonzero().T, nodes)
