"""`polynsd federated run`: a graph divided among clients and trained over them, on one machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from polynsd.cli.options import MemoryOption
from polynsd.cli.report import add_report
from polynsd.errors import ConfigError, require_at_least
from polynsd.federated.config import DELTA, FederatedConfig, Privacy, ServerOptions
from polynsd.runs.files import SNAPSHOT_SECONDS

if TYPE_CHECKING:
    from polynsd.federated.partition import Partition
    from polynsd.federated.runs import FederatedResult
    from polynsd.federated.scores import Outcome

Event = Mapping[str, Any]
LINE_SECONDS = 2.0  # between two lines of progress where there is no terminal


@dataclass(frozen=True)
class FederatedRun(MemoryOption):
    """Divide a graph among clients and train over them on this machine."""

    main_options: ClassVar[tuple[str, ...]] = (
        *("dataset", "partition", "clients", "division", "seeds", "rounds", "backbone", "masks", "method"),
        *("out", "secure_aggregation", "dp_noise", "dp_clip", "device"),
    )

    dataset: str | None = None
    """A benchmark by name (polynsd data list) or a graph file, divided by Louvain's communities."""
    partition: Path | None = None
    """A folder of polynsd federated partition, in place of --dataset."""
    clients: int = 10
    """How many, of --dataset."""
    partition_seed: int = 0
    """Of nodes and splits of the clients, of --dataset."""
    division: Literal["clients", "union", "whole"] = "clients"
    """Who trains: every client on its graph; or, to compare with, one client that has the graphs of all,
    without (union) or with (whole) the edges between them, on the same splits."""
    seeds: int = 1
    """Number of trainings, which are averaged: the next one has the next seed of weights and, of --dataset,
    of the partition."""
    metric: str | None = None
    """accuracy or roc_auc; the dataset's own unless given."""
    timeout: float = 600.0
    """Seconds that a client has for a round, under --engine ray."""
    engine: Literal["local", "ray"] = "local"
    """All clients together in this process, or as actors of Flower's simulation."""
    device: str = "cpu"
    """Where clients train: cpu, cuda, cuda:N, or auto."""
    out: Path | None = None
    """A run folder; started again with the same options, an interrupted run goes on."""
    snapshot_seconds: float = SNAPSHOT_SECONDS
    """Seconds between two snapshots in the run folder, at least; 0 writes one per round."""
    report: bool = True
    """Write report.html into the run folder, if Plotly is installed."""
    quiet: bool = False
    """Show no progress and write no report."""
    json: bool = False
    """One JSON object per event, for machines."""
    training: FederatedConfig = field(default_factory=FederatedConfig)
    """Backbone, masks, method and rules of training."""
    privacy: Privacy = field(default_factory=Privacy)
    """Secure aggregation and differential privacy."""

    def after_interrupt(self) -> str:
        if self.out is None:
            return "nothing was kept; with --out RUN it could go on"
        return f"the same command goes on with {self.out}" if self.out.exists() else ""

    def run(self) -> FederatedResult:
        from polynsd.federated.training import require_flower, train_federated

        require_flower()

        partitions, metric = self._open()
        options = ServerOptions(len(partitions[0]), self.timeout, self.metric or metric, self.privacy)
        shown = {"quiet": self.quiet, "as_json": self.json, "is_secure": self.privacy.secure_aggregation}
        with RoundsView(self.training, self.seeds, **shown) as view:
            result = train_federated(
                partitions,
                self.training,
                options,
                view.tell,
                out=self.out,
                engine=self.engine,
                device=self.device,
                snapshot_seconds=self.snapshot_seconds,
            )
        print_outcome([seed.outcome for seed in result.seeds], self.training, options, self.json)
        if self.out is not None and not self.json:
            print(f"run: {self.out}")
            if self.report and not self.quiet:
                print(add_report(self.out))
        return result

    def _open(self) -> tuple[list[Partition], str]:
        """The clients of every seed, and the metric of their graph."""
        from polynsd.data.datasets.catalogue import open_graph
        from polynsd.data.datasets.entries import ENTRIES
        from polynsd.federated.data import pool_clients
        from polynsd.federated.partition import Partition, partition_dataset

        require_at_least("seeds", self.seeds, 1)
        if (self.dataset is None) == (self.partition is None):
            raise ConfigError("name a graph with --dataset, or the folder of a partition with --partition.")
        if self.partition is not None:
            partitions = [Partition.load(self.partition)] * self.seeds
        else:
            seeds = range(self.partition_seed, self.partition_seed + self.seeds)
            partitions = partition_dataset(str(self.dataset), clients=self.clients, seeds=seeds)
        first = partitions[0]
        if self.division != "clients":
            name = self.dataset or first.source or first.name
            graph = open_graph(name).graph if self.division == "whole" else None
            partitions = [pool_clients(partition, graph) for partition in partitions]
        entry = ENTRIES.get(first.name) if first.source is None else None
        return partitions, "accuracy" if entry is None else entry.metric


