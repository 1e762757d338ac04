"""Clients of one process that train together: replicas of the same networks, each with its own graph.

Parameters and moments of Adam are rows `[R, P]`; `torch.vmap` runs the code of one client on all of them,
dense layers as batched products, sparse operations on the block-diagonal graph (`stack.py`). Nothing couples
the clients, dropout depends on the client alone, so each gets the numbers that it gets by itself, up to
rounding.

    group = ClientGroup(clients)
    replies = group.fit({number: payload, …}, round=1)      # as client.fit, client.evaluate of each
    scores = group.evaluate({number: payload, …}, round=1)

Clients of other methods, of attention backbones, and on a CPU those of large graphs, where nothing is gained,
train one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from polynsd.federated.branches import LocalGraph
from polynsd.federated.client import LocalClient
from polynsd.federated.payload import Payload
from polynsd.federated.stack import stack_graphs
from polynsd.kernels.ops.training import adam
from polynsd.memo import skip_value_checks
from polynsd.training.dropout import EndlessDropout
from polynsd.training.rows import Layout

ALONE = ("gatv2", "transformer")  # their softmax over neighbours needs a graph of its own
LARGE = 1000  # nodes of a client, from which on a CPU gains nothing from a batch


class ClientGroup:
    """Clients with one configuration in one process.

    Args:
        clients: with different numbers, on one device.
    """

    def __init__(self, clients: Sequence[LocalClient]) -> None:
        self.clients = {client.number: client for client in clients}
        self._batches: dict[tuple[int, ...], _Batch] = {}

    def fit(self, received: Mapping[int, Payload], round: int) -> dict[int, Payload]:  # noqa: A002
        """One round of the clients that something was sent to."""
        members = self._members(received)
        if not trains_together(members):
            return {client.number: client.fit(received[client.number], round) for client in members}
        for client in members:
            client.prepare()
            client.method.receive(client, received[client.number], round)
        self._batch(members).train(members[0].config.local_epochs)
        return {client.number: client.method.send(client, round) for client in members}

    def evaluate(self, received: Mapping[int, Payload], round: int) -> dict[int, Payload]:  # noqa: A002
        """Right predictions of local and received models."""
        members = self._members(received)
        if not trains_together(members):
            return {client.number: client.evaluate(received[client.number], round) for client in members}
        batch, payloads = self._batch(members), [received[client.number] for client in members]
        found = {"local": batch.logits()}
        if all(client.shares(payload.arrays) for client, payload in zip(members, payloads, strict=True)):
            found["global"] = batch.logits(payloads)
        numbers: dict[int, dict[str, float]] = {client.number: {} for client in members}
        for model, logits in found.items():
            for client, rows in zip(members, logits, strict=True):
                numbers[client.number] |= client.count_correct(model, rows)
        return {number: Payload({}, counts) for number, counts in numbers.items()}

    def _members(self, received: Mapping[int, Payload]) -> list[LocalClient]:
        return [self.clients[number] for number in sorted(received)]

    def _batch(self, members: Sequence[LocalClient]) -> _Batch:
        numbers = tuple(client.number for client in members)
        if numbers not in self._batches:
            for client in members:
                client.prepare()
            self._batches = {numbers: _Batch(members)}  # one is kept: graphs are large
        return self._batches[numbers]


def trains_together(clients: Sequence[LocalClient]) -> bool:
    """Whether these clients train as one batch."""
    if len(clients) < 2:
        return False
    first = clients[0]
    if not first.method.trains_together or first.config.backbone in ALONE:
        return False
    return first.device.type != "cpu" or max(client.data.num_nodes for client in clients) < LARGE


class _Batch:
    """The rows of some clients while they train; between rounds the clients hold their own numbers."""

    def __init__(self, clients: Sequence[LocalClient]) -> None:
        self.clients, self.model = clients, clients[0].branches
        self.method, self.config = clients[0].method, clients[0].config
        self.graph = stack_graphs([client.graph for client in clients])
        self.parameters = Layout(dict(self.model.named_parameters()))
        self.buffers = Layout(dict(self.model.named_buffers()))
        self.seeds = torch.tensor([client.seed for client in clients], device=self.graph.x.device)

    def train(self, epochs: int) -> None:
        """The local epochs of all clients."""
        theta, mean, square = (self._rows(kind) for kind in ("theta", "exp_avg", "exp_avg_sq"))
        buffers = self._buffers()
        received = {
            f"causal.{name}": torch.stack([client.received[name] for client in self.clients])
            for name in self.clients[0].received
        }
        done = torch.tensor([client.epochs for client in self.clients], device=theta.device)
        rate = torch.full((len(theta),), self.config.rate, dtype=torch.float64, device=theta.device)
        decay, scale = torch.full_like(theta, self.config.decay), torch.ones_like(theta)
        loss_of_all = torch.vmap(self._loss)
        for _ in range(epochs):
            named = {name: p.requires_grad_() for name, p in self.parameters.split(theta).items()}
            with skip_value_checks():
                losses = loss_of_all(named, buffers, received, self.graph[1:], self.seeds, done)
            gradients = torch.autograd.grad(losses.sum(), list(named.values()), materialize_grads=True)
            gradient = self.parameters.join(gradients, theta.dtype)
            done = done + 1
            adam(theta, gradient, mean, square, decay, scale, rate, done)
        self._write(theta, mean, square, buffers, epochs)

    def _loss(
        self,
        named: dict[str, Tensor],
        buffers: dict[str, Tensor],
        received: dict[str, Tensor],
        tensors: tuple[Tensor, ...],
        seed: Tensor,
        epoch: Tensor,
    ) -> Tensor:
        """What one client minimises, as `LocalClient.train_epoch` has it."""
        graph = LocalGraph(self.graph.topology, *tensors)
        self.model.train()
        with EndlessDropout(seed, epoch):
            output = functional_call(self.model, {**named, **buffers}, (graph,), tie_weights=False)
        shared = {name: named[name] for name in received}
        return self.model.loss(graph, output) + self.method.proximal(shared, received)

    @torch.no_grad()
    def logits(self, received: Sequence[Payload] | None = None) -> list[Tensor]:
        """Of every client's causal branch in evaluation mode, or of received parameters in its place."""
        state = {**self.parameters.split(self._rows("theta")), **self._buffers()}
        if received is not None:
            for name in received[0].arrays:
                arrays = [torch.as_tensor(payload.arrays[name]) for payload in received]
                state[f"causal.{name}"] = torch.stack(arrays).to(state[f"causal.{name}"])

        def run(state: dict[str, Tensor], tensors: tuple[Tensor, ...]) -> Tensor:
            graph = LocalGraph(self.graph.topology, *tensors)
            logits: Tensor = functional_call(self.model, state, (graph,), tie_weights=False).logits
            return logits

        self.model.eval()
        with skip_value_checks():
            logits = torch.vmap(run)(state, self.graph[1:])
        return [rows[: client.data.num_nodes] for rows, client in zip(logits, self.clients, strict=True)]

    def _rows(self, kind: str) -> Tensor:
        """`[R, P]` the parameters (`theta`), or a moment of Adam, of all clients."""
        rows = []
        for name, _ in self.model.named_parameters():
            each = []
            for client in self.clients:
                p = client.branches.get_parameter(name)
                moment = client.optimizer.state.get(p, {}).get(kind, torch.zeros_like(p))
                each.append(p.detach() if kind == "theta" else moment)
            rows.append(torch.stack(each))
        return self.parameters.join(rows, rows[0].dtype)

    def _buffers(self) -> dict[str, Tensor]:
        names = [name for name, _ in self.model.named_buffers()]
        return {
            name: torch.stack([client.branches.get_buffer(name) for client in self.clients]) for name in names
        }

    @torch.no_grad()
    def _write(
        self, theta: Tensor, mean: Tensor, square: Tensor, buffers: dict[str, Tensor], epochs: int
    ) -> None:
        """Gives the clients their numbers back."""
        named, means, squares = (self.parameters.split(rows) for rows in (theta, mean, square))
        for row, client in enumerate(self.clients):
            client.epochs += epochs
            for name, p in client.branches.named_parameters():
                p.copy_(named[name][row])
                client.optimizer.state[p] = {
                    "step": torch.tensor(float(client.epochs)),
                    "exp_avg": means[name][row].clone(),
                    "exp_avg_sq": squares[name][row].clone(),
                }
            for name, buffer in client.branches.named_buffers():
                buffer.copy_(buffers[name][row])
