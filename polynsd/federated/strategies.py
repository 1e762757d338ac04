"""How the server puts replies together: Flower's FedAvg, FedProx and FedAdam, or a method of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.app.message_type import MessageType
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedProx,
    Strategy,
)

from polynsd.federated.config import FederatedConfig
from polynsd.federated.methods import CLIENTS, ServerState, average, build_method
from polynsd.federated.outcome import Privacy
from polynsd.federated.payload import Array, Payload
from polynsd.federated.records import ARRAYS, CONFIG, WEIGHT, to_array_record, to_payload, to_records
from polynsd.federated.roster import Roster

EVERYBODY = {"min_train_nodes": 1, "min_evaluate_nodes": 1, "min_available_nodes": 1}
KEYS = {"weighted_by_key": WEIGHT, "arrayrecord_key": ARRAYS, "configrecord_key": CONFIG}


class MethodStrategy(FedAvg):
    """A method that puts replies together itself, and may send every client something else.

    Args:
        config: names the method, whose `aggregate` is called.
        roster: numbers the clients.
    """

    def __init__(self, config: FederatedConfig, roster: Roster) -> None:
        super().__init__(**EVERYBODY, **KEYS)  # type: ignore[arg-type]
        self.config, self.method, self.roster = config, build_method(config), roster
        self.common = Payload()  # what clients are sent that get nothing of their own
        self.personal: dict[int, Payload] = {}
        self.memory: dict[str, Array] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """A message for every client."""
        nodes = list(grid.get_node_ids())
        return [Message(to_records(self.payload_of(node)), node, MessageType.TRAIN) for node in nodes]

    def payload_of(self, node: int) -> Payload:
        """What the client at a node is sent next."""
        sent = self.personal.get(self.roster.number(node), self.common)
        return Payload(sent.arrays, {**sent.numbers, CLIENTS: len(self.roster.names)})

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the method makes of the replies; where it differs between clients, the mean stands for all."""
        found = {
            self.roster.number(reply.metadata.src_node_id): to_payload(reply.content) for reply in replies
        }
        state = ServerState(server_round, self.memory, self.config)
        result = self.method.aggregate(found, state)
        self.memory = state.memory
        if isinstance(result, Payload):
            self.common, self.personal = result, {}
        else:
            self.personal = dict(result)
            weights = {number: reply.numbers[WEIGHT] for number, reply in found.items()}
            self.common = Payload(average({n: result[n] for n in found if n in result}, weights))
        return to_array_record(self.common.arrays), None

    def state(self) -> dict[str, Any]:
        """Arrays and numbers to go on from."""
        state: dict[str, Any] = {f"memory.{name}": array for name, array in self.memory.items()}
        payloads = {"common": self.common} | {str(number): sent for number, sent in self.personal.items()}
        for key, payload in payloads.items():
            state |= {f"sent.{key}.array.{name}": array for name, array in payload.arrays.items()}
            state |= {f"sent.{key}.number.{name}": value for name, value in payload.numbers.items()}
        return state

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state()`."""
        self.memory = {n.partition(".")[2]: value for n, value in state.items() if n.startswith("memory.")}
        found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        for full, value in state.items():
            if full.startswith("sent."):
                _, key, kind, name = full.split(".", 3)
                arrays, numbers = found.setdefault(key, ({}, {}))
                if kind == "array":
                    arrays[name] = value
                else:
                    numbers[name] = float(value)
        self.common = Payload(*found.pop("common", ({}, {})))
        self.personal = {int(key): Payload(*parts) for key, parts in found.items()}


def build_strategy(config: FederatedConfig, roster: Roster, privacy: Privacy, clients: int) -> Strategy:
    """The strategy of a training; under differential privacy, with clipping and noise around it."""
    method: Any = build_method(config)
    strategy: Strategy
    if config.method == "fedavg":
        strategy = FedAvg(**EVERYBODY, **KEYS)  # type: ignore[arg-type]
    elif config.method == "fedprox":
        strategy = FedProx(**EVERYBODY, **KEYS, proximal_mu=method.mu)  # type: ignore[arg-type]
    elif config.method == "fedadam":
        steps = {"eta": method.server_rate, "beta_1": method.beta1, "beta_2": method.beta2, "tau": method.tau}
        strategy = FedAdam(**EVERYBODY, **KEYS, **steps, eta_l=config.rate)  # type: ignore[arg-type]
    else:
        strategy = MethodStrategy(config, roster)
    if privacy.is_noisy:
        strategy = DifferentialPrivacyServerSideFixedClipping(
            strategy, privacy.dp_noise, privacy.dp_clip, clients
        )
    return strategy


def strategy_state(strategy: Strategy) -> dict[str, Any]:
    """What a strategy keeps between rounds, as arrays and numbers."""
    if isinstance(strategy, MethodStrategy):
        return strategy.state()
    if isinstance(strategy, FedAdam) and strategy.m_t and strategy.v_t:
        moments = {"m": strategy.m_t, "v": strategy.v_t}
        return {f"{key}.{name}": array for key, arrays in moments.items() for name, array in arrays.items()}
    return {}


def load_strategy_state(strategy: Strategy, state: Mapping[str, Any]) -> None:
    """Goes on from `strategy_state`."""
    if isinstance(strategy, MethodStrategy):
        strategy.load(state)
    if isinstance(strategy, FedAdam) and state:
        strategy.m_t = {n[2:]: array for n, array in state.items() if n.startswith("m.")}
        strategy.v_t = {n[2:]: array for n, array in state.items() if n.startswith("v.")}
