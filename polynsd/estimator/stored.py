"""The tensors of a stored model, checked before they are used: names, types, shapes and ranges."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from polynsd.errors import DataError


class StoredTensors:
    """The tensors of a part of a model. Each is taken once; a letter is one size in all their shapes."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._left, self._sizes = dict(tensors), dict[str, int]()

    def take(self, name: str, shape: str, *dtypes: torch.dtype) -> Tensor:
        """A tensor of a shape such as `R W O`; in double precision unless other dtypes are named."""
        tensor = self._left.pop(name, None)
        if tensor is None:
            raise DataError(f"the tensor {name} is missing")
        letters, sizes = shape.split(), list(tensor.shape)
        is_right = len(letters) == len(sizes) and all(
            self._sizes.setdefault(letter, size) == size for letter, size in zip(letters, sizes, strict=True)
        )
        if not is_right or tensor.dtype not in (dtypes or (torch.float64,)):
            known = ", ".join(f"{letter} = {self._sizes.get(letter, '?')}" for letter in letters)
            raise DataError(f"the tensor {name} is {tensor.dtype} of shape {sizes}; expected [{known}]")
        return tensor

    def size(self, letter: str) -> int:
        """What a letter has turned out to be."""
        return self._sizes[letter]

    def require_none_left(self) -> None:
        """Raises where there are tensors that nobody asked for."""
        if self._left:
            raise DataError(f"the tensor {min(self._left)} does not belong to the model")


def check_range(name: str, tensor: Tensor, low: int, high: int) -> None:
    """Raises unless low ≤ values < high."""
    if tensor.numel() and not (low <= int(tensor.min()) and int(tensor.max()) < high):
        raise DataError(f"the tensor {name} must lie from {low} to {high - 1}")
