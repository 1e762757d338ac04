"""Runs as they lie on the disk: reading takes no lock and changes nothing."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from polynsd.errors import DataError
from polynsd.runs.environment import read_sessions
from polynsd.runs.files import CONFIG, ENVIRONMENT, FORMAT, LOCK, METRICS, MODEL, PREDICTIONS, RESULT
from polynsd.runs.identity import Identity
from polynsd.runs.lock import is_held
from polynsd.runs.metrics import read_metrics
from polynsd.runs.optional import load
from polynsd.runs.plain import read_json
from polynsd.runs.tensors import read_bytes, unpack

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Outcome:
    """`result.json`: what can be repeated, how long it took, and hashes of the files that belong to it."""

    result: dict[str, Any]
    timings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """A run.

    Attributes:
        folder: where it lies.
        kind: protocol, search or model.
        config: what it does.
        inputs: what its result depends on beside that.
        environment: where and with what it was made, one entry per session.
        outcome: what it came to; None while it is unfinished.
    """

    folder: Path
    kind: str
    config: dict[str, Any]
    inputs: dict[str, Any]
    environment: tuple[dict[str, Any], ...]
    outcome: Outcome | None

    @property
    def result(self) -> dict[str, Any] | None:
        """What the run came to, if it has finished."""
        return None if self.outcome is None else self.outcome.result

    @property
    def timings(self) -> dict[str, Any]:
        """What differs from one repetition to the next."""
        return {} if self.outcome is None else self.outcome.timings

    @property
    def state(self) -> str:
        """finished, running, or unfinished (start it again to go on)."""
        if self.outcome is not None:
            return "finished"
        return "running" if is_held(self.folder) else "unfinished"

    def weights(self) -> dict[str, Tensor]:
        """The trained parameters, on the CPU."""
        return unpack(self._content(MODEL), self.folder / MODEL)[0]

    def predictions(self) -> pd.DataFrame:
        """The table of predictions."""
        content = BytesIO(self._content(PREDICTIONS))
        pandas, arrow = load("pandas"), load("pyarrow")
        try:
            return pandas.read_parquet(content)
        except (ValueError, OSError, arrow.ArrowException) as error:
            raise DataError(f"{self.folder / PREDICTIONS} is damaged: {error}.") from error

    def metrics(self) -> list[dict[str, Any]]:
        """What was logged, up to now if the run goes on."""
        return read_metrics(self.folder / METRICS)

    def _content(self, name: str) -> bytes:
        if self.outcome is None:
            raise DataError(f"the run {self.folder} has not finished; {name} is written when it does.")
        if name not in self.outcome.files:
            raise DataError(f"the run {self.folder} was finished without {name}.")
        content = read_bytes(self.folder / name)
        if hashlib.sha256(content).hexdigest() != self.outcome.files[name]:
            raise DataError(f"{self.folder / name} is damaged: it is not the file that the run wrote.")
        return content


def read_run(folder: str | Path) -> RunRecord:
    """A run, finished or not.

    Raises:
        DataError: the folder is no run, or a file of it is damaged; the message names the file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is no run: there is no such folder.")
    identity = Identity.read(folder / CONFIG)
    sessions = tuple(read_sessions(folder / ENVIRONMENT))
    return RunRecord(
        folder, identity.kind, identity.config, identity.inputs, sessions, read_outcome(folder / RESULT)
    )


def read_outcome(path: Path) -> Outcome | None:
    """The result of a run, None if there is none yet."""
    if not path.exists():
        return None
    content = read_json(path)
    parts = [content.get(name) for name in ("result", "timings", "files")]
    if content.get("format") != FORMAT or not all(isinstance(part, dict) for part in parts):
        raise DataError(
            f"{path} is not the result of a run of format {FORMAT}: it needs result, timings and files. "
            "Delete it to compute the run again."
        )
    return Outcome(*parts)  # type: ignore[arg-type]


def find_runs(root: str | Path) -> list[Path]:
    """All run folders below a folder, and itself; hidden folders are left out."""
    if not Path(root).is_dir():
        raise DataError(f"there is no folder {root}.")
    found = []
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if CONFIG in names and (ENVIRONMENT in names or LOCK in names):
            found.append(Path(folder))
    return found
