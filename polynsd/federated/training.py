"""`train_federated`: a partition of a graph, trained over its clients on one machine, as a run folder.

    result = train_federated(partition, FederatedConfig(), ServerOptions(10), out="runs/fed")
    result.outcome.choices["global"].test

Engines: `local` trains the clients of a round together in this process; `ray` runs the ClientApp in actors of
Flower's simulation. Both send the same messages, and get the same numbers up to rounding.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from polynsd.config import from_options, to_dict
from polynsd.errors import ConfigError, require_choice
from polynsd.federated.client import seeded
from polynsd.federated.config import FederatedConfig
from polynsd.federated.flower import require_flower
from polynsd.federated.methods import build_method
from polynsd.federated.outcome import FederationError, Outcome, ServerOptions, Silence, Watcher
from polynsd.federated.partition import Partition
from polynsd.federated.payload import ClientData
from polynsd.nn import count_parameters
from polynsd.runs import Run, RunRecord, RunSnapshots
from polynsd.runs.run import SNAPSHOT_SECONDS
from polynsd.training.result import ProtocolResult, SplitResult

if TYPE_CHECKING:
    from flwr.serverapp import Grid

ENGINES = ("local", "ray")
KIND = "federated"


@dataclass(frozen=True, eq=False)
class FederatedResult:
    """A finished training: its outcome, models and record.

    Attributes:
        outcome: rounds chosen, scores, bytes.
        model: the chosen global model; None where the method shares no weights.
        local: by client, the networks of the local models of the round chosen for them.
        result: the record, whose scores are those of the global model, or of the local ones if there is none.
        seconds: of training.
    """

    outcome: Outcome
    model: nn.Module | None
    local: Mapping[str, Mapping[str, Tensor]]
    result: ProtocolResult
    seconds: float


def train_federated(
    partition: Partition,
    config: FederatedConfig,
    options: ServerOptions,
    watcher: Watcher | None = None,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    device: str = "cpu",
    about: Mapping[str, Any] | None = None,
    snapshot_seconds: float = SNAPSHOT_SECONDS,
) -> FederatedResult:
    """Trains over all clients of a partition.

    Args:
        partition: the graphs of the clients.
        config: the training.
        options: of the server; `clients` must be those of the partition.
        watcher: gets told what happens; nobody unless given.
        out: a run folder, in which a killed training goes on; None keeps nothing.
        engine: local or ray.
        device: where clients train.
        about: what the record says of the graph: dataset, features.
        snapshot_seconds: at least so long between two snapshots; 0 writes one per round.

    Raises:
        ConfigError: an option does not fit, or the folder holds another run.
    """
    require_flower()
    require_choice("engine", engine, ENGINES)
    if options.clients != len(partition):
        raise ConfigError(f"the partition has {len(partition)} clients; got clients={options.clients}.")
    about = {"dataset": partition.name, **(about or {})}
    inputs = {**about, "partition": partition.digest, "settings": dict(partition.settings)}
    with ExitStack() as stack:
        run = None
        if out is not None:
            identity = {**identify(config, options), "engine": engine}
            run = stack.enter_context(
                Run.start(out, KIND, identity, inputs, snapshot_seconds=snapshot_seconds)
            )
            if run.result is not None:
                raise ConfigError(f"{out} holds this run, finished. Look at it, or choose another folder.")
        folder = Path(stack.enter_context(TemporaryDirectory())) if run is None else run.folder
        play = _play_in_process if engine == "local" else _play_with_ray
        start = time.perf_counter()
        outcome, local = play(partition, config, options, watcher or Silence(), run, folder, device)
        seconds = time.perf_counter() - start
        about |= {"protocol": describe_partition(partition.settings)}
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

    from polynsd.federated.client_app import SimulatedSites, build_client_app
    from polynsd.federated.keeper import Keeper

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


def identify(config: FederatedConfig, options: ServerOptions) -> dict[str, Any]:
    """What a run is told to do, as its folder keeps it."""
    return {"model": {"model": f"federated {config.backbone}", **to_dict(config)}, "server": asdict(options)}


def read_config(record: RunRecord) -> FederatedConfig:
    """The configuration of a run."""
    return from_options(FederatedConfig, {n: v for n, v in record.config["model"].items() if n != "model"})


def describe_partition(settings: Mapping[str, Any]) -> str:
    """`10 clients by louvain, seed 0`"""
    return f"{settings['clients']} clients by {settings['method']}, seed {settings['seed']}"


def summarise(
    config: FederatedConfig, options: ServerOptions, outcome: Outcome, about: Mapping[str, Any]
) -> tuple[nn.Module | None, ProtocolResult]:
    """The global model, and the record of a training."""
    model = restore_model(config, outcome.num_features, outcome.num_classes, outcome.arrays)
    choice = outcome.choices["local" if model is None else "global"]
    row = SplitResult(
        split=0,
        seed=config.seed,
        fingerprint="",
        val=choice.val,
        val_loss=float("nan"),
        test=choice.test,
        best_epoch=choice.round,
        epochs=config.rounds,
    )
    masks = "" if config.masks == "none" else f", masks {config.masks}"
    return model, ProtocolResult(
        metric=options.metric,
        rows=(row,),
        about={**about, "features": about.get("features", "raw")},
        model=f"{config.method} {config.backbone}{masks}",
        config=to_dict(config),
        parameters=0 if model is None else count_parameters(model),
        rules="federated",
        models=() if model is None else (model,),
    )


def restore_model(
    config: FederatedConfig, num_features: int, num_classes: int, arrays: Mapping[str, Any]
) -> nn.Module | None:
    """The causal branch with these weights; None where they are no weights of it."""
    method = build_method(config)
    with seeded(config.seed):
        model = method.build(config, num_features, num_classes)
    shared = method.shared(model)
    if shared.keys() != arrays.keys():
        return None
    with torch.no_grad():
        for name, parameter in shared.items():
            parameter.copy_(torch.as_tensor(arrays[name]))
    return model.eval()


def extras(outcome: Outcome, options: ServerOptions, config: FederatedConfig) -> dict[str, Any]:
    """What the record of a federated training has beside that of any other."""
    found: dict[str, Any] = {
        kind: {"round": choice.round, "val": choice.val, "test": choice.test}
        for kind, choice in outcome.choices.items()
    }
    found |= {"clients": list(outcome.names), "faults": outcome.faults}
    found |= {"bytes_to_clients": outcome.sent, "bytes_from_clients": outcome.received}
    found |= {"num_features": outcome.num_features, "num_classes": outcome.num_classes}
    found["columns"] = outcome.columns
    if options.privacy.is_noisy:
        found["epsilon"] = options.privacy.spent_epsilon(config.rounds)
    return {"federation": found}


def collect_weights(model: nn.Module | None, local: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The global model as number 0, and those of clients by their place."""
    weights = {} if model is None else {f"0.{name}": t for name, t in model.state_dict().items()}
    for number, networks in enumerate(local.values()):
        weights |= {f"clients.{number}.{name}": t for name, t in networks.items()}
    return weights
