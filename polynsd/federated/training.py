"""`train_federated`: a partition of a graph, trained over its clients on one machine, as a run folder.

    result = train_federated(partition, FederatedConfig(), ServerOptions(10), out="runs/fed")
    result.outcome.choices["global"].test

Engines: `local` trains the clients of a round together in this process; `ray` runs the ClientApp in actors of
Flower's simulation. Both send the same messages, and get the same numbers up to rounding.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any

from torch import Tensor

from polynsd.errors import ConfigError, require_choice
from polynsd.federated.config import FederatedConfig
from polynsd.federated.outcome import FederationError, Outcome, ServerOptions, Silence, Watcher
from polynsd.federated.partition import Partition
from polynsd.federated.payload import ClientData
from polynsd.federated.runs import (
    KIND,
    FederatedResult,
    collect_weights,
    extras,
    identify,
    read_result,
    summarise,
)
from polynsd.optional import load_optional
from polynsd.runs import Run, RunSnapshots
from polynsd.runs.files import SNAPSHOT_SECONDS

if TYPE_CHECKING:
    from flwr.serverapp import Grid

ENGINES = ("local", "ray")
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # unless the user says otherwise


def require_flower(module: str = "flwr") -> None:
    """Raises, with the extra that is missing, unless Flower (or a part of it) can be loaded.

    Call it before the first import of Flower: it reads these variables once.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    load_optional(module, "federated training needs", "federated")
    logging.getLogger("flwr").setLevel(logging.ERROR)  # what happens in a round is told by the server


def train_federated(
    partition: Partition,
    config: FederatedConfig,
    options: ServerOptions,
    watcher: Watcher | None = None,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    device: str = "cpu",
    snapshot_seconds: float = SNAPSHOT_SECONDS,
) -> FederatedResult:
    """Trains over all clients of a partition.

    Args:
        partition: the graphs of the clients.
        config: the training.
        options: of the server; `clients` must be those of the partition.
        watcher: gets told what happens; nobody unless given.
        out: a run folder, in which a killed training goes on and a finished one is read; None keeps nothing.
        engine: local or ray.
        device: where clients train.
        snapshot_seconds: at least so long between two snapshots; 0 writes one per round, as engine ray always
            does: its clients keep their states of the last two rounds alone.

    Raises:
        ConfigError: an option does not fit, or the folder holds another run.
    """
    require_flower()
    require_choice("engine", engine, ENGINES)
    if options.clients != len(partition):
        raise ConfigError(f"the partition has {len(partition)} clients; got clients={options.clients}.")
    inputs = {
        "dataset": partition.name,
        "partition": partition.digest,
        "settings": dict(partition.settings),
        "source": partition.source,
    }
    with ExitStack() as stack:
        run = None
        if out is not None:
            identity = {**identify(config, options), "engine": engine}
            seconds = 0.0 if engine == "ray" else snapshot_seconds
            run = stack.enter_context(Run.start(out, KIND, identity, inputs, snapshot_seconds=seconds))
            if run.result is not None:
                return read_result(run.folder)
        folder = Path(stack.enter_context(TemporaryDirectory())) if run is None else run.folder
        play = _play_in_process if engine == "local" else _play_with_ray
        start = time.perf_counter()
        outcome, local = play(partition, config, options, watcher or Silence(), run, folder, device)
        seconds = time.perf_counter() - start
        made = partition.settings
        about = {
            "dataset": partition.name,
            "protocol": f"{made['clients']} clients by {made['method']}, seed {made['seed']}",
            "features": made.get("features", "raw"),
        }
        model, result = summarise(config, options, outcome, about)
        if run is not None:
            run.finish(
                {**result.to_dict(), **extras(outcome, options, config)},
                collect_weights(model, local),
                timings={"seconds": seconds},
            )
        return FederatedResult(outcome, model, local, result, seconds)


def _play_in_process(
    partition: Partition,
    config: FederatedConfig,
    options: ServerOptions,
    watcher: Watcher,
    run: Run | None,
    folder: Path,
    device: str,
) -> tuple[Outcome, dict[str, Mapping[str, Tensor]]]:
    from polynsd.federated.local_grid import LocalGrid
    from polynsd.federated.site import Site
    from polynsd.federated.sources import digest_columns

    columns = digest_columns(partition.graphs[0].feature_names or ())
    sites = [
        Site(f"client-{number}", ClientData.of(graph, partition.num_classes), columns, device=device)
        for number, graph in enumerate(partition.graphs)
    ]
    grid = LocalGrid(sites)
    outcome = serve_rounds(config, options, grid, watcher, run, clients=grid)
    return outcome, {site.name: {name: t.cpu() for name, t in site.best.items()} for site in sites}


def _play_with_ray(
    partition: Partition,
    config: FederatedConfig,
    options: ServerOptions,
    watcher: Watcher,
    run: Run | None,
    folder: Path,
    device: str,
) -> tuple[Outcome, dict[str, Mapping[str, Tensor]]]:
    require_flower("ray")
    from flwr.app import Context
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    from polynsd.federated.client_app import Keeper, SimulatedSites, build_client_app

    archives = folder / "partition"
    if not archives.exists():
        partition.save(archives)
    sites = SimulatedSites(str(archives.resolve()), str((folder / "clients").resolve()), device)
    outcomes: list[Outcome] = []
    ended = Event()
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        outcomes.append(serve_rounds(config, options, grid, _While(ended, watcher), run))

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
    return outcomes[0], {name: Keeper(folder / "clients" / name).read_local() for name in names}


class _While:
    """A watcher that ends the server's thread when there is no simulation any more to wait for."""

    def __init__(self, ended: Event, inner: Watcher) -> None:
        self.ended, self.inner = ended, inner
        self.fault, self.report = inner.fault, inner.report

    def waiting(self, present: int, wanted: int) -> None:
        """Clients are still missing."""
        if self.ended.is_set():
            raise FederationError("the simulation ended before its clients were there.")
        self.inner.waiting(present, wanted)


def serve_rounds(
    config: FederatedConfig,
    options: ServerOptions,
    grid: Grid,
    watcher: Watcher,
    run: Run | None,
    clients: Any = None,
) -> Outcome:
    """All rounds over a grid, with snapshots, metrics and events in a run folder."""
    from polynsd.federated.server import FederatedServer

    snapshots: RunSnapshots | None = None if run is None else run.snapshots
    server = FederatedServer(
        config,
        options,
        grid,
        watcher,
        run="run" if snapshots is None else snapshots.identity,
        snapshots=snapshots,
        clients=clients,
        log=(lambda record: None) if run is None else run.log,
    )
    return server.run()
