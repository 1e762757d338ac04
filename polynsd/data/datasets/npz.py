"""Named arrays in one zip file (`.npz`), read by NumPy but not trusted.

    reader = NpzReader("graph.npz")
    arrays = reader.read(["edge_index", "y"])

Nothing is ever unpickled. Before NumPy reads an array, the zip directory and the headers of all arrays must
agree with each other and with the memory budget (`polynsd.memory`): none is allocated for what a file only
claims to hold. A file that is damaged, or made to do harm, ends in one `DataError` that names it. For files
of your own with structured or big-endian arrays use `np.load`.
"""

from __future__ import annotations

import io
import math
import re
import struct
import sys
import warnings
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from polynsd.errors import DataError
from polynsd.memory import DEFLATE_RATIO, require_memory

MAX_HEADER = 4096
MAX_DIMS = 32
MAX_ELEMENTS = 2**62  # along the extents that are not zero, which NumPy multiplies
ENCRYPTED_OR_PATCHED = 0x1 | 0x20 | 0x40

MEMBER = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)\.npy")
DTYPE = re.compile(r"[<|](b1|[iu][1248]|f[248]|c8|c16|[SU][1-9]\d{0,5})")
HEADER_READERS = {  # by version of the array format; 3.0 differs from 2.0 in the names of fields only
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
    (3, 0): npy_format.read_array_header_2_0,
}
DAMAGE = (BadZipFile, zlib.error, struct.error, OSError, EOFError, RuntimeError, OverflowError, ValueError)


class NpzReader:
    """The arrays of a `.npz` file by name; opening reads the zip directory only.

    Args:
        path: the file.
        only: the arrays that are needed; others, of whatever type, are not looked at. All by default.
    """

    def __init__(self, path: str | Path, only: Collection[str] | None = None) -> None:
        self.path = Path(path)
        with self._open() as archive:
            members = _check_members(archive.infolist(), self.path.stat().st_size)
            missing = [name for name in only or () if name not in members]
            if missing:
                raise DataError(f"expected the arrays {', '.join(only or ())}; there is no {missing[0]}.")
            self._members = {name: members[name] for name in members if only is None or name in only}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the file."""
        return tuple(self._members)

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of every array, as the zip directory says."""
        return {name: member.file_size for name, member in self._members.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array, from its header."""
        with self._open() as archive:
            return self._check_headers(archive)

    def read(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """The arrays of these names, writable and in C order."""
        names, arrays = list(names), {}
        with self._open() as archive:
            self._check_headers(archive)  # all of them, before memory is allocated for one
            require_memory(sum(self.sizes[name] for name in names), "its arrays")
            for name in names:
                with prefix_errors(name), archive.open(self._members[name]) as stream:
                    arrays[name] = _read_array(stream, self._members[name].file_size)
        return arrays

    def _check_headers(self, archive: ZipFile) -> dict[str, tuple[int, ...]]:
        shapes = {}
        for name, member in self._members.items():
            with prefix_errors(name), archive.open(member) as stream:
                shapes[name] = _check_header(stream, member.file_size)
        return shapes

    @contextmanager
    def _open(self) -> Iterator[ZipFile]:
        """The zip file, for reading; whatever is wrong with it comes out as a `DataError`."""
        with prefix_errors(self.path):
            try:
                if not self.path.is_file():  # a named pipe would block for ever
                    raise DataError("there is no such file. Check the path.")
                with ZipFile(self.path) as archive:
                    yield archive
            except DataError:
                raise
            except DAMAGE as error:
                raise DataError(
                    f"expected an intact .npz file; reading failed with {type(error).__name__}: {error}. "
                    "Fetch or write it again."
                ) from error


@contextmanager
def prefix_errors(origin: object) -> Iterator[None]:
    """Puts the origin, a file or an array in it, before the text of a `DataError`."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{origin}: {error}") from error.__cause__


