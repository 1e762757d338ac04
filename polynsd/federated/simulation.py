"""Clients on one machine: all in this process (`LocalGrid`), or as actors of Flower's simulation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event as Flag
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message_type import MessageType
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor

from polynsd.errors import ConfigError
from polynsd.federated.aggregation import mask_answer
from polynsd.federated.batch import ClientGroup, trains_together
from polynsd.federated.client import LocalClient
from polynsd.federated.client_app import (
    ClientFiles,
    Order,
    SimulatedSites,
    Site,
    answer_all,
    build_client_app,
)
from polynsd.federated.config import FederatedConfig, ServerOptions
from polynsd.federated.data import ClientData, digest_columns
from polynsd.federated.partition import Partition
from polynsd.federated.records import ARRAYS, read_text
from polynsd.federated.scores import Outcome
from polynsd.federated.server import Event
from polynsd.federated.training import FederationError, SeedSnapshots, require_flower, serve_rounds

logger = logging.getLogger("polynsd")

LocalModels = dict[str, Mapping[str, Tensor]]  # networks by client
# what the library, PyTorch and Flower raise over the graph, the arrays or the memory of one client; a wrong
# option (ConfigError, a ValueError too) is wrong for all of them and ends the training
FAILURES = (ValueError, RuntimeError, ArithmeticError, MemoryError)


class LocalGrid(Grid):
    """The clients of this process behind the interface of Flower's grids: nodes 1, 2, … in their order.

    The server sends the same messages as over a network and gets the same answers; the clients of a round
    train together. Arrays pass through the bytes that would travel. Of a client that fails the answer is an
    error, and its state is the one before the message.
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = dict(enumerate(sites, 1))
        self._contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in self.sites}
        self._group = ClientGroup([])
        # messages carry them; Flower's own simulation sets them like this
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID

    def get_node_ids(self) -> list[int]:
        return list(self.sites)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """All answers; training is never late here, so `timeout` is not looked at.

        Raises:
            ConfigError: an option does not fit any client.
        """
        messages = list(messages)
        # steps of secure aggregation bring no arrays and ask for none; in the third the clients train
        asking = [m for m in messages if m.metadata.message_type != MessageType.TRAIN or ARRAYS in m.content]
        answers = self._answer(asking) if asking else {}
        return [self._reply(m, answers.get(m.metadata.dst_node_id, RecordDict())) for m in messages]

    def _answer(self, messages: Sequence[Message]) -> dict[int, RecordDict | Exception]:
        """By node what its site answers, or why it cannot."""
        nodes = [message.metadata.dst_node_id for message in messages]
        sites = [self.sites[node] for node in nodes]
        clients = [site.client for site in sites if site.client is not None]
        if len(clients) < len(sites) or trains_together(clients):
            states = [_State(site, message) for site, message in zip(sites, messages, strict=True)]
            try:
                return dict(zip(nodes, answer_all(sites, messages, self._gather), strict=True))
            except ConfigError:
                raise
            except FAILURES:  # which of them it was shows when each answers by itself
                for state in states:
                    state.restore()
        return {
            node: self._answer_alone(self.sites[node], m) for node, m in zip(nodes, messages, strict=True)
        }

    def _answer_alone(self, site: Site, message: Message) -> RecordDict | Exception:
        """What one site answers, or why it cannot."""
        state = _State(site, message)
        try:
            return answer_all([site], [message])[0]
        except ConfigError:
            raise
        except FAILURES as error:
            state.restore()
            return error

    def _reply(self, message: Message, answer: RecordDict | Exception) -> Message:
        """The answer to a message as it travels; of a client that fails, the error."""
        if not isinstance(answer, Exception):
            try:
                return mask_answer(message, self._contexts[message.metadata.dst_node_id], answer)
            except FAILURES as error:
                answer = error
        reason = f"{type(answer).__name__}: {answer}"
        logger.debug("%s", reason, exc_info=answer)
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)

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


class _State:
    """A site before it answers a message, to go back to.

    Args:
        site: the place, whose networks are copied if it is asked to train.
        message: names the training.
    """

    def __init__(self, site: Site, message: Message) -> None:
        self.site, self.message = site, message
        self.is_training = message.metadata.message_type == MessageType.TRAIN
        # of an earlier training nothing is left as soon as the next one begins
        is_known = self.is_training and site.run == read_text(message.content, "run")
        self.tensors = site.state_dict() if is_known else {}

    def restore(self) -> None:
        """Undoes what the message has done."""
        if not self.is_training:  # every other message leaves the networks as they are
            return
        site = self.site
        site.client, site.run, site.round, site.previous, site.best = None, "", 0, {}, {}
        site.load_state_dict(self.tensors, Order.read(self.message.content))


def train_in_process(
    partition: Partition,
    config: FederatedConfig,
    options: ServerOptions,
    tell: Callable[[Event], None],
    snapshots: SeedSnapshots | None,
    device: str,
) -> tuple[Outcome, LocalModels]:
    """All rounds over the clients of a partition in this process."""
    columns = digest_columns(partition.graphs[0].feature_names or ())
    sites = [
        Site(f"client-{number}", ClientData.of(graph, partition.num_classes), columns, device=device)
        for number, graph in enumerate(partition.graphs)
    ]
    grid = LocalGrid(sites)
    outcome = serve_rounds(config, options, grid, tell, snapshots, clients=grid)
    return outcome, {site.name: {name: t.cpu() for name, t in site.best.items()} for site in sites}


def train_with_ray(
    partition: Partition,
    config: FederatedConfig,
    options: ServerOptions,
    tell: Callable[[Event], None],
    snapshots: SeedSnapshots | None,
    device: str,
    folder: Path,
) -> tuple[Outcome, LocalModels]:
    """The same over actors of Flower's simulation, which keep graphs and states in a folder."""
    require_flower("ray")
    from flwr.simulation import run_simulation

    archives = folder / "partition"
    if not archives.exists():
        partition.save(archives)
    sites = SimulatedSites(str(archives.resolve()), str((folder / "clients").resolve()), device)
    outcomes: list[Outcome] = []
    ended = Flag()
    server = ServerApp()

    def tell_while_it_runs(event: Event) -> None:
        if event["event"] == "waiting" and ended.is_set():  # nobody will come; this ends the server's thread
            raise FederationError("the simulation ended before its clients were there.")
        tell(event)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        outcomes.append(serve_rounds(config, options, grid, tell_while_it_runs, snapshots))

    gpus = 1 / len(partition) if device != "cpu" else 0.0
    backend: Any = {
        "client_resources": {"num_cpus": 1, "num_gpus": gpus},
        "init_args": {"logging_level": "error", "log_to_driver": False},
    }
    try:
        run_simulation(server, build_client_app(sites), len(partition), backend_config=backend)
    except RuntimeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise FederationError(f"Flower's simulation ended: {cause}") from error
    finally:
        ended.set()
    names = outcomes[0].names
    return outcomes[0], {name: ClientFiles(folder / "clients" / name).read_local() for name in names}
