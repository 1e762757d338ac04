"""How the server puts replies together: a strategy of Flower's, a method's own rule, or a secure sum.

Secure aggregation is SecAgg+ (Bell et al., 2020): the server learns the weighted sum of what clients send.
The protocol is Flower's, in four exchanges per round: keys, shares of keys, masked arrays, shares that unmask
the sum. Its client part is `secaggplus_mod`; its server part, `SecAggPlusWorkflow`, is written for Flower's
older strategies, so `aggregate_securely` gives it one that only says whom to ask and keeps the sum. A client
may drop out at any exchange; the others are summed, if they are at least `FEWEST`.

What is summed are changes of the received arrays, so numbers are small: times n_i / max n and within [−1, 1],
each is rounded at random to one of 2²² values. The mean of n clients is exact to
5·10⁻⁷ n / Σ_i (n_i / max n).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.app.message import make_message
from flwr.app.message_type import MessageType
from flwr.client.mod import secaggplus_mod
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.compat.common import recorddict_compat as compat
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg as OlderFedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedProx,
    Strategy,
)

from polynsd.errors import DataError
from polynsd.federated.config import FEWEST, FederatedConfig, Privacy
from polynsd.federated.methods import CLIENTS, Array, Payload, ServerState, average, build_method
from polynsd.federated.records import (
    ARRAYS,
    CONFIG,
    NUMBERS,
    SCORES,
    WEIGHT,
    find_fault,
    to_array_record,
    to_arrays,
    to_payload,
    to_records,
)
from polynsd.federated.roster import MeteredGrid, Roster

EVERYBODY = {"min_train_nodes": 1, "min_evaluate_nodes": 1, "min_available_nodes": 1}
KEYS = {"weighted_by_key": WEIGHT, "arrayrecord_key": ARRAYS, "configrecord_key": CONFIG}
RANGE = 1.0  # changes beyond it would be clipped
LEVELS = 2**22


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


def mask_answer(message: Message, context: Context, answer: RecordDict) -> Message:
    """The answer of a client as it leaves it: masked, if the message belongs to a secure aggregation."""
    if RECORD_KEY_CONFIGS not in message.content.config_records:
        return Message(answer, reply_to=message)
    # the protocol takes its part out of the message, which clients of one process share
    own = ConfigRecord(dict(message.content.config_records[RECORD_KEY_CONFIGS]))
    asked = make_message(message.metadata, RecordDict({RECORD_KEY_CONFIGS: own}))
    return secaggplus_mod(
        asked, context, lambda _, __: Message(_to_fit_result(answer, message.content), reply_to=message)
    )


def _to_fit_result(answer: RecordDict, asked: RecordDict) -> RecordDict:
    """An answer in the form that the protocol masks: changes of arrays in the order of names, one weight."""
    received = to_arrays(asked.array_records[ARRAYS])
    changes = {n: array - received[n] for n, array in to_arrays(answer.array_records[ARRAYS]).items()}
    for name, change in changes.items():
        if not (np.isfinite(change).all() and np.abs(change).max(initial=0) <= RANGE):
            raise DataError(
                f"'{name}' changes by more than {RANGE:g} in a round, or is not finite; a secure sum would "
                "clip it. Lower the rate or the local epochs."
            )
    scores: dict[str, Any] = dict(answer.metric_records.get(SCORES, {}))
    result = FitRes(
        Status(Code.OK, ""),
        ndarrays_to_parameters([changes[name] for name in sorted(changes)]),
        int(answer.metric_records[NUMBERS][WEIGHT]),  # type: ignore[arg-type]
        scores,
    )
    return compat.fitres_to_recorddict(result, keep_input=False)


class _Sum(OlderFedAvg):
    """Says whom to ask, and keeps what the protocol finds."""

    def __init__(self, nodes: Mapping[int, RecordDict]) -> None:
        super().__init__()
        self.nodes = nodes
        self.total: list[Array] | None = None
        self.scores: dict[int, dict[str, float]] = {}

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> list[Any]:
        nothing = FitIns(Parameters([], ""), {})
        return [(SimpleNamespace(node_id=node), nothing) for node in self.nodes]

    def aggregate_fit(
        self, server_round: int, results: list[Any], failures: list[Any]
    ) -> tuple[None, dict[str, Any]]:
        self.total = parameters_to_ndarrays(results[0][1].parameters) if results else None
        self.scores = {
            proxy.node_id: {**result.metrics, WEIGHT: result.num_examples} for proxy, result in results
        }
        return None, {}


class _Exchanges:
    """Sends the messages of the protocol, and remembers why a client does not go on.

    Args:
        grid: to the clients.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.number = 0  # of the exchange, from 1 on
        self.faults: dict[int, str] = {}  # by node id

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float) -> list[Message]:
        """All replies to the messages of one exchange."""
        messages = list(messages)
        self.number += 1
        replies = list(self.grid.send_and_receive(messages, timeout=timeout))
        # of a client that is gone, the SuperLink itself tells
        sent = {m.metadata.message_id: m.metadata.dst_node_id for m in messages if m.metadata.message_id}
        place = f"in exchange {self.number} of 4 of the secure aggregation"
        asked = {message.metadata.dst_node_id for message in messages}
        found: dict[int, str | None] = dict.fromkeys(asked, f"did not answer within {timeout:g} s {place}")
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                node = sent.get(reply.metadata.reply_to_message_id, node)
            if node in asked:
                found[node] = f"{find_fault(reply)} ({place})" if reply.has_error() else None
        self.faults |= {node: fault for node, fault in found.items() if fault is not None}
        return replies


