"""One client of a federation: what it answers to messages (`Site`), and what it keeps between them.

A site answers messages; `answer_all` answers those of many sites of one process, which then train together.
What it is asked and what it answers:

| message  | brings                             | answer                                           |
|----------|------------------------------------|--------------------------------------------------|
| query    | nothing                            | name, numbers of nodes, features, classes        |
| train    | what the method sends, round r     | what the method sends back; scores of round r − 1 |
| evaluate | the last model                     | scores of the last round                         |
| query    | the round whose local models count | nothing                                          |
| query    | why the client does not take part  | nothing                                          |

Scores are counts of right predictions on validation and test nodes, of the local model and of the one that
was received. They are of the round before because both models are there when the next one begins, so that a
round costs one message, not two.

The ClientApp is for Flower's simulation engine and for SuperNodes. There each message may find a new process,
so a client opens its graph, restores its state, answers, and saves its state (`ClientFiles`). Where its graph
is, is told by whoever starts it: `polynsd federated join`, the number of a simulated client, or the
configuration of a SuperNode that was started without polynsd.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.app.message_type import MessageType
from flwr.clientapp import ClientApp
from torch import Tensor

from polynsd.config import from_options, to_dict
from polynsd.errors import ConfigError
from polynsd.federated.aggregation import mask_answer
from polynsd.federated.batch import ClientGroup
from polynsd.federated.client import LocalClient
from polynsd.federated.config import FederatedConfig
from polynsd.federated.data import ClientData, open_archive, open_tables
from polynsd.federated.methods import Payload
from polynsd.federated.records import ARRAYS, SCORES, read_text, to_payload, to_records
from polynsd.federated.roster import Refusal, describe, read_refusal
from polynsd.runs import read_tensors, write_tensors
from polynsd.runs.files import make_folder

logger = logging.getLogger("polynsd")

BRANCHES = "branches."
NOW, BEFORE, LOCAL = "now.safetensors", "before.safetensors", "local.safetensors"


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
    if read_refusal(content) is not None:
        return RecordDict()
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


class ClientFiles:
    """The files of one client: its state between messages, and its local model in the end.

    Two states are kept, after the last round and after the one before: a server that was killed may ask for
    its last round again, and the client then trains it from where it stood.

    Args:
        folder: made if it does not exist.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def restore(self, site: Site, order: Order, is_training: bool) -> None:
        """Brings a site to the state in which a message finds it; a client that is new stays as it is."""
        latest = order.round - 1 if is_training else order.round
        for name in (NOW, BEFORE):
            state, about = self._read(name)
            if about.get("run") == order.run and int(about.get("round", 0)) <= latest:
                site.load_state_dict(state, order)
                return

    def save(self, site: Site) -> None:
        """Keeps the state after a round, and the one before."""
        about = {"run": site.run, "round": site.round}
        _, last = self._read(NOW)
        make_folder(self.folder)
        if last.get("run") == site.run and int(last.get("round", 0)) < site.round:
            (self.folder / NOW).replace(self.folder / BEFORE)
        write_tensors(self.folder / NOW, site.state_dict(), about)

    def save_local(self, site: Site, order: Order) -> None:
        """Writes the local model of the round that counts, if this client was there in it."""
        if not site.best:
            return
        make_folder(self.folder)
        about = {"run": site.run, "round": order.keep, "client": site.name, "config": to_dict(order.config)}
        write_tensors(self.folder / LOCAL, site.best, about)

    def read_local(self) -> dict[str, Tensor]:
        """The networks of the local model; empty where there is none."""
        return dict(self._read(LOCAL)[0])

    def _read(self, name: str) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        path = self.folder / name
        return read_tensors(path) if path.exists() else ({}, {})


OpenSite = Callable[[Context], tuple[Site, ClientFiles]]


def log_refusal(refusal: Refusal) -> None:
    """Says in the log why the server does not let a client in."""
    logger.warning("the server does not let this client in: %s", refusal.reason)


def build_client_app(
    open_site: OpenSite,
    on_order: Callable[[Order], None] = lambda order: None,
    on_close: Callable[[], None] = lambda: None,
    on_refuse: Callable[[Refusal], None] = log_refusal,
) -> ClientApp:
    """The ClientApp of clients.

    Args:
        open_site: finds the place of a client.
        on_order: is told what the server asks for, before it is answered.
        on_close: is called in the end.
        on_refuse: is told why the server does not let the client in.
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        kind, content = message.metadata.message_type, message.content
        if kind == MessageType.TRAIN and ARRAYS not in content:  # a step of secure aggregation
            return mask_answer(message, context, RecordDict())
        refusal = read_refusal(content) if kind == MessageType.QUERY else None
        if refusal is not None:
            on_refuse(refusal)
            return Message(RecordDict(), reply_to=message)
        site, files = open_site(context)
        order = Order.read(content) if "config" in content.get("config", {}) else None
        if order is not None:
            on_order(order)
            files.restore(site, order, kind == MessageType.TRAIN)
        answers = answer_all([site], [message])
        if order is not None and kind == MessageType.TRAIN:
            files.save(site)
        elif order is not None and kind == MessageType.QUERY:
            files.save_local(site, order)
            on_close()
        return mask_answer(message, context, answers[0])

    for register in (app.train, app.evaluate, app.query):
        register()(answer)
    return app


@dataclass(frozen=True)
class SimulatedSites:
    """The clients of a partition archive, by the numbers that Flower's simulation gives them."""

    partition: str
    states: str  # a folder
    device: str = "cpu"

    def __call__(self, context: Context) -> tuple[Site, ClientFiles]:
        number = int(context.node_config["partition-id"])
        site = open_archive(Path(self.partition) / f"client-{number}.npz", device=self.device)
        return site, ClientFiles(Path(self.states) / site.name)


def open_configured_site(context: Context) -> tuple[Site, ClientFiles]:
    """The client that the configuration of a SuperNode describes, --node-config 'client="FILE"'.

    The file is a JSON object: the arguments of `open_archive` or `open_tables`, and `state`, a folder.
    """
    settings = context.node_config.get("client")
    if not isinstance(settings, str):
        raise ConfigError("this node does not say where its graph is; start it with polynsd federated join.")
    found = json.loads(Path(settings).read_text(encoding="utf-8"))
    files = ClientFiles(found.pop("state"))
    site = open_archive(**found) if "path" in found else open_tables(**found)
    return site, files


client_app = build_client_app(open_configured_site)
