"""The ClientApp: a client of Flower's simulation engine or of a SuperNode.

Each message may find a new process, so a client opens its graph, restores its state, answers, and saves its
state. Where its graph is, is told by whoever starts it: the node configuration of a SuperNode
(`polynsd federated join` writes it), or the number of a simulated client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.app.message_type import MessageType
from flwr.clientapp import ClientApp

from polynsd.errors import ConfigError
from polynsd.federated.keeper import Keeper
from polynsd.federated.records import ARRAYS
from polynsd.federated.secure import mask_answer
from polynsd.federated.site import Order, Site, answer_all
from polynsd.federated.sources import open_archive, open_tables

OpenSite = Callable[[Context], tuple[Site, Keeper]]


def build_client_app(open_site: OpenSite, on_close: Callable[[], None] = lambda: None) -> ClientApp:
    """The ClientApp of clients whose place `open_site` finds; `on_close` is called in the end."""
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        kind, content = message.metadata.message_type, message.content
        if kind == MessageType.TRAIN and ARRAYS not in content:  # a step of secure aggregation
            return mask_answer(message, context, RecordDict())
        site, keeper = open_site(context)
        order = Order.read(content) if "config" in content.get("config", {}) else None
        if order is not None:
            keeper.restore(site, order, kind == MessageType.TRAIN)
        answers = answer_all([site], [message])
        if order is not None and kind == MessageType.TRAIN:
            keeper.save(site)
        elif order is not None and kind == MessageType.QUERY:
            keeper.save_local(site, order)
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

    def __call__(self, context: Context) -> tuple[Site, Keeper]:
        number = int(context.node_config["partition-id"])
        site = open_archive(Path(self.partition) / f"client-{number}.npz", device=self.device)
        return site, Keeper(Path(self.states) / site.name)


def open_configured_site(context: Context) -> tuple[Site, Keeper]:
    """The client that the configuration of a SuperNode describes."""
    settings = context.node_config.get("client")
    if not isinstance(settings, str):
        raise ConfigError("this node does not say where its graph is; start it with polynsd federated join.")
    found = json.loads(Path(settings).read_text(encoding="utf-8"))
    keeper = Keeper(found.pop("state"))
    site = open_archive(**found) if "path" in found else open_tables(**found)
    return site, keeper


client_app = build_client_app(open_configured_site)
