"""`FederatedServer`: the rounds of a federated training, over any of Flower's grids.

    server = FederatedServer(config, ServerOptions(clients=10), LocalGrid(sites), print)
    outcome = server.run()

A round sends every client one message and goes on with the replies that can be used. With the replies of
round r come the scores of round r − 1, so the choice of a round by weighted validation costs no messages of
its own, apart from one for the last round. What happens is told as events, plain data for JSON:

| event   | beside `event`                                                                     |
|---------|------------------------------------------------------------------------------------|
| waiting | clients, wanted: fewer are there than are needed                                   |
| fault   | round, client, reason: who is left out of a round (0: before the first), and why   |
| scores  | round, local_val, local_test, global_val, global_test: means over clients          |
| round   | round, clients (whose replies were used), invited, sent, received (bytes)          |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.app.message_type import MessageType
from flwr.serverapp import Grid
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping
from torch import Tensor

from polynsd.config import to_dict
from polynsd.errors import ConfigError, DataError
from polynsd.federated.aggregation import (
    MethodStrategy,
    aggregate_securely,
    build_strategy,
    load_strategy_state,
    strategy_state,
)
from polynsd.federated.client import initial_payload
from polynsd.federated.client_app import Order
from polynsd.federated.config import FEWEST, FederatedConfig, ServerOptions
from polynsd.federated.methods import Array, Payload, RoundFacts, build_method
from polynsd.federated.records import (
    ARRAYS,
    CONFIG,
    NUMBERS,
    SCORES,
    WEIGHT,
    Signature,
    choose_signature,
    find_fault,
    sign,
    to_array_record,
    to_arrays,
    to_payload,
    to_records,
)
from polynsd.federated.roster import MeteredGrid, Roster
from polynsd.federated.scores import KINDS, Choice, ClientScore, Outcome, RoundChoice, weigh_scores

Event = Mapping[str, Any]


class Snapshots(Protocol):
    """Where a server keeps its state; `polynsd.runs.RunSnapshots` is one."""

    def load(self) -> Mapping[str, Tensor] | None:
        """The last state, if there is one."""

    def offer(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keeps the state, if it is time to."""


class KeepsClients(Protocol):
    """A grid whose clients are in this process, so that their state is saved with the server's."""

    def state_dict(self) -> dict[str, Tensor]:
        """Of all clients."""

    def load_state_dict(self, state: Mapping[str, Tensor], orders: Mapping[int, Order]) -> None:
        """Goes on from a state; orders are by node."""


