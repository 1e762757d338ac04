"""`LocalClient`: one client of a federated training, without any transport.

    client = LocalClient(data, config, number=3)
    reply = client.fit(received, round=1)          # overwrite what is shared, train locally, send
    scores = client.evaluate(aggregated, round=1)  # numbers of right predictions, local and global model

The server sends `initial_payload(config, num_features, num_classes)` first. `fit` and `evaluate` take
and give `Payload`s; the state of a client (`state_dict`: all branches, moments of Adam, what the method
keeps) stays with it over the rounds. Many clients of one process train faster together, `batch.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from polynsd.devices import get_device
from polynsd.errors import DataError
from polynsd.federated.backbones import Backbone, SheafBackbone
from polynsd.federated.branches import Branches, LocalGraph, LocalOutput, choose_sheaf, transport_features
from polynsd.federated.config import SHEAVES, FederatedConfig
from polynsd.federated.data import ClientData
from polynsd.federated.methods import Array, Payload, build_method, to_arrays
from polynsd.memo import skip_value_checks
from polynsd.training.dropout import EndlessDropout
from polynsd.training.replica import eval_mode
from polynsd.training.task import roc_aucs

SEEDS = 2**32
STRIDE = 1_000_003  # between the seeds of two trainings; clients lie between
PRETRAINING_EPOCHS, PRETRAINING_STEP = 200, 5  # validation chooses the epoch, of every fifth


class LocalClient:
    """The local part of a federated training.

    Args:
        data: the client's graph.
        config: the training; the same for all clients.
        number: of the client; its weights and dropout depend on it and on the seed.
        device: where it trains.

    Attributes:
        branches: its networks; `causal` is the one that is shared.
        graph: its data as networks see them.
        method: what it adds to the training and sends.
        memory: tensors that the method keeps, saved with the client.
        received: the shared parameters as the last round brought them.
        epochs: local epochs so far.
    """

    def __init__(
        self, data: ClientData, config: FederatedConfig, number: int = 0, device: str | torch.device = "cpu"
    ) -> None:
        self.device = get_device(device)
        self.data, self.config, self.number = data.to(self.device), config, number
        self.method = build_method(config)
        self.seed = (config.seed * STRIDE + number) % SEEDS
        sizes = (data.num_features, data.num_classes)
        with seeded(self.seed):
            branches = Branches(self.method.build(config, *sizes), config, *sizes)
        self.branches = branches.to(self.device, data.x.dtype)
        self.optimizer = torch.optim.Adam(
            self.branches.parameters(), lr=config.rate, weight_decay=config.decay
        )
        self.memory: dict[str, Tensor] = {}
        self.received: dict[str, Tensor] = {}
        self.epochs = 0
        self.graph = LocalGraph.of(self.data)
        self.method.start(self)

    @property
    def causal(self) -> Backbone:
        """The branch that is shared."""
        return self.branches.causal

    def fit(self, received: Payload, round: int) -> Payload:  # noqa: A002
        """One round: takes over what is shared, trains the local epochs, returns what is sent."""
        self.prepare()
        self.method.receive(self, received, round)
        self.method.train(self, round)
        return self.method.send(self, round)

    def prepare(self) -> None:
        """Before the first epoch: trains the sheaf whose maps a mask loads."""
        prepare_clients([self])

    def train_epoch(self, round: int) -> float:  # noqa: A002
        """One step of all branches on the whole graph; the loss before it."""
        self.branches.train()
        self.optimizer.zero_grad()
        with self.local_dropout(), skip_value_checks():
            output = self.branches(self.graph)
            loss = self.branches.loss(self.graph, output, self.config.penalty)
            loss = loss + self.method.local_loss(self, output, round)
            loss = loss + self.method.proximal(self.method.shared(self.causal), self.received)
        loss.backward()
        self.optimizer.step()
        self.epochs += 1
        return float(loss.detach())

    def local_dropout(self) -> EndlessDropout:
        """Dropout that depends on seed, client and epoch alone."""
        seed, epoch = (torch.tensor(n, device=self.device) for n in (self.seed, self.epochs))
        return EndlessDropout(seed, epoch)

    def load_shared(self, arrays: Mapping[str, Array]) -> None:
        """Overwrites the shared parameters of the causal branch, and remembers them as `received`.

        Raises:
            DataError: names or shapes are not those of this configuration.
        """
        shared = self.method.shared(self.causal)
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        expected = {name: tuple(p.shape) for name, p in shared.items()}
        if shapes != expected:
            names = sorted(n for n in {*shapes, *expected} if shapes.get(n) != expected.get(n))
            raise DataError(
                f"received weights are not those of this model: {', '.join(names[:3])} differ. Server and "
                "clients need the same configuration and numbers of features and classes."
            )
        self.received = {name: torch.tensor(arrays[name]).to(p) for name, p in shared.items()}
        with torch.no_grad():
            for name, p in shared.items():
                p.copy_(self.received[name])

    @torch.no_grad()
    def output(self, shared: Mapping[str, Array] | None = None, scores: Tensor | None = None) -> LocalOutput:
        """The causal branch in evaluation mode.

        Args:
            shared: other shared parameters for it.
            scores: of half-edges, where they are known.
        """
        self.prepare()
        own = self.method.shared(self.causal)
        names = {id(p): name for name, p in self.branches.named_parameters()}
        state = {}
        if shared is not None:
            state = {names[id(p)]: torch.tensor(shared[name]).to(p) for name, p in own.items()}
        with eval_mode(self.branches), skip_value_checks():
            result: LocalOutput = torch.func.functional_call(
                self.branches, state, (self.graph, scores), tie_weights=False
            )
        return result

    def evaluate(self, received: Payload, round: int) -> Payload:  # noqa: A002
        """Right predictions of the local and of the received (global) model, with the client's own mask."""
        local = self.output()
        numbers = self.count_correct("local", local.logits)
        if self.shares(received.arrays):
            scores = local.scores if self.branches.shares_scores else None
            numbers |= self.count_correct("global", self.output(received.arrays, scores).logits)
        return Payload({}, numbers)

    def shares(self, arrays: Mapping[str, Array]) -> bool:
        """Whether these are shared parameters; some methods send other things, or nothing."""
        return arrays.keys() == self.method.shared(self.causal).keys()

    def count_correct(self, model: str, logits: Tensor) -> dict[str, float]:
        """`val_count`, `{model}_val_correct`, …; of two classes `{model}_val_auc`, … too."""
        y, numbers = self.data.y, {}
        right = logits.argmax(-1) == y
        for part in ("val", "test"):
            mask: Tensor = getattr(self.data, part)
            numbers[f"{part}_count"] = float(mask.sum())
            numbers[f"{model}_{part}_correct"] = float((right & mask).sum())
            if self.data.num_classes == 2 and len(y[mask].unique()) == 2:
                numbers[f"{model}_{part}_auc"] = float(roc_aucs(logits[None], y, mask[None]))
        return numbers

    def state_dict(self) -> dict[str, Tensor]:
        """All that the client keeps over rounds, by name."""
        state = {f"branches.{name}": t.detach() for name, t in self.branches.state_dict().items()}
        for name, p in self.branches.named_parameters():
            for moment, value in self.optimizer.state.get(p, {}).items():
                state[f"adam.{moment}.{name}"] = value
        state |= {f"memory.{name}": t for name, t in self.memory.items()}
        state |= {f"received.{name}": t for name, t in self.received.items()}
        return state | {"epochs": torch.tensor(self.epochs), "transports": self.graph.transports}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from a state of the same client and configuration."""

        def part(prefix: str) -> dict[str, Tensor]:
            cut = len(prefix) + 1
            return {
                name[cut:]: t.to(self.device) for name, t in state.items() if name.startswith(f"{prefix}.")
            }

        self.branches.load_state_dict(part("branches"))
        for moment in ("step", "exp_avg", "exp_avg_sq"):
            for name, value in part(f"adam.{moment}").items():
                value = value.cpu() if moment == "step" else value
                self.optimizer.state[self.branches.get_parameter(name)][moment] = value.clone()
        self.memory, self.received = part("memory"), part("received")
        self.epochs = int(state["epochs"])
        self.graph = self.graph._replace(transports=state["transports"].to(self.device))


def initial_payload(config: FederatedConfig, num_features: int, num_classes: int) -> Payload:
    """What the server sends in the first round: the shared parameters as the seed draws them."""
    method = build_method(config)
    with seeded(config.seed):
        return Payload(to_arrays(method.shared(method.build(config, num_features, num_classes))))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """PyTorch's generator of the CPU under a seed; afterwards it is as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