class RoundsView:
    """Progress of a server on standard error: round, validation, clients, bytes; faults as lines.

    Args:
        training: what is trained.
        seeds: number of trainings.
        quiet: say nothing but faults.
        as_json: an object per event on standard output instead.
        is_secure: whether the server sees sums alone.
    """

    def __init__(
        self,
        training: FederatedConfig,
        seeds: int = 1,
        *,
        quiet: bool = False,
        as_json: bool = False,
        is_secure: bool = False,
    ) -> None:
        from polynsd.report import ProgressReporter

        self.is_secure = is_secure
        self.training, self.seeds, self.quiet, self.as_json = training, seeds, quiet, as_json
        self._has_bar = sys.stderr.isatty() and not quiet and not as_json
        self._bar = ProgressReporter(seeds * training.rounds, unit="rounds", quiet=not self._has_bar)
        self._next_line, self._present = 0.0, -1
        self._scores: Event = {}  # of the last round that was scored

    def __enter__(self) -> RoundsView:
        from polynsd.federated.methods import describe_leaving

        leaving = describe_leaving(self.training, self.is_secure)
        self._say({"event": "leaves", "what": leaving}, f"what leaves a client every round: {leaving}")
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def tell(self, event: Event) -> None:
        """Shows an event of the server."""
        kind = event["event"]
        if kind == "fault":
            line = f"round {event['round']}: {event['client']} {event['reason']}"
            self._say(event, line, even_if_quiet=True)
        elif kind == "waiting":  # whenever the number has changed
            if event["clients"] != self._present:
                self._say(event, f"clients: {event['clients']} of {event['wanted']}")
            self._present = event["clients"]
        elif kind == "scores":
            self._scores = event
            if self.as_json:
                self._say(event, "")
        else:
            self._show_round(event)

    def _show_round(self, event: Event) -> None:
        """A bar on a terminal, elsewhere a line now and then."""
        line, self._present = describe_round(event, self._scores, self.training.rounds), -1
        if self.seeds > 1:
            line = f"seed {event['seed']}, {line}"
        is_last = event["round"] == self.training.rounds
        if self._has_bar:
            self._bar.advance(1, line)
        elif self.as_json or is_last or time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            self._say(event, line)
        self._scores = {}

    def _say(self, event: Event, line: str, even_if_quiet: bool = False) -> None:
        if self.as_json:
            print(json.dumps(event), flush=True)
        elif even_if_quiet or not self.quiet:
            print(line, file=sys.stderr, flush=True)


def describe_round(event: Event, scores: Event, rounds: int) -> str:
    """`round 12/100: validation 71.3 global, 73.0 local after round 11; 10 of 10 clients; …`"""
    values = [
        f"{100 * scores[f'{kind}_val']:.1f} {kind}" for kind in ("global", "local") if f"{kind}_val" in scores
    ]
    known = f" validation {', '.join(values)} after round {scores['round']};" if values else ""
    return (
        f"round {event['round']}/{rounds}:{known} {event['clients']} of {event['invited']} clients; "
        f"{event['sent'] / 1e6:.2f} MB out, {event['received'] / 1e6:.2f} MB in"
    )


def print_outcome(
    outcomes: Sequence[Outcome], config: FederatedConfig, options: ServerOptions, as_json: bool
) -> None:
    """The scores of local and global models, each at the round that its validation chose, and the cost."""
    sent, received = (sum(getattr(outcome, way) for outcome in outcomes) for way in ("sent", "received"))
    if as_json:
        seeds = [{kind: asdict(choice) for kind, choice in outcome.choices.items()} for outcome in outcomes]
        print(json.dumps({"event": "done", "seeds": seeds, "sent": sent, "received": received}))
        return
    from polynsd.report import print_table

    rows = []
    for kind in outcomes[0].choices:
        choices = [outcome.choices[kind] for outcome in outcomes]
        if choices[0].round:
            name = f"{kind} model{'s' * (kind == 'local' or len(outcomes) > 1)}"
            val, test = (_percent([getattr(choice, part) for choice in choices]) for part in ("val", "test"))
            numbers, counts = ([getattr(c, part) for c in choices] for part in ("round", "clients"))
            clients = f"{_span(counts)} of {len(outcomes[0].names)}"
            rows.append((name, val, test, _span(numbers), clients))
    what = f"{config.method}, {config.backbone}, masks {config.masks}"
    count = len(outcomes[0].names)
    title = f"{what}: {options.metric}, {count} client{'s' * (count > 1)}"
    if len(outcomes) > 1:
        title += f", {len(outcomes)} seeds; mean ± std (population)"
    print_table(title, ("", "validation", "test", "round", "clients"), rows)
    trainings = f"{len(outcomes)} × " if len(outcomes) > 1 else ""
    print(
        f"{sent / 1e6:.1f} MB went to clients and {received / 1e6:.1f} MB came from them in "
        f"{trainings}{config.rounds} rounds"
    )
    if options.privacy.is_noisy:
        epsilon = options.privacy.spent_epsilon(config.rounds)
        print(f"differential privacy of clients: ε = {epsilon:.2f} at δ = {DELTA:g} (scores not counted)")


def _percent(values: Sequence[float]) -> str:
    mean = f"{100 * fmean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * pstdev(values):.2f}"


def _span(values: Sequence[int]) -> str:
    """`12`, or `12–30` where seeds differ."""
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"
