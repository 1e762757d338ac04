"""The state of a training run while it goes: the last snapshot, and the metrics up to it.

A snapshot knows how long `metrics.jsonl` was when it was taken. The metrics become durable first, the
snapshot second, so whichever moment a kill chooses, the file holds at least what the snapshot counts; what
comes after that is cut off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from polynsd.errors import DataError
from polynsd.runs.files import FORMAT, METRICS
from polynsd.runs.metrics import MetricsLog
from polynsd.runs.tensors import read_tensors, write_tensors

SHARE = 0.1  # of the time may go into writing


@dataclass(frozen=True)
class Snapshot:
    """What was read back."""

    tensors: Mapping[str, Tensor]
    metrics_bytes: int


class RunSnapshots:
    """Keeps the state of a run, at most every few seconds (`polynsd.training.Snapshots`).

    Args:
        path: the file.
        identity: hash of the configuration; a snapshot of another one is refused.
        metrics: what is written before every snapshot.
        seconds: at least so long between two; 0 writes at every offer.
    """

    def __init__(self, path: Path, identity: str, metrics: MetricsLog, seconds: float) -> None:
        self.path, self.identity, self.seconds = path, identity, seconds
        self.metrics = metrics
        self._due = time.monotonic() + seconds

    def load(self) -> Mapping[str, Tensor] | None:
        """The state to go on from, if there is one."""
        snapshot = read_snapshot(self.path, self.identity)
        return None if snapshot is None else snapshot.tensors

    def offer(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Writes the state if it is time to."""
        began = time.monotonic()
        if began < self._due:
            return
        self.metrics.sync()
        about = {"format": FORMAT, "identity": self.identity, "metrics_bytes": self.metrics.length}
        write_tensors(self.path, state(), about)
        ended = time.monotonic()
        self._due = ended + max(self.seconds, (ended - began) / SHARE) if self.seconds else ended


def read_snapshot(path: Path, identity: str) -> Snapshot | None:
    """The snapshot of a run, checked; None where there is none."""
    if not path.exists():
        return None
    try:
        tensors, about = read_tensors(path)
        return Snapshot(tensors, _metrics_bytes(path, about, identity))
    except DataError as error:
        raise DataError(
            f"{error} It holds the state of an unfinished run; delete it "
            "to start that run again from its beginning."
        ) from error


def _metrics_bytes(path: Path, about: Mapping[str, Any], identity: str) -> int:
    length, metrics = about.get("metrics_bytes"), path.with_name(METRICS)
    if about.get("format") != FORMAT or type(length) is not int:
        raise DataError(f"{path} is not a snapshot that this version of polynsd can read.")
    if about.get("identity") != identity:
        raise DataError(f"{path} belongs to a run with another configuration.")
    if not metrics.is_file() or metrics.stat().st_size < length:
        raise DataError(f"{metrics} is damaged: {path.name} counts on {length:,} bytes of it.")
    return length
