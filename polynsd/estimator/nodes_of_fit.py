"""Which nodes of a graph are those of `fit`, whose labels and links a model knows.

Nodes are matched by their ids, whatever their order, if their features resemble those of fit: they may be of
a later day, but the ids may also be those of other things. 64 signs of random projections of every node tell:
those of matched nodes must agree more than those of random pairs. Without ids nodes are matched by features
that no other node has, if half of one of the graphs is found so, or by their place in a graph that is equal
to that of `fit`. Hashes and signs are kept, neither ids nor features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.data import Graph
from polynsd.errors import DataError
from polynsd.estimator.members import StoredTensors
from polynsd.estimator.structure import COLUMNS

UNKNOWN = -1
ALIKE = 0.5  # share of nodes whose features must match
RESEMBLING = 0.8  # signs of matched nodes that differ, at most, in units of those of random pairs
SIGNS, PAIRS = 64, 1000  # of a node; random ones
BLOCK = 2**22  # entries that are hashed in one go

Hashes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodesOfFit:
    """Hashes of the ids of all nodes `[N]` (`[0]` where there are none), of their features, and of edges."""

    ids: Hashes
    features: Hashes
    signs: Hashes  # [N] of projections, in 64 bits
    edges: Hashes  # [1]

    @classmethod
    def of(cls, graph: Graph, treated: Any) -> NodesOfFit:
        """Of a graph and its features on a common scale."""
        ids = [] if graph.node_ids is None else [_hash_bytes(str(name).encode()) for name in graph.ids]
        x = graph.x
        if graph.feature_names == COLUMNS:  # numbers of the structure: the degree alone is of the node itself
            x = x[:, :1]
        edges = _hash_bytes(np.ascontiguousarray(graph.edge_index, dtype=np.int64).tobytes())
        return cls(np.array(ids, dtype=np.int64), hash_rows(x), _find_signs(treated), np.array([edges]))

    def find(self, graph: Graph, treated: Any) -> Hashes:
        """`[M]` for every node of a graph its number in that of `fit`; −1 where it is none of them."""
        other = NodesOfFit.of(graph, treated)
        if len(self.ids) and len(other.ids):
            places = _match(self.ids, other.ids)
            is_known = places != UNKNOWN
            resemble = is_known.any() and self._resemble(places[is_known], other.signs[is_known])
            return places if resemble else np.full_like(places, UNKNOWN)
        if np.array_equal(self.features, other.features) and (self.edges == other.edges).all():
            return np.arange(len(self.features))
        places = _match(self.features, other.features)
        fewest = ALIKE * min(len(self.features), len(places))  # less may be chance
        return places if (places != UNKNOWN).sum() >= fewest else np.full_like(places, UNKNOWN)

    def _resemble(self, places: Hashes, signs: Hashes) -> bool:
        """Whether nodes with these signs are more like those of fit at their places than like any."""
        rng = np.random.default_rng(0)
        by_chance = _count_differing(rng.choice(self.signs, PAIRS), rng.choice(signs, PAIRS)).mean()
        return bool(_count_differing(self.signs[places], signs).mean() <= RESEMBLING * by_chance)

    def state(self) -> dict[str, Tensor]:
        """Tensors from which `restore` makes it again."""
        return {name: torch.from_numpy(values) for name, values in vars(self).items()}

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> NodesOfFit:
        """What `state` described."""
        stored = StoredTensors(tensors)
        shapes = {"ids": "I", "features": "N", "signs": "N", "edges": "E"}
        arrays = {name: stored.take(name, shape, torch.int64).numpy() for name, shape in shapes.items()}
        stored.require_none_left()
        if stored.size("E") != 1 or stored.size("I") not in (0, stored.size("N")):
            raise DataError("there must be an id, or none, for every node of fit")
        return cls(**arrays)


def hash_rows(x: Any) -> Hashes:
    """`[N]` a hash of the entries of every row that are not zero and of their columns; sparse or not."""
    if sparse.issparse(x):
        x = sparse.csr_array(x, dtype=np.float64)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(x.indices, x.data), dtype=np.uint64)])
        return (sums[x.indptr[1:]] - sums[x.indptr[:-1]]).view(np.int64)
    hashes, columns = np.zeros(len(x), dtype=np.uint64), np.arange(x.shape[1])
    step = max(BLOCK // max(x.shape[1], 1), 1)
    for start in range(0, len(x), step):
        block = np.asarray(x[start : start + step], dtype=np.float64)
        hashes[start : start + step] = _mix(columns, block).sum(1, dtype=np.uint64)
    return hashes.view(np.int64)


def _find_signs(treated: Any) -> Hashes:
    """`[N]` the signs of 64 random projections of every row, as bits."""
    directions = np.random.default_rng(0).normal(size=(treated.shape[1], SIGNS))
    signs = np.asarray(treated @ directions) > 0
    return np.packbits(signs, axis=1).view(np.int64)[:, 0]


def _count_differing(first: Hashes, second: Hashes) -> NDArray[np.int64]:
    """In how many bits each pair differs."""
    differing = np.ascontiguousarray(first ^ second).view(np.uint8)
    return np.unpackbits(differing).reshape(len(first), SIGNS).sum(1)


def _mix(columns: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A hash of every entry and its column, 0 of an entry that is 0 (SplitMix64, twice)."""
    bits = _scramble(np.ascontiguousarray(values).view(np.uint64) ^ _scramble(columns.astype(np.uint64)))
    return np.where(values != 0, bits, np.uint64(0))


def _scramble(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _hash_bytes(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big", signed=True)


def _match(known: Hashes, asked: Hashes) -> Hashes:
    """For every hash that is asked for its place among the known ones; −1 where either has it not once."""
    hashes, place, count = np.unique(known, return_index=True, return_counts=True)
    _, inverse, asked_count = np.unique(asked, return_inverse=True, return_counts=True)
    nearest = np.minimum(np.searchsorted(hashes, asked), len(hashes) - 1)
    is_one = (hashes[nearest] == asked) & (count[nearest] == 1) & (asked_count[inverse] == 1)
    return np.where(is_one, place[nearest], UNKNOWN)
