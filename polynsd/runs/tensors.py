"""Tensors in safetensors files: no pickles, nothing in a file is ever executed.

The safetensors library checks a file before it makes a tensor: lengths, dtypes, shapes, and that the tensors
fill the data without holes or overlaps. Added here is what it lacks: names that occur twice and unknown
fields are refused, pickles are named as such, and files written here carry a checksum of names, dtypes,
shapes, bytes and metadata, so that damage to values is noticed. Files from elsewhere may come without one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.documents import parse_json, read_bytes
from polynsd.errors import DataError
from polynsd.runs.files import compact_json, to_json, write_durably

if TYPE_CHECKING:
    from torch import Tensor

KEY = "polynsd"  # the only entry of our metadata: the library writes several in random order
FIELDS = {"dtype", "shape", "data_offsets"}
PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # torch.save: zip, or bare


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any] | None = None) -> bytes:
    """Writes tensors and metadata, all or nothing; returns the bytes that were written."""
    content = pack_tensors(tensors, about)
    write_durably(path, content)
    return content


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file, on the CPU, and its metadata; a damaged or hostile file raises a `DataError`."""
    return unpack_tensors(read_bytes(path), path)


def pack_tensors(tensors: Mapping[str, Tensor], about: Mapping[str, Any] | None = None) -> bytes:
    """The content of a file; equal tensors and metadata make equal bytes."""
    from safetensors.torch import save

    stored: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        stored[name] = tensor.clone() if storage in storages else tensor  # the format refuses shared memory
        storages.add(storage)
    metadata = to_json(dict(about or {}), "metadata of tensors")
    sealed = {"about": metadata, "sha256": _checksum(stored, metadata)}
    return save(stored, {KEY: compact_json(sealed)})


def unpack_tensors(content: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, sorted by name, and metadata from the content of a file; `path` is for messages."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if content.startswith(PICKLES) and content[8:9] != b"{":
        raise DataError(
            f"{path} is a pickle or a zip file, as torch.save writes them. Such files can execute code when "
            "they are loaded, so it was not opened. Save your model with "
            "safetensors.torch.save_file(model.state_dict(), path)."
        )
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")], object_pairs_hook=_unique)
        metadata = header.pop("__metadata__", {})
        unknown = sorted({field for entry in header.values() for field in entry} - FIELDS)
        if unknown:
            raise ValueError(f"unknown fields in the header: {', '.join(unknown)}")
    except (SafetensorError, ValueError, RuntimeError, TypeError, KeyError, OverflowError) as error:
        raise DataError(
            f"{path} is damaged, or not a safetensors file ({len(content):,} bytes): {error}. "
            "Copy or write it again."
        ) from error
    tensors = {name: tensors[name] for name in sorted(tensors)}
    return tensors, _open_seal(metadata[KEY], tensors, path) if KEY in metadata else {}


def _open_seal(text: str, tensors: Mapping[str, Tensor], path: Path) -> dict[str, Any]:
    """The metadata, if the checksum is right."""
    try:
        sealed = parse_json(text)
        about, expected = sealed["about"], sealed["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: its metadata cannot be read.") from error
    if not isinstance(about, dict) or _checksum(tensors, about) != expected:
        raise DataError(f"{path} is damaged: its content does not have the checksum it was written with.")
    return about


def _checksum(tensors: Mapping[str, Tensor], about: Any) -> str:
    """SHA-256 of metadata, names, dtypes, shapes and bytes."""
    import torch

    state = hashlib.sha256(compact_json(about).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        state.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        flat = tensor.reshape(-1)
        if flat.numel() < 2:  # then it may have any stride, and counts as contiguous
            flat = flat.new_tensor(flat.tolist())
        state.update(flat.view(torch.uint8).numpy().data)
    return state.hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise ValueError("a name occurs twice in the header")
    return names
