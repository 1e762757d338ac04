"""Named arrays in one zip file (`.npz`), read without trusting it.

`np.load` reads the same files; use it for files of your own with structured or big-endian arrays.
Here nothing is ever unpickled, and nothing is allocated before the zip directory and the
header of every array have proved consistent with each other and with a limit on the total size.
A file that is damaged, or made to do harm, ends in one `DataError` that names it.
"""

import math
import re
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import DataError

MAX_BYTES = 8 * 2**30
MAX_HEADER = 4096
MAX_DIMS = 32
MAX_RATIO = 1040  # deflate stores at most 1032 bytes in one
CHUNK = 2**20
ENCRYPTED_OR_PATCHED = 0x1 | 0x20 | 0x40

MAGIC = b"\x93NUMPY"
LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}  # by version of the array format
MEMBER = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)\.npy")
HEADER = re.compile(
    rb"\{ *(?:(?:'descr': *'(?P<dtype>[^']{0,32})'|'fortran_order': *(?P<fortran>True|False)"
    rb"|'shape': *\((?P<shape>(?:\d{1,19}(?:, *\d{1,19})*,?)?)\))(?: *,)? *)*\}\s*"
)
DTYPE = re.compile(rb"[<|](b1|[iu][1248]|f[248]|c8|c16|[SU][1-9]\d{0,5})")

DAMAGE = (BadZipFile, zlib.error, struct.error, OSError, EOFError, RuntimeError, OverflowError, ValueError)


