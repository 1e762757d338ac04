"""What the files of publishers hold, counted piece by piece against the memory budget before they are read.

Each function raises a `DataError` where reading the file would take more than the budget allows.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile, is_zipfile

from polynsd.memory import memory_budget, require_memory

PIECE = 1 << 14  # compressed bytes that are unpacked together
TENSOR_COPIES = 4  # the packed bytes, the unpacked ones, a tensor, an array
LINE_BYTES = 50  # of a byte of text that is split into numbers, measured
MATLAB_COPIES = 16  # numbers are stored as single bytes and read as float64
COMPRESSED = 15  # type of an element of a MATLAB file
HEADER, ORDER = 128, slice(126, 128)


def require_text_memory(path: Path) -> None:
    """For a text of lines that are split into numbers."""
    require_memory(LINE_BYTES * path.stat().st_size, path.name)


def require_gzip_memory(path: Path) -> None:
    """For a `.gz` file of tensors."""
    budget, total = memory_budget(), 0
    with gzip.open(path) as stream:
        while piece := stream.read(PIECE):
            total += len(piece)
            budget.require(TENSOR_COPIES * total, f"{path.name}, as far as it was read,")


def require_tensor_memory(content: bytes, name: str) -> None:
    """For the content of a file that `torch.save` wrote."""
    if is_zipfile(BytesIO(content)):
        with ZipFile(BytesIO(content)) as archive:
            total = sum(member.file_size for member in archive.infolist())
        require_memory(TENSOR_COPIES * total, name)


def require_matlab_memory(path: Path) -> None:
    """For a file of MATLAB's version 5, whose elements are compressed one by one."""
    budget, total = memory_budget(), 0
    with path.open("rb") as file:
        order = "<" if file.read(HEADER)[ORDER] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            unpacker = zlib.decompressobj()
            while size > 0 and (piece := file.read(min(size, PIECE))):
                size -= len(piece)
                total += len(unpacker.decompress(piece)) if kind == COMPRESSED else len(piece)
                budget.require(MATLAB_COPIES * total, f"{path.name}, as far as it was read,")
