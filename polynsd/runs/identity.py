"""What a run is: its kind, its configuration, and what its result depends on beside that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polynsd.errors import ConfigError, DataError
from polynsd.runs.durable import PARTIAL
from polynsd.runs.files import CONFIG, FORMAT, LOCK
from polynsd.runs.plain import differences, digest, encode, plain, read_json

SHOWN = 10  # differences in a message


@dataclass(frozen=True)
class Identity:
    """Runs with the same identity have the same result."""

    kind: str
    config: dict[str, Any]
    inputs: dict[str, Any]

    @classmethod
    def of(cls, kind: str, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> Identity:
        """From what a caller says."""
        return cls(kind, plain(dict(config), "configuration"), plain(dict(inputs), "inputs"))

    @classmethod
    def read(cls, path: Path) -> Identity:
        """From the file."""
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
        """SHA-256 of all of it."""
        return digest(asdict(self))

    def encode(self) -> bytes:
        """The content of the file."""
        return encode({"format": FORMAT, **asdict(self)})


def check_folder(folder: Path, identity: Identity) -> None:
    """Raises unless the run may be started in the folder, or gone on with. Touches nothing."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"a run is a folder; {folder} is a file. Choose another name.")
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in (LOCK, CONFIG + PARTIAL))
    if (folder / CONFIG).exists():  # looked up last: another process may just be starting the run
        _check_same(folder, Identity.read(folder / CONFIG), identity)
    elif foreign:
        names = ", ".join(foreign[:3]) + (", …" if foreign[3:] else "")
        raise ConfigError(
            f"{folder} is not empty and holds no run: it contains {names}. "
            "Nothing was changed there; choose another folder."
        )


def _check_same(folder: Path, there: Identity, here: Identity) -> None:
    if there.digest == here.digest:
        return
    found = differences(asdict(there), asdict(here))
    lines = [f"  {key}: {old} there, {new} here" for key, old, new in found[:SHOWN]]
    more = [f"  … and {len(found) - SHOWN} more"] if found[SHOWN:] else []
    raise ConfigError(
        "\n".join([f"{folder} holds another run. What differs:", *lines, *more, "Choose another folder."])
    )
