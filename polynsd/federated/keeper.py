"""`Keeper`: where a client keeps its state between messages, and its local model in the end.

Two states are kept, after the last round and after the one before: a server that was killed may ask for its
last round again, and the client then trains it from where it stood. The files stay with the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from polynsd.config import to_dict
from polynsd.federated.site import Order, Site
from polynsd.runs import read_tensors, write_tensors
from polynsd.runs.files import make_folder

NOW, BEFORE, LOCAL = "now.safetensors", "before.safetensors", "local.safetensors"


class Keeper:
    """The files of one client.

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