class _Workflow(SecAggPlusWorkflow):
    """The protocol with our messages in the exchange in which clients train, and without those that drop out.

    Flower asks for shares of the keys of every client that it began with. Those of a client that dropped out
    before it gave any do not exist, and are not needed: nobody has masked anything with its keys.
    """

    def setup_stage(self, grid: Any, context: Any, state: Any) -> bool:
        goes_on = super().setup_stage(grid, context, state) and _forget_dropped(state)
        if goes_on:
            state.nid_to_fitins = dict(context.strategy.nodes)
        return goes_on

    def share_keys_stage(self, grid: Any, context: Any, state: Any) -> bool:
        return super().share_keys_stage(grid, context, state) and _forget_dropped(state)

    def collect_masked_vectors_stage(self, grid: Any, context: Any, state: Any) -> bool:
        goes_on = super().collect_masked_vectors_stage(grid, context, state)
        # who drops out here has given shares of its keys, by which the others take its masks off
        return goes_on and _are_enough(state)


def _forget_dropped(state: Any) -> bool:
    """Goes on with the active clients alone; whether they are enough."""
    state.sampled_node_ids = set(state.active_node_ids)
    state.nid_to_neighbours = {
        node: state.nid_to_neighbours[node] & state.active_node_ids for node in state.active_node_ids
    }
    return _are_enough(state)


def _are_enough(state: Any) -> bool:
    """Whether nobody can tell the arrays of another client from the sum of the active ones."""
    return len(state.active_node_ids) >= FEWEST


class SecureMean(NamedTuple):
    """What came out of a secure aggregation; clients go by their node ids."""

    arrays: dict[str, Array] | None  # None: too few clients stayed
    scores: dict[int, dict[str, float]]  # of the clients in the mean
    faults: dict[int, str]  # of the others that failed or did not answer: why


def aggregate_securely(
    grid: MeteredGrid, contents: Mapping[int, RecordDict], server_round: int, largest: int, timeout: float
) -> SecureMean:
    """The mean of what clients send, weighted by nodes.

    A client that fails or does not answer in the first three exchanges is left out of the mean, and has no
    scores. One that drops out in the last is in it: the others hold shares of its keys.

    Args:
        grid: to the clients.
        contents: by node id, what asks a client to train; arrays of the answers are named as those in it.
        server_round: from 1 on.
        largest: number of nodes of the largest client.
        timeout: seconds for each of the four exchanges.
    """
    strategy = _Sum(contents)
    state = RecordDict(
        {
            MAIN_CONFIGS_RECORD: ConfigRecord({WorkflowKey.CURRENT_ROUND: server_round}),
            MAIN_PARAMS_RECORD: ArrayRecord(),
        }
    )
    context = LegacyContext(Context(0, 0, {}, state, {}), strategy=strategy)
    workflow = _Workflow(
        1.0, 0.5, max_weight=float(largest), clipping_range=RANGE, quantization_range=LEVELS, timeout=timeout
    )
    exchanges: Any = _Exchanges(grid)  # the protocol calls nothing else of a grid
    workflow(exchanges, context)
    faults = {node: why for node, why in exchanges.faults.items() if node not in strategy.scores}
    if strategy.total is None:
        return SecureMean(None, strategy.scores, faults)
    sent = to_arrays(next(iter(contents.values())).array_records[ARRAYS])
    changes = dict(zip(sorted(sent), strategy.total, strict=True))
    arrays = {name: (array + changes[name]).astype(array.dtype) for name, array in sent.items()}
    return SecureMean(arrays, strategy.scores, faults)
