"""The header of a safetensors file, distrusted.

    8 bytes n | n bytes of JSON {name: {dtype, shape, data_offsets: [begin, end]}, "__metadata__": {…}} | data

Everything is checked before a tensor is made: lengths against the size of the file, names against duplicates,
shapes against the bytes they claim, and that the tensors fill the data without holes or overlaps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polynsd.errors import DataError

MAX_HEADER = 100_000_000  # bytes, the limit of the format's own library
MAX_DIMENSIONS = 64
ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 8),
}
PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # torch.save: zip, or bare


@dataclass(frozen=True)
class Entry:
    """One tensor of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def check_header(content: bytes, path: Path) -> dict[str, str]:
    """Raises unless the whole file is consistent; its metadata."""
    length = _header_length(content, path)
    try:
        header = json.loads(content[8 : 8 + length].decode(), object_pairs_hook=_unique, parse_constant=_no)
        metadata, tensors = _parts(header)
        entries = [_entry(name, value) for name, value in tensors.items()]
        _check_cover(entries, len(content) - 8 - length)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise DataError(f"{path} is damaged: its safetensors header is not valid: {error}.") from error
    return metadata


def _header_length(content: bytes, path: Path) -> int:
    length = int.from_bytes(content[:8], "little")
    if len(content) >= 10 and content[8:9] == b"{" and length <= min(MAX_HEADER, len(content) - 8):
        return length
    if content.startswith(PICKLES) and content[8:9] != b"{":
        raise DataError(
            f"{path} is a pickle or a zip file, as torch.save writes them. Such files can execute code when "
            "they are loaded, so it was not opened. Save your model with "
            "safetensors.torch.save_file(model.state_dict(), path)."
        )
    raise DataError(
        f"{path} is no safetensors file, or only the beginning of one: it announces a header of "
        f"{length:,} bytes (at most {MAX_HEADER:,}) and is {len(content):,} bytes long."
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a name occurs twice")
    return unique


def _no(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _parts(header: Any) -> tuple[dict[str, str], dict[str, Any]]:
    if not isinstance(header, dict):
        raise ValueError("it is not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("its metadata must be text")
    return metadata, header


def _entry(name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name!r} needs exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise ValueError(f"tensor {name!r} has the unknown dtype {dtype!r}")
    if not _are_sizes(shape) or len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"tensor {name!r} has no valid shape")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has no valid offsets")
    entry = Entry(dtype, tuple(shape), *offsets)
    if entry.end - entry.begin != _bytes(entry):
        raise ValueError(
            f"tensor {name!r} has {entry.end - entry.begin} bytes, its shape needs {_bytes(entry)}"
        )
    return entry


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**63 for n in values)


def _bytes(entry: Entry) -> int:
    total = ITEM_BYTES[entry.dtype]
    for size in entry.shape:
        total *= size
    return total


def _check_cover(entries: list[Entry], size: int) -> None:
    position = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != position:
            raise ValueError(f"tensors overlap or leave a hole at byte {position} of the data")
        position = entry.end
    if position != size:
        raise ValueError(f"it describes {position} bytes of data, the file has {size}")
