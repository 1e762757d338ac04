"""`FederatedServer`: the rounds of a federated training, over any of Flower's grids.

    server = FederatedServer(config, ServerOptions(clients=10), LocalGrid(sites), watcher)
    outcome = server.run()

A round sends every client one message and goes on with the replies that can be used; who is left out, and
why, is told in one line. With the replies of round r come the scores of round r − 1, so the choice of a round
by weighted validation costs no messages of its own, apart from one for the last round.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.app.message_type import MessageType
from flwr.serverapp import Grid
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping
from torch import Tensor

from polynsd.config import to_dict
from polynsd.errors import ConfigError
from polynsd.federated.client import initial_payload
from polynsd.federated.config import FederatedConfig
from polynsd.federated.outcome import (
    FEWEST,
    KINDS,
    Choice,
    Outcome,
    RoundReport,
    ServerOptions,
    Watcher,
    count_scored,
    weigh_scores,
)
from polynsd.federated.payload import Array, Payload
from polynsd.federated.records import (
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
    to_records,
)
from polynsd.federated.roster import MeteredGrid, Roster
from polynsd.federated.secure import aggregate_securely
from polynsd.federated.site import Order
from polynsd.federated.strategies import (
    MethodStrategy,
    build_strategy,
    load_strategy_state,
    strategy_state,
)


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
        watcher: gets told what happens.
        run: names the training, so that clients know which of their states belongs to it.
        snapshots: a server that was killed goes on from the last; None keeps none.
        clients: the grid, where its clients' state must be kept with the server's.
        log: takes a record of every round.
    """

    def __init__(
        self,
        config: FederatedConfig,
        options: ServerOptions,
        grid: Grid,
        watcher: Watcher,
        *,
        run: str = "run",
        snapshots: Snapshots | None = None,
        clients: KeepsClients | None = None,
        log: Callable[[Mapping[str, Any]], None] = lambda record: None,
    ) -> None:
        options.privacy.check_method(config.method)
        self.config, self.options, self.watcher, self.run_name = config, options, watcher, run
        self.grid = MeteredGrid(grid)
        self.roster = Roster(self.grid, self._tell, options.timeout, options.max_nodes)
        self.strategy = build_strategy(config, self.roster, options.privacy, options.clients)
        self.fewest = FEWEST if options.privacy.secure_aggregation else 1  # clients of a round
        self.snapshots, self.clients, self.log = snapshots, clients, log
        self.round = 0  # the last that was played
        self.arrays = ArrayRecord()  # the common model after it
        self.best: dict[str, Array] = {}  # the common model after the round that validation chose
        self.choices = {kind: Choice() for kind in KINDS}
        self.faults = 0

    def run(self) -> Outcome:
        """All rounds that are left; what came out."""
        wanted = self.options.clients
        self.roster.wait_for(wanted, lambda present: self.watcher.waiting(present, wanted))
        first = next(iter(self.roster.members.values()))
        if self.options.metric == "roc_auc" and first.num_classes != 2:
            raise ConfigError(
                f"roc_auc is for two classes; the clients have {first.num_classes}. Use accuracy."
            )
        self._begin(initial_payload(self.config, first.num_features, first.num_classes))
        while self.round < self.config.rounds:
            self._play(self.round + 1)
            if self.snapshots is not None:
                self.snapshots.offer(self._state)
        self._finish()
        return Outcome(
            dict(self.choices),
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
        state = None if self.snapshots is None else self.snapshots.load()
        if state is not None:
            self._load(state)
            return
        self.arrays = to_array_record(initial.arrays)
        if isinstance(self.strategy, MethodStrategy):
            self.strategy.common = initial

    def _play(self, round_: int) -> None:
        """One round."""
        self.round = round_
        self.roster.wait_for(self.fewest, lambda present: self.watcher.waiting(present, self.fewest))
        before, model = (self.grid.sent, self.grid.received), self.arrays
        drawn = self.strategy.configure_train(round_, self.arrays, ConfigRecord(), self.grid)
        messages = sorted(drawn, key=lambda message: self.roster.number(message.metadata.dst_node_id))
        self._address(messages, round_)
        if self.options.privacy.secure_aggregation:
            answers = self._average_securely(messages)
        else:
            answers = self._aggregate(messages)
        scores = self._choose(round_ - 1, answers, model)
        bytes_ = self.grid.sent - before[0], self.grid.received - before[1]
        report = RoundReport(round_, len(answers), len(messages), *bytes_, scores)
        self.log({"event": "round", **asdict(report)})
        self.watcher.report(report)

    def _aggregate(self, messages: Sequence[Message]) -> list[Mapping[str, Any]]:
        """Sends the messages and puts the good replies together; the numbers in these."""
        replies = self.grid.send_and_receive(messages, timeout=self.options.timeout)
        good = self._sift(messages, replies, choose_signature(replies, sign(self.arrays)))
        answers: list[Mapping[str, Any]] = []
        for reply in good:
            numbers = reply.content.metric_records[NUMBERS]
            answers.append({**numbers, **reply.content.metric_records.get(SCORES, {})})
            reply.content.pop(SCORES, None)  # Flower's strategies take one record of numbers
            if self.options.privacy.is_noisy:  # whose promise is for equal weights
                reply.content[NUMBERS] = MetricRecord({WEIGHT: 1.0})
        if isinstance(self.strategy, DifferentialPrivacyServerSideFixedClipping):
            self.strategy.num_sampled_clients = max(1, len(good))
        arrays = self.strategy.aggregate_train(self.round, good)[0] if good else None
        if arrays is None:
            self._tell("nobody", "sent anything that could be used; the model stays as it is")
        else:  # in the dtypes of before: Adam's step on the server is a float64
            dtypes = {name: array.dtype for name, array in self.arrays.items()}
            found = to_arrays(arrays).items()
            self.arrays = to_array_record({name: a.astype(dtypes.get(name, a.dtype)) for name, a in found})
        return answers

    def _average_securely(self, messages: Sequence[Message]) -> list[Mapping[str, Any]]:
        """The same by a protocol that shows the server the mean alone."""
        contents = {message.metadata.dst_node_id: message.content for message in messages}
        largest = max(member.num_nodes for member in self.roster.members.values())
        found = aggregate_securely(self.grid, contents, self.round, largest, self.options.timeout)
        arrays, scores = found
        for node in sorted(contents.keys() - scores.keys(), key=self.roster.number):
            self._tell(self.roster.name(node), "was not there until the end of the secure aggregation")
        if arrays is None:
            self._tell("nobody", "got to the end of the secure aggregation; the model stays as it is")
            return []
        self.arrays = to_array_record(arrays)
        return [scores[node] for node in sorted(scores, key=self.roster.number)]

    def _address(self, messages: Iterable[Message], round_: int) -> None:
        """Gives every message the order of its client; arrays stay shared."""
        for message in messages:
            content = RecordDict(dict(message.content.items()))
            content[CONFIG] = self._order(message.metadata.dst_node_id, round_)
            message.content = content

    def _order(self, node: int, round_: int) -> ConfigRecord:
        config = json.dumps(to_dict(self.config), sort_keys=True)
        number, keep = self.roster.number(node), self.choices["local"].round
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
                fault = find_fault(reply, expected, self.roster.num_nodes(node))
            heard.add(node)
            if fault is None:
                good[node] = reply
            else:
                self._tell(self.roster.name(node), fault)
        for node in sorted(asked - heard, key=self.roster.number):
            self._tell(self.roster.name(node), f"did not answer within {self.options.timeout:g} s")
        return [good[node] for node in sorted(good, key=self.roster.number)]

    def _choose(
        self, round_: int, answers: Sequence[Mapping[str, Any]], model: ArrayRecord
    ) -> dict[str, float]:
        """The scores of a round; remembers it, and its model, if validation is the best so far.

        A mean over fewer clients is one over other nodes, so a round in which more were scored goes before.
        """
        scores = weigh_scores(answers, self.options.metric)
        for kind in KINDS if round_ else ():
            val = scores.get(f"{kind}_val", math.nan)
            count, best = count_scored(answers, f"{kind}_val", self.options.metric), self.choices[kind]
            if count and (count, val) > (best.clients, best.val):
                self.choices[kind] = Choice(round_, val, scores.get(f"{kind}_test", math.nan), count)
                if kind == "global":
                    self.best = to_arrays(model)
        return scores

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
        answers: list[Mapping[str, Any]] = []
        for reply in good:
            weight = self.roster.num_nodes(reply.metadata.src_node_id)
            answers.append({**reply.content.metric_records.get(SCORES, {}), WEIGHT: weight})
        scores = self._choose(self.round, answers, self.arrays)
        self.log({"event": "last", "round": self.round, "scores": scores})
        closing = [Message(RecordDict(), node, MessageType.QUERY) for node in self.grid.nodes]
        self._address(closing, self.round)
        self.grid.send_and_receive(closing, timeout=self.options.timeout)

    def _tell(self, client: str, reason: str) -> None:
        self.faults += 1
        self.watcher.fault(self.round, client, reason)

    def _state(self) -> dict[str, Tensor]:
        """All that the rounds to come depend on."""
        arrays: dict[str, Any] = {f"model.{name}": array for name, array in to_arrays(self.arrays).items()}
        arrays |= {f"best.{name}": array for name, array in self.best.items()}
        arrays |= {f"strategy.{name}": array for name, array in strategy_state(self.strategy).items()}
        for kind, choice in self.choices.items():
            arrays[f"choice.{kind}"] = np.array([choice.round, choice.val, choice.test, choice.clients])
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
        for kind, (round_, val, test, clients) in part("choice.").items():
            self.choices[kind] = Choice(int(round_), float(val), float(test), int(clients))
        self.round, self.grid.sent, self.grid.received, self.faults = state["totals"].tolist()
        self.roster.keep_numbers(json.loads(bytes(state["names"].tolist())))
        if self.clients is not None:
            own = {n.partition(".")[2]: t for n, t in state.items() if n.startswith("clients.")}
            orders = {
                node: Order.read(RecordDict({CONFIG: self._order(node, self.round)}))
                for node in self.grid.nodes
            }
            self.clients.load_state_dict(own, orders)