def to_storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in C order and little-endian, if `NpzReader` can read it back under this name."""
    stored = np.asarray(array, order="C")
    stored = stored.astype(stored.dtype.newbyteorder("<"), copy=False)
    if not MEMBER.fullmatch(f"{name}.npy") or not DTYPE.fullmatch(stored.dtype.str):
        raise DataError(
            "arrays are stored under names of letters, digits, '_', '.', '-' and hold numbers, booleans "
            f"or text; got {name!r} with dtype {stored.dtype}. Rename or convert it."
        )
    return stored


def _check_members(infos: list[ZipInfo], file_size: int) -> dict[str, ZipInfo]:
    """The members by the name of their array; raises where the zip directory is not plausible."""
    members: dict[str, ZipInfo] = {}
    for info in infos:
        name = _check_member(info)
        if name in members:
            raise DataError(f"every array must be there once; '{name}' occurs again. Write the file again.")
        members[name] = info
    if sum(info.compress_size for info in infos) > file_size:
        raise DataError("its members are larger than the file, so they overlap. Fetch or write it again.")
    return members


def _check_member(info: ZipInfo) -> str:
    """The name of the array in a member; raises unless it is safe to decompress."""
    match = MEMBER.fullmatch(info.orig_filename)
    if match is None:
        raise DataError(
            "members must be named <array>.npy with letters, digits, '_', '.', '-'; got "
            f"{info.orig_filename[:80]!r}. Write the file with save_graph or np.savez_compressed."
        )
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & ENCRYPTED_OR_PATCHED:
        raise DataError(
            f"members must be stored or deflated, not encrypted; '{match[1]}' has method "
            f"{info.compress_type} and flags {info.flag_bits:#x}. Write it with np.savez_compressed."
        )
    if info.file_size > DEFLATE_RATIO * info.compress_size:
        raise DataError(
            f"'{match[1]}' declares {info.file_size} bytes from {info.compress_size} compressed ones, "
            f"more than {DEFLATE_RATIO} to one. It is damaged or a zip bomb; do not open it."
        )
    return match[1]


def _check_header(stream: IO[bytes], size: int) -> tuple[int, ...]:
    """The shape of the array in a member of `size` bytes, which header and values must fill exactly."""
    start = io.BytesIO(stream.read(MAX_HEADER))  # all that NumPy may see, whatever length is declared
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns where it repairs a header
            shape, _, dtype = HEADER_READERS[npy_format.read_magic(start)](start, MAX_HEADER)
    except Exception as error:  # hostile headers raise anything in NumPy's parser
        raise DataError(
            f"expected a NumPy array (format 1.0 to 3.0) with a header of at most {MAX_HEADER} bytes; it "
            f"begins with {start.getvalue()[:40]!r}, and reading it failed with {type(error).__name__}: "
            f"{' '.join(str(error).split())[:120]}. Write the file again."
        ) from error
    if not DTYPE.fullmatch(dtype.str):
        raise DataError(
            "expected little-endian numbers, booleans or text, never Python objects; got dtype "
            f"{dtype.str if dtype.names is None else dtype!r:.80}. Convert with array.astype before writing."
        )
    if any(extent < 0 for extent in shape):
        raise DataError(f"extents must not be negative; got the shape {list(shape)}. Write the file again.")
    if len(shape) > MAX_DIMS or math.prod(max(extent, 1) for extent in shape) * dtype.itemsize > MAX_ELEMENTS:
        raise DataError(f"declares the shape {list(shape)} of {dtype}, which no array can have.")
    declared, stored = math.prod(shape) * dtype.itemsize, size - start.tell()
    if declared != stored:
        raise DataError(
            f"declares {declared} bytes ({dtype} of shape {list(shape)}), but the file holds {stored}. "
            "Fetch or write the file again."
        )
    return shape


def _read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """The array behind a checked header; the zip file verifies its checksum at the end."""
    try:
        array = npy_format.read_array(stream, allow_pickle=False, max_header_size=MAX_HEADER)
        array = np.asarray(array, order="C")
    except MemoryError as error:
        raise DataError(f"needs {size} bytes, more memory than there is.") from error
    # NumPy takes these bits as they are and fails later, when they are used
    if array.dtype.kind == "b" and array.reshape(-1).view(np.uint8).max(initial=0) > 1:
        raise DataError(f"booleans are stored as 0 or 1; got {array.reshape(-1).view(np.uint8).max()}.")
    if array.dtype.kind == "U":
        largest = array.reshape(-1).view(np.uint32).max(initial=0)
        if largest > sys.maxunicode:
            raise DataError(f"holds {largest}, which is no Unicode character.")
    return array
