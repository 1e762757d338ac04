"""`polynsd train`: one model over all splits of a benchmark, a file or a generated graph."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from polynsd.cli.options import MemoryOption, move_options
from polynsd.cli.report import add_report
from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.errors import ConfigError
from polynsd.runs.files import SNAPSHOT_SECONDS
from polynsd.training.callback import Callback, CallbackList
from polynsd.training.source import Source

if TYPE_CHECKING:
    from polynsd.training.result import ProtocolResult


@dataclass(frozen=True)
class Train(MemoryOption):
    """Train one model on all splits of a benchmark graph."""

    main_options: ClassVar[tuple[str, ...]] = (
        *("dataset", "protocol", "splits", "seeds", "model", "maps", "degree", "rules", "epochs"),
        *("device", "out"),
    )

    source: Source = field(default_factory=Source)
    """The graph and its splits."""
    rules: str = "default"
    """Training rules: default, paper, paper-acc or platonov; options of training replace parts of them."""
    config: Path | None = None
    """A file {model: …, training: …} to begin with, such as best.yaml of a search; in place of --rules."""
    seeds: int = 1
    """Number of models per split."""
    seed: int = 0
    """Seed of the weights; split i is trained with seed + i."""
    out: Path | None = None
    """A run folder; started again with the same options, an interrupted run goes on."""
    snapshot_seconds: float = SNAPSHOT_SECONDS
    """Seconds between two snapshots in the run folder, at least; 0 writes one per epoch."""
    report: bool = True
    """Write report.html into the run folder, if Plotly is installed."""
    quiet: bool = False
    """Show no progress and write no report."""
    json: bool = False
    """One JSON object per event, for machines."""
    tensorboard: Path | None = None
    """A folder for TensorBoard."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Options of the model."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """Options of training."""

    @classmethod
    def rewrite(cls, arguments: Sequence[str]) -> list[str]:
        """`--degree 8` as `--options degree 8`, where the model is one of the zoo that has this option."""
        from polynsd.training.configuration import read_configuration
        from polynsd.zoo import ZOO, model_options

        named = _parse_known(arguments)
        if named is None:
            return list(arguments)
        begun = ModelConfig() if named.config is None else read_configuration(named.config).model
        model = named.model or begun.model
        if model not in ZOO:
            return list(arguments)
        names = model_options(model).keys() & {*vars(LayerConfig()), "input_dropout"}
        return move_options(arguments, names, begun.options)

    @classmethod
    def default_for(cls, arguments: Sequence[str]) -> Train:
        """The defaults of the model under the rules that the arguments name, which options replace."""
        from polynsd.training.configuration import get_rules, read_configuration
        from polynsd.zoo import layer_defaults

        options = _parse_known(arguments)
        if options is None:
            return cls()
        if options.config is None:
            model = ModelConfig(layer=LayerConfig(**layer_defaults(options.model or ModelConfig.model)))
            training = get_rules(options.rules, options.dataset).training
            return cls(rules=options.rules, model=model, training=training)
        if options.rules != "default":
            raise ConfigError("--config holds training rules already; leave out --rules.")
        model, training = read_configuration(options.config)
        return cls(config=Path(options.config), rules="config", model=model, training=training)

    def after_interrupt(self) -> str:
        if self.out is None:
            return "nothing was kept; with --out RUN it could go on"
        return f"the same command goes on with {self.out}" if self.out.exists() else ""

    def run(self) -> ProtocolResult:
        from polynsd.report import JsonLines, ProtocolView, TensorBoardLog
        from polynsd.training.configuration import Configuration, get_rules
        from polynsd.training.protocol import fit_splits

        callback: Callback = JsonLines() if self.json else ProtocolView(quiet=self.quiet)
        if self.tensorboard is not None:
            callback = CallbackList(callback, TensorBoardLog(self.tensorboard))
        result = fit_splits(
            self.source.problem(self.seed),
            Configuration(self.model, self.training),
            seeds=self.seeds,
            rules=self.rules,
            ddof=0 if self.rules == "config" else get_rules(self.rules).ddof,
            out=self.out,
            callback=callback,
            snapshot_seconds=self.snapshot_seconds,
        )
        if not self.json:
            _print_result(result, self.out)
            if self.out is not None and self.report and not self.quiet:
                print(add_report(self.out))
        return result


def _parse_known(arguments: Sequence[str]) -> argparse.Namespace | None:
    """The options that others depend on; None where one has no value, which tyro will say."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--rules", default="default")
    parser.add_argument("--dataset", default=None)
    parser.add_argument("--config", default=None)
    parser.add_argument("--model", default=None)
    try:
        return parser.parse_known_args(list(arguments))[0]
    except argparse.ArgumentError:
        return None


def _print_result(result: ProtocolResult, out: Path | None) -> None:
    from polynsd.report import print_results

    about, splits = result.about, len({row.split for row in result.rows})
    seeds = len(result.rows) // splits
    title = (
        f"{about['dataset']}: {splits} split{'s' * (splits > 1)} by {about['protocol']} × "
        f"{seeds} seed{'s' * (seeds > 1)}; features {about['features']}; rules {result.rules}, "
        f"epochs chosen by validation {result.select}; mean ± std ({result.std_kind})"
    )
    print_results(title, {result.model: result})
    if out is not None:
        print(f"run: {out}")
