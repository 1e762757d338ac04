"""`Run`: a folder that keeps configuration, metrics, snapshots and result of one training.

    with Run.start("runs/texas", kind="protocol", config=…, inputs=…) as run:
        if run.result is None:
            fits = fit_replicas(…, on_epoch=lambda i, epoch: run.log({…}), snapshots=run.snapshots)
            run.finish({…}, weights)

Killed at any moment and started again with the same configuration, it goes on from its last snapshot to the
same result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.documents import read_bytes
from polynsd.errors import ConfigError
from polynsd.runs.environment import add_session, now, read_sessions
from polynsd.runs.files import (
    CONFIG,
    ENVIRONMENT,
    EVENTS,
    FORMAT,
    LOCK,
    METRICS,
    MODEL,
    PARTIAL,
    PARTS,
    PREDICTIONS,
    RESULT,
    SNAPSHOT,
    SNAPSHOT_SECONDS,
    StorageError,
    encode_json,
    find_differences,
    find_partials,
    make_folder,
    remove_durably,
    to_json,
    write_durably,
)
from polynsd.runs.lock import hold_lock
from polynsd.runs.record import Outcome, RunIdentity, load_package, write_manifest
from polynsd.runs.snapshots import LineLog, RunParts, RunSnapshots, append_line, read_snapshot
from polynsd.runs.tensors import write_tensors

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

MAX_SHOWN = 10  # differences in a message
HASH = re.compile(r'\[?"[0-9a-f]{64}"(,"[0-9a-f]{64}")*\]?')  # SHA-256 as JSON, or a list of some


class Run:
    """An open run; made by `Run.start`.

    Attributes:
        folder: its folder.
        result: its result, if it has finished.
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
            folder: made if it does not exist.
            kind: protocol, run-off, model or federated.
            config: what the run does, as data that JSON can hold.
            inputs: what its result depends on beside that: dataset, hashes of contents and splits.
            snapshot_seconds: at least so long between two snapshots; 0 writes one at every offer.

        Raises:
            ConfigError: the folder holds another run or other files, or a process works on it.
            DataError: a file of the run is damaged; none is changed then.
            StorageError: a file could not be written.
        """
        folder, identity = Path(folder), RunIdentity.create(kind, config, inputs)
        if not snapshot_seconds >= 0:
            raise ConfigError(f"snapshot_seconds must be at least 0; got {snapshot_seconds!r}.")
        check_folder(folder, identity)
        outcome = Outcome.read(folder)
        if outcome is not None:
            _tidy_finished(folder)
            yield cls(folder, outcome.result, None)
            return
        make_folder(folder)
        with hold_lock(folder):
            check_folder(folder, identity)  # another process may have been here in between
            run = cls._resume(folder, identity, snapshot_seconds)
            try:
                yield run
            finally:
                run._close()

    @classmethod
    def _resume(cls, folder: Path, identity: RunIdentity, snapshot_seconds: float) -> Run:
        """Goes on from what lies in the folder, whose lock is held."""
        outcome = Outcome.read(folder)
        if outcome is not None:
            return cls(folder, outcome.result, None)
        _, metrics_bytes = read_snapshot(folder / SNAPSHOT, identity.digest)
        sessions = read_sessions(folder / ENVIRONMENT)
        # damaged files have raised by now, before anything was changed
        for path in find_partials(folder):
            remove_durably(path)
        if not (folder / CONFIG).exists():
            write_durably(folder / CONFIG, identity.encode())
        add_session(folder / ENVIRONMENT, sessions)
        metrics = LineLog(folder / METRICS, metrics_bytes)
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

    @property
    def parts(self) -> RunParts:
        """Where trainings that have ended are kept, so that they need not be repeated."""
        return RunParts(self.folder / PARTS, self.snapshots.identity)

    def log(self, record: Mapping[str, Any]) -> None:
        """Appends a line to `metrics.jsonl`; it becomes durable with the next snapshot."""
        self.snapshots.metrics.append(record)

    def note(self, record: Mapping[str, Any]) -> None:
        """Appends a line with the time to `events.jsonl`: what another repetition need not have."""
        with suppress(StorageError):  # of a full disk the next snapshot tells; errors noted here come first
            append_line(self.folder / EVENTS, {"time": now(), **record})

    def finish(
        self,
        result: Mapping[str, Any],
        weights: Mapping[str, Tensor],
        predictions: pd.DataFrame | None = None,
        timings: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes everything that stays, the seal and `result.json` last, and drops the snapshot.

        Args:
            result: what a repetition gives again, to the last bit.
            weights: trained parameters by name.
            predictions: a table, written as `predictions.parquet`.
            timings: what differs from one repetition to the next.
        """
        outcome, times = to_json(dict(result), "result"), to_json(dict(timings or {}), "timings")
        table = BytesIO()
        if predictions is not None:
            load_package("pyarrow")
            predictions.to_parquet(table, index=False)
        self.snapshots.metrics.sync()
        contents = {name: read_bytes(self.folder / name) for name in (CONFIG, ENVIRONMENT, METRICS)}
        contents[MODEL] = write_tensors(self.folder / MODEL, weights)
        if predictions is not None:
            contents[PREDICTIONS] = table.getvalue()
            write_durably(self.folder / PREDICTIONS, contents[PREDICTIONS])
        content = {"format": FORMAT, "result": outcome, "timings": {"finished": now(), **times}}
        contents[RESULT] = encode_json(content)
        write_manifest(self.folder, contents)
        write_durably(self.folder / RESULT, contents[RESULT])
        parts = self.parts
        self.result, self._snapshots = outcome, None
        remove_durably(self.folder / SNAPSHOT)
        parts.remove()

    def _close(self) -> None:
        """Keeps the lines since the last snapshot, to show why the run broke off."""
        if self._snapshots is not None:
            with suppress(StorageError):
                self._snapshots.metrics.sync()


def check_folder(folder: Path, identity: RunIdentity) -> None:
    """Raises unless the run may be started in the folder, or gone on with. Changes nothing."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"a run is a folder; {folder} is a file. Choose another name.")
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in (LOCK, CONFIG + PARTIAL))
    if (folder / CONFIG).exists():  # looked up last: another process may just be starting the run
        existing = RunIdentity.read(folder / CONFIG)
        if existing.digest == identity.digest:
            return
        differences = find_differences(asdict(existing), asdict(identity))
        lines = [_describe_difference(*difference) for difference in differences[:MAX_SHOWN]]
        if len(differences) > MAX_SHOWN:
            lines.append(f"  … and {len(differences) - MAX_SHOWN} more")
        raise ConfigError(
            "\n".join([f"{folder} holds another run. What differs:", *lines, "Choose another folder."])
        )
    if foreign:
        names = ", ".join(foreign[:3]) + (", …" if foreign[3:] else "")
        raise ConfigError(
            f"{folder} is not empty and holds no run: it contains {names}. "
            "Nothing was changed there; choose another folder."
        )


def _tidy_finished(folder: Path) -> None:
    """Removes, if possible, what a process left that was killed right after it finished."""
    remains = [path for path in (*find_partials(folder), folder / SNAPSHOT) if path.exists()]
    parts = folder / PARTS
    if remains or parts.exists():
        with suppress(ConfigError, StorageError), hold_lock(folder):
            for path in remains:
                remove_durably(path)
            RunParts(parts, "").remove()


def _describe_difference(key: str, old: str, new: str) -> str:
    """A line of a message; hashes of files say nothing but that they differ."""
    if HASH.fullmatch(old) and HASH.fullmatch(new):
        return f"  {key}: the content is another one"
    return f"  {key}: {old} there, {new} here"
