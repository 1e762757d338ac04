"""`train_federated`: a partition of a graph, trained over its clients on one machine, as a run folder.

    result = train_federated(partition, FederatedConfig(), ServerOptions(10), out="runs/fed")
    result.outcome.choices["global"].test

Engines: `local` trains the clients of a round together in this process; `ray` runs the ClientApp in actors of
Flower's simulation. Both send the same messages, and get the same numbers up to rounding.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from polynsd.errors import ConfigError, PolyNSDError, require_choice
from polynsd.federated.branches import Branches
from polynsd.federated.client import seeded
from polynsd.federated.config import FederatedConfig, Privacy, ServerOptions
from polynsd.federated.methods import build_method
from polynsd.federated.partition import Partition
from polynsd.federated.runs import (
    KIND,
    FederatedResult,
    SeedResult,
    decode_seeds,
    encode_seeds,
    finish_run,
    identify,
    read_result,
    restore_model,
    summarise,
)
from polynsd.optional import load_optional
from polynsd.runs import Run
from polynsd.runs.files import SNAPSHOT_SECONDS, compact_json, to_json

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from polynsd.federated.scores import Outcome
    from polynsd.federated.server import Event

ENGINES = ("local", "ray")
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # unless the user says otherwise
FINISHED, FACTS = "finished.", "facts"  # of seeds, in a snapshot


class FederationError(PolyNSDError):
    """A program of Flower's ended, or a training failed."""


