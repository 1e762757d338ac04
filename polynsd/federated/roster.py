"""`Roster`: which clients take part. Each is asked once what it is, before it is asked to train."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from polynsd.federated.records import CONFIG, NUMBERS, count_bytes, find_fault, read_text

POLL_SECONDS = 0.5
REFUSAL_SECONDS = 30.0  # that a client has to take note that it is refused
LONGEST = 500  # characters of a reason that a server gives
SIZES = ("num_nodes", "num_features", "num_classes")


@dataclass(frozen=True)
class Member:
    """What a client says of itself: sizes, and hashes of the names of its features and classes."""

    name: str
    node_id: int
    num_nodes: int
    num_features: int
    num_classes: int
    columns: str
    classes: str

    @property
    def kind(self) -> tuple[int, int, str, str]:
        """What must be equal for all clients."""
        return self.num_features, self.num_classes, self.columns, self.classes


@dataclass(frozen=True)
class Refusal:
    """What a client is told that does not take part."""

    reason: str  # a clause, with what can be done
    may_pass: bool = False  # whether it is let in later if it stays


class MeteredGrid(Grid):
    """A grid whose nodes are the clients in good standing, and that counts bytes of records.

    Args:
        inner: Flower's, or that of this process.
    """

    def __init__(self, inner: Grid) -> None:
        self.inner = inner
        self.nodes: list[int] = []
        self.sent = self.received = 0

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Sends, waits, and counts what went either way."""
        messages = list(messages)
        sizes: dict[int, int] = {}  # equal content is one object
        for message in messages:
            if timeout is not None:
                message.metadata.ttl = timeout  # what comes later is dropped
            key = id(message.content)
            sizes[key] = sizes.get(key) or count_bytes(message.content)
            self.sent += sizes[key]
        replies = list(self.inner.send_and_receive(messages, timeout=timeout))
        self.received += sum(count_bytes(reply.content) for reply in replies if reply.has_content())
        return replies

    def get_node_ids(self) -> list[int]:
        return self.nodes

    def set_run(self, run: Any) -> None:
        self.inner.set_run(run)

    @property
    def run(self) -> Any:
        return self.inner.run

    def create_message(self, *args: Any, **options: Any) -> Message:
        return self.inner.create_message(*args, **options)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self.inner.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self.inner.pull_messages(message_ids)


