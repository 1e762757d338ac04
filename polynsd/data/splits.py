"""Train, validation and test masks: checked, named by their content, never invented silently.

`data_splits` reads the masks a graph carries; `random_split` and `stratified_split` draw new ones
by a rule the caller has to name. Do not compare numbers from different rules: published tables mix
48/32/20, 50/25/25 and 60/20/20, and more training nodes alone raise an accuracy.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.data.validation import check_labels, describe
from polynsd.errors import ConfigError, DataError, require_at_least

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS = ("train", "val", "test")
UNUSED = -1
ROUNDING = 1e-12  # 0.29·100 is 28.999999999999996 in floating point
SUM_TOLERANCE = 1e-9

Fractions = tuple[float, float, float]
PartArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Disjoint, non-empty boolean masks of shape [N]; nodes may be left out of all three."""

    train: Tensor
    val: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        for part in PARTS:
            _check_mask(part, getattr(self, part), self.train)
        for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
            shared = int((getattr(self, first) & getattr(self, second)).sum())
            if shared:
                raise DataError(
                    f"the parts of a split must be disjoint; {first} and {second} share {shared} "
                    "nodes. Remove them from one of the two."
                )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the three masks: equal for equal splits, on every device and machine."""
        digest = hashlib.sha256(str(self.train.numel()).encode())
        for part in PARTS:
            digest.update(np.packbits(getattr(self, part).cpu().numpy()).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={int(getattr(self, part).sum())}" for part in PARTS)
        return f"Split({sizes}, num_nodes={self.train.numel()})"


def random_split(num_nodes: int, fractions: Fractions = (0.6, 0.2, 0.2), seed: int = 0) -> Split:
    """A random permutation cut into ⌊f_0·N⌋ training and ⌊f_1·N⌋ validation nodes, the rest test.

    If the fractions sum to less than 1, the nodes that are left over belong to no part.
    """
    require_at_least("num_nodes", num_nodes, 1)
    rng = _checked_generator(fractions, seed)
    part_of = np.full(num_nodes, UNUSED)
    part_of[rng.permutation(num_nodes)] = _deal(_part_sizes(num_nodes, fractions), num_nodes)
    return _split(part_of)


def stratified_split(y: Tensor, fractions: Fractions = (0.6, 0.2, 0.2), seed: int = 0) -> Split:
    """Each class cut by itself as in `random_split`; nodes labelled -1 belong to no part.

    A class of at least three nodes has one in every part, at the expense of its largest part.
    """
    check_labels(y)
    rng = _checked_generator(fractions, seed)
    labels = y.cpu().numpy()
    part_of = np.full(labels.size, UNUSED)
    for label in np.unique(labels[labels >= 0]):
        members = rng.permutation(np.flatnonzero(labels == label))
        sizes = _part_sizes(members.size, fractions)
        if members.size >= len(PARTS):
            sizes = _without_empty_part(sizes, members.size)
        part_of[members] = _deal(sizes, members.size)
    return _split(part_of)


def data_splits(data: "Data") -> list[Split]:
    """The splits a graph carries as `train_mask`, `val_mask`, `test_mask`, [N] or [N, S] each.

    A single mask [N] beside masks [N, S] is shared by all S splits.
    """
    masks: dict[str, Any] = {part: getattr(data, f"{part}_mask", None) for part in PARTS}
    missing = [f"{part}_mask" for part, mask in masks.items() if mask is None]
    if missing:
        raise DataError(
            "the graph must carry train_mask, val_mask and test_mask; it has no "
            f"{', '.join(missing)}. Ask for a rule by name: random_split(num_nodes) or "
            "stratified_split(y)."
        )
    columns = [_mask_columns(part, mask, data.num_nodes) for part, mask in masks.items()]
    num_splits = max(map(len, columns))
    if any(len(masks) not in (1, num_splits) for masks in columns):
        raise DataError(
            f"the three masks must hold the same number of splits; got {[*map(len, columns)]}. "
            "Give each the shape [num_nodes, num_splits]."
        )
    shared = [masks if len(masks) == num_splits else masks * num_splits for masks in columns]
    return [Split(*masks) for masks in zip(*shared, strict=True)]


def _check_mask(part: str, mask: Tensor, like: Tensor) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 1:
        raise DataError(
            f"{part} must be a bool tensor of shape [num_nodes]; got {describe(mask)}. "
            "Turn node numbers into a mask with mask[numbers] = True, not by a cast."
        )
    if mask.shape != like.shape:
        raise DataError(
            f"the masks of a split must have equal length; train has {like.numel()} nodes, {part} "
            f"{mask.numel()}. Build all three for the same graph."
        )
    if not mask.any():
        raise DataError(
            f"{part} is empty; every part of a split needs a node. Raise its fraction or use a larger graph."
        )


def _mask_columns(part: str, mask: Tensor, num_nodes: int) -> list[Tensor]:
    """The S masks [N] of a tensor [N] or [N, S]."""
    if mask.dim() not in (1, 2) or mask.size(0) != num_nodes:
        raise DataError(
            f"{part}_mask must have shape [{num_nodes}] or [{num_nodes}, num_splits]; got "
            f"{list(mask.shape)}. Transpose masks stored as [num_splits, num_nodes]."
        )
    return list(mask.reshape(num_nodes, -1).unbind(dim=1))


def _checked_generator(fractions: Fractions, seed: int) -> np.random.Generator:
    """The random stream of a split rule, once its arguments have proved sound."""
    require_at_least("seed", seed, 0)
    valid = len(fractions) == len(PARTS) and all(fraction > 0.0 for fraction in fractions)
    if not valid or not sum(fractions) <= 1.0 + SUM_TOLERANCE:
        raise ConfigError(
            "fractions must be three positive numbers (train, val, test) that sum to at most 1; "
            f"got {fractions!r}."
        )
    return np.random.default_rng(seed)


def _part_sizes(count: int, fractions: Fractions) -> PartArray:
    """⌊f_0·n⌋, ⌊f_1·n⌋ and what is missing to ⌊(f_0+f_1+f_2)·n⌋, which is n for a full split."""
    train, val, covered = (
        math.floor(share * count * (1.0 + ROUNDING)) for share in (*fractions[:2], sum(fractions))
    )
    return np.array([train, val, min(covered, count) - train - val])


def _without_empty_part(sizes: PartArray, count: int) -> PartArray:
    """Sizes of at least 1 each; what exceeds the count >= 3 is taken from the largest."""
    sizes = np.maximum(sizes, 1)
    sizes[sizes.argmax()] -= max(0, int(sizes.sum()) - count)
    return sizes


def _deal(sizes: PartArray, count: int) -> PartArray:
    """Part numbers of `count` nodes in a row: 0, ..., 1, ..., 2, ..., then UNUSED."""
    return np.repeat([0, 1, 2, UNUSED], [*sizes, count - sizes.sum()])


def _split(part_of: PartArray) -> Split:
    return Split(*(torch.from_numpy(part_of == number) for number in range(len(PARTS))))
