"""`polynsd federated run`: a graph divided among clients and trained over them, on one machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from polynsd.cli.options import MemoryOption
from polynsd.cli.report import add_report
from polynsd.errors import ConfigError
from polynsd.federated.config import FederatedConfig
from polynsd.federated.outcome import DELTA, Outcome, Privacy, RoundReport, ServerOptions
from polynsd.runs.files import SNAPSHOT_SECONDS

if TYPE_CHECKING:
    from polynsd.federated.partition import Partition
    from polynsd.federated.runs import FederatedResult

LINE_SECONDS = 2.0  # between two lines of progress where there is no terminal


@dataclass(frozen=True)
class FederatedRun(MemoryOption):
    """Divide a graph among clients and train over them on this machine."""

    main_options: ClassVar[tuple[str, ...]] = (
        *("dataset", "partition", "clients", "rounds", "backbone", "masks", "method", "out"),
        *("secure_aggregation", "dp_noise", "dp_clip", "device"),
    )

    dataset: str | None = None
    """A benchmark by name (polynsd data list) or a graph file, divided by Louvain's communities."""
    partition: Path | None = None
    """A folder of polynsd federated partition, in place of --dataset."""
    clients: int = 10
    """How many, of --dataset."""
    partition_seed: int = 0
    """Of nodes and splits of the clients, of --dataset."""
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

        partition, metric = self._open()
        options = ServerOptions(len(partition), self.timeout, self.metric or metric, self.privacy)
        with RoundsView(self.training, quiet=self.quiet, as_json=self.json) as view:
            result = train_federated(
                partition,
                self.training,
                options,
                view,
                out=self.out,
                engine=self.engine,
                device=self.device,
                snapshot_seconds=self.snapshot_seconds,
            )
        print_outcome(result.outcome, self.training, options, self.json)
        if self.out is not None and not self.json:
            print(f"run: {self.out}")
            if self.report and not self.quiet:
                print(add_report(self.out))
        return result

    def _open(self) -> tuple[Partition, str]:
        """The clients, and the metric of their graph."""
        from polynsd.data.datasets.entries import ENTRIES
        from polynsd.federated.partition import Partition, partition_dataset

        if (self.dataset is None) == (self.partition is None):
            raise ConfigError("name a graph with --dataset, or the folder of a partition with --partition.")
        if self.partition is not None:
            partition = Partition.load(self.partition)
        else:
            assert self.dataset is not None
            partition = partition_dataset(self.dataset, clients=self.clients, seed=self.partition_seed)
        entry = ENTRIES.get(partition.name) if partition.source is None else None
        return partition, "accuracy" if entry is None else entry.metric


class RoundsView:
    """Progress of a server on standard error: round, validation, clients, bytes; faults as lines.

    Args:
        training: what is trained.
        quiet: say nothing but faults.
        as_json: an object per event on standard output instead.
    """

    def __init__(self, training: FederatedConfig, quiet: bool = False, as_json: bool = False) -> None:
        from polynsd.report import ProgressReporter

        self.training, self.rounds, self.quiet, self.as_json = training, training.rounds, quiet, as_json
        self._has_bar = sys.stderr.isatty() and not quiet and not as_json
        self._bar = ProgressReporter(self.rounds, unit="rounds", quiet=not self._has_bar)
        self._next_line, self._present = 0.0, -1

    def __enter__(self) -> RoundsView:
        from polynsd.federated.methods import describe_leaving

        leaving = describe_leaving(self.training)
        self._say({"event": "leaves", "what": leaving}, f"what leaves a client every round: {leaving}")
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def waiting(self, present: int, wanted: int) -> None:
        """Prints how many clients are there, whenever that has changed."""
        if present != self._present and present < wanted:
            self._say(
                {"event": "waiting", "clients": present, "wanted": wanted}, f"clients: {present} of {wanted}"
            )
        self._present = present

    def fault(self, round_: int, client: str, reason: str) -> None:
        """Prints why a client is left out of a round, also with --quiet."""
        record = {"event": "fault", "round": round_, "client": client, "reason": reason}
        self._say(record, f"round {round_}: {client} {reason}", even_if_quiet=True)

    def report(self, report: RoundReport) -> None:
        """A bar on a terminal, elsewhere a line now and then."""
        line, self._present = describe_round(report, self.rounds), -1
        if self._has_bar:
            self._bar.advance(1, line)
        elif self.as_json or report.round == self.rounds or time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            self._say({"event": "round", **asdict(report)}, line)

    def _say(self, record: Mapping[str, Any], line: str, even_if_quiet: bool = False) -> None:
        if self.as_json:
            print(json.dumps(record), flush=True)
        elif even_if_quiet or not self.quiet:
            print(line, file=sys.stderr, flush=True)


def describe_round(report: RoundReport, rounds: int) -> str:
    """`round 12/100: validation 71.3 global, 73.0 local after round 11; 10 of 10 clients; …`"""
    scores = [
        f"{100 * report.scores[f'{kind}_val']:.1f} {kind}"
        for kind in ("global", "local")
        if f"{kind}_val" in report.scores
    ]
    known = f" validation {', '.join(scores)} after round {report.round - 1};" if scores else ""
    return (
        f"round {report.round}/{rounds}:{known} {report.clients} of {report.invited} clients; "
        f"{report.sent / 1e6:.2f} MB out, {report.received / 1e6:.2f} MB in"
    )


def print_outcome(outcome: Outcome, config: FederatedConfig, options: ServerOptions, as_json: bool) -> None:
    """The scores of local and global models, each at the round that its validation chose, and the cost."""
    if as_json:
        choices = {kind: asdict(choice) for kind, choice in outcome.choices.items()}
        print(json.dumps({"event": "done", **choices, "sent": outcome.sent, "received": outcome.received}))
        return
    from polynsd.report import print_table

    rows = [
        (
            f"{kind} model{'s' * (kind == 'local')}",
            f"{100 * choice.val:.2f}",
            f"{100 * choice.test:.2f}",
            str(choice.round),
            f"{choice.clients} of {len(outcome.names)}",
        )
        for kind, choice in outcome.choices.items()
        if choice.round
    ]
    what = f"{config.method}, {config.backbone}, masks {config.masks}"
    title = f"{what}: {options.metric}, {len(outcome.names)} clients"
    print_table(title, ("", "validation", "test", "round", "clients"), rows)
    print(
        f"{outcome.sent / 1e6:.1f} MB went to clients and {outcome.received / 1e6:.1f} MB came from them in "
        f"{config.rounds} rounds"
    )
    if options.privacy.is_noisy:
        epsilon = options.privacy.spent_epsilon(config.rounds)
        print(f"differential privacy of clients: ε = {epsilon:.2f} at δ = {DELTA:g} (scores not counted)")