class FederatedServer:
    """The server of one training.

    Args:
        config: what is trained.
        options: for how many clients, and how.
        grid: to the clients.
        tell: takes events, see the module; nobody is told unless given.
        run: names the training, so that clients know which of their states belongs to it.
        snapshots: a server that was killed goes on from the last; None keeps none.
        clients: the grid, where its clients' state must be kept with the server's.
    """

    def __init__(
        self,
        config: FederatedConfig,
        options: ServerOptions,
        grid: Grid,
        tell: Callable[[Event], None] = lambda event: None,
        *,
        run: str = "run",
        snapshots: Snapshots | None = None,
        clients: KeepsClients | None = None,
    ) -> None:
        options.privacy.check_method(config.method)
        self.config, self.options, self.tell, self.run_name = config, options, tell, run
        self.grid = MeteredGrid(grid)
        self.roster = Roster(self.grid, self._tell_fault, options.timeout, options.max_nodes)
        self.method = build_method(config)
        self.strategy = build_strategy(config, self.roster, options.privacy, options.clients)
        self.fewest = FEWEST if options.privacy.secure_aggregation else 1  # clients of a round
        self.snapshots, self.clients = snapshots, clients
        self.round = 0  # the last that was run
        self.arrays = ArrayRecord()  # the common model after it
        self.shared: Signature = ()  # of what was sent first, the shared parameters
        self.best: dict[str, Array] = {}  # the common model after the round that validation chose
        self.choices = {kind: RoundChoice(kind, options.metric) for kind in KINDS}
        self.faults = 0

    def run(self) -> Outcome:
        """All rounds that are left; what came out."""
        self._wait_for(self.options.clients)
        first = next(iter(self.roster.members.values()))
        if self.options.metric == "roc_auc" and first.num_classes != 2:
            raise ConfigError(
                f"roc_auc is for two classes; the clients have {first.num_classes}. Use accuracy."
            )
        self._begin(initial_payload(self.config, first.num_features, first.num_classes))
        while self.round < self.config.rounds:
            self._run_round(self.round + 1)
            if self.snapshots is not None:
                self.snapshots.offer(self._state)
        self._finish()
        return Outcome(
            {kind: choice.choice for kind, choice in self.choices.items()},
            self.best or to_arrays(self.arrays),
            tuple(self.roster.names),
            first.num_features,
            first.num_classes,
            first.columns,
            self.grid.sent,
            self.grid.received,
            self.faults,
        )

    def _begin(self, initial: Payload) -> None:
        """Goes on where an earlier server stopped, or begins."""
        self.shared = sign(to_array_record(initial.arrays))
        state = None if self.snapshots is None else self.snapshots.load()
        if state is not None:
            self._load(state)
            return
        self.arrays = to_array_record(initial.arrays)
        if isinstance(self.strategy, MethodStrategy):
            self.strategy.common = initial

    def _run_round(self, round_: int) -> None:
        """One round."""
        self.round = round_
        self._wait_for(self.fewest)
        before, model = (self.grid.sent, self.grid.received), self.arrays
        drawn = self.strategy.configure_train(round_, self.arrays, ConfigRecord(), self.grid)
        messages = sorted(drawn, key=lambda message: self.roster.number(message.metadata.dst_node_id))
        self._address(messages, round_)
        if self.options.privacy.secure_aggregation:
            answers = self._average_securely(messages)
        else:
            answers = self._aggregate(messages)
        self._choose(round_ - 1, answers, model)
        traffic = {"sent": self.grid.sent - before[0], "received": self.grid.received - before[1]}
        counts = {"clients": len(answers), "invited": len(messages)}
        self.tell({"event": "round", "round": round_, **counts, **traffic})

    def _wait_for(self, wanted: int) -> None:
        self.roster.wait_for(
            wanted, lambda present: self.tell({"event": "waiting", "clients": present, "wanted": wanted})
        )

    def _aggregate(self, messages: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
        """Sends the messages and puts the good replies together; the numbers in these, by client."""
        replies = self.grid.send_and_receive(messages, timeout=self.options.timeout)
        good = self._sift(messages, replies, choose_signature(replies, self._describe_reply()))
        answers: dict[str, Mapping[str, Any]] = {}
        for reply in good:
            records, node = reply.content.metric_records, reply.metadata.src_node_id
            numbers, scored = (records.get(key, MetricRecord()) for key in (NUMBERS, SCORES))
            said = {WEIGHT: float(self.roster.num_nodes(node))}  # when it joined; nothing else weighs
            answers[self.roster.name(node)] = {**numbers, **scored, **said}
            if self.options.privacy.is_noisy:  # whose promise is for equal weights
                said = {WEIGHT: 1.0}
            # Flower's strategies fail where a client sends one record or number more than the others
            others: Any = numbers if isinstance(self.strategy, MethodStrategy) else {}
            sent = reply.content.array_records[ARRAYS]
            reply.content = RecordDict({ARRAYS: sent, NUMBERS: MetricRecord({**others, **said})})
        if isinstance(self.strategy, DifferentialPrivacyServerSideFixedClipping):
            self.strategy.num_sampled_clients = max(1, len(good))
        before = strategy_state(self.strategy)
        arrays = self.strategy.aggregate_train(self.round, good)[0] if good else None
        if arrays is None:
            self._tell_fault("nobody", "sent anything that could be used; the model stays as it is")
            return answers
        dtypes = {name: array.dtype for name, array in self.arrays.items()}
        with np.errstate(over="ignore"):  # in the dtypes of before: Adam's step on the server is a float64
            found = {n: a.astype(dtypes.get(n, a.dtype)) for n, a in to_arrays(arrays).items()}
        if all(np.isfinite(array).all() for array in found.values()):
            self.arrays = to_array_record(found)
        else:
            load_strategy_state(self.strategy, before)
            self._tell_fault("everybody", "gives NaN or infinity together; the model stays as it is")
        return answers

    def _describe_reply(self) -> Signature:
        """What a good reply to this round looks like."""
        first = next(iter(self.roster.members.values()))
        shapes = {name: shape for name, shape, _ in self.shared}
        dtypes = {name: dtype for name, _, dtype in self.shared}
        facts = RoundFacts(shapes, self.config, first.num_features, first.num_classes, self.round)
        found = self.method.describe_reply(facts)
        return tuple(sorted((name, shape, dtypes.get(name, "float32")) for name, shape in found.items()))

    def _average_securely(self, messages: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
        """The same by a protocol that shows the server the mean alone."""
        contents = {message.metadata.dst_node_id: message.content for message in messages}
        largest = max(member.num_nodes for member in self.roster.members.values())
        found = aggregate_securely(self.grid, contents, self.round, largest, self.options.timeout)
        arrays, scores, faults = found
        for node in sorted(faults, key=self.roster.number):
            self._tell_fault(self.roster.name(node), faults[node])
        if arrays is None:
            stayed = len(contents.keys() - faults.keys())
            reason = f"is in a secure sum: {stayed} of {len(contents)} clients stayed, which are too few"
            self._tell_fault("nobody", f"{reason}; the model stays as it is")
            return {}
        self.arrays = to_array_record(arrays)
        return {self.roster.name(node): scores[node] for node in sorted(scores, key=self.roster.number)}

    def _address(self, messages: Iterable[Message], round_: int) -> None:
        """Gives every message the order of its client; arrays stay shared."""
        for message in messages:
            content = RecordDict(dict(message.content.items()))
            content[CONFIG] = self._order(message.metadata.dst_node_id, round_)
            message.content = content

    def _order(self, node: int, round_: int) -> ConfigRecord:
        config = json.dumps(to_dict(self.config), sort_keys=True)
        number, keep = self.roster.number(node), self.choices["local"].choice.round
        return ConfigRecord(
            {"run": self.run_name, "config": config, "number": number, "round": round_, "keep": keep}
        )

    def _sift(
        self, messages: Sequence[Message], replies: Sequence[Message], expected: Signature | None
    ) -> list[Message]:
        """The replies that can be used, in the order of clients; of the others it is told why not."""
        asked = {message.metadata.dst_node_id for message in messages}
        # of a client that is gone, the SuperLink itself tells
        sent = {m.metadata.message_id: m.metadata.dst_node_id for m in messages if m.metadata.message_id}
        good: dict[int, Message] = {}
        heard: set[int] = set()
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                node = sent.get(reply.metadata.reply_to_message_id, node)
            if node not in asked:
                fault: str | None = "answered without being asked"
            elif node in heard:
                fault = "answered twice; the first answer counts"
            else:
                fault = self._find_fault(reply, expected, node)
            heard.add(node)
            if fault is None:
                good[node] = reply
            else:
                self._tell_fault(self.roster.name(node), fault)
        for node in sorted(asked - heard, key=self.roster.number):
            self._tell_fault(self.roster.name(node), f"did not answer within {self.options.timeout:g} s")
        return [good[node] for node in sorted(good, key=self.roster.number)]

    def _find_fault(self, reply: Message, expected: Signature | None, node: int) -> str | None:
        """Why a reply cannot be used, by its form or by what the method finds in it."""
        fault = find_fault(reply, expected, self.roster.num_nodes(node))
        if fault is not None or expected is None:
            return fault
        try:
            self.method.check(to_payload(reply.content))
        except DataError as error:
            return str(error)
        return None

    def _choose(self, round_: int, answers: Mapping[str, Mapping[str, Any]], model: ArrayRecord) -> None:
        """Tells the scores of a round; remembers it, and its model, if validation is the best so far."""
        if round_ == 0:  # before the first round there is nothing to score
            return
        means = weigh_scores(list(answers.values()), self.options.metric)
        self.tell({"event": "scores", "round": round_, **means})
        for kind, choice in self.choices.items():
            if choice.offer(round_, answers, self.roster.members) and kind == "global":
                self.best = to_arrays(model)

    def _finish(self) -> None:
        """Scores the last round, and tells the clients which round's local models count."""
        self.roster.update()
        messages = []
        for node in self.grid.nodes:
            payload = Payload(to_arrays(self.arrays))
            if isinstance(self.strategy, MethodStrategy):
                payload = self.strategy.payload_of(node)
            messages.append(Message(to_records(payload), node, MessageType.EVALUATE))
        self._address(messages, self.round)
        replies = self.grid.send_and_receive(messages, timeout=self.options.timeout)
        good = self._sift(messages, replies, None)
        answers: dict[str, Mapping[str, Any]] = {}
        for reply in good:
            node = reply.metadata.src_node_id
            scored = reply.content.metric_records.get(SCORES, MetricRecord())
            answers[self.roster.name(node)] = {**scored, WEIGHT: self.roster.num_nodes(node)}
        self._choose(self.round, answers, self.arrays)
        closing = [Message(RecordDict(), node, MessageType.QUERY) for node in self.grid.nodes]
        self._address(closing, self.round)
        self.grid.send_and_receive(closing, timeout=self.options.timeout)

    def _tell_fault(self, client: str, reason: str) -> None:
        self.faults += 1
        self.tell({"event": "fault", "round": self.round, "client": client, "reason": reason})

    def _state(self) -> dict[str, Tensor]:
        """All that the rounds to come depend on."""
        arrays: dict[str, Any] = {f"model.{name}": array for name, array in to_arrays(self.arrays).items()}
        arrays |= {f"best.{name}": array for name, array in self.best.items()}
        arrays |= {f"strategy.{name}": array for name, array in strategy_state(self.strategy).items()}
        for kind, best in self.choices.items():
            choice = best.choice
            arrays[f"choice.{kind}"] = np.array([choice.round, choice.val, choice.test, choice.clients])
            rows = [(self.roster.names.index(name), *score) for name, score in best.scores.items()]
            arrays[f"scores.{kind}"] = np.array(rows, dtype=np.float64).reshape(-1, 4)
        arrays["names"] = np.frombuffer(json.dumps(self.roster.names).encode(), dtype=np.uint8).copy()
        arrays["totals"] = np.array([self.round, self.grid.sent, self.grid.received, self.faults])
        state = {name: torch.as_tensor(array).clone() for name, array in arrays.items()}
        if self.clients is not None:
            state |= {f"clients.{name}": t for name, t in self.clients.state_dict().items()}
        return state

    def _load(self, state: Mapping[str, Tensor]) -> None:
        def part(prefix: str) -> dict[str, Array]:
            return {n[len(prefix) :]: t.numpy() for n, t in state.items() if n.startswith(prefix)}

        self.arrays, self.best = to_array_record(part("model.")), part("best.")
        load_strategy_state(self.strategy, part("strategy."))
        self.round, self.grid.sent, self.grid.received, self.faults = state["totals"].tolist()
        self.roster.keep_numbers(json.loads(bytes(state["names"].tolist())))
        for kind, (round_, val, test, clients) in part("choice.").items():
            self.choices[kind].choice = Choice(int(round_), float(val), float(test), int(clients))
        for kind, rows in part("scores.").items():
            self.choices[kind].scores = {
                self.roster.names[int(number)]: ClientScore(nodes, val, int(missed))
                for number, nodes, val, missed in rows.tolist()
            }
        if self.clients is not None:
            own = {n.partition(".")[2]: t for n, t in state.items() if n.startswith("clients.")}
            orders = {
                node: Order.read(RecordDict({CONFIG: self._order(node, self.round)}))
                for node in self.grid.nodes
            }
            self.clients.load_state_dict(own, orders)
