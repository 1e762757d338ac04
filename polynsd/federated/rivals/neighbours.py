"""FedSage+: clients invent the neighbours that they lack.

Generated neighbours are leaves: nodes with one edge. A GraphSAGE layer is computed for them beside the graph,
`[n, 5, D]`, so no graph is built anew when their number changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import ConfigError
from polynsd.federated.backbones import Backbone, Output
from polynsd.federated.branches import cross_entropy
from polynsd.federated.config import FederatedConfig
from polynsd.federated.methods import (
    CLIENTS,
    Method,
    Payload,
    RoundFacts,
    ServerState,
    Shapes,
    average,
    register_method,
    to_arrays,
)
from polynsd.kernels.ops.edges import at_columns, sum_at_nodes
from polynsd.memo import skip_value_checks
from polynsd.topology import Topology

if TYPE_CHECKING:
    from polynsd.federated.client import LocalClient

LATENT, HIDDEN, MOST = 128, (256, 2048), 5  # of the generator; at most so many neighbours of a node
HIDDEN_SHARE = 0.5  # of the validation nodes, which the generator learns to bring back
ROWS = 256  # features that a client gives away per round, where it does
TINY = 1e-6
OTHERS = "others"


class Leaves(NamedTuple):
    """Generated neighbours."""

    x: Tensor  # [n, 5, D]
    present: Tensor  # [n, 5, 1] 0 or 1


class SageLayer(nn.Module):
    """W₁ h_v + W₂ mean_{u ∈ N(v)} h_u + b; neighbours are weighted by scores, and leaves are among them."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own = nn.Linear(in_channels, out_channels)
        self.near = nn.Linear(in_channels, out_channels, bias=False)

    def forward(
        self, h: Tensor, leaves: Leaves | None, topology: Topology, scores: Tensor | None
    ) -> tuple[Tensor, Leaves | None]:
        ones = h.new_ones(topology.num_half_edges)
        weights = (ones if scores is None else scores).unsqueeze(-1)
        total = sum_at_nodes(weights * at_columns(h, topology.pattern, -2), topology.pattern, -2)
        count = sum_at_nodes(weights, topology.pattern, -2)
        if leaves is not None:
            total = total + (leaves.present * leaves.x).sum(-2)
            count = count + leaves.present.sum(-2)
        out = self.own(h) + self.near(total / count.clamp(min=TINY))
        if leaves is None:
            return out, None
        return out, Leaves(self.own(leaves.x) + self.near(h).unsqueeze(-2), leaves.present)


class Sage(nn.Module):
    """Two layers, ReLU and dropout between them."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float) -> None:
        super().__init__()
        self.first = SageLayer(in_channels, hidden_channels)
        self.second = SageLayer(hidden_channels, out_channels)
        self.dropout = dropout

    def forward(
        self, x: Tensor, leaves: Leaves | None, topology: Topology, scores: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What the second layer gives, and what it sees."""
        h, leaves = self.first(x, leaves, topology, scores)
        h = functional.dropout(torch.relu(h), self.dropout, self.training)
        if leaves is not None:
            z = functional.dropout(torch.relu(leaves.x), self.dropout, self.training)
            leaves = leaves._replace(x=z)
        return self.second(h, leaves, topology, scores)[0], h


