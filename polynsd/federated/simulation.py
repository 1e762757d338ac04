"""Clients on one machine: all in this process (`LocalGrid`), or as actors of Flower's simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event as Flag
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.app.message_type import MessageType
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor

from polynsd.federated.aggregation import mask_answer
from polynsd.federated.batch import ClientGroup
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
from polynsd.federated.records import ARRAYS
from polynsd.federated.scores import Outcome
from polynsd.federated.server import Event
from polynsd.federated.training import FederationError, SeedSnapshots, require_flower, serve_rounds

LocalModels = dict[str, Mapping[str, Tensor]]  # networks by client


class LocalGrid(Grid):
    """The clients of this process behind the interface of Flower's grids: nodes 1, 2, … in their order.

    The server sends the same messages as over a network and gets the same answers; the clients of a round
    train together. Arrays pass through the bytes that would travel.
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
