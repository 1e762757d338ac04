"""`polynsd train`: one model over all splits of a benchmark, a file or a generated graph."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polynsd.commands.source import Source
from polynsd.config import ModelConfig, TrainConfig
from polynsd.experiments.protocol_run import ProtocolRun, Result
from polynsd.report import JsonLines, ProtocolView, TensorBoardLog, Watcher, print_table, watchers
from polynsd.search.options import Configuration
from polynsd.training.presets import get_rules


@dataclass(frozen=True)
class Train:
    """Train a model on all splits of a graph together, or (with --edges) on your own tables."""

    source: Source = field(default_factory=Source)
    """The graph."""
    rules: str = "default"
    """Training rules: default, paper, paper-acc or platonov; options of training replace parts of them."""
    seeds: int = 1
    """Models per split."""
    seed: int = 0
    """Of the weights; split i is trained with seed + i."""
    out: Path | None = None
    """A run folder; started again with the same options, an interrupted run goes on."""
    quiet: bool = False
    """No progress."""
    json: bool = False
    """One JSON object per event, for machines."""
    tensorboard: Path | None = None
    """A folder for TensorBoard."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """What is trained."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    @classmethod
    def default_for(cls, arguments: Sequence[str]) -> Train:
        """The defaults under the rules that the arguments name, so that single options can replace them."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        parser.add_argument("--rules", default="default")
        parser.add_argument("--dataset", default=None)
        named, _ = parser.parse_known_args(list(arguments))
        return cls(rules=named.rules, training=get_rules(named.rules, named.dataset).training)

    def run(self) -> Result:
        """Trains, prints, and keeps the run where asked for."""
        result = self._protocol().run(self.out)
        if not self.json:
            _print(result, self.out)
        return result

    def _protocol(self) -> ProtocolRun:
        return ProtocolRun(
            self.source.problem(self.seed),
            Configuration(self.model, self.training),
            self.rules,
            self.seeds,
            get_rules(self.rules).ddof,
            self._watcher(),
        )

    def _watcher(self) -> Watcher:
        shown: Watcher = JsonLines() if self.json else ProtocolView(quiet=self.quiet)
        return shown if self.tensorboard is None else watchers(shown, TensorBoardLog(self.tensorboard))


def _print(result: Result, out: Path | None) -> None:
    metric, epochs = result["metric"], [row["best_epoch"] for row in result["splits"]]
    header = ("model", f"test {metric} %", f"val {metric} %", "best epoch", "parameters")
    row = (
        result["model"],
        f"{100 * result['mean']:.1f} ± {100 * result['std']:.1f}",
        f"{100 * result['val_mean']:.1f}",
        f"{min(epochs)}–{max(epochs)}",
        f"{result['parameters']:,}",
    )
    print_table(_title(result), header, [row])
    if out is not None:
        print(f"run: {out}")  # noqa: T201


def _title(result: dict[str, Any]) -> str:
    splits = len({row["split"] for row in result["splits"]})
    seeds = len(result["splits"]) // splits
    return (
        f"{result['dataset']}: {splits} splits by {result['protocol']} × {seeds} seed{'s' * (seeds > 1)}; "
        f"features {result['features']}; rules {result['rules']}, epochs chosen by validation "
        f"{result['select']}; mean ± std ({result['std_kind']})"
    )