# Masks that load maps: a sheaf model is trained on every client alone, before the rounds begin


def prepare_clients(clients: Sequence[LocalClient]) -> None:
    """Trains the sheaves whose maps masks load, of the clients that have none yet, together."""
    waiting = [c for c in clients if c.config.masks == "loaded" and not c.graph.transports.size(-1)]
    if not waiting:
        return

    for client, transports in zip(waiting, load_transports(waiting), strict=True):
        client.graph = client.graph._replace(transports=transports)


def load_transports(clients: Sequence[LocalClient]) -> list[Tensor]:
    """`[H, m]` for every client the transports of its own sheaf at its best epoch on validation."""
    from polynsd.federated.batch import ClientGroup  # which is made of clients itself

    settings = configure_sheaf(clients[0].config)
    members = [
        LocalClient(client.data, replace(settings, seed=client.config.seed), client.number, client.device)
        for client in clients
    ]
    group = ClientGroup(dict(enumerate(members)))
    best, kept = [-1.0] * len(members), [torch.empty(0)] * len(members)
    for number in range(1, PRETRAINING_EPOCHS // PRETRAINING_STEP + 1):
        nothing = dict.fromkeys(range(len(members)), Payload())
        group.fit(nothing, number)
        for i, reply in group.evaluate(nothing, number).items():
            if reply.numbers["local_val_correct"] >= best[i]:  # the later one where they are equal
                best[i], kept[i] = reply.numbers["local_val_correct"], read_transports(members[i])
    return kept


def configure_sheaf(config: FederatedConfig) -> FederatedConfig:
    """The training of the sheaf: the same rates and sizes, nothing shared, no masks."""
    width = config.width if config.backbone in SHEAVES else None
    return replace(
        config,
        backbone=choose_sheaf(config),
        width=width,
        masks="none",
        method="local",
        options={},
        local_epochs=PRETRAINING_STEP,
    )


@torch.no_grad()
def read_transports(client: LocalClient) -> Tensor:
    """The transports of a client's causal branch."""
    graph, model = client.graph, client.causal
    assert isinstance(model, SheafBackbone)
    with eval_mode(model):
        return transport_features(model.maps(graph.x, graph.topology), graph.topology, graph.first)
