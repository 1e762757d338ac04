"""`Manifest`: what a folder of graph archives should hold, one row of a CSV file per archive.

It says whether files arrived whole and are the ones meant: sizes, counts and SHA-256. It is no
signature; whoever can replace an archive can replace an unguarded manifest beside it.
"""

from __future__ import annotations

import csv
import hashlib
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from polynsd.data.datasets.archive import load_graph
from polynsd.errors import DataError

CHUNK = 2**20
NAME = re.compile(r"\w[\w.-]*", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ManifestRow:
    """An archive: its counts, where `splits` counts those of the protocol `default`, and its bytes."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    splits: int
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or not SHA256.fullmatch(self.sha256):
            raise DataError(
                "a row needs a name of letters, digits, '_', '.', '-' and a SHA-256 of 64 lower-case hex "
                f"digits; got {self.name!r} and {self.sha256!r}. Write it with Manifest.of_folder."
            )

    @classmethod
    def of_file(cls, path: Path) -> ManifestRow:
        """The row of an archive, which is loaded and checked for it."""
        graph = load_graph(path)
        return cls(
            name=path.stem,
            nodes=graph.num_nodes,
            edges=graph.num_edges,
            features=graph.num_features,
            classes=graph.num_classes,
            splits=len(graph.masks["default"]) if "default" in graph.masks else 0,
            bytes=path.stat().st_size,
            sha256=sha256_of(path),
        )


COLUMNS = tuple(field.name for field in fields(ManifestRow))
COUNTS = COLUMNS[1:-1]


@dataclass(frozen=True)
class Manifest:
    """The rows of a folder, by name."""

    rows: tuple[ManifestRow, ...]

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise DataError(f"names must be unique; {', '.join(repeated)} occur again. Remove the old rows.")

    @classmethod
    def of_folder(cls, folder: str | Path) -> Manifest:
        """The rows of all `.npz` files of a folder as they are now."""
        return cls(tuple(ManifestRow.of_file(path) for path in _archives(folder)))

    @classmethod
    def read(cls, path: str | Path) -> Manifest:
        """The rows of a CSV file with a header; columns of other names are ignored."""
        try:
            with Path(path).open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path}: expected a readable CSV file; got {error}.") from error
        try:
            return cls(tuple(_parse_row(number, row) for number, row in enumerate(rows, start=1)))
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    def write(self, path: str | Path) -> None:
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in self.rows)

    def verify(self, folder: str | Path) -> list[str]:
        """What is wrong with the folder, a line per problem; empty if it holds exactly these archives."""
        archives = {path.stem: path for path in _archives(folder)}
        listed = {row.name for row in self.rows}
        problems = [f"{name}: not in the manifest" for name in archives if name not in listed]
        for row in self.rows:
            if row.name in archives:
                problems += _find_differences(row, archives[row.name])
            else:
                problems.append(f"{row.name}: missing")
        return problems


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file of any size, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _archives(folder: str | Path) -> list[Path]:
    if not Path(folder).is_dir():
        raise DataError(f"expected a folder of archives; {folder} is none. Check the path.")
    return sorted(Path(folder).glob("*.npz"))


def _parse_row(number: int, row: dict[str, str | None]) -> ManifestRow:
    values = {column: row.get(column) or "" for column in COLUMNS}
    bad = [column for column in COUNTS if not re.fullmatch(r"\d{1,18}", values[column], re.ASCII)]
    if bad:
        raise DataError(
            f"row {number} needs whole numbers in {', '.join(bad)}; got "
            f"{', '.join(repr(row.get(column)) for column in bad)}. Write it with Manifest.of_folder."
        )
    counts = {column: int(values[column]) for column in COUNTS}
    return ManifestRow(name=values["name"], sha256=values["sha256"], **counts)


def _find_differences(expected: ManifestRow, path: Path) -> list[str]:
    try:
        actual = ManifestRow.of_file(path)
    except DataError as error:
        return [f"{expected.name}: {error}"]
    return [
        f"{expected.name}: {column} is {getattr(actual, column)}, expected {getattr(expected, column)}"
        for column in COLUMNS
        if getattr(actual, column) != getattr(expected, column)
    ]
