"""Numbers in files of MATLAB's version 5, dense or sparse.

`scipy.io.loadmat` follows the lengths and indices of a damaged file beyond its buffers, and the process dies.
Here every length is compared with the bytes that are there before an array is made of them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.errors import DataError
from polynsd.memory import memory_budget
from polynsd.sparse import check_pointers

HEADER, ORDER = 128, slice(126, 128)
MATRIX, PACKED = 14, 15  # types of elements
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
SPARSE, NUMERIC = 5, range(6, 16)  # classes of matrices
COMPLEX = 1 << 11
PIECE = 1 << 14  # compressed bytes that are unpacked together
COPIES = 16  # numbers are stored as single bytes and read as float64


class _Element(NamedTuple):
    kind: int
    content: bytes


def read_matlab(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """The matrices of these names: arrays, or `scipy.sparse.csc_matrix`.

    Raises:
        DataError: one is missing, is no matrix of real numbers, or would take more memory than the budget
            allows; or the file is damaged.
    """
    _require_memory(path)
    content = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(content[ORDER])
    if order is None:
        raise DataError(f"{path.name}: expected a file of MATLAB's version 5. Download it again.")
    matrices: dict[str, Any] = {}
    for element in _elements(content[HEADER:], order):
        if element.kind == PACKED:
            element = next(_elements(zlib.decompress(element.content), order))
        if element.kind == MATRIX:
            flags, shape, name, *parts = _elements(element.content, order)
            text = name.content.decode("latin1")
            if text in names:
                matrices[text] = _to_matrix(_to_array(flags, order), _to_array(shape, order), parts, order)
    missing = [name for name in names if name not in matrices]
    if missing:
        raise DataError(f"{path.name}: there is no {', '.join(missing)} in it.")
    return matrices


def _require_memory(path: Path) -> None:
    """Unpacks the elements, which are compressed one by one, as far as the memory budget goes."""
    budget, total = memory_budget(), 0
    with path.open("rb") as file:
        order = "<" if file.read(HEADER)[ORDER] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            unpacker = zlib.decompressobj()
            while size > 0 and (piece := file.read(min(size, PIECE))):
                size -= len(piece)
                total += len(unpacker.decompress(piece)) if kind == PACKED else len(piece)
                budget.require(COPIES * total, f"{path.name}, as far as it was read,")


def _elements(content: bytes, order: str) -> Iterator[_Element]:
    """Pieces with a type and a length; those of up to four bytes have both in one word."""
    offset = 0
    while offset + 8 <= len(content):
        word, size = struct.unpack_from(f"{order}II", content, offset)
        kind, short = word & 0xFFFF, word >> 16
        start = offset + (4 if short else 8)
        size = short or size
        if short > 4 or start + size > len(content):
            raise DataError(f"an element declares {size} bytes; the file has {len(content) - start} more.")
        yield _Element(kind, content[start : start + size])
        offset = offset + 8 if short else start + size + (0 if kind == PACKED else -size % 8)


def _to_array(element: _Element, order: str) -> NDArray[Any]:
    if element.kind not in NUMBERS:
        raise DataError(f"expected numbers; got an element of type {element.kind}.")
    native = NUMBERS[element.kind]
    return np.frombuffer(element.content, order + native).astype(native)


def _to_matrix(flags: NDArray[Any], shape: NDArray[Any], parts: list[_Element], order: str) -> Any:
    kind, sizes = int(flags[0]) & 0xFF, tuple(map(int, shape))
    arrays = [_to_array(part, order) for part in parts]
    if int(flags[0]) & COMPLEX or len(sizes) != 2 or min(sizes) < 0:
        raise DataError(f"expected a matrix of real numbers; got one of shape {list(sizes)}, or complex.")
    if kind == SPARSE and len(arrays) == 3:
        rows, starts, values = arrays
        stored = slice(int(starts[-1]) if starts.size else 0)  # more may be reserved
        matrix = sparse.csc_matrix((values[stored].astype(np.float64), rows[stored], starts), shape=sizes)
        check_pointers(matrix)
        return matrix
    if kind in NUMERIC and len(arrays) == 1 and arrays[0].size == sizes[0] * sizes[1]:
        return arrays[0].reshape(sizes, order="F")
    raise DataError(
        f"expected {sizes[0]} × {sizes[1]} numbers; got a matrix of class {kind} with other content."
    )
