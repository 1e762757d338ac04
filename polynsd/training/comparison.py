"""Several models on one graph over the same splits: train, tabulate, record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.config import ModelConfig, TrainConfig, to_dict
from polynsd.data import Split
from polynsd.nn import PolyNSD, count_parameters
from polynsd.report import ProgressReporter, print_table, write_json
from polynsd.training import Epoch, ProtocolResult, Task, run_splits
from polynsd.zoo import build_model

if TYPE_CHECKING:
    from torch import nn
    from torch_geometric.data import Data

Results = dict[str, ProtocolResult]


def compare(
    models: Mapping[str, ModelConfig],
    data: Data,
    splits: Sequence[Split],
    task: Task,
    training: TrainConfig,
    seed: int = 0,
    quiet: bool = False,
) -> Results:
    """Trains every model on every split, with one progress bar for all."""
    num_outputs = task.num_outputs(data.y)
    budget = len(splits) * training.epochs
    results: Results = {}
    with ProgressReporter(len(models) * budget, quiet=quiet) as progress:
        for number, (name, config) in enumerate(models.items(), 1):

            def build(config: ModelConfig = config) -> nn.Module:
                return build_model(config, data.num_features, num_outputs)

            def on_epoch(split: int, epoch: Epoch, name: str = name) -> None:
                progress.advance(1, f"{name}, {len(splits)} splits")

            results[name] = run_splits(build, data, splits, task, training, seed, on_epoch)
            progress.skip_to(number * budget)  # the epochs saved by stopping early
    return results


def print_results(title: str, results: Results) -> None:
    """The table a person reads: mean ± std of the test metric, and what it took."""
    metric = next(iter(results.values())).metric
    header = ("model", f"test {metric} %", f"val {metric} %", "best epoch", "parameters")
    print_table(title, header, [_row(name, result) for name, result in results.items()])


def _row(name: str, result: ProtocolResult) -> tuple[str, ...]:
    epochs = [fit.best_epoch for fit in result.fits]
    return (
        name,
        str(result),
        f"{100 * result.val_mean:.1f}",
        f"{min(epochs)}–{max(epochs)}",
        f"{count_parameters(result.fits[0].model):,}",
    )


def save_results(
    path: Path,
    data_description: Mapping[str, Any],
    models: Mapping[str, ModelConfig],
    splits: Sequence[Split],
    training: TrainConfig,
    results: Results,
) -> Path:
    """Writes configuration, split fingerprints and every number as JSON, all or nothing."""
    record = {
        "data": dict(data_description),
        "splits": [split.fingerprint for split in splits],
        "training": to_dict(training),
        "std": "population",
        "models": {
            name: {
                "config": describe_model(models[name], result.fits[0].model),
                "metric": result.metric,
                "mean": result.mean,
                "std": result.std,
                "test": result.tests,
                "validation": [fit.val_metric for fit in result.fits],
                "best_epoch": [fit.best_epoch for fit in result.fits],
            }
            for name, result in results.items()
        },
    }
    return write_json(path, record)


def describe_model(config: ModelConfig, model: nn.Module) -> dict[str, Any]:
    """The configuration as it was built: presets filled in, and nothing that the model does not have."""
    plain = to_dict(config)
    if isinstance(model, PolyNSD):
        return {**plain, "layer": to_dict(model.config)}
    return {name: plain[name] for name in ("model", "hidden_channels", "num_layers")} | {
        "dropout": config.layer.dropout
    }