class Roster:
    """The clients of a federation, numbered by name.

    Args:
        grid: to the clients.
        tell: takes the name of a client and why it does not take part.
        timeout: seconds to wait for an answer.
        max_nodes: the most nodes that a client may say it has, since its weight is their number.
    """

    def __init__(
        self,
        grid: MeteredGrid,
        tell: Callable[[str, str], None],
        timeout: float,
        max_nodes: int,
    ) -> None:
        self.grid, self.tell, self.timeout, self.max_nodes = grid, tell, timeout, max_nodes
        self.members: dict[str, Member] = {}
        self.names: list[str] = []  # the position is the client's number, for good
        self._refused: dict[int, str] = {}  # nodes, and the name that each would have, if it is taken

    def wait_for(self, count: int, on_wait: Callable[[int], None]) -> None:
        """Looks who is there, and returns when so many clients are."""
        self.update()
        while len(self.members) < count:
            on_wait(len(self.members))
            time.sleep(POLL_SECONDS)
            self.update()
        self.names = self.names or sorted(self.members, key=_natural)

    def update(self) -> None:
        """Forgets nodes that have left and asks new ones what they are.

        A client that was started again has a new node, and Flower notices only later that the old one is
        gone: until then its name is taken.
        """
        present = list(self.grid.inner.get_node_ids())
        self.members = {n: member for n, member in self.members.items() if member.node_id in present}
        self._refused = {node: n for node, n in self._refused.items() if not n or n in self.members}
        known = {member.node_id for member in self.members.values()} | self._refused.keys()
        new = [node for node in present if node not in known]
        messages = [Message(RecordDict(), node, MessageType.QUERY) for node in new]
        refusals = []
        for reply in self.grid.send_and_receive(messages, timeout=self.timeout) if messages else ():
            refusal = self._admit(reply)
            if refusal is not None:
                content, node = write_refusal(refusal), reply.metadata.src_node_id
                refusals.append(Message(content, node, MessageType.QUERY))
        if refusals:  # whether they answer does not matter
            self.grid.send_and_receive(refusals, timeout=min(self.timeout, REFUSAL_SECONDS))
        self.grid.nodes = [member.node_id for member in self.members.values()]

    def _admit(self, reply: Message) -> Refusal | None:
        """Takes a client in, or says why not; nothing to one that failed, which knows why itself."""
        node = reply.metadata.src_node_id
        fault, refusal, member = find_fault(reply), None, None
        if fault is None:
            try:
                member = read_member(reply)
            except (KeyError, TypeError, ValueError) as error:
                fault = f"did not say what it is: {error}"
        if member is not None:
            fault, refusal = self._find_objection(member) or (None, None)
        elif not reply.has_error():
            refusal = Refusal(f"it {fault}. Client and server need the same version of polynsd.")
        if fault is not None or member is None:
            self._refused[node] = member.name if member is not None and member.name in self.members else ""
            self.tell(f"node {node}" if member is None else member.name, fault or "")
            return refusal
        self.members[member.name] = member
        if self.names and member.name not in self.names:
            self.names.append(member.name)
        return None

    def _find_objection(self, member: Member) -> tuple[str, Refusal] | None:
        """Why a client is not let in, for the server and for the client, which hears nothing of others'
        names.
        """
        if member.name in self.members:
            advice = "Give this one a name of its own with --name."
            return "joined twice; the first one counts", Refusal(
                f"another client is called '{member.name}' already. {advice}", may_pass=True
            )
        if member.num_nodes > self.max_nodes:
            return (
                f"says that it has {member.num_nodes:.6g} nodes, by which it would be weighted; "
                f"{self.max_nodes} are the most"
            ), Refusal(
                f"it has {member.num_nodes:.6g} nodes, and the server takes clients of {self.max_nodes} at "
                "most. Whoever runs the server can allow more with --max-nodes."
            )
        first = next(iter(self.members.values()), None)
        if first is not None and member.kind != first.kind:
            same = "the same names" if member.kind[2:] == first.kind[2:] else "other names"
            sizes = f"it has {member.num_features} features and {member.num_classes} classes, with {same}"
            return (
                f"does not fit: {sizes}; {first.name} has {first.num_features} and {first.num_classes}"
            ), Refusal(
                f"{sizes} {'as' if same == 'the same names' else 'than'} the clients before it, which have "
                f"{first.num_features} and {first.num_classes}. All clients need the same columns of "
                "features and the same classes, in the same order."
            )
        return None

    def keep_numbers(self, names: Sequence[str]) -> None:
        """Gives clients the numbers that they had, by name; those that are new come behind."""
        self.names = [*names, *(name for name in self.names if name not in names)]

    def num_nodes(self, node_id: int) -> int:
        """How many nodes of its graph the client at a node has, as it said when it joined; 0 of others, as
        the SuperLink, which answers for clients that are gone.
        """
        return next((m.num_nodes for m in self.members.values() if m.node_id == node_id), 0)

    def number(self, node_id: int) -> int:
        """The client's number: its place in the names."""
        return self.names.index(self.name(node_id))

    def name(self, node_id: int) -> str:
        """The name of the client at a node."""
        return next((m.name for m in self.members.values() if m.node_id == node_id), f"node {node_id}")


def describe(name: str, sizes: tuple[int, int, int], columns: str, classes: str) -> RecordDict:
    """What a client answers when it is asked what it is; sizes are nodes, features, classes."""
    numbers: dict[str, Any] = dict(zip(SIZES, sizes, strict=True))
    words: dict[str, Any] = {"name": name, "columns": columns, "classes": classes}
    return RecordDict({NUMBERS: MetricRecord(numbers), CONFIG: ConfigRecord(words)})


def read_member(reply: Message) -> Member:
    """What a client says of itself."""
    numbers = reply.content.metric_records[NUMBERS]
    said = [cast(float, numbers[key]) for key in SIZES]
    if not all(number >= 1 and number == int(number) for number in said):
        raise ValueError(f"nodes, features and classes must be positive integers; got {said}")
    nodes, features, classes = map(int, said)
    name = read_text(reply.content, "name") or f"node {reply.metadata.src_node_id}"
    hashes = [read_text(reply.content, key) for key in ("columns", "classes")]
    return Member(name[:80], reply.metadata.src_node_id, nodes, features, classes, *hashes)


def write_refusal(refusal: Refusal) -> RecordDict:
    """A refusal as it travels."""
    words: dict[str, Any] = {"refused": refusal.reason, "may_pass": int(refusal.may_pass)}
    return RecordDict({CONFIG: ConfigRecord(words)})


def read_refusal(content: RecordDict) -> Refusal | None:
    """The refusal in a message of the server; None where it is another message."""
    reason = " ".join(read_text(content, "refused").split())[:LONGEST]
    return Refusal(reason, read_text(content, "may_pass") == "1") if reason else None


def _natural(name: str) -> list[Any]:
    """client-2 before client-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
