"""`LocalGrid`: the clients of a federation in this process, behind the interface of Flower's grids.

The server's loop sends the same messages as over a network and gets the same answers; the clients of a round
train together. Arrays pass through the bytes that would travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.app.message_type import MessageType
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor

from polynsd.federated.batch import ClientGroup
from polynsd.federated.client import LocalClient
from polynsd.federated.records import ARRAYS
from polynsd.federated.secure import mask_answer
from polynsd.federated.site import Order, Site, answer_all


class LocalGrid(Grid):
    """Nodes 1, 2, … are the sites in their order."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = dict(enumerate(sites, 1))
        self._contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in self.sites}
        self._group = ClientGroup([])
        # messages carry them; Flower's own simulation sets them like this
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID

    def get_node_ids(self) -> list[int]:
        return list(self.sites)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """All answers; training is never late here, so `timeout` is not looked at."""
        messages = list(messages)
        # steps of secure aggregation bring no arrays and ask for none; in the third the clients train
        asking = [m for m in messages if m.metadata.message_type != MessageType.TRAIN or ARRAYS in m.content]
        sites = [self.sites[message.metadata.dst_node_id] for message in asking]
        found = answer_all(sites, asking, self._gather) if asking else []
        answers = {m.metadata.dst_node_id: a for m, a in zip(asking, found, strict=True)}
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            answer = answers.get(node, RecordDict())
            replies.append(mask_answer(message, self._contexts[node], answer))
        return replies

    def _gather(self, clients: list[LocalClient]) -> ClientGroup:
        """The group of the round before, whose graphs are stacked already, if it has these clients."""
        if any(self._group.clients.get(client.number) is not client for client in clients):
            self._group = ClientGroup([s.client for s in self.sites.values() if s.client is not None])
        return self._group

    def state_dict(self) -> dict[str, Tensor]:
        """The state of all clients."""
        return {
            f"{node}.{name}": t for node, site in self.sites.items() for name, t in site.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor], orders: Mapping[int, Order]) -> None:
        """Goes on from a state; orders by node say which training it is."""
        for node, order in orders.items():
            cut = len(f"{node}.")
            own = {name[cut:]: t for name, t in state.items() if name.startswith(f"{node}.")}
            self.sites[node].load_state_dict(own, order)

    def set_run(self, run: Any) -> None:
        """There is one run per grid."""

    @property
    def run(self) -> Any:
        raise NotImplementedError("a grid of this process has no run of Flower's.")

    def create_message(self, *args: Any, **options: Any) -> Message:
        return Message(*args, **options)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError("messages are answered at once here; use send_and_receive.")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError("messages are answered at once here; use send_and_receive.")
