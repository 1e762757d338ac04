"""`Problem`: what is trained on; `Source`: from names to a problem.

    Source("texas", splits=3).problem(seed=0)
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

from polynsd.data import Graph, Split, get_splits
from polynsd.data.datasets.catalogue import open_graph
from polynsd.data.generators import get_generator, make_graph, parse_arguments
from polynsd.data.transforms import apply
from polynsd.devices import get_device
from polynsd.errors import ConfigError, DataError, require_at_least
from polynsd.sparse import is_sparse, list_entries
from polynsd.training.configuration import Configuration, shape_key
from polynsd.training.replica import Replica
from polynsd.training.task import Task, get_task
from polynsd.zoo import build_model

if TYPE_CHECKING:
    from torch_geometric.data import Data

GENERATED = {"protocol": "stratified(0.6, 0.2, 0.2)", "features": "raw"}
FROM_FILE = {"protocol": "stored", "features": "raw"}


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


@dataclass(frozen=True)
class Source:
    """Where the graph comes from; rules that are not given are the graph's own."""

    dataset: str | None = None
    """A benchmark by name (polynsd data list) or a graph file; otherwise a graph is generated."""
    generate: str = "heterophily"
    """The generator: heterophily, minesweeper, streets, chain or planted."""
    data: tuple[str, ...] = ()
    """Arguments of the generator, e.g. --data degree=6 heterophily=0.9."""
    protocol: str | None = None
    """The split rule, e.g. geom-gcn; the benchmark's own, or stratified(0.6, 0.2, 0.2) if generated."""
    features: str | None = None
    """Preprocessing: raw, row-normalize, nsd-normalize, standardize, adjacency, or several joined by +; the
    benchmark's own unless given."""
    metric: str | None = None
    """accuracy, roc_auc or r2; the dataset's own unless given."""
    splits: int | None = None
    """How many splits, from the first on; all that there are unless given."""
    device: str = "cpu"
    """Where to train: cpu, cuda, cuda:N, or auto."""

    def problem(self, seed: int = 0) -> Problem:
        """The graph on its device, with splits and task."""
        if self.splits is not None:
            require_at_least("splits", self.splits, 1)
        if "standardize(train)" in (self.features or "").split("+"):
            raise ConfigError(
                "standardize(train) differs between splits; use standardize or row-normalize here."
            )
        device = get_device(self.device)
        graph, arguments, defaults = self._graph()
        rules = {name: getattr(self, name) or value for name, value in defaults.items()}
        task = get_task(rules.pop("metric"))
        splits = get_splits(graph, rules["protocol"], self.splits)
        data = apply(rules["features"], graph).to_pyg().to(device)
        about = {"dataset": graph.name, **arguments, **rules}
        return Problem(data, tuple(splits), task, seed, about)

    def _graph(self) -> tuple[Graph, dict[str, Any], dict[str, str]]:
        """The graph, the generator's arguments, and the rules that belong to it."""
        if self.dataset is None:
            arguments = parse_arguments(self.generate, self.data)
            graph = make_graph(self.generate, **arguments)
            return graph, arguments, {**GENERATED, "metric": get_generator(self.generate).metric}
        if self.data:
            raise ConfigError("--data holds arguments of a generator; leave it out where --dataset is given.")
        graph, entry, _ = open_graph(self.dataset)
        if entry is None:
            return graph, {}, {**FROM_FILE, "metric": "r2" if graph.is_regression else "accuracy"}
        defaults = {"protocol": entry.protocols[0], "features": entry.preprocessing, "metric": entry.metric}
        return graph, {}, defaults
