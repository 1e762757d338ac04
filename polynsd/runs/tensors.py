"""Tensors in safetensors files: no pickles, nothing in a file is ever executed.

Files written here carry a checksum of names, dtypes, shapes, bytes and the facts stored beside them, so that
damage is noticed; files from elsewhere may come without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polynsd.errors import DataError
from polynsd.runs.durable import write_durably
from polynsd.runs.header import check_header
from polynsd.runs.plain import compact, decode, plain

SEAL = "polynsd"  # the only entry of our metadata: the library orders several at random


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any] | None = None) -> bytes:
    """Writes tensors and plain facts about them, all or nothing; the bytes that were written."""
    content = pack(tensors, about)
    write_durably(path, content)
    return content


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file, on the CPU, and the facts stored with them; distrusts the file."""
    return unpack(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """The content of a regular file."""
    try:
        if not path.is_file():
            raise DataError(f"{path} is missing, or not a file.")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def pack(tensors: Mapping[str, Tensor], about: Mapping[str, Any] | None = None) -> bytes:
    """The file as bytes; equal tensors and facts make equal bytes."""
    from safetensors.torch import save

    own, facts = _unshared(tensors), plain(dict(about or {}), "facts about the tensors")
    seal = {"about": facts, "sha256": checksum(own, facts)}
    return save(own, {SEAL: compact(seal)})


def unpack(content: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts from the bytes of a file; `path` is for messages."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    metadata = check_header(content, path)
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, RuntimeError, TypeError, KeyError, OverflowError) as error:
        raise DataError(f"{path} is damaged: {error}.") from error
    ordered = {name: tensors[name] for name in sorted(tensors)}
    return ordered, _opened(metadata, ordered, path)


def checksum(tensors: Mapping[str, Tensor], about: Any) -> str:
    """SHA-256 of everything that a file says."""
    state = hashlib.sha256(compact(about).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        state.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors on the CPU; the format has no tied ones, so they are stored once each."""
    own: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        own[name] = tensor.clone() if tensor.untyped_storage().data_ptr() in seen else tensor
        seen.add(tensor.untyped_storage().data_ptr())
    return own


def _opened(metadata: Mapping[str, str], tensors: Mapping[str, Tensor], path: Path) -> dict[str, Any]:
    """The facts stored with the tensors, if the seal is whole."""
    if SEAL not in metadata:
        return {}
    try:
        seal = decode(metadata[SEAL])
        about, expected = seal["about"], seal["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged: its metadata cannot be read.") from error
    if not isinstance(about, dict) or checksum(tensors, about) != expected:
        raise DataError(f"{path} is damaged: its content does not have the checksum it was written with.")
    return about
