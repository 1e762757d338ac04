"""Train, validation and test masks: checked, identified by a hash, never invented silently.

    splits = data_splits(data)              # the masks that came with PyG's Data
    split = stratified_split(y, seed=3)     # a new split, by a rule the caller names

`Split` is one split, `Masks` several in one array. Do not compare numbers from different rules: published
tables mix 48/32/20, 50/25/25 and 60/20/20, and more training nodes alone raise an accuracy.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.data.validation import check_labels, check_masks, describe_value
from polynsd.errors import ConfigError, DataError, require_at_least

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS = ("train", "val", "test")
MASK_KEY = re.compile(r"(?:(\w+)_)?(train|val|test)_mask")
ROUNDING = 1e-12  # 0.29·100 is 28.999999999999996 in floating point
SUM_TOLERANCE = 1e-9
NOT_A_MASK = "Turn node numbers into a mask with mask[numbers] = True, not by a cast."

Fractions = tuple[float, float, float]
Nodes = NDArray[np.int64]

logger = logging.getLogger("polynsd")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Disjoint, non-empty boolean masks of shape [N]; nodes may be left out of all three."""

    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.train, self.val, self.test

    def __post_init__(self) -> None:
        for part, mask in zip(PARTS, self.parts, strict=True):
            self._check_part(part, mask)
        for (first, mask), (second, other) in combinations(zip(PARTS, self.parts, strict=True), 2):
            shared = int((mask & other).sum())
            if shared:
                raise DataError(
                    f"the parts of a split must be disjoint; {first} and {second} share {shared} "
                    "nodes. Remove them from one of the two."
                )

    def _check_part(self, part: str, mask: object) -> None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 1:
            raise DataError(
                f"{part} must be a bool tensor of shape [num_nodes]; got {describe_value(mask)}. {NOT_A_MASK}"
            )
        if mask.shape != self.train.shape:
            raise DataError(
                f"the masks of a split must have equal length; train has {self.train.numel()} nodes, {part} "
                f"{mask.numel()}. Build all three for the same graph."
            )
        if not mask.any():
            raise DataError(
                f"{part} is empty; every part of a split needs a node. Raise its fraction or use a larger "
                "graph."
            )

    @classmethod
    def from_nodes(cls, num_nodes: int, train: Nodes, val: Nodes, test: Nodes) -> Split:
        """A split of N nodes from the node numbers of its parts."""
        masks = torch.zeros(len(PARTS), num_nodes, dtype=torch.bool)
        for mask, nodes in zip(masks, (train, val, test), strict=True):
            mask[torch.from_numpy(nodes)] = True
        return cls(*masks)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the three masks: equal for equal splits, on every device and machine."""
        digest = hashlib.sha256(str(self.train.numel()).encode())
        for mask in self.parts:
            digest.update(np.packbits(mask.cpu().numpy()).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={int(mask.sum())}" for part, mask in zip(PARTS, self.parts, strict=True))
        return f"Split({sizes}, num_nodes={self.train.numel()})"


@dataclass(frozen=True)
class Masks:
    """S splits as boolean masks `[S, N]`, a row per split."""

    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]

    @classmethod
    def from_splits(cls, splits: Sequence[Split]) -> Masks:
        return cls(*(np.stack([getattr(split, part).cpu().numpy() for split in splits]) for part in PARTS))

    @property
    def parts(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        return self.train, self.val, self.test

    def __len__(self) -> int:
        return len(self.train)

    def split(self, index: int) -> Split:
        """A copy of split `index`, checked; an index that does not exist or an empty part is an error."""
        if not 0 <= index < len(self):
            raise DataError(f"there are {len(self)} splits, numbered from 0; got index {index}.")
        return Split(*(torch.from_numpy(masks[index].copy()) for masks in self.parts))


def mask_keys(protocol: str) -> list[str]:
    """The names of its masks: `train_mask`, … of `default`, `public_train_mask`, … of `public`."""
    prefix = "" if protocol == "default" else f"{protocol}_"
    return [f"{prefix}{part}_mask" for part in PARTS]


def random_split(num_nodes: int, fractions: Fractions = (0.6, 0.2, 0.2), seed: int = 0) -> Split:
    """A random permutation cut into ⌊f_0·N⌋ training and ⌊f_1·N⌋ validation nodes, the rest test.

    If the fractions sum to less than 1, the nodes that are left over belong to no part.
    """
    require_at_least("num_nodes", num_nodes, 1)
    rng = _make_generator(fractions, seed)
    return Split.from_nodes(num_nodes, *_cut(rng.permutation(num_nodes), _part_sizes(num_nodes, fractions)))


def stratified_split(y: Tensor, fractions: Fractions = (0.6, 0.2, 0.2), seed: int = 0) -> Split:
    """Each class cut by itself as in `random_split`; nodes labelled -1 belong to no part.

    A class of at least three nodes has one in every part, at the expense of its largest part.
    """
    check_labels(y)
    rng = _make_generator(fractions, seed)
    labels = y.cpu().numpy()
    parts = [[np.zeros(0, dtype=np.int64)] for _ in PARTS]
    for label in np.unique(labels[labels >= 0]):
        members = rng.permutation(np.flatnonzero(labels == label))
        sizes = _part_sizes(members.size, fractions)
        if members.size >= len(PARTS):
            sizes = np.maximum(sizes, 1)
            sizes[sizes.argmax()] -= max(0, int(sizes.sum()) - members.size)
        for part, nodes in zip(parts, _cut(members, sizes), strict=True):
            part.append(nodes)
    return Split.from_nodes(labels.size, *map(np.concatenate, parts))


def permuted_split(nodes: Nodes, num_nodes: int, percent: tuple[int, int], seed: int) -> Split:
    """A permutation of `nodes` cut after ⌊p_0·n/100⌋ training and ⌊p_1·n/100⌋ validation nodes.

    The permutation is that of NumPy's legacy generator, which published splits were drawn with.
    """
    order = np.random.RandomState(seed).permutation(nodes)
    num_train, num_val = (share * order.size // 100 for share in percent)
    return Split.from_nodes(num_nodes, *_cut(order, [num_train, num_val, order.size - num_train - num_val]))


def split_by_group(
    groups: NDArray[np.int64], candidates: NDArray[np.bool_], fraction: float, seed: int = 0
) -> NDArray[np.bool_]:
    """`[N]` nodes to hold out: whole groups at random, about this share of the candidates.

    Args:
        groups: `[N]` the number of every node's group; −1 is a group of its own.
        candidates: `[N]` the nodes that may be held out, such as the labelled ones.
        fraction: of the candidates.
        seed: of the draw.
    """
    require_at_least("seed", seed, 0)
    count, members = _held_out_count(candidates, fraction), number_groups(groups, candidates)
    sizes, total = np.bincount(members), 0
    held_out = np.zeros(sizes.size, dtype=bool)
    for group in np.random.default_rng(seed).permutation(sizes.size):
        is_closer = abs(total + sizes[group] - count) < abs(total - count)
        if is_closer and held_out.sum() < sizes.size - 1:
            held_out[group], total = True, total + sizes[group]
    if not held_out.any():  # every group is too large: the smallest one
        held_out[sizes.argmin()] = True
    mask = np.zeros(groups.size, dtype=bool)
    mask[candidates] = held_out[members]
    return mask


def number_groups(groups: NDArray[np.int64], candidates: NDArray[np.bool_]) -> NDArray[np.int64]:
    """`[n]` the group of every candidate, numbered from 0; the arguments are those of `split_by_group`."""
    single = groups.max(initial=-1) + 1 + np.arange(groups.size)
    names, members = np.unique(np.where(groups < 0, single, groups)[candidates], return_inverse=True)
    if names.size < 2:
        raise DataError(
            "a split by groups needs at least two groups with labels; all labels that are left to divide "
            "belong to one. A test part takes whole groups too: three are needed then."
        )
    return members


def split_by_time(
    times: NDArray[np.float64], candidates: NDArray[np.bool_], fraction: float
) -> NDArray[np.bool_]:
    """`[N]` nodes to hold out: the latest ones, about this share of the candidates.

    Nodes of one time stay together. The arguments are those of `split_by_group`.
    """
    count, num_missing = _held_out_count(candidates, fraction), int(np.isnan(times[candidates]).sum())
    if num_missing:
        raise DataError(
            f"a split by time needs the time of every labelled node; {num_missing} have none. "
            "Fill them in, or remove these labels."
        )
    moments, numbers = np.unique(times[candidates], return_counts=True)
    if moments.size < 2:
        raise DataError("a split by time needs at least two different times; all labelled nodes have one.")
    later = numbers[::-1].cumsum()[::-1]  # nodes from each moment on
    first = moments[1:][np.abs(later[1:] - count).argmin()]
    return candidates & (times >= first)


def _held_out_count(candidates: NDArray[np.bool_], fraction: float) -> float:
    if not 0 < fraction < 1:
        raise ConfigError(f"the share of nodes to hold out must lie between 0 and 1; got {fraction!r}.")
    return fraction * float(candidates.sum())


def data_splits(data: Data) -> list[Split]:
    """The splits a graph carries as `train_mask`, `val_mask`, `test_mask`; see `read_masks`."""
    missing = [key for key in mask_keys("default") if getattr(data, key, None) is None]
    if missing:
        raise DataError(
            "the graph must carry train_mask, val_mask and test_mask; it has no "
            f"{', '.join(missing)}. Ask for a rule by name: random_split(num_nodes) or "
            "stratified_split(y)."
        )
    masks = read_masks(data)["default"]
    return [masks.split(index) for index in range(len(masks))]


def read_masks(data: Data) -> dict[str, Masks]:
    """The splits of PyG's `Data` by protocol: `train_mask`, … are `default`, `public_train_mask`, … `public`.

    Masks have the shape [N] or [N, S]; a single one beside masks [N, S] is shared by all S splits. A
    protocol of which a part is missing is left out, with a warning in the log.
    """
    num_nodes, protocols = int(data.num_nodes or 0), dict[str, dict[str, NDArray[np.bool_]]]()
    for key, mask in data.to_dict().items():
        match = MASK_KEY.fullmatch(key)
        if match and mask is not None:
            protocols.setdefault(match[1] or "default", {})[match[2]] = _mask_rows(key, mask, num_nodes)
    masks = {}
    for protocol, parts in protocols.items():
        missing = [part for part in PARTS if part not in parts]
        if missing:
            logger.warning(
                "the masks '%s' are left out: there is one for %s but none for %s. Add it to keep the split.",
                protocol,
                ", ".join(parts),
                ", ".join(missing),
            )
            continue
        counts = [len(parts[part]) for part in PARTS]
        if any(count not in (1, max(counts)) for count in counts):
            raise DataError(
                f"the three masks of '{protocol}' must hold the same number of splits; got {counts}. Give "
                "each the shape [num_nodes, num_splits]."
            )
        masks[protocol] = Masks(
            *(np.repeat(parts[part], max(counts) // len(parts[part]), axis=0) for part in PARTS)
        )
        check_masks(protocol, masks[protocol], num_nodes)
    return masks


def _mask_rows(key: str, mask: Any, num_nodes: int) -> NDArray[np.bool_]:
    """A boolean mask [N] or [N, S] as a copy [S, N]."""
    values = torch.as_tensor(mask).cpu().numpy()
    if values.ndim not in (1, 2) or len(values) != num_nodes:
        raise DataError(
            f"{key} must have shape [{num_nodes}] or [{num_nodes}, num_splits]; got {list(values.shape)}. "
            "Transpose masks stored as [num_splits, num_nodes]."
        )
    if values.dtype != np.bool_:
        raise DataError(f"{key} must be boolean; got {values.dtype}. {NOT_A_MASK}")
    return np.array(np.atleast_2d(values.T), order="C")


def _make_generator(fractions: Fractions, seed: int) -> np.random.Generator:
    """The random stream of a split rule; raises where fractions or seed make no sense."""
    require_at_least("seed", seed, 0)
    is_valid = len(fractions) == len(PARTS) and all(fraction > 0.0 for fraction in fractions)
    if not is_valid or not sum(fractions) <= 1.0 + SUM_TOLERANCE:
        raise ConfigError(
            "fractions must be three positive numbers (train, val, test) that sum to at most 1; "
            f"got {fractions!r}."
        )
    return np.random.default_rng(seed)


def _part_sizes(count: int, fractions: Fractions) -> Nodes:
    """⌊f_0·n⌋, ⌊f_1·n⌋ and what is missing to ⌊(f_0+f_1+f_2)·n⌋, which is n for a full split."""
    train, val, covered = (
        math.floor(share * count * (1.0 + ROUNDING)) for share in (*fractions[:2], sum(fractions))
    )
    return np.array([train, val, min(covered, count) - train - val])


def _cut(nodes: Nodes, sizes: Nodes | list[int]) -> list[Nodes]:
    """The first nodes, the next and those after them, so many each."""
    return np.split(nodes, np.cumsum(sizes))[: len(PARTS)]
