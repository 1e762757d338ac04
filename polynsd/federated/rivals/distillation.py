"""FedTAD: the server improves the mean model on a graph that it invents.

The server sees the weights of every client, so it cannot be combined with secure aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from polynsd.errors import ConfigError, DataError
from polynsd.federated.backbones import Backbone, run_with
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
from polynsd.kernels.ops.edges import sum_at_nodes
from polynsd.topology import Topology
from polynsd.training.replica import eval_mode

if TYPE_CHECKING:
    from polynsd.federated.branches import LocalGraph
    from polynsd.federated.client import LocalClient

NOISE, NODES, NEIGHBOURS, WALKS = 32, 100, 5, 5
EPOCHS, MODEL_STEPS = 5, 5  # an epoch: a step of the generator, then five of the model
RELIABILITY = "reliability"
LARGEST = 2.0  # reliability; it is a share, but cosines can be negative

Weights = Mapping[str, Tensor]


class Generator(nn.Module):
    """Features of pseudo nodes from noise and an embedding of their class."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        widths = (NOISE + num_classes, 64, 128, 256)
        self.classes = nn.Embedding(num_classes, num_classes)
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.last = nn.Linear(widths[-1], num_features)

    def forward(self, noise: Tensor, y: Tensor) -> Tensor:
        h = torch.cat([self.classes(y), noise], -1)
        for linear in self.linears:
            h = linear(h).tanh()
        return self.last(h)


@register_method("fedtad")
@dataclass(frozen=True)
class FedTAD(Method):
    """FedAvg, then distillation without data on the server (Zhu et al., 2024).

    A client sends once and again how reliable it is for class c,

        r_ic ∝ Σ_{training v of c} mean_{u ∈ {v} ∪ N(v)} cos([x_v ‖ w_v], [x_u ‖ w_u]),    Σ_c r_ic = 1,

    w_v being the probabilities that a random walk is back at v after 1 … 5 steps. The server generates 100
    nodes of given classes, links each to the 5 most similar, and minimises in turn, with D_ic the mean
    |Z − Z_i| of the logits of mean model and client i over the nodes of class c:

        generator    Σ_i Σ_c r_ic (CE(Z_i, c) − D_ic) + K exp(−mean_{ab} (‖ε_a − ε_b‖²/32) (‖x_a − x_b‖₁/F))
        mean model   Σ_i Σ_c r_ic D_ic

    The generator is kept over rounds, Adam begins anew in each.
    """

    rate: float = 1e-3
    decay: float = 5e-4
    leaves: ClassVar[str] = "weights of the causal branch, reliability of every class, number of nodes"

    def start(self, client: LocalClient) -> None:
        client.memory[RELIABILITY] = class_reliability(client.graph, client.data.num_classes)

    def send(self, client: LocalClient, round: int) -> Payload:  # noqa: A002
        reply = super().send(client, round)
        arrays = {**reply.arrays, **to_arrays({RELIABILITY: client.memory[RELIABILITY]})}
        return Payload(arrays, reply.numbers)

    def describe_reply(self, facts: RoundFacts) -> Shapes:
        return {**facts.shared, RELIABILITY: (facts.num_classes,)}

    def check(self, reply: Payload) -> None:
        shares = reply.arrays[RELIABILITY].astype(np.float64)
        total, largest = shares.sum(), np.abs(shares).max()
        if abs(total - 1) > 1e-3 or largest > LARGEST:
            raise DataError(
                f"sent reliabilities of sum {total:.3g} and of up to {largest:.3g}; their sum must be 1 and "
                f"none larger than {LARGEST:g}"
            )

    def aggregate(self, replies: Mapping[int, Payload], state: ServerState) -> Payload:
        if state.config is None:
            raise ConfigError("fedtad trains on the server, which needs ServerState(config=…) for that.")
        order = sorted(replies)
        reliability = torch.tensor(np.stack([replies[i].arrays[RELIABILITY] for i in order]))
        plain = {
            i: Payload({n: a for n, a in replies[i].arrays.items() if n != RELIABILITY}, replies[i].numbers)
            for i in order
        }
        mean, *locals_ = (
            {name: torch.tensor(array) for name, array in arrays.items()}
            for arrays in (average(plain), *(reply.arrays for reply in plain.values()))
        )
        with torch.random.fork_rng(devices=[]):
            sizes = self.count_features(state.config, mean, reliability.size(1)), reliability.size(1)
            torch.manual_seed(state.round)
            model, generator = self.build(state.config, *sizes), Generator(*sizes)
            if state.memory:
                generator.load_state_dict({n: torch.tensor(a) for n, a in state.memory.items()})
            mean = self.distil(model, generator, mean, locals_, reliability)
        state.memory.update(to_arrays(generator.state_dict()))
        return Payload(to_arrays(mean))

    def count_features(self, config: FederatedConfig, weights: Weights, num_classes: int) -> int:
        """The number of features that a model takes, from the shapes of its weights."""
        one, two = (self.shared(self.build(config, width, num_classes)) for width in (1, 2))
        for name, p in one.items():
            for axis, (first, second) in enumerate(zip(p.shape, two[name].shape, strict=True)):
                if first != second:
                    return (weights[name].size(axis) - first) // (second - first) + 1
        raise ConfigError("fedtad generates features, but no weight of this model depends on their number.")

    def distil(
        self,
        model: Backbone,
        generator: Generator,
        mean: Weights,
        locals_: list[dict[str, Tensor]],
        reliability: Tensor,
    ) -> dict[str, Tensor]:
        """The weights of the mean model after the steps of one round."""
        y = torch.arange(NODES) * reliability.size(1) // NODES  # equally many of every class
        weights = {name: p.clone().requires_grad_() for name, p in mean.items()}
        of_generator, of_model = (
            torch.optim.Adam(parameters, lr=self.rate, weight_decay=self.decay)
            for parameters in (generator.parameters(), weights.values())
        )
        for _ in range(EPOCHS):
            noise = torch.randn(NODES, NOISE)
            with eval_mode(model):
                of_generator.zero_grad()
                generator_loss(model, generator, noise, y, weights, locals_, reliability).backward()
                of_generator.step()
                with torch.no_grad():
                    x = generator(noise, y)
                    topology = link_similar(x)
                    theirs = [run_with(model, each, x, topology).logits for each in locals_]
            model.train()
            for _ in range(MODEL_STEPS):
                of_model.zero_grad()
                ours = run_with(model, weights, x, topology).logits
                class_distance(ours, theirs, y, reliability).backward()
                of_model.step()
        return {name: p.detach() for name, p in weights.items()}


