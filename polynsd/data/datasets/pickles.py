"""Downloaded pickles, read without running code: containers, numbers, NumPy arrays, SciPy matrices.

A pickle is a program that may call whatever it names. Here every name that it may use stands for a function
or a class that only makes containers; any other name is refused before it is imported. It is for files that
are published in no other form (Planetoid, splits of Penn94); otherwise use `polynsd.data.datasets.npz`.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from scipy import sparse

from polynsd.errors import DataError
from polynsd.memory import require_memory
from polynsd.sparse import check_pointers

T = TypeVar("T")

OBJECT_BYTES = 100  # that one instruction of a pickle can make, but for its own text and for copies
COPYING = {"REDUCE", "BUILD", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ"}
DTYPE = re.compile(r"[<>|=]?[biufcO?][0-9]{0,2}")


class _ArrayType:
    """Stands for `numpy.ndarray`, which a pickle names but need not call."""


class _Matrix:
    """The attributes of a SciPy matrix in CSR form."""


def _make_array(kind: Any, shape: Any, _: Any) -> NDArray[Any]:
    """`numpy.core.multiarray._reconstruct`: an empty array, whose content follows."""
    if kind is not _ArrayType or tuple(shape) != (0,):
        raise pickle.UnpicklingError("an array that does not begin empty")
    return np.zeros(0, np.int8)


def _make_dtype(name: Any, *_: Any) -> np.dtype[Any]:
    text = name.decode("ascii") if isinstance(name, bytes) else name
    if not isinstance(text, str) or not DTYPE.fullmatch(text):
        raise pickle.UnpicklingError(f"the type {str(text)[:40]!r} of an array")
    return np.dtype(text)


def _make_scalar(dtype: Any, content: Any) -> Any:
    if not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise pickle.UnpicklingError("a number that is none")
    raw = content.encode("latin1") if isinstance(content, str) else content
    return np.frombuffer(raw, dtype, 1)[0]


def _make_matrix(kind: Any, *_: Any) -> _Matrix:
    """`copyreg._reconstructor`: an object without attributes, which follow."""
    if kind is not _Matrix:
        raise pickle.UnpicklingError("an object that is no matrix")
    return _Matrix()


def _encode(text: str, encoding: str) -> bytes:
    """`_codecs.encode`, by which Python 2 wrote bytes."""
    return text.encode("latin1" if encoding == "latin1" else "utf-8")


NUMPY_CORES = ("numpy.core.multiarray", "numpy._core.multiarray")
BUILTINS = ("builtins", "__builtin__")  # of Python 3 and 2
SCIPY_CSR = ("scipy.sparse.csr", "scipy.sparse._csr")
ADMITTED: dict[tuple[str, str], Any] = {
    **{(module, "_reconstruct"): _make_array for module in NUMPY_CORES},
    **{(module, "scalar"): _make_scalar for module in NUMPY_CORES},
    **{(module, "csr_matrix"): _Matrix for module in SCIPY_CSR},
    ("numpy", "ndarray"): _ArrayType,
    ("numpy", "dtype"): _make_dtype,
    **{(module, "_reconstructor"): _make_matrix for module in ("copyreg", "copy_reg")},
    **{(module, "list"): list for module in BUILTINS},
    **{(module, "object"): object for module in BUILTINS},
    ("_codecs", "encode"): _encode,
    ("collections", "defaultdict"): defaultdict,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return ADMITTED[module, name]


def read_pickle(path: Path, kind: type[T]) -> T:
    """The container of that kind in a pickle, of Python 2 or 3; matrices are `scipy.sparse.csr_matrix`.

    Raises:
        DataError: the file is damaged, names anything but arrays, matrices and containers, or would take
            more memory than the budget allows.
    """
    return _require_kind(_unpickle(path.read_bytes(), path), kind, path)


def read_object_array(path: Path) -> list[Any]:
    """The elements of a `.npy` file of Python objects, whose values are a pickle."""
    stream = io.BytesIO(path.read_bytes())
    try:
        npy_format.read_magic(stream)
        npy_format.read_array_header_1_0(stream)
    except ValueError as error:
        raise DataError(f"{path.name}: expected a .npy file; got {error}. Download it again.") from error
    return list(np.ravel(_require_kind(_unpickle(stream.read(), path), np.ndarray, path)))


def _require_kind(value: Any, kind: type[T], path: Path) -> T:
    if not isinstance(value, kind):
        raise DataError(f"{path.name}: expected a {kind.__name__}; got a {type(value).__name__}.")
    return value


def _unpickle(content: bytes, path: Path) -> Any:
    try:
        _require_program_memory(content, path)
        value = _Unpickler(io.BytesIO(content), encoding="latin1").load()
        return _to_csr(value) if isinstance(value, _Matrix) else value
    except DataError:
        raise
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{path.name}: expected a pickle of numbers, arrays and matrices; it holds {error}. It is "
            "damaged, or made to run code; nothing of it was run. Do not open it with other programs."
        ) from error
    except Exception as error:  # damaged pickles raise anything
        raise DataError(
            f"{path.name}: expected an intact pickle; reading failed with {type(error).__name__}: "
            f"{' '.join(str(error).split())[:120]}. Download it again."
        ) from error


def _require_program_memory(content: bytes, path: Path) -> None:
    """Bounds what a pickle can make: each of its calls may copy the longest of its texts or lists.

    It remembers values in a table that is as long as the largest number it gives to one.
    """
    count = copies = longest = largest = 0
    for code, argument, _ in pickletools.genops(content):
        count += 1
        copies += code.name in COPYING
        if isinstance(argument, str | bytes | bytearray):
            longest = max(longest, len(argument))
        elif "PUT" in code.name:
            largest = max(largest, argument or 0)
    total = len(content) + OBJECT_BYTES * count + copies * (4 * longest + 8 * count) + 16 * largest
    require_memory(total, path.name)


def _to_csr(matrix: _Matrix) -> sparse.csr_matrix:
    state = vars(matrix)
    shape = state.get("_shape", state.get("shape"))
    csr = sparse.csr_matrix(tuple(state[name] for name in ("data", "indices", "indptr")), shape=shape)
    check_pointers(csr)
    return csr
