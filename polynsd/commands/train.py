"""`polynsd train`: one model on an embedded graph over several splits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from polynsd.config import ModelConfig, TrainConfig
from polynsd.data import stratified_split
from polynsd.data.embedded import get_embedded, make_graph, parse_arguments
from polynsd.errors import require_at_least
from polynsd.experiments.comparison import Results, compare, print_results, save_results
from polynsd.training import get_task


@dataclass(frozen=True)
class Train:
    """Train a model on an embedded graph over several random splits and report mean ± std."""

    dataset: str = "heterophily"
    """heterophily, minesweeper, streets or chain."""
    data: tuple[str, ...] = ()
    """Arguments of the generator, e.g. --data degree=6 heterophily=0.9."""
    metric: str | None = None
    """accuracy or roc_auc; the dataset's own unless given."""
    splits: int = 5
    """Number of stratified 60/20/20 splits."""
    seed: int = 0
    """Of splits and weights."""
    out: Path | None = None
    """A JSON file for configuration, splits and numbers."""
    quiet: bool = False
    """No progress."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """What is trained."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def run(self) -> Results:
        """Trains, prints, and writes the record where asked for."""
        require_at_least("splits", self.splits, 1)
        arguments = parse_arguments(self.dataset, self.data)
        task = get_task(self.metric or get_embedded(self.dataset).metric)
        data = make_graph(self.dataset, **arguments).to_pyg()
        splits = [stratified_split(data.y, seed=self.seed + i) for i in range(self.splits)]
        models = {f"{self.model.model} ({self.model.layer.maps})": self.model}
        results = compare(models, data, splits, task, self.training, self.seed, self.quiet)
        print_results(f"{self.dataset}: {data.num_nodes} nodes, {data.num_edges // 2} edges", results)
        if self.out is not None:
            save_results(
                self.out, {"generator": self.dataset, **arguments}, models, splits, self.training, results
            )
        return results
