"""Finished parts of a run: what need not be computed again when it goes on.

A part is plain data and tensors in a file of its own, `parts/0003.safetensors`; all of them go when the run
has its result. Where a snapshot is the state in the middle of a training, parts are trainings that have
ended.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from polynsd.errors import DataError
from polynsd.runs.files import FORMAT, make_folder, storage_errors
from polynsd.runs.tensors import read_tensors, write_tensors

Part = tuple[dict[str, Any], dict[str, Tensor]]


class RunParts:
    """The parts of one run, in the order in which they were kept.

    Args:
        folder: of the parts.
        identity: hash of the configuration; a part of another one is refused.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity

    def __len__(self) -> int:
        return len(self._paths())

    def load(self) -> list[Part]:
        """Data and tensors of every part so far."""
        return [self._read(path) for path in self._paths()]

    def append(self, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Keeps one more."""
        paths = self._paths()
        number = int(paths[-1].stem) + 1 if paths else 0
        make_folder(self.folder)
        about = {"format": FORMAT, "identity": self.identity, "data": dict(data)}
        write_tensors(self.folder / f"{number:04d}.safetensors", tensors, about)

    def remove(self) -> None:
        """Drops all of them."""
        if self.folder.is_dir():
            with storage_errors(self.folder):
                shutil.rmtree(self.folder)

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.safetensors") if path.stem.isdigit())

    def _read(self, path: Path) -> Part:
        try:
            tensors, about = read_tensors(path)
            if about.get("format") != FORMAT or not isinstance(about.get("data"), dict):
                raise DataError(f"{path} is not a part of a run that this version of polynsd can read.")
            if about.get("identity") != self.identity:
                raise DataError(f"{path} belongs to a run with another configuration.")
        except DataError as error:
            raise DataError(f"{error} Delete it: what it held is then computed again.") from error
        return about["data"], tensors