def require_flower(module: str = "flwr") -> None:
    """Raises, with the extra that is missing, unless Flower (or a part of it) can be loaded.

    Call it before the first import of Flower: it reads these variables once.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    load_optional(module, "federated training needs", "federated")
    logging.getLogger("flwr").setLevel(logging.ERROR)  # what happens in a round is told by the server


def check_training(
    config: FederatedConfig, privacy: Privacy, num_features: int = 2, num_classes: int = 2
) -> None:
    """Builds the networks once, before anything is written or started.

    Raises:
        ConfigError: method, backbone, masks and privacy do not go together.
    """
    privacy.check_method(config.method)
    method, sizes = build_method(config), (num_features, num_classes)
    with seeded(config.seed):
        Branches(method.build(config, *sizes), config, *sizes)


def train_federated(
    partitions: Partition | Sequence[Partition],
    config: FederatedConfig,
    options: ServerOptions,
    tell: Callable[[Event], None] = lambda event: None,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    device: str = "cpu",
    snapshot_seconds: float = SNAPSHOT_SECONDS,
) -> FederatedResult:
    """Trains over all clients of a partition, or of several, one after the other.

    Args:
        partitions: the graphs of the clients. Each of several is one training, with its own seed of weights:
            that of the configuration, the next one, and so on.
        config: the training.
        options: of the server; `clients` must be those of every partition.
        tell: takes events (`polynsd.federated.server`), which have `seed` too; nobody is told unless given.
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
    partitions = [partitions] if isinstance(partitions, Partition) else list(partitions)
    for partition in partitions:
        if options.clients != len(partition):
            raise ConfigError(f"the partition has {len(partition)} clients; got clients={options.clients}.")
    first = partitions[0]
    check_training(config, options.privacy, first.graphs[0].num_features, first.num_classes)
    inputs = {
        "dataset": first.name,
        "partitions": [partition.digest for partition in partitions],
        "settings": [dict(partition.settings) for partition in partitions],
        "splits": [partition.split_digest for partition in partitions],
        "source": first.source,
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
        start = time.perf_counter()
        seeds = _train_seeds(partitions, config, options, tell, run, (engine, folder, device))
        seconds = time.perf_counter() - start
        result = summarise(config, options, seeds, _describe(partitions))
        if run is not None:
            finish_run(run, config, options, seeds, result, {"seconds": seconds})
        return FederatedResult(tuple(seeds), result, seconds)


def _describe(partitions: Sequence[Partition]) -> dict[str, Any]:
    """The problem, as the record of a run has it."""
    made = partitions[0].settings
    seeds = list(dict.fromkeys(partition.settings["seed"] for partition in partitions))
    last = f" to {seeds[-1]}" if len(seeds) > 1 else ""
    return {
        "dataset": partitions[0].name,
        "protocol": f"{made['clients']} clients by {made['method']}, seed {seeds[0]}{last}",
        "features": made.get("features", "raw"),
        "division": made.get("division", "clients"),
    }


def _train_seeds(
    partitions: Sequence[Partition],
    config: FederatedConfig,
    options: ServerOptions,
    tell: Callable[[Event], None],
    run: Run | None,
    place: tuple[str, Path, str],
) -> list[SeedResult]:
    """One training per partition; goes on where an earlier session stopped."""
    from polynsd.federated.simulation import train_in_process, train_with_ray

    engine, folder, device = place
    state = None if run is None else run.snapshots.load()
    finished = [] if state is None else read_finished(config, state)
    for number in range(len(finished), len(partitions)):
        seeded = replace(config, seed=config.seed + number)
        snapshots = None if run is None else SeedSnapshots(run, finished, state)
        state = None  # it belongs to the seed that was interrupted
        arguments = (partitions[number], seeded, options, tell, snapshots)
        if engine == "local":
            outcome, local = train_in_process(*arguments, device)
        else:
            outcome, local = train_with_ray(*arguments, device, folder / f"seed-{seeded.seed}")
        sizes = (outcome.num_features, outcome.num_classes)
        finished.append(SeedResult(outcome, restore_model(seeded, *sizes, outcome.arrays), local))
    return finished


class SeedSnapshots:
    """The snapshots of one of several trainings: its own state, and the results of those that have ended.

    Args:
        run: the folder of all of them.
        finished: the trainings that have ended.
        state: the last snapshot, where this training was interrupted.
    """

    def __init__(
        self, run: Run, finished: Sequence[SeedResult] = (), state: Mapping[str, Tensor] | None = None
    ) -> None:
        self.run, self.identity, self._last = run, run.snapshots.identity, state
        facts, weights = encode_seeds(finished)
        text = compact_json(to_json({FACTS: facts}, "seeds")).encode()
        self._finished = {f"{FINISHED}{name}": t for name, t in weights.items()}
        self._finished[f"{FINISHED}{FACTS}"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    def load(self) -> Mapping[str, Tensor] | None:
        """The last state of this training."""
        state = None if self._last is None else dict(self._last)
        self._last = None
        if state is None:
            return None
        return {name: t for name, t in state.items() if not name.startswith(FINISHED)}

    def offer(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keeps a state with what is finished, if it is time to."""
        self.run.snapshots.offer(lambda: {**state(), **self._finished})


def read_finished(config: FederatedConfig, state: Mapping[str, Tensor]) -> list[SeedResult]:
    """The trainings that had ended when a snapshot was taken."""
    own = {name.removeprefix(FINISHED): t for name, t in state.items() if name.startswith(FINISHED)}
    facts = json.loads(bytes(own.pop(FACTS).tolist()))[FACTS]
    return decode_seeds(config, facts, own)


def serve_rounds(
    config: FederatedConfig,
    options: ServerOptions,
    grid: Grid,
    tell: Callable[[Event], None],
    snapshots: SeedSnapshots | None,
    clients: Any = None,
) -> Outcome:
    """All rounds over a grid, with snapshots, metrics and faults in a run folder."""
    from polynsd.federated.server import FederatedServer

    def record(event: Event) -> None:
        event = {**event, "seed": config.seed}
        if snapshots is not None and event["event"] in ("round", "scores"):
            snapshots.run.log(event)  # the same in every repetition
        elif snapshots is not None and event["event"] == "fault":
            snapshots.run.note(event)
        tell(event)

    name = "run" if snapshots is None else f"{snapshots.identity}-{config.seed}"
    return FederatedServer(
        config, options, grid, record, run=name, snapshots=snapshots, clients=clients
    ).run()