def generator_loss(
    model: Backbone,
    generator: Generator,
    noise: Tensor,
    y: Tensor,
    weights: Weights,
    locals_: list[dict[str, Tensor]],
    reliability: Tensor,
) -> Tensor:
    """What the generator minimises; see `FedTAD`."""
    x = generator(noise, y)
    topology = link_similar(x.detach())
    ours = run_with(model, {n: p.detach() for n, p in weights.items()}, x, topology).logits
    theirs = [run_with(model, each, x, topology).logits for each in locals_]
    entropies = torch.stack([mean_over_classes(cross_entropy(z, y, reduction="none"), y, len(reliability[0]))
                             for z in theirs])  # fmt: skip
    distance = class_distance(ours, [z.detach() for z in theirs], y, reliability)
    return (reliability * entropies).sum() - distance + len(locals_) * sameness(noise, x)


def class_distance(ours: Tensor, theirs: list[Tensor], y: Tensor, reliability: Tensor) -> Tensor:
    """Σ_i Σ_c r_ic mean over nodes of class c and over logits of |Z − Z_i|."""
    rows = [mean_over_classes((ours - z).abs().mean(-1), y, reliability.size(1)) for z in theirs]
    return (reliability * torch.stack(rows)).sum()


def mean_over_classes(values: Tensor, y: Tensor, num_classes: int) -> Tensor:
    """`[C]` the mean of values `[m]` over the nodes of every class."""
    members = (y[:, None] == torch.arange(num_classes)).to(values)
    return members.mT @ values / members.sum(0).clamp(min=1)


def sameness(noise: Tensor, x: Tensor) -> Tensor:
    """exp(−mean_{ab} (‖ε_a − ε_b‖²/dim) (‖x_a − x_b‖₁/F)): small where other noise gives other nodes."""
    apart = torch.cdist(noise, noise).square() / noise.size(-1)
    return (-(apart * torch.cdist(x, x, p=1) / x.size(-1)).mean()).exp()


def link_similar(x: Tensor) -> Topology:
    """Every node with the five of greatest cosine similarity."""
    unit = normalize(x, dim=-1)
    similarity = (unit @ unit.mT).fill_diagonal_(-torch.inf)
    near = similarity.topk(NEIGHBOURS, dim=-1).indices
    rows = torch.arange(len(x)).repeat_interleave(NEIGHBOURS)
    return Topology.from_edge_index(torch.stack([rows, near.reshape(-1)]), len(x))


def class_reliability(graph: LocalGraph, num_classes: int) -> Tensor:
    """`[C]` r_c of a client, of sum 1."""
    topology = graph.topology
    h = torch.cat([graph.x, return_probabilities(topology).to(graph.x)], -1)
    similar = cosine_similarity(h[topology.row], h[topology.col], -1).unsqueeze(-1)
    degree = sum_at_nodes(torch.ones_like(similar), topology.pattern, -2)
    means = ((sum_at_nodes(similar, topology.pattern, -2) + 1) / (degree + 1)).squeeze(-1)
    members = (graph.y[:, None] == torch.arange(num_classes, device=graph.y.device)) & graph.train[:, None]
    total = members.to(means).mT @ means
    return total / total.sum()


def return_probabilities(topology: Topology) -> Tensor:
    """`[n, 5]` the probability that a walk with a chance to stay, on A + I, is back after 1 … 5 steps."""
    n, row, col = topology.num_nodes, topology.row.cpu().numpy(), topology.col.cpu().numpy()
    adjacency = sparse.csr_matrix((np.ones(len(row)), (row, col)), shape=(n, n)) + sparse.eye(n, format="csr")
    walk = sparse.diags(1 / np.asarray(adjacency.sum(1)).reshape(-1)) @ adjacency
    powers = [walk, walk @ walk, walk @ walk @ walk]
    columns = [power.diagonal() for power in powers]
    for long, short in ((2, 0), (2, 1)):  # T⁴ = T³T and T⁵ = T³T², of which the diagonal is enough
        columns.append(np.asarray(powers[long].multiply(powers[short].T).sum(1)).reshape(-1))
    return torch.from_numpy(np.stack(columns, 1))
