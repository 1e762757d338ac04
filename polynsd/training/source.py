"""`Source`: from names to a problem.

    Source("texas", splits=3).problem(seed=0)

Its fields are options of commands, so it is imported for their help: torch is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polynsd.errors import ConfigError, require_at_least

if TYPE_CHECKING:
    from polynsd.data import Graph
    from polynsd.training.problem import Problem

GENERATED = {"protocol": "stratified(0.6, 0.2, 0.2)", "features": "raw"}
FROM_FILE = {"protocol": "stored", "features": "raw"}


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
        from polynsd.data import get_splits
        from polynsd.data.transforms import apply
        from polynsd.devices import get_device
        from polynsd.training.problem import Problem
        from polynsd.training.task import get_task

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
        from polynsd.data.datasets.catalogue import open_graph
        from polynsd.data.generators import get_generator, make_graph, parse_arguments

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
