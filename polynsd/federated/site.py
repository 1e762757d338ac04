"""`Site`: the place of one client, its graph, its networks and what it keeps between rounds.

A site answers messages; `answer_all` answers those of many sites of one process, which then train together.
What it is asked and what it answers:

| message  | brings                             | answer                                           |
|----------|------------------------------------|--------------------------------------------------|
| query    | nothing                            | name, numbers of nodes, features, classes        |
| train    | what the method sends, round r     | what the method sends back; scores of round r − 1 |
| evaluate | the last model                     | scores of the last round                         |
| query    | the round whose local models count | nothing                                          |

Scores are counts of right predictions on validation and test nodes, of the local model and of the one that
was received. They are of the round before because both models are there when the next one begins, so that a
round costs one message, not two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from flwr.app import Message, MetricRecord, RecordDict
from flwr.app.message_type import MessageType
from torch import Tensor

from polynsd.config import from_options
from polynsd.federated.batch import ClientGroup
from polynsd.federated.client import LocalClient
from polynsd.federated.config import FederatedConfig
from polynsd.federated.payload import ClientData, Payload
from polynsd.federated.records import SCORES, read_text, to_payload, to_records
from polynsd.federated.roster import describe

BRANCHES = "branches."


@dataclass(frozen=True)
class Order:
    """What a message tells a client, beside arrays."""

    run: str  # which training it is
    config: FederatedConfig
    number: int  # of the client
    round: int  # from 1 on
    keep: int  # the round whose local models count so far; 0: none yet

    @classmethod
    def read(cls, content: RecordDict) -> Order:
        """The order in a message of the server."""
        config = from_options(FederatedConfig, json.loads(read_text(content, "config")))
        number, round_, keep = (int(read_text(content, key, "0")) for key in ("number", "round", "keep"))
        return cls(read_text(content, "run"), config, number, round_, keep)


@dataclass
class Site:
    """One client where its graph is.

    Args:
        name: by which the server knows it.
        data: its graph, which never leaves it.
        columns: a hash of the names of its features; equal for all clients.
        classes: a hash of the names of its classes, likewise.
        device: where it trains.
    """

    name: str
    data: ClientData
    columns: str = ""
    classes: str = ""
    device: str = "cpu"
    client: LocalClient | None = None
    run: str = ""
    round: int = 0  # of the state of the client
    previous: dict[str, Tensor] = field(default_factory=dict)  # local networks after the round before
    best: dict[str, Tensor] = field(default_factory=dict)  # after the round that counts

    def afresh(self) -> Site:
        """The same place without a state."""
        return Site(self.name, self.data, self.columns, self.classes, self.device)

    def describe(self) -> RecordDict:
        """What it says of itself."""
        data = self.data
        sizes = (data.num_nodes, data.num_features, data.num_classes)
        return describe(self.name, sizes, self.columns, self.classes)

    def prepare(self, order: Order) -> LocalClient:
        """The client, ready for a round; what the server now knows to count is kept."""
        if self.client is None or self.run != order.run:
            self.client = LocalClient(self.data, order.config, order.number, self.device)
            self.run, self.round, self.previous, self.best = order.run, 0, {}, {}
        self.choose(order.keep)
        return self.client

    def choose(self, keep: int) -> None:
        """Keeps the local networks of a round: those after its last one, or those before it."""
        if self.round and keep >= self.round:  # a client that was away still has those of its last round
            self.best = self.local_networks()
        elif keep and keep == self.round - 1 and self.previous:
            self.best = self.previous

    def local_networks(self) -> dict[str, Tensor]:
        """A copy of its networks as they are."""
        assert self.client is not None
        state = self.client.state_dict()
        return {name[len(BRANCHES) :]: t.clone() for name, t in state.items() if name.startswith(BRANCHES)}

    def state_dict(self) -> dict[str, Tensor]:
        """All that it keeps between rounds."""
        if self.client is None:
            return {}
        state = {f"client.{name}": t.clone() for name, t in self.client.state_dict().items()}
        for part in ("previous", "best"):
            state |= {f"{part}.{name}": t for name, t in getattr(self, part).items()}
        return {**state, "round": torch.tensor(self.round)}

    def load_state_dict(self, state: Mapping[str, Tensor], order: Order) -> None:
        """Goes on from a state of the same training."""
        if not state:
            return
        self.client = LocalClient(self.data, order.config, order.number, self.device)

        def part(prefix: str) -> dict[str, Tensor]:
            return {n[len(prefix) + 1 :]: t for n, t in state.items() if n.startswith(f"{prefix}.")}

        self.client.load_state_dict(part("client"))
        self.run, self.round = order.run, int(state["round"])
        self.previous, self.best = part("previous"), part("best")


def answer_all(
    sites: Sequence[Site],
    messages: Sequence[Message],
    gather: Callable[[list[LocalClient]], ClientGroup] = ClientGroup,
) -> list[RecordDict]:
    """The answers of sites to messages of one kind; `gather` makes the group that trains together."""
    kind = messages[0].metadata.message_type
    if kind == MessageType.QUERY:
        return [_answer_query(site, message.content) for site, message in zip(sites, messages, strict=True)]
    orders = [Order.read(message.content) for message in messages]
    group = gather([site.prepare(order) for site, order in zip(sites, orders, strict=True)])
    payloads = {o.number: to_payload(message.content) for o, message in zip(orders, messages, strict=True)}
    # a client that is new has no local model to score
    old = {o.number: payloads[o.number] for site, o in zip(sites, orders, strict=True) if site.round}
    scores = group.evaluate(old, orders[0].round - 1) if old else {}
    if kind == MessageType.EVALUATE:
        return [_scores(scores.get(order.number)) for order in orders]
    for site in sites:
        site.previous = site.local_networks()
    replies = group.fit(payloads, orders[0].round)
    answers = []
    for site, order in zip(sites, orders, strict=True):
        site.round = order.round
        answer = to_records(replies[order.number])
        answer.update(_scores(scores.get(order.number)))
        answers.append(answer)
    return answers


def _answer_query(site: Site, content: RecordDict) -> RecordDict:
    keep = int(read_text(content, "keep", "0"))
    if not keep:
        return site.describe()
    site.choose(keep)
    return RecordDict()


def _scores(score: Payload | None) -> RecordDict:
    if score is None:
        return RecordDict()
    numbers: dict[str, Any] = {name: float(value) for name, value in score.numbers.items()}
    return RecordDict({SCORES: MetricRecord(numbers)})
