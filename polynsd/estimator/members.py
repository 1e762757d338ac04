"""`Candidate`, what an estimator may try on `FitData`, and `Member`, a candidate that has been fitted.

`StoredTensors` checks the tensors of a stored member before they are used: names, types, shapes and ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import DataError
from polynsd.training import Epoch, Task

if TYPE_CHECKING:
    from polynsd.estimator.folds import Folds
    from polynsd.estimator.inputs import Inputs

FAMILIES = {
    "features": "features alone",
    "smoothed": "features of neighbours, averaged",
    "trees": "trees on features and those of neighbours",
    "labels": "labels of neighbours",
    "links": "links of a node as features",
    "convolution": "plain graph convolution",
    "sheaf": "sheaf network",
    "filter": "polynomial filter",
    "deep": "deep network",
    "zoo": "model of the zoo",
}  # what a candidate is, in words; cheap ones first
TRANSDUCTIVE = ("labels", "links")  # families that know the nodes of `fit`, and tell less of others

Outputs = NDArray[np.float64]
State = tuple[dict[str, Any], dict[str, Tensor]]
OnEpoch = Callable[[str, Epoch], None]  # the name of what trains, and its epoch


class Member(Protocol):
    """A fitted candidate: one model per fold."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Plain data for reports: what was chosen inside the candidate."""
        ...

    def outputs(self, inputs: Inputs) -> Outputs:
        """`[R, N, O]` of every fold's model: logits of classes, or standardised targets.

        The graph may be another one with the same columns.
        """
        ...

    def state(self) -> State:
        """Plain data and tensors from which `restore` of the same class makes the member again."""
        ...

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Member:
        """The member that `state` described."""
        ...

    def takes(self, columns: int, num_outputs: int) -> bool:
        """Whether it takes so many treated features to so many outputs."""
        ...


@dataclass(frozen=True, eq=False)
class FitData:
    """What candidates are fitted to.

    Args:
        inputs: the graph.
        target: `[N]` classes 0 … O − 1 (int64, −1 where unknown) or standardised numbers (float64, NaN
            where unknown).
        folds: nothing outside of them is looked at.
        task: loss and metric, and whether targets are numbers.
        weights: `[N]` of the nodes in the loss; all 1 unless given.
        seed: of everything random.
        deadline: a `time.monotonic()` after which the best so far is returned.
        on_epoch: called where a candidate trains in epochs.
    """

    inputs: Inputs
    target: NDArray[Any]
    folds: Folds
    task: Task
    weights: NDArray[np.float64] | None = None
    seed: int = 0
    deadline: float | None = None
    on_epoch: OnEpoch | None = None

    @property
    def num_outputs(self) -> int:
        """O: classes, or 1."""
        return self.task.num_outputs(torch.from_numpy(self.target))


class Fitted(NamedTuple):
    """A member, and its outputs `[R, N, O]` on the graph that it was fitted to."""

    member: Member
    outputs: Outputs


class Candidate(Protocol):
    """Something to try on a graph."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str: ...

    def fit(self, data: FitData) -> Fitted:
        """A model per fold, trained on its `train` nodes; its `val` nodes may choose the moment to stop."""
        ...


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
