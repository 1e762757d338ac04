"""`Method`: what a client adds to its training and sends, and how the server puts the replies together.

FedAvg, FedProx and FedAdam are here; they train alike on a client, but for FedProx's proximal term, and
replies are put together by Flower's strategies of these names. `local` shares nothing. A method of your own
derives from `Method` as a frozen dataclass whose fields are its numbers, with `@register_method("name")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.errors import ConfigError, unknown_name
from polynsd.federated.backbones import Backbone, build_backbone
from polynsd.federated.config import FederatedConfig

if TYPE_CHECKING:
    from polynsd.federated.branches import LocalOutput
    from polynsd.federated.client import LocalClient

Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]  # of arrays, by name
CLIENTS = "num_clients"  # a number that every client is sent


@dataclass(frozen=True)
class Payload:
    """Named arrays and named numbers: all that ever travels, in either direction."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    """Tensors as arrays of their own."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


@dataclass
class ServerState:
    """What a server keeps between rounds: enough to go on after it was stopped."""

    round: int  # from 1 on
    memory: dict[str, Array] = field(default_factory=dict)  # whatever the method keeps
    config: FederatedConfig | None = None  # for methods that train on the server too (fedtad)


class RoundFacts(NamedTuple):
    """What a server knows before the replies of a round."""

    shared: Shapes  # of the shared parameters, which are what is sent by default
    config: FederatedConfig
    num_features: int  # of the graphs, as clients said when they joined
    num_classes: int
    round: int  # from 1 on


@dataclass(frozen=True)
class Method:
    """The base: weights of the causal branch travel and are averaged by numbers of nodes.

    On a client, in this order: `build` once, `start` once; every round `receive`, `train` (which adds
    `local_loss` to the loss of every epoch), `send`. On the server `describe_reply` and `check`, by which
    replies are left out that cannot be used, and `aggregate`.
    A client's own things of a method are kept in `client.memory`, a dict of tensors that is saved with it.
    """

    trains_together: ClassVar[bool] = (
        False  # whether clients train as one batch; False: own hooks, one by one
    )
    leaves: ClassVar[str] = "weights of the causal branch, number of nodes"  # what leaves a client, in words

    def describe_leaving(self) -> str:
        """What leaves a client, in words, with the options of this method."""
        return self.leaves

    def build(self, config: FederatedConfig, num_features: int, num_classes: int) -> Backbone:
        """The causal branch."""
        return build_backbone(config, num_features, num_classes)

    def shared(self, model: nn.Module) -> dict[str, nn.Parameter]:
        """The parameters of a causal branch that travel."""
        return dict(model.named_parameters())

    def start(self, client: LocalClient) -> None:
        """Called once, after the client's models are built."""

    def receive(self, client: LocalClient, received: Payload, round: int) -> None:  # noqa: A002
        """Overwrites what the client shares."""
        client.load_shared(received.arrays)

    def train(self, client: LocalClient, round: int) -> None:  # noqa: A002
        """The local epochs."""
        for _ in range(client.config.local_epochs):
            client.train_epoch(round)

    def local_loss(self, client: LocalClient, output: LocalOutput, round: int) -> Tensor | float:  # noqa: A002
        """Added to the loss of the causal branch, in every local epoch."""
        return 0.0

    def proximal(self, shared: Mapping[str, Tensor], received: Mapping[str, Tensor]) -> Tensor | float:
        """A term of the loss that depends on shared parameters alone, and on those received."""
        return 0.0

    def send(self, client: LocalClient, round: int) -> Payload:  # noqa: A002
        """What leaves the client after its local epochs."""
        return Payload(to_arrays(self.shared(client.causal)), {"num_nodes": client.data.num_nodes})

    def describe_reply(self, facts: RoundFacts) -> Shapes:
        """Shapes of the arrays that `send` gives; a client that sends others is left out of the round."""
        return facts.shared

    def check(self, reply: Payload) -> None:
        """Looks at the numbers of a reply, whose arrays are finite and have the shapes that are expected.

        Raises:
            DataError: the reply cannot be used, and its client is left out of the round; the message says
                what it sent.
        """

    def aggregate(self, replies: Mapping[int, Payload], state: ServerState) -> Payload | dict[int, Payload]:
        """What is sent next, to all clients or to each; by default θ = Σ_i (n_i / n) θ_i.

        Only replies that `check` has passed come here.
        """
        return Payload(average(replies))


