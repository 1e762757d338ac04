"""Clients of one process that train together: replicas of the same networks, each with its own graph.

Parameters and moments of Adam are rows `[R, P]`; `torch.vmap` runs the code of one client on all of them,
dense layers as batched products, sparse operations on the block-diagonal graph. Nothing couples
the clients, dropout depends on the client alone, so each gets the numbers that it gets by itself, up to
rounding.

    group = ClientGroup(clients)
    replies = group.fit({number: payload, …}, round=1)      # as client.fit, client.evaluate of each
    scores = group.evaluate({number: payload, …}, round=1)

A client that nothing was sent to is computed with the others and left as it was. On a GPU an epoch of all is
replayed as one CUDA graph. Clients of other methods, and on a CPU those of large graphs, where nothing is
gained, train one after the other.

`stack_graphs` pads graphs to one size. One with fewer nodes than the largest gets rows of zeros, one with
fewer edges gets parallel edges between two nodes that belong to nobody. Nothing joins them to the client's
nodes, and no loss counts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from polynsd.devices import on_device, wide_dtype
from polynsd.errors import ConfigError
from polynsd.federated.branches import LocalGraph
from polynsd.federated.client import LocalClient, prepare_clients
from polynsd.federated.methods import Payload
from polynsd.kernels.gpu.schedule import schedule
from polynsd.kernels.ops.operator import Pattern, StackedPattern
from polynsd.kernels.ops.training import adam
from polynsd.memo import skip_value_checks
from polynsd.topology import Topology, TopologyReport
from polynsd.training.capture import capture_step
from polynsd.training.dropout import EndlessDropout
from polynsd.training.rows import Layout

LARGE = 1000  # nodes of a client, from which on a CPU gains nothing from a batch


@dataclass(frozen=True, eq=False, kw_only=True)
class StackedTopology(Topology):
    """The block-diagonal graph of `count` graphs; sizes are those of one, padded.

    For networks under `torch.vmap`, whose replicas have a graph each.
    """

    count: int

    def __post_init__(self) -> None:
        rowptr, row, col, twin = (t.int() for t in (self.rowptr, self.row, self.col, self.twin))
        whole = Pattern(rowptr, row, col, twin, *schedule(self.rowptr, self.row.numel()))
        object.__setattr__(self, "pattern", StackedPattern.of(whole, self.count))

    @property
    def num_nodes(self) -> int:
        return (self.rowptr.numel() - 1) // self.count

    @property
    def num_half_edges(self) -> int:
        return self.row.numel() // self.count


def stack_graphs(graphs: Sequence[LocalGraph]) -> LocalGraph:
    """The graphs as one, whose tensors have a leading dimension of clients."""
    N = max(graph.topology.num_nodes for graph in graphs) + 2  # the two that belong to nobody
    H = max(graph.topology.num_half_edges for graph in graphs)
    topology = _stack_topologies([graph.topology for graph in graphs], N, H)

    def stack(name: str, size: int) -> Tensor:
        return torch.stack([pad_rows(getattr(graph, name), size) for graph in graphs])

    of_nodes = (stack(name, N) for name in ("x", "y", "train", "nodes"))
    return LocalGraph(topology, *of_nodes, *(stack(name, H) for name in ("halves", "first", "transports")))


def pad_rows(t: Tensor, size: int) -> Tensor:
    """`[n, …]` with rows of zeros (False) up to `[size, …]`."""
    return functional.pad(t, (0, 0) * (t.dim() - 1) + (0, size - len(t)))


def _stack_topologies(topologies: Sequence[Topology], N: int, H: int) -> StackedTopology:
    parts: dict[str, list[Tensor]] = {"degree": [], "row": [], "col": [], "twin": [], "edge": []}
    for number, topology in enumerate(topologies):
        h, missing = topology.num_half_edges, (H - topology.num_half_edges) // 2
        nobody = torch.arange(missing, device=topology.row.device)
        ends = torch.full_like(nobody, N - 2), torch.full_like(nobody, N - 1)
        degree = pad_rows(topology.degree, N)
        degree[-2:] = missing
        parts["degree"].append(degree)
        row, col = torch.cat([topology.row, *ends]), torch.cat([topology.col, *reversed(ends)])
        parts["row"].append(row + number * N)
        parts["col"].append(col + number * N)
        twin = torch.cat([topology.twin, h + missing + nobody, h + nobody])
        parts["twin"].append(twin + number * H)
        parts["edge"].append(torch.cat([topology.edge, h // 2 + nobody, h // 2 + nobody]) + number * H // 2)
    whole = {name: torch.cat(tensors) for name, tensors in parts.items()}
    rowptr = functional.pad(whole.pop("degree").cumsum(0), (1, 0))
    halves, report = torch.arange(len(whole["row"]), device=rowptr.device), TopologyReport(H, 0, 0, 0)
    return StackedTopology(rowptr, half_of_input=halves, report=report, count=len(topologies), **whole)


class ClientGroup:
    """Clients with one configuration, up to its seed, rate and penalty, in one process.

    Args:
        clients: on one device, by their numbers, or by others where clients of several trainings are in it.
    """

    def __init__(self, clients: Sequence[LocalClient] | Mapping[int, LocalClient]) -> None:
        given = clients if isinstance(clients, Mapping) else {client.number: client for client in clients}
        if len(given) < len(clients):
            raise ConfigError("two clients of a group have the same number; give them different ones.")
        self.clients: dict[int, LocalClient] = dict(given)
        self._all: Batch | None = None

    def fit(self, received: Mapping[int, Payload], round: int) -> dict[int, Payload]:  # noqa: A002
        """One round of the clients that something was sent to."""
        members = {key: self.clients[key] for key in received}
        if not self._trains_together(members):
            return {key: client.fit(received[key], round) for key, client in members.items()}
        batch = self._batch()
        for key, client in members.items():
            client.method.receive(client, received[key], round)
        batch.train(list(members.values()))
        return {key: client.method.send(client, round) for key, client in members.items()}

    def evaluate(self, received: Mapping[int, Payload], round: int) -> dict[int, Payload]:  # noqa: A002
        """Right predictions of local and received models."""
        members = {key: self.clients[key] for key in received}
        if not self._trains_together(members):
            return {key: client.evaluate(received[key], round) for key, client in members.items()}
        batch = self._batch()
        batch.read_networks()
        found = {"local": batch.run({})}
        if all(client.shares(received[key].arrays) for key, client in members.items()):
            own = {id(members[key]): received[key] for key in received}
            found["global"] = batch.run(batch.place(own), found["local"])
        results = {}
        for key, client in members.items():
            row, count = batch.clients.index(client), client.data.num_nodes
            counts = [client.count_correct(kind, rows.logits[row, :count]) for kind, rows in found.items()]
            results[key] = Payload({}, {name: value for part in counts for name, value in part.items()})
        return results

    def _batch(self) -> Batch:
        if self._all is None:
            prepare_clients(list(self.clients.values()))
            self._all = Batch(list(self.clients.values()))
        return self._all

    def _trains_together(self, members: Mapping[int, LocalClient]) -> bool:
        return 2 * len(members) >= len(self.clients) and trains_together(list(members.values()))


def trains_together(clients: Sequence[LocalClient]) -> bool:
    """Whether these clients train as one batch."""
    if len(clients) < 2:
        return False
    first = clients[0]
    if not first.method.trains_together:
        return False
    return first.device.type != "cpu" or max(client.data.num_nodes for client in clients) < LARGE


class Evaluated(NamedTuple):
    """What clients compute in evaluation mode."""

    logits: Tensor  # [R, N, classes] of causal branches
    scores: Tensor | None  # [R, H] of half-edges, where they are the same for all causal branches


class Batch:
    """The rows of clients while they train; between rounds the clients hold their own numbers.

    Rows stay where they are in memory, for a CUDA graph to find them.
    """

    def __init__(self, clients: Sequence[LocalClient]) -> None:
        self.clients, self.model = clients, clients[0].branches
        self.method, self.config = clients[0].method, clients[0].config
        self.graph = stack_graphs([client.graph for client in clients])
        device, count = self.graph.x.device, len(clients)
        named = dict(self.model.named_parameters())
        self.layout = Layout(named)
        shape = (count, sum(self.layout.sizes))
        rows = [torch.zeros(shape, dtype=self.graph.x.dtype, device=device) for _ in range(4)]
        self.theta, self.mean, self.square, self.gradient = rows
        self.decay, self.scale = torch.full_like(self.theta, self.config.decay), torch.ones_like(self.theta)
        rates, penalties = zip(
            *((client.config.rate, client.config.penalty) for client in clients), strict=True
        )
        self.rate = torch.tensor(rates, dtype=wide_dtype(device), device=device)
        self.penalty = torch.tensor(penalties, dtype=self.theta.dtype, device=device)
        self.seeds = torch.tensor([client.seed for client in clients], device=device)
        self.epochs = torch.zeros_like(self.seeds)
        self.running = {  # statistics of batch norms
            name: buffer.expand(count, *buffer.shape).clone()
            for name, buffer in self.model.named_buffers()
            if "running_" in name
        }
        shared = self.method.shared(self.model.causal)
        self.received = {
            f"causal.{name}": p.detach().expand(count, *p.shape).clone() for name, p in shared.items()
        }
        self.step = capture_step(self._run_epoch, "auto", device)

    def train(self, members: Sequence[LocalClient]) -> None:
        """The local epochs of some clients."""
        with on_device(self.theta.device):
            self.read()
            for _ in range(self.config.local_epochs):
                self.step()
            self._write(members)

    def _run_epoch(self) -> Tensor:
        """One step of all clients; `[R]` the losses before it."""
        named = {name: p.requires_grad_() for name, p in self.layout.split(self.theta).items()}
        with skip_value_checks():
            losses = torch.vmap(self._loss)(
                named, self.running, self.received, self.graph[1:], self.seeds, self.epochs, self.penalty
            )
            gradients = torch.autograd.grad(losses.sum(), list(named.values()), materialize_grads=True)
        gradient = self.layout.join(gradients, self.theta.dtype, out=self.gradient)
        self.epochs += 1
        state = (self.theta, gradient, self.mean, self.square, self.decay, self.scale)
        adam(*state, self.rate, self.epochs)
        return losses.detach()

    def _loss(
        self,
        named: dict[str, Tensor],
        running: dict[str, Tensor],
        received: dict[str, Tensor],
        tensors: tuple[Tensor, ...],
        seed: Tensor,
        epoch: Tensor,
        penalty: Tensor,
    ) -> Tensor:
        """What one client minimises, as `LocalClient.train_epoch` has it."""
        graph = LocalGraph(self.graph.topology, *tensors)
        self.model.train()
        with EndlessDropout(seed, epoch):
            output = functional_call(self.model, {**named, **running}, (graph,), tie_weights=False)
        shared = {name: named[name] for name in received}
        return self.model.loss(graph, output, penalty) + self.method.proximal(shared, received)

    @torch.no_grad()
    def place(self, received: Mapping[int, Payload]) -> dict[str, Tensor]:
        """Rows of received parameters, by name; clients go by their `id`, who received none has its own."""
        own, rows = self.layout.split(self.theta), {}
        for name in next(iter(received.values())).arrays:
            rows[f"causal.{name}"] = own[f"causal.{name}"].clone()
            for row, client in enumerate(self.clients):
                if id(client) in received:
                    rows[f"causal.{name}"][row] = torch.tensor(received[id(client)].arrays[name])
        return rows

    @torch.no_grad()
    def run(self, others: Mapping[str, Tensor], before: Evaluated | None = None) -> Evaluated:
        """All clients in evaluation mode.

        Args:
            others: other rows of some parameters of causal branches, by name.
            before: an evaluation of the same networks but for these, whose scores hold for them too.
        """

        def run(state: dict[str, Tensor], tensors: tuple[Tensor, ...], *known: Tensor) -> tuple[Tensor, ...]:
            graph = LocalGraph(self.graph.topology, *tensors)
            output = functional_call(self.model, state, (graph, *known), tie_weights=False)
            return (output.logits,) if output.scores is None else (output.logits, output.scores)

        self.model.eval()
        known = () if before is None or before.scores is None else (before.scores,)
        with skip_value_checks(), on_device(self.theta.device):
            state = {**self.layout.split(self.theta), **self.running, **others}
            logits, *scores = torch.vmap(run)(state, self.graph[1:], *known)
        return Evaluated(logits, scores[0] if scores and self.model.shares_scores else None)

    def shared_rows(self) -> dict[str, Tensor]:
        """Of the parameters that travel, by name, the rows of all clients."""
        named = self.layout.split(self.theta)
        return {name: named[name] for name in self.received}

    def share(self, rows: Mapping[str, Tensor]) -> None:
        """Overwrites the parameters that travel, and what counts as received."""
        for name, own in self.shared_rows().items():
            own.copy_(rows[name])
            self.received[name].copy_(rows[name])

    def read(self) -> None:
        """The clients' numbers into the rows."""
        self.read_networks()
        self._read_rows(self.mean, "exp_avg")
        self._read_rows(self.square, "exp_avg_sq")
        for name, rows in self.received.items():
            for row, client in enumerate(self.clients):
                if client.received:
                    rows[row] = client.received[name.removeprefix("causal.")]
        self.epochs.copy_(torch.tensor([client.epochs for client in self.clients]))

    @torch.no_grad()
    def read_networks(self) -> None:
        """What evaluation needs of them: parameters and statistics of batch norms."""
        self._read_rows(self.theta, None)
        for name, buffers in self.running.items():
            torch.stack([client.branches.get_buffer(name) for client in self.clients], out=buffers)

    def _read_rows(self, rows: Tensor, moment: str | None) -> None:
        own = [_numbers(client, moment) for client in self.clients]
        stacks = [torch.stack(each) for each in zip(*own, strict=True)]
        self.layout.join(stacks, rows.dtype, out=rows)

    @torch.no_grad()
    def _write(self, members: Sequence[LocalClient]) -> None:
        """Gives clients their numbers back."""
        named, means, squares = (self.layout.split(rows) for rows in (self.theta, self.mean, self.square))
        wanted = {id(client) for client in members}
        for row, client in enumerate(self.clients):
            if id(client) not in wanted:
                continue
            client.epochs += self.config.local_epochs
            for name, p in client.branches.named_parameters():
                p.copy_(named[name][row])
                client.optimizer.state[p] = {
                    "step": torch.tensor(float(client.epochs)),
                    "exp_avg": means[name][row].clone(),
                    "exp_avg_sq": squares[name][row].clone(),
                }
            for name, buffers in self.running.items():
                client.branches.get_buffer(name).copy_(buffers[row])


def _numbers(client: LocalClient, moment: str | None) -> list[Tensor]:
    """The parameters of a client, or one of their moments, which are zero before the first step."""
    parameters = list(client.branches.parameters())
    if moment is None:
        return [p.detach() for p in parameters]
    return [client.optimizer.state.get(p, {}).get(moment, torch.zeros_like(p)) for p in parameters]
