"""The seal of a finished run: `manifest.json` holds the SHA-256 of every file that belongs to it.

It is written just before `result.json`, whose hash it holds too, so a run with a result has a manifest. A
file that is not the one that was sealed raises a `DataError` that names it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from polynsd.documents import decode_json, read_bytes
from polynsd.errors import DataError
from polynsd.runs.files import (
    CONFIG,
    ENVIRONMENT,
    FORMAT,
    MANIFEST,
    METRICS,
    MODEL,
    PREDICTIONS,
    RESULT,
    encode_json,
    write_durably,
)

SEALED = (CONFIG, ENVIRONMENT, METRICS, MODEL, PREDICTIONS, RESULT)
SHA256 = re.compile(r"[0-9a-f]{64}")


def write_manifest(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Seals the files of a run, whose contents are given by name."""
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    write_durably(folder / MANIFEST, encode_json({"format": FORMAT, "files": files}))


def read_manifest(folder: Path) -> dict[str, str]:
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


def read_sealed(folder: Path, name: str, files: Mapping[str, str]) -> bytes:
    """The content of a file of a finished run, if it is the one that was sealed."""
    if name not in files:
        raise DataError(f"the run {folder} was finished without {name}.")
    content = read_bytes(folder / name)
    check_sealed(folder / name, content, files)
    return content


def check_sealed(path: Path, content: bytes, files: Mapping[str, str]) -> None:
    """Raises unless a file of a finished run has the content that was sealed."""
    if hashlib.sha256(content).hexdigest() != files.get(path.name):
        raise DataError(f"{path} is damaged: it is not the file that {MANIFEST} names.")