def average(replies: Mapping[int, Payload], weights: Mapping[int, float] | None = None) -> dict[str, Array]:
    """Σ_i w_i a_i / Σ_i w_i of the arrays; w_i is the number of nodes unless given. Sums run in float64."""
    if weights is None:
        weights = {number: reply.numbers["num_nodes"] for number, reply in replies.items()}
    numbers = sorted(replies)
    shares = np.array([weights[number] for number in numbers], dtype=np.float64)
    shares /= shares.sum()
    result = {}
    for name, first in replies[numbers[0]].arrays.items():
        stacked = np.stack([replies[number].arrays[name] for number in numbers])
        result[name] = np.tensordot(shares, stacked.astype(np.float64), 1).astype(first.dtype)
    return result


M = TypeVar("M", bound=type[Method])
METHODS: dict[str, type[Method]] = {}
RIVALS = "polynsd.federated.rivals"  # loaded when a method of theirs is asked for


def register_method(name: str) -> Callable[[M], M]:
    """Makes a method known by a name."""

    def register(cls: M) -> M:
        METHODS[name] = cls
        return cls

    return register


def build_method(config: FederatedConfig) -> Method:
    """The method that a configuration names, with its options.

    Raises:
        ConfigError: for an unknown method, or options that it does not have.
    """
    if config.method not in METHODS:
        import_module(RIVALS)
    if config.method not in METHODS:
        raise unknown_name("method", config.method, METHODS)
    try:
        return METHODS[config.method](**config.options)
    except TypeError as error:
        known = ", ".join(field.name for field in fields(METHODS[config.method])) or "none"
        raise ConfigError(f"options of {config.method} are: {known}; got {dict(config.options)}.") from error


def describe_leaving(config: FederatedConfig, is_secure: bool = False) -> str:
    """What leaves a client in every round of a training, in words; `is_secure` of secure aggregation."""
    leaving = build_method(config).describe_leaving()
    if is_secure:
        leaving = leaving.replace("weights", "masked weights (the server learns their sum alone)", 1)
    return f"{leaving}, counts of right predictions"


@register_method("fedavg")
@dataclass(frozen=True)
class FedAvg(Method):
    """θ ← Σ_i (n_i / n) θ_i."""

    trains_together: ClassVar[bool] = True


@register_method("fedprox")
@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg with (μ / 2) ‖θ − θ_received‖² in the local loss."""

    mu: float = 1e-3

    def proximal(self, shared: Mapping[str, Tensor], received: Mapping[str, Tensor]) -> Tensor | float:
        return self.mu / 2 * sum((p - received[name]).square().sum() for name, p in shared.items())


@register_method("local")
@dataclass(frozen=True)
class LocalOnly(Method):
    """Every client alone, from the same first weights: the lower bracket."""

    trains_together: ClassVar[bool] = True
    leaves: ClassVar[str] = "number of nodes"

    def receive(self, client: LocalClient, received: Payload, round: int) -> None:  # noqa: A002
        if received.arrays:
            client.load_shared(received.arrays)

    def send(self, client: LocalClient, round: int) -> Payload:  # noqa: A002
        return Payload({}, {"num_nodes": client.data.num_nodes})

    def describe_reply(self, facts: RoundFacts) -> Shapes:
        return {}

    def aggregate(self, replies: Mapping[int, Payload], state: ServerState) -> Payload:
        return Payload()


@register_method("fedadam")
@dataclass(frozen=True)
class FedAdam(FedAvg):
    """Adam on the server, with Δ = Σ_i (n_i / n) (θ_i − θ) as its gradient (Reddi et al., 2021).

    In round t, m ← β₁ m + (1 − β₁) Δ, v ← β₂ v + (1 − β₂) Δ², θ ← θ + η_t m / (√v + τ). As published η_t is
    the server's rate η; Flower's strategy, which is used, corrects both moments for their start at zero:
    η_t = η √(1 − β₂^{t+1}) / (1 − β₁^{t+1}).
    """

    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    server_rate: float = 1e-2