@dataclass(frozen=True)
class ArrayHeader:
    """What an array declares about itself, and the length of that declaration in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    length: int

    @property
    def nbytes(self) -> int:
        """The size of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayZip:
    """The arrays of a `.npz` file by name; opening reads the zip directory only.

    Args:
        path: the file.
        max_bytes: the most its arrays may occupy in memory, all together.
    """

    def __init__(self, path: str | Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = Path(path)
        self.max_bytes = max_bytes
        with self._open() as archive:
            self._members = _checked_members(archive.infolist(), self.path.stat().st_size, max_bytes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the file."""
        return tuple(self._members)

    @cached_property
    def headers(self) -> dict[str, ArrayHeader]:
        """Shape and dtype of every array, without reading the values."""
        headers = {}
        with self._open() as archive:
            for name, member in self._members.items():
                with errors_of(name), archive.open(member) as stream:
                    headers[name] = _read_header(stream, member.file_size, self.max_bytes)
        return headers

    def read(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """The arrays of these names, writable; every header of the file is checked before."""
        headers = self.headers
        arrays = {}
        with self._open() as archive:
            for name in names:
                with errors_of(name), archive.open(self._members[name]) as stream:
                    stream.read(headers[name].length)
                    arrays[name] = _read_values(stream, headers[name])
        return arrays

    @contextmanager
    def _open(self) -> Iterator[ZipFile]:
        """The zip file, for reading; whatever is wrong with it comes out as a `DataError`."""
        with errors_of(self.path):
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
def errors_of(place: object) -> Iterator[None]:
    """Puts the place, a file or an array in it, before the text of a `DataError`."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{place}: {error}") from error.__cause__


def _checked_members(infos: list[ZipInfo], file_size: int, max_bytes: int) -> dict[str, ZipInfo]:
    """The members by the name of their array, once the zip directory has proved plausible."""
    members: dict[str, ZipInfo] = {}
    for info in infos:
        name = _checked_key(info)
        if name in members:
            raise DataError(f"every array must be there once; '{name}' occurs again. Write the file again.")
        members[name] = info
    total = sum(info.file_size for info in infos)
    if total > max_bytes:
        raise DataError(
            f"its arrays may take {max_bytes} bytes; they declare {total}. Raise max_bytes if you trust it."
        )
    if sum(info.compress_size for info in infos) > file_size:
        raise DataError("its members are larger than the file, so they overlap. Fetch or write it again.")
    return members


def _checked_key(info: ZipInfo) -> str:
    """The name of the array in a member that is fit to be opened."""
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
    if info.file_size > MAX_RATIO * info.compress_size:
        raise DataError(
            f"'{match[1]}' declares {info.file_size} bytes from {info.compress_size} compressed ones, "
            f"more than {MAX_RATIO} to one. It is damaged or a zip bomb; do not open it."
        )
    return match[1]


def _read_header(stream: IO[bytes], size: int, max_bytes: int) -> ArrayHeader:
    """The header of an array in a member of `size` bytes, which it has to fill exactly."""
    start = stream.read(len(MAGIC) + 2)
    width = LENGTH_BYTES.get(start[len(MAGIC) :])
    if width is None or not start.startswith(MAGIC):
        raise DataError(f"expected a NumPy array (format 1.0 to 3.0); it begins with {start!r}.")
    length = int.from_bytes(stream.read(width), "little")
    if length > MAX_HEADER:
        raise DataError(f"headers of arrays may take {MAX_HEADER} bytes; this one declares {length}.")
    shape, dtype, is_fortran = _parse_header(stream.read(length))
    header = ArrayHeader(shape, dtype, is_fortran, len(start) + width + length)
    if len(shape) > MAX_DIMS or math.prod(max(extent, 1) for extent in shape) * dtype.itemsize > max_bytes:
        raise DataError(f"declares the shape {list(shape)} of {dtype}, beyond {max_bytes} bytes.")
    if header.length + header.nbytes != size:
        raise DataError(
            f"declares {header.nbytes} bytes ({dtype} of shape {list(shape)}), but the file holds "
            f"{size - header.length}. Fetch or write the file again."
        )
    return header


def _parse_header(text: bytes) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Shape, dtype and whether the order is Fortran's; nothing is evaluated."""
    header = HEADER.fullmatch(text)
    if header is None or None in header.groups():
        raise DataError(f"expected the header of a plain array of known shape; got {text[:120]!r}.")
    dtype = DTYPE.fullmatch(header["dtype"])
    if dtype is None:
        raise DataError(
            "expected little-endian numbers, booleans or text, never Python objects; got dtype "
            f"{header['dtype'].decode('latin1')!r}. Convert with array.astype before writing."
        )
    shape = tuple(int(extent) for extent in re.findall(rb"\d+", header["shape"]))
    return shape, np.dtype("<" + dtype[1].decode()), header["fortran"] == b"True"


def _read_values(stream: IO[bytes], header: ArrayHeader) -> NDArray[Any]:
    """The values after a checked header; the zip file verifies their checksum at the end."""
    try:
        raw = np.empty(header.nbytes, np.uint8)
    except MemoryError as error:
        raise DataError(f"needs {header.nbytes} bytes, more memory than there is.") from error
    rest = raw.data
    while rest and (chunk := stream.read(min(len(rest), CHUNK))):
        rest[: len(chunk)] = chunk
        rest = rest[len(chunk) :]
    if rest:
        raise DataError(f"ends {len(rest)} bytes early. Fetch or write the file again.")
    if header.dtype.kind == "b" and raw.max(initial=0) > 1:
        raise DataError(f"booleans are stored as 0 or 1; got {raw.max()}.")
    if header.dtype.kind == "U" and raw.view("<u4").max(initial=0) > sys.maxunicode:
        raise DataError(f"holds {raw.view('<u4').max()}, which is no Unicode character.")
    values = raw.view(header.dtype)
    if header.is_fortran:
        return np.asarray(values.reshape(header.shape[::-1]).T, order="C")
    return values.reshape(header.shape)


def portable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in C order and little-endian, once it is known that `ArrayZip` reads it back."""
    stored = np.asarray(array, order="C")
    stored = stored.astype(stored.dtype.newbyteorder("<"), copy=False)
    if not MEMBER.fullmatch(f"{name}.npy") or not DTYPE.fullmatch(stored.dtype.str.encode()):
        raise DataError(
            "arrays are stored under names of letters, digits, '_', '.', '-' and hold numbers, booleans "
            f"or text; got {name!r} with dtype {stored.dtype}. Rename or convert it."
        )
    return stored
