"""A run: a folder that survives anything.

    with Run.start("runs/texas", kind="protocol", config=…, inputs=…) as run:
        if run.result is None:
            fits = fit_replicas(…, on_epoch=lambda i, epoch: run.log({…}), snapshots=run.snapshots)
            run.finish({…}, weights)

Killed at any moment and started again with the same configuration, it goes on from its last snapshot to the
same result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from polynsd.errors import ConfigError
from polynsd.runs.durable import StorageError, leftovers, make_folder, remove_durably, write_durably
from polynsd.runs.environment import add_session, now, read_sessions
from polynsd.runs.files import CONFIG, ENVIRONMENT, FORMAT, METRICS, MODEL, PREDICTIONS, RESULT, SNAPSHOT
from polynsd.runs.identity import Identity, check_folder
from polynsd.runs.lock import held
from polynsd.runs.metrics import MetricsLog
from polynsd.runs.optional import load
from polynsd.runs.plain import encode, plain
from polynsd.runs.record import read_outcome
from polynsd.runs.snapshots import RunSnapshots, read_snapshot
from polynsd.runs.tensors import write_tensors

if TYPE_CHECKING:
    import pandas as pd

SNAPSHOT_SECONDS = 5.0


class Run:
    """An open run; made by `Run.start`.

    Attributes:
        folder: where it lies.
        result: what it came to, if it has finished.
    """

    def __init__(self, folder: Path, result: dict[str, Any] | None, snapshots: RunSnapshots | None) -> None:
        self.folder, self.result = folder, result
        self._snapshots = snapshots

    @classmethod
    @contextmanager
    def start(
        cls,
        folder: str | Path,
        kind: str,
        config: Mapping[str, Any],
        inputs: Mapping[str, Any],
        *,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
    ) -> Iterator[Run]:
        """Starts a run, goes on with one, or opens a finished one, which is then left as it is.

        Args:
            folder: made if it is not there.
            kind: protocol, search or model.
            config: what the run does, as plain data.
            inputs: what its result depends on beside that: dataset, hashes of contents and splits.
            snapshot_seconds: at least so long between two snapshots; 0 writes one at every offer.

        Raises:
            ConfigError: the folder holds another run, or something that is none, or a process works on it.
            DataError: a file of the run is damaged; none is changed then.
            StorageError: a file could not be written.
        """
        folder, identity = Path(folder), Identity.of(kind, config, inputs)
        if not snapshot_seconds >= 0:
            raise ConfigError(f"snapshot_seconds must be at least 0; got {snapshot_seconds!r}.")
        check_folder(folder, identity)
        outcome = read_outcome(folder / RESULT)
        if outcome is not None:
            _tidy_finished(folder)
            yield cls(folder, outcome.result, None)
            return
        make_folder(folder)
        with held(folder):
            check_folder(folder, identity)  # another process may have been here in between
            run = cls._resumed(folder, identity, snapshot_seconds)
            try:
                yield run
            finally:
                run._close()

    @classmethod
    def _resumed(cls, folder: Path, identity: Identity, snapshot_seconds: float) -> Run:
        """Goes on from what lies in the folder, whose lock is held."""
        outcome = read_outcome(folder / RESULT)
        if outcome is not None:
            return cls(folder, outcome.result, None)
        last = read_snapshot(folder / SNAPSHOT, identity.digest)
        sessions = read_sessions(folder / ENVIRONMENT)
        # whatever is damaged has spoken up by now, and nothing was touched
        for path in leftovers(folder):
            remove_durably(path)
        if not (folder / CONFIG).exists():
            write_durably(folder / CONFIG, identity.encode())
        add_session(folder / ENVIRONMENT, sessions)
        metrics = MetricsLog(folder / METRICS, 0 if last is None else last.metrics_bytes)
        snapshots = RunSnapshots(folder / SNAPSHOT, identity.digest, metrics, snapshot_seconds)
        return cls(folder, None, snapshots)

    @property
    def snapshots(self) -> RunSnapshots:
        """Where training keeps its state, for `fit_replicas(…, snapshots=run.snapshots)`."""
        if self._snapshots is None:
            raise ConfigError(
                f"the run {self.folder} has finished and is not changed any more. Use its result, "
                "or choose another folder."
            )
        return self._snapshots

    def log(self, record: Mapping[str, Any]) -> None:
        """One line of `metrics.jsonl`; becomes durable with the next snapshot."""
        self.snapshots.metrics.append(record)

    def finish(
        self,
        result: Mapping[str, Any],
        weights: Mapping[str, Tensor],
        predictions: pd.DataFrame | None = None,
        timings: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes everything that stays, `result.json` last, and drops the snapshot.

        Args:
            result: what a repetition gives again, to the last bit.
            weights: trained parameters by name.
            predictions: a table to keep beside them.
            timings: what a repetition need not give again.
        """
        outcome, clock = plain(dict(result), "result"), plain(dict(timings or {}), "timings")
        table = None if predictions is None else _parquet(predictions)
        self.snapshots.metrics.sync()
        files = {MODEL: _sha256(write_tensors(self.folder / MODEL, weights))}
        if table is not None:
            write_durably(self.folder / PREDICTIONS, table)
            files[PREDICTIONS] = _sha256(table)
        content = {
            "format": FORMAT,
            "result": outcome,
            "timings": {"finished": now(), **clock},
            "files": files,
        }
        write_durably(self.folder / RESULT, encode(content))
        self.result, self._snapshots = outcome, None
        remove_durably(self.folder / SNAPSHOT)

    def _close(self) -> None:
        """Keeps the lines since the last snapshot for those who look why the run broke off."""
        if self._snapshots is not None:
            with suppress(StorageError):
                self._snapshots.metrics.sync()


def _tidy_finished(folder: Path) -> None:
    """Removes what a process left that was killed right after it finished, if that is possible."""
    remains = [path for path in (*leftovers(folder), folder / SNAPSHOT) if path.exists()]
    if remains:
        with suppress(ConfigError, StorageError), held(folder):
            for path in remains:
                remove_durably(path)


def _parquet(table: pd.DataFrame) -> bytes:
    load("pyarrow")
    content = BytesIO()
    table.to_parquet(content, index=False)
    return content.getvalue()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