class NeighbourGenerator(nn.Module):
    """How many neighbours a node lacks, and what five of them look like."""

    def __init__(self, num_features: int, hidden_channels: int, dropout: float) -> None:
        super().__init__()
        self.encoder = Sage(num_features, hidden_channels, LATENT, dropout)
        self.degree = nn.Linear(LATENT, 1)
        widths = (LATENT, *HIDDEN)
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.last = nn.Linear(HIDDEN[-1], MOST * num_features)
        self.dropout = dropout

    def forward(
        self, x: Tensor, topology: Topology, scores: Tensor | None, draws: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Numbers `[n]` and features `[n, 5, F]`."""
        z, _ = self.encoder(x, None, topology, scores)
        missing = torch.relu(self.degree(z)).squeeze(-1)
        h = z + torch.randn(z.shape, generator=draws).to(z)
        for linear in self.linears:
            h = torch.relu(linear(h))
        h = functional.dropout(h, self.dropout, self.training)
        return missing, torch.tanh(self.last(h)).unflatten(-1, (MOST, -1))


class SageBackbone(Backbone):
    """The classifier, which sees the graph with its generated neighbours once `fills` is set."""

    fills: Tensor

    def __init__(self, num_features: int, hidden: int, num_classes: int, dropout: float, seed: int) -> None:
        super().__init__()
        self.classifier = Sage(num_features, hidden, num_classes, dropout)
        self.generator = NeighbourGenerator(num_features, hidden, dropout)
        self.register_buffer("fills", torch.tensor(False))
        self.seed = seed
        self._filled: tuple[Tensor, Leaves] | None = None  # of these features; the generator learns no more

    def run(self, x: Tensor, topology: Topology, scores: Tensor | None = None) -> Output:
        leaves = self._fill(x, topology) if self.fills else None
        return Output(*self.classifier(x, leaves, topology, scores))

    def _fill(self, x: Tensor, topology: Topology) -> Leaves:
        if self._filled is None or self._filled[0] is not x:
            was_training = self.generator.training
            with torch.no_grad():
                draws = torch.Generator().manual_seed(self.seed)
                missing, features = self.generator.eval()(x, topology, None, draws)
            self.generator.train(was_training)
            self._filled = (x, attach(missing, features))
        return self._filled[1]


def attach(missing: Tensor, features: Tensor) -> Leaves:
    """The first ⌊missing⌋ of the generated neighbours."""
    present = torch.arange(MOST, device=missing.device) < missing.detach().floor().unsqueeze(-1)
    return Leaves(features, present.to(features).unsqueeze(-1))


@register_method("fedsage")
@dataclass(frozen=True)
class FedSage(Method):
    """GraphSAGE on graphs mended by a generator of missing neighbours (FedSage+, Zhang et al., 2021).

    For `generator_rounds` rounds each client hides half of its validation nodes and trains, alone,

        smooth-L1(number of hidden neighbours) + `greedy_distance` + CE of the classifier on the mended graph,

    over its training nodes, divided by the number of clients; the second is the distance of generated
    neighbours from the nearest hidden one.
    Then the generated neighbours are fixed, and classifiers are averaged, all clients counting alike.

    `cross_client=True` adds the published term that also fits the generator to neighbours of other clients:
    256 rows of *raw features* per client and round go through the server to all others. This gives away what
    a federation is meant to keep, so it is off.
    """

    generator_rounds: int = 10
    cross_client: bool = False
    leaves: ClassVar[str] = "weights of the classifier, number of nodes"

    def describe_leaving(self) -> str:
        return f"{self.leaves}, features of nodes" if self.cross_client else self.leaves

    def build(self, config: FederatedConfig, num_features: int, num_classes: int) -> Backbone:
        if config.masks != "none" or config.backbone != "gcn":
            raise ConfigError(
                "fedsage has its own network, GraphSAGE, and no masks: give backbone='gcn', masks='none'; "
                f"got masks='{config.masks}', backbone='{config.backbone}'."
            )
        if config.rounds <= self.generator_rounds:
            raise ConfigError(
                f"fedsage shares its classifiers after {self.generator_rounds} rounds, in which each client "
                f"trains its generator alone, so rounds must be more; got {config.rounds}. Or give it fewer: "
                "options generator_rounds."
            )
        return SageBackbone(num_features, config.channels, num_classes, config.dropout, config.seed)

    def shared(self, model: nn.Module) -> dict[str, nn.Parameter]:
        assert isinstance(model, SageBackbone)
        return dict(model.classifier.named_parameters())

    def start(self, client: LocalClient) -> None:
        draws = np.random.default_rng(client.seed)
        candidates = client.data.val.nonzero().squeeze(-1).cpu().numpy()
        hidden = torch.zeros_like(client.data.val)
        hidden[torch.as_tensor(draws.permutation(candidates)[: int(HIDDEN_SHARE * len(candidates))])] = True
        client.memory["hidden"] = hidden
        client.memory["missing"] = hidden_neighbours(client.graph.topology, hidden)

    def receive(self, client: LocalClient, received: Payload, round: int) -> None:  # noqa: A002
        arrays = dict(received.arrays)
        client.memory[CLIENTS] = torch.tensor(received.numbers.get(CLIENTS, 1.0))
        if OTHERS in arrays:
            client.memory[OTHERS] = torch.tensor(arrays.pop(OTHERS)).to(client.data.x)
        if round > self.generator_rounds:
            assert isinstance(client.causal, SageBackbone)
            client.causal.fills.fill_(True)
            client.load_shared(arrays)

    def train(self, client: LocalClient, round: int) -> None:  # noqa: A002
        if round > self.generator_rounds:
            super().train(client, round)
            return
        for _ in range(client.config.local_epochs):
            client.branches.train()
            client.optimizer.zero_grad()
            with client.local_dropout(), skip_value_checks():
                self.generator_loss(client).backward()
            client.optimizer.step()
            client.epochs += 1

    def generator_loss(self, client: LocalClient) -> Tensor:
        """What a client minimises in the first rounds."""
        model, graph, topology = client.causal, client.graph, client.graph.topology
        assert isinstance(model, SageBackbone)
        hidden, missing = client.memory["hidden"], client.memory["missing"]
        seen = (~(hidden[topology.row] | hidden[topology.col])).to(graph.x)
        draws = torch.Generator().manual_seed((client.seed << 20) + client.epochs)
        numbers, features = model.generator(graph.x, topology, seen, draws)
        logits, _ = model.classifier(graph.x, attach(numbers, features), topology, seen)
        nodes, lacking = graph.train, (missing >= 0).sum(-1)
        truth = graph.x[missing.clamp(min=0)]
        loss = functional.smooth_l1_loss(numbers[nodes], lacking[nodes].to(numbers))
        loss = loss + greedy_distance(features[nodes], truth[nodes], numbers[nodes], lacking[nodes])
        loss = loss + cross_entropy(logits, graph.y, graph.train)
        for rows in client.memory.get(OTHERS, ()):
            count = int(nodes.sum())
            drawn = rows[torch.randint(len(rows), (count, MOST), generator=draws).to(rows.device)]
            loss = loss + greedy_distance(features[nodes], drawn, numbers[nodes], lacking[nodes])
        return loss / float(client.memory.get(CLIENTS, 1.0))

    def send(self, client: LocalClient, round: int) -> Payload:  # noqa: A002
        reply = super().send(client, round)
        if not self.cross_client or round >= self.generator_rounds:
            return reply
        draws = torch.Generator().manual_seed(client.seed + round)
        ends = client.graph.topology.col.cpu()
        chosen = ends[torch.randint(len(ends), (ROWS,), generator=draws)]
        rows = client.data.x[chosen.to(client.device)]
        return Payload({**reply.arrays, **to_arrays({OTHERS: rows})}, reply.numbers)

    def describe_reply(self, facts: RoundFacts) -> Shapes:
        gives_rows = self.cross_client and facts.round < self.generator_rounds
        return {**facts.shared, OTHERS: (ROWS, facts.num_features)} if gives_rows else facts.shared

    def aggregate(self, replies: Mapping[int, Payload], state: ServerState) -> Payload | dict[int, Payload]:
        rows = {i: reply.arrays[OTHERS] for i, reply in replies.items() if OTHERS in reply.arrays}
        plain = {
            i: Payload({name: array for name, array in reply.arrays.items() if name != OTHERS})
            for i, reply in replies.items()
        }
        mean = average(plain, dict.fromkeys(replies, 1.0))
        if len(rows) < 2:
            return Payload(mean)
        return {
            i: Payload({**mean, OTHERS: np.stack([r for j, r in sorted(rows.items()) if j != i])})
            for i in replies
        }


def hidden_neighbours(topology: Topology, hidden: Tensor) -> Tensor:
    """`[n, 5]` the first five hidden neighbours of every node, −1 where there are fewer."""
    of_hidden = hidden[topology.col]
    row, col = topology.row[of_hidden], topology.col[of_hidden]
    starts = torch.searchsorted(row, torch.arange(topology.num_nodes, device=row.device))
    place = torch.arange(len(row), device=row.device) - starts[row]
    found = torch.full((topology.num_nodes, MOST), -1, device=row.device)
    keep = place < MOST
    found[row[keep], place[keep]] = col[keep]
    return found


def greedy_distance(features: Tensor, truth: Tensor, numbers: Tensor, lacking: Tensor) -> Tensor:
    """Σ_v Σ_{j < ⌊numbers_v⌋} min_{k < lacking_v} ‖f_vj − t_vk‖²/F, divided by 5 n.

    Args:
        features: `[m, 5, F]` generated neighbours f.
        truth: `[m, 5, F]` true ones t.
        numbers: `[m]` how many are generated.
        lacking: `[m]` how many there are; where there is none, the term is 0.
    """
    order = torch.arange(MOST, device=features.device)
    squares = (features.unsqueeze(-2) - truth.unsqueeze(-3)).square().mean(-1)  # [m, 5, 5]
    squares = squares.masked_fill((order >= lacking[:, None])[:, None, :], torch.inf)
    nearest = squares.amin(-1)
    counts = (order < numbers.detach().floor()[:, None]) & (lacking[:, None] > 0)
    return torch.where(counts, nearest, 0.0).sum() / max(nearest.numel(), 1)
