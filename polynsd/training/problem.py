"""`Problem`: what is trained on. A `Source` makes one from names (`source.py`).

    Problem(data, (split,), get_task("accuracy"))

A problem is a graph on its device, with splits, a task and the first seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from polynsd.data import Split
from polynsd.errors import DataError
from polynsd.sparse import is_sparse, list_entries
from polynsd.training.configuration import Configuration, shape_key
from polynsd.training.replica import Replica
from polynsd.training.task import Task
from polynsd.zoo import build_model

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Problem:
    """A graph, its splits and how they are scored.

    Args:
        data: the graph, on the device to train on.
        splits: a trial is trained on all of them.
        task: loss and metric.
        seed: split i is trained with seed + i in every trial, so that trials differ by their options alone.
        about: what results and records say of it: dataset, protocol, features.
    """

    data: Data
    splits: tuple[Split, ...]
    task: Task
    seed: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """All that a result depends on besides the configuration; stored by runs, studies and records."""
        return {
            **self.about,
            "graph": fingerprint(self.data),
            "splits": [split.fingerprint for split in self.splits],
            "metric": self.task.metric,
            "seed": self.seed,
        }

    def replicas(self, configuration: Configuration, splits: Sequence[int], seed: int) -> list[Replica]:
        """One replica per split; split i has seed + i."""
        outputs = self.task.num_outputs(self.data.y)
        build = partial(build_model, configuration.model, self.data.num_features, outputs)
        rules, start = configuration.training, shape_key(configuration)
        return [Replica(build, self.splits[i], seed + i, rules, start) for i in splits]


def fingerprint(data: Data) -> str:
    """SHA-256 of edges, features, labels and edge weights: equal for equal graphs, on every device."""
    if data.y is None:
        raise DataError("the graph has no labels y; training needs them.")
    digest = hashlib.sha256()
    for name in ("edge_index", "x", "y", "edge_weight", "edge_attr"):
        value = data.get(name)
        if isinstance(value, Tensor):
            digest.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
            for part in list_entries(value) if is_sparse(value) else (value,):
                digest.update(part.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
