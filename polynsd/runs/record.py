"""Runs as they lie on the disk: reading takes no lock and changes nothing.

A finished run is sealed. `manifest.json` holds the SHA-256 of every file that belongs to it; it is written
just before `result.json`, whose hash it holds too, so a run with a result has a manifest. A file that is not
the one that was sealed raises a `DataError` that names it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.documents import decode_json, read_bytes, read_json
from polynsd.errors import DataError
from polynsd.optional import load_optional
from polynsd.parquet import require_parquet_memory
from polynsd.runs.environment import read_sessions
from polynsd.runs.files import (
    CONFIG,
    ENVIRONMENT,
    EVENTS,
    FORMAT,
    LOCK,
    MANIFEST,
    METRICS,
    MODEL,
    PREDICTIONS,
    RESULT,
    encode_json,
    hash_json,
    to_json,
    write_durably,
)
from polynsd.runs.lock import is_locked
from polynsd.runs.snapshots import parse_lines, read_lines
from polynsd.runs.tensors import unpack_tensors

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

SEALED = (CONFIG, ENVIRONMENT, METRICS, MODEL, PREDICTIONS, RESULT)
SHA256 = re.compile(r"[0-9a-f]{64}")

load_package = partial(load_optional, purpose="tables of runs need", extra="runs")


@dataclass(frozen=True)
class RunIdentity:
    """What a run computes, `config.json`: runs with the same identity have the same result."""

    kind: str
    config: dict[str, Any]
    inputs: dict[str, Any]

    @classmethod
    def create(cls, kind: str, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> RunIdentity:
        return cls(kind, to_json(dict(config), "configuration"), to_json(dict(inputs), "inputs"))

    @classmethod
    def read(cls, path: Path) -> RunIdentity:
        content = read_json(path)
        kind, config, inputs = (content.get(key) for key in ("kind", "config", "inputs"))
        if not (isinstance(kind, str) and isinstance(config, dict) and isinstance(inputs, dict)):
            raise DataError(f"{path} is not that of a run: it needs kind, config and inputs.")
        if content.get("format") != FORMAT:
            raise DataError(
                f"{path} has format {content.get('format')!r}; this version of polynsd reads {FORMAT}. "
                "Update polynsd."
            )
        return cls(kind, config, inputs)

    @property
    def digest(self) -> str:
        return hash_json(asdict(self))

    def encode(self) -> bytes:
        """The content of `config.json`."""
        return encode_json({"format": FORMAT, **asdict(self)})


def write_manifest(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Seals the files of a run, whose contents are given by name."""
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    write_durably(folder / MANIFEST, encode_json({"format": FORMAT, "files": files}))


def _read_manifest(folder: Path) -> dict[str, str]:
    """The hashes of the files of a finished run, by name."""
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(
            f"{path} is missing: it was lost, or the run was finished by a version of polynsd that did not "
            "seal its files. Train or fit again in another folder."
        )
    content = read_bytes(path)
    manifest = decode_json(content, path)
    files = manifest.get("files")
    is_right = isinstance(files, dict) and all(
        name in SEALED and isinstance(digest, str) and SHA256.fullmatch(digest)
        for name, digest in files.items()
    )
    # exactly as it was written, so that no change goes unnoticed
    if not is_right or encode_json({"format": FORMAT, "files": files}) != content:
        raise DataError(f"{path} is damaged: it is no list of the files of a run of format {FORMAT}.")
    return files  # type: ignore[return-value]


def _read_sealed(folder: Path, name: str, files: Mapping[str, str]) -> bytes:
    """The content of a file of a finished run, if it is the one that was sealed."""
    if name not in files:
        raise DataError(f"the run {folder} was finished without {name}.")
    content = read_bytes(folder / name)
    _check_sealed(folder / name, content, files)
    return content


def _check_sealed(path: Path, content: bytes, files: Mapping[str, str]) -> None:
    """Raises unless a file of a finished run has the content that was sealed."""
    if hashlib.sha256(content).hexdigest() != files.get(path.name):
        raise DataError(f"{path} is damaged: it is not the file that {MANIFEST} names.")


