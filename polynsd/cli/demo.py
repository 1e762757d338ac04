"""The demo: PolyNSD and its controls on an embedded graph whose neighbours disagree.

Two classes share their mean and differ only in shape, and noise hides that shape in a single node:
features alone say little (MLP). Almost every edge joins different classes, so averaging neighbours
says little either (GCN). What helps is to compare a node with its neighbours over several hops. The
identity sheaf is the control, the same model with every map fixed to I: where it comes close, the gain is
the polynomial's and not the sheaf's. The graph was chosen to show the gap to GCN and MLP; on other
settings of the generator an MLP wins (README), so do not read the table as a benchmark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.errors import require_at_least
from polynsd.training.callback import Callback

if TYPE_CHECKING:
    from polynsd.config import ModelConfig, TrainConfig
    from polynsd.nn import LayerResponse
    from polynsd.report import ProgressReporter
    from polynsd.training import Epoch, Problem, ProtocolResult

    Results = dict[str, ProtocolResult]

GRAPH: dict[str, Any] = {
    "num_classes": 2,
    "num_features": 5,
    "degree": 6,
    "feature_noise": 0.5,
    "scaled_noise": False,
}
EPOCHS, PATIENCE = 120, 40


def _configure(model: str, hidden: int = 8, layers: int = 2, **layer: Any) -> ModelConfig:
    from polynsd.published import published_model

    return published_model(model, hidden_channels=hidden, num_layers=layers, layer={"dropout": 0.2, **layer})


def list_models() -> dict[str, ModelConfig]:
    """The models that are compared, by the names they have in the table."""
    return {
        "PolyNSD, diagonal": _configure("polynsd", maps="diagonal"),
        "PolyNSD, orthogonal": _configure("polynsd", maps="orthogonal", stalk_dim=3),
        "PolyNSD, general": _configure("polynsd", maps="general", stalk_dim=3),
        "NSD, diagonal": _configure("nsd", maps="diagonal"),
        "identity sheaf": _configure("identity-sheaf", maps="identity"),
        "GCN": _configure("gcn", hidden=64),
        "MLP": _configure("mlp", hidden=64, layers=3),
    }


@dataclass(frozen=True)
class Demo:
    """Train PolyNSD, NSD, the identity sheaf, GCN and MLP on an embedded heterophilous graph."""

    splits: int = 5
    """Number of random 60/20/20 splits."""
    epochs: int = EPOCHS
    """Largest number of epochs per model and split."""
    nodes: int = 600
    """Number of nodes of the graph."""
    heterophily: float = 0.95
    """Share of edges between different classes."""
    seed: int = 0
    """Seed of graph, splits and weights."""
    out: Path = Path("demo-output")
    """Folder for the picture and the numbers."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> Results:
        from polynsd.config import to_dict
        from polynsd.data import heterophilous_graph, heterophily, stratified_split
        from polynsd.published import published_training
        from polynsd.report import print_results, results_figure
        from polynsd.runs.files import write_json
        from polynsd.training import Problem, get_task

        require_at_least("splits", self.splits, 1)
        arguments = {**GRAPH, "num_nodes": self.nodes, "heterophily": self.heterophily, "seed": self.seed}
        graph = heterophilous_graph(**arguments)
        data, realised = graph.to_pyg(), heterophily(graph)
        splits = tuple(stratified_split(data.y, seed=self.seed + i) for i in range(self.splits))
        training = published_training(epochs=self.epochs, patience=PATIENCE)
        results = _train(Problem(data, splits, get_task("accuracy"), self.seed), training, self.quiet)
        title = (
            f"{graph.num_nodes} nodes, {graph.num_edges} edges, {100 * realised:.0f} % of them "
            f"between different classes; {self.splits} splits"
        )
        print_results(title, results)
        scores = {name: result.tests for name, result in results.items()}
        picture = results_figure(self.out / "demo.png", title, scores, _responses(results), chance=0.5)
        description = {"generator": "heterophily", **arguments, "realised_heterophily": realised}
        numbers = write_json(
            self.out / "demo.json",
            {
                "data": description,
                "training": to_dict(training),
                "models": {name: result.to_dict() for name, result in results.items()},
            },
        )
        print(f"{_summarise(results)}\n\npicture: {picture}\nnumbers: {numbers}")
        return results


class _EpochProgress(Callback):
    """Moves a progress bar that belongs to several trainings by one per epoch."""

    def __init__(self, progress: ProgressReporter, task: str) -> None:
        self._progress, self._task = progress, task

    def epoch(self, split: int, epoch: Epoch) -> None:
        self._progress.advance(1, self._task)


def _train(problem: Problem, training: TrainConfig, quiet: bool) -> Results:
    """Trains every model on every split, with one progress bar for all."""
    from polynsd.report import ProgressReporter
    from polynsd.training import Configuration, fit_splits

    models, budget = list_models(), len(problem.splits) * training.epochs
    results: Results = {}
    with ProgressReporter(len(models) * budget, quiet=quiet) as progress:
        for number, (name, model) in enumerate(models.items(), 1):
            callback = _EpochProgress(progress, f"{name}, {len(problem.splits)} splits")
            results[name] = fit_splits(problem, Configuration(model, training), callback=callback)
            progress.skip_to(number * budget)  # the epochs saved by stopping early
    return results


def _summarise(results: Results) -> str:
    """One sentence: the gain of the best PolyNSD over the other models."""
    ours = [name for name in results if name.startswith("PolyNSD")]
    best = max(ours, key=lambda name: results[name].mean)
    others = ("GCN", "MLP", "NSD, diagonal", "identity sheaf")
    gaps = [f"{100 * (results[best].mean - results[name].mean):+.1f} over {name}" for name in others]
    return f"{best}, in points of accuracy: {'; '.join(gaps)}."


def _responses(results: Results) -> dict[str, list[LayerResponse]]:
    """Frequency responses of the models with a learned filter, as trained on the first split."""
    import torch

    from polynsd.nn import PolyNSD

    lam = torch.linspace(0, 2, 201)
    models = {name: result.models[0] for name, result in results.items() if name.startswith("PolyNSD")}
    return {name: model.responses(lam) for name, model in models.items() if isinstance(model, PolyNSD)}
