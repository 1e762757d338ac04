"""`polynsd train`: one model over several splits of a benchmark, a file or a generated graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polynsd.commands.data import read_any
from polynsd.config import ModelConfig, TrainConfig
from polynsd.data import Graph, get_splits
from polynsd.data.embedded import get_embedded, make_graph, parse_arguments
from polynsd.data.preprocess import apply
from polynsd.errors import ConfigError, require_at_least
from polynsd.experiments.comparison import Results, compare, print_results, save_results
from polynsd.nn.build import model_label
from polynsd.report import require_file_name
from polynsd.training import get_task


@dataclass(frozen=True)
class Source:
    """A graph and the rules that belong to it, each of which an option may replace."""

    graph: Graph
    protocol: str
    metric: str
    features: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Train:
    """Train a model over several splits of a graph and report mean ± std of the test metric."""

    dataset: str | None = None
    """A benchmark by name (polynsd data list) or a graph file; otherwise a graph is generated."""
    generate: str = "heterophily"
    """The generator: heterophily, minesweeper, streets or chain."""
    data: tuple[str, ...] = ()
    """Arguments of the generator, e.g. --data degree=6 heterophily=0.9."""
    protocol: str | None = None
    """The split rule, e.g. geom-gcn; the benchmark's own, or stratified(0.6, 0.2, 0.2) if generated."""
    features: str | None = None
    """Preprocessing: raw, row-normalize or nsd-normalize; the benchmark's own unless given."""
    metric: str | None = None
    """accuracy or roc_auc; the dataset's own unless given."""
    splits: int = 5
    """How many splits, from the first on."""
    seed: int = 0
    """Of the weights; split i is trained with seed + i."""
    out: Path | None = None
    """A JSON file for configuration, split hashes and numbers."""
    quiet: bool = False
    """No progress."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """What is trained."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def run(self) -> Results:
        """Trains, prints, and writes the record where asked for."""
        require_at_least("splits", self.splits, 1)
        require_file_name(self.out)
        if self.features == "standardize(train)":
            raise ConfigError("standardize(train) differs between splits; use raw or row-normalize here.")
        source = self._source()
        protocol, rule = self.protocol or source.protocol, self.features or source.features
        task = get_task(self.metric or source.metric)
        splits = get_splits(source.graph, protocol, self.splits)
        data = apply(rule, source.graph).to_pyg()
        models = {model_label(self.model): self.model}
        results = compare(models, data, splits, task, self.training, self.seed, self.quiet)
        graph = source.graph
        size = f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
        print_results(f"{size}; {len(splits)} splits by {protocol}; features {rule}", results)
        if self.out is not None:
            about = {"graph": source.graph.name, **source.arguments, "protocol": protocol, "features": rule}
            save_results(self.out, about, models, splits, self.training, results)
        return results

    def _source(self) -> Source:
        if self.dataset is None:
            arguments = parse_arguments(self.generate, self.data)
            metric = get_embedded(self.generate).metric
            graph = make_graph(self.generate, **arguments)
            return Source(graph, "stratified(0.6, 0.2, 0.2)", metric, "raw", arguments)
        if self.data:
            raise ConfigError("--data holds arguments of a generator; leave it out where --dataset is given.")
        graph, entry = read_any(self.dataset)
        if entry is None:
            return Source(graph, "stored", "accuracy", "raw", {})
        return Source(graph, entry.protocols[0], entry.metric, entry.preprocessing, {})