@dataclass(frozen=True)
class Outcome:
    """`result.json`: what a repetition gives again, and timings; hashes of all files from `manifest.json`."""

    result: dict[str, Any]
    timings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """The outcome of a run, whose small files are as they were sealed; None if there is none yet."""
        path = folder / RESULT
        if not path.exists():
            return None
        encoded, files = read_bytes(path), _read_manifest(folder)
        _check_sealed(path, encoded, files)
        for name in (CONFIG, ENVIRONMENT):
            _read_sealed(folder, name, files)
        content = decode_json(encoded, path)
        parts = [content.get(name) for name in ("result", "timings")]
        if content.get("format") != FORMAT or not all(isinstance(part, dict) for part in parts):
            raise DataError(
                f"{path} is not the result of a run of format {FORMAT}: it needs result and timings. "
                "Delete it to compute the run again."
            )
        return cls(content["result"], content["timings"], files)


@dataclass(frozen=True)
class RunRecord:
    """A run, finished or not.

    Attributes:
        folder: its folder.
        kind: protocol, run-off, model or federated.
        config: what it does.
        inputs: what its result depends on beside that.
        environment: machine, versions and time, one entry per session.
        outcome: its result; None while it is unfinished.
    """

    folder: Path
    kind: str
    config: dict[str, Any]
    inputs: dict[str, Any]
    environment: tuple[dict[str, Any], ...]
    outcome: Outcome | None

    @property
    def result(self) -> dict[str, Any] | None:
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
        return "running" if is_locked(self.folder) else "unfinished"

    def weights(self) -> dict[str, Tensor]:
        """The trained parameters, on the CPU."""
        return unpack_tensors(self._read_checked(MODEL), self.folder / MODEL)[0]

    def predictions(self) -> pd.DataFrame:
        """The table of predictions."""
        content, path = BytesIO(self._read_checked(PREDICTIONS)), self.folder / PREDICTIONS
        pandas, arrow = load_package("pandas"), load_package("pyarrow")
        try:
            require_parquet_memory(content, str(path))
            return pandas.read_parquet(content)
        except DataError:
            raise
        # the description that pandas keeps in the file is trusted by it
        except (ValueError, LookupError, TypeError, AttributeError, OSError, arrow.ArrowException) as error:
            raise DataError(f"{path} is damaged: {error!r}.") from error

    def metrics(self) -> list[dict[str, Any]]:
        """All records of the metrics log so far."""
        path = self.folder / METRICS
        return read_lines(path) if self.outcome is None else parse_lines(self._read_checked(METRICS), path)

    def events(self) -> list[dict[str, Any]]:
        """When the training began, was resumed and failed; a repetition has others."""
        return read_lines(self.folder / EVENTS)

    def check_files(self) -> None:
        """Raises unless all files of a finished run are as they were sealed."""
        for name in () if self.outcome is None else self.outcome.files:
            self._read_checked(name)

    def _read_checked(self, name: str) -> bytes:
        """The content of a file of a finished run, if it is the one that was sealed."""
        if self.outcome is None:
            raise DataError(f"the run {self.folder} has not finished; {name} is written when it does.")
        return _read_sealed(self.folder, name, self.outcome.files)


def read_run(folder: str | Path) -> RunRecord:
    """A run, finished or not.

    Raises:
        DataError: the folder is no run, or a file of it is damaged; the message names the file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is no run: there is no such folder.")
    if not (folder / CONFIG).exists():
        raise DataError(f"{folder} is no run: it has no {CONFIG}. Runs below it: polynsd runs list {folder}")
    identity = RunIdentity.read(folder / CONFIG)
    sessions = tuple(read_sessions(folder / ENVIRONMENT))
    outcome = Outcome.read(folder)
    return RunRecord(folder, identity.kind, identity.config, identity.inputs, sessions, outcome)


def find_runs(root: str | Path) -> list[Path]:
    """All run folders below a folder, and itself; hidden folders are left out."""
    if not Path(root).is_dir():
        raise DataError(f"there is no folder {root}.")
    folders = []
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if CONFIG in names and (ENVIRONMENT in names or LOCK in names):
            folders.append(Path(folder))
    return folders
