"""The ClientApp: a client of Flower's simulation engine or of a SuperNode.

Each message may find a new process, so a client opens its graph, restores its state, answers, and saves its
state (`Keeper`). Where its graph is, is told by whoever starts it: `polynsd federated join`, the number of a
simulated client, or the configuration of a SuperNode that was started without polynsd.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.app.message_type import MessageType
from flwr.clientapp import ClientApp
from torch import Tensor

from polynsd.config import to_dict
from polynsd.errors import ConfigError
from polynsd.federated.records import ARRAYS
from polynsd.federated.secure import mask_answer
from polynsd.federated.site import Order, Site, answer_all
from polynsd.federated.sources import open_archive, open_tables
from polynsd.runs import read_tensors, write_tensors
from polynsd.runs.files import make_folder

NOW, BEFORE, LOCAL = "now.safetensors", "before.safetensors", "local.safetensors"


class Keeper:
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


OpenSite = Callable[[Context], tuple[Site, Keeper]]


def build_client_app(
    open_site: OpenSite,
    on_order: Callable[[Order], None] = lambda order: None,
    on_close: Callable[[], None] = lambda: None,
) -> ClientApp:
    """The ClientApp of clients.

    Args:
        open_site: finds the place of a client.
        on_order: is told what the server asks for, before it is answered.
        on_close: is called in the end.
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        kind, content = message.metadata.message_type, message.content
        if kind == MessageType.TRAIN and ARRAYS not in content:  # a step of secure aggregation
            return mask_answer(message, context, RecordDict())
        site, keeper = open_site(context)
        order = Order.read(content) if "config" in content.get("config", {}) else None
        if order is not None:
            on_order(order)
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
    """The client that the configuration of a SuperNode describes, --node-config 'client="FILE"'.

    The file is a JSON object: the arguments of `open_archive` or `open_tables`, and `state`, a folder.
    """
    settings = context.node_config.get("client")
    if not isinstance(settings, str):
        raise ConfigError("this node does not say where its graph is; start it with polynsd federated join.")
    found = json.loads(Path(settings).read_text(encoding="utf-8"))
    keeper = Keeper(found.pop("state"))
    site = open_archive(**found) if "path" in found else open_tables(**found)
    return site, keeper


client_app = build_client_app(open_configured_site)
