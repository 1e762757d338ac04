"""One configuration over all splits and seeds of a problem: trained together, recorded in a run folder."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polynsd.config import to_dict
from polynsd.errors import require_at_least
from polynsd.nn import count_parameters
from polynsd.report import Records
from polynsd.runs import Run, read_run
from polynsd.runs.run import SNAPSHOT_SECONDS
from polynsd.training import Epoch, FitResult, ProtocolResult, Replica, fit_replicas
from polynsd.training.callback import Callback, CallbackList, ProtocolPlan
from polynsd.training.checks import check_replicas
from polynsd.training.clock import ClockedSnapshots
from polynsd.training.comparison import describe_model
from polynsd.training.configuration import Configuration
from polynsd.training.predictions import prediction_table
from polynsd.training.problem import Problem
from polynsd.training.replica import Snapshots
from polynsd.training.trainer import require_finite
from polynsd.zoo import model_label

Result = dict[str, Any]
logger = logging.getLogger("polynsd")


@dataclass(frozen=True)
class ProtocolRun:
    """What is trained: every split with `seeds` seeds, split i of round s with seed + i + s · splits.

    Args:
        problem: graph, splits, task and the first seed.
        configuration: model and training rules.
        rules: the name of the training rules.
        seeds: models per split.
        ddof: of the standard deviation.
        keep: weights, predictions and the course of the training; otherwise only the result stays.
    """

    problem: Problem
    configuration: Configuration
    rules: str = "default"
    seeds: int = 1
    ddof: int = 0
    callback: Callback = field(default_factory=Callback)
    keep: bool = True

    def __post_init__(self) -> None:
        require_at_least("seeds", self.seeds, 1)

    @property
    def title(self) -> str:
        """The graph and the model."""
        about, data = self.problem.about, self.problem.data
        size = f"{data.num_nodes:,} nodes, {data.num_edges // 2:,} edges"
        rules = f"splits by {about['protocol']}; features {about['features']}; rules {self.rules}"
        return f"{about['dataset']}: {size}; {rules}"

    def run(self, out: Path | None, snapshot_seconds: float = SNAPSHOT_SECONDS) -> Result:
        """Trains, or reads what a finished run in the folder says."""
        check_replicas(
            self._replicas(), self.problem.data, self.problem.task, None
        )  # before there is a folder
        with self._folder(out, snapshot_seconds) as run:
            if run is None or run.result is None:
                return self._trained(run)
            with self.callback as callback:
                callback.finish(run.result)
            return dict(run.result)

    def _folder(self, out: Path | None, snapshot_seconds: float) -> AbstractContextManager[Run | None]:
        if out is None:
            return nullcontext()
        return Run.start(out, "protocol", *self.identity(), snapshot_seconds=snapshot_seconds)

    def identity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that the result depends on: what is done, and with what."""
        return self._config(), self.problem.identity()

    def _trained(self, run: Run | None) -> Result:
        log = [Records(run.log, every=1)] if run is not None and self.keep else []
        with CallbackList(self.callback, *log) as callback:
            clock = None if run is None else ClockedSnapshots(run.snapshots)
            fits = self._train(callback, run, clock)
            result = self._result(fits)
            if run is not None and clock is not None:
                weights = _weights(fits) if self.keep else {}
                predictions = self._predictions(fits) if self.keep else None
                run.finish(result, weights, predictions, {"seconds": round(clock.seconds, 3)})
            self.callback.finish(result)  # what is told is on the disk
        return result

    def _config(self) -> dict[str, Any]:
        names = ("model", "training")
        parts = {name: to_dict(getattr(self.configuration, name)) for name in names}
        return {**parts, "rules": self.rules, "seeds": self.seeds, "ddof": self.ddof}

    def _numbers(self) -> list[tuple[int, int]]:
        """(split, seed) of every replica."""
        count, first = len(self.problem.splits), self.problem.seed
        return [(split, first + split + turn * count) for turn in range(self.seeds) for split in range(count)]

    def _replicas(self) -> list[Replica]:
        one, problem = self.configuration, self.problem
        rounds = range(self.seeds)
        every = range(len(problem.splits))
        return [r for s in rounds for r in problem.replicas(one, every, problem.seed + s * len(every))]

    def _train(self, callback: Callback, run: Run | None, snapshots: Snapshots | None) -> list[FitResult]:
        training = self.configuration.training
        names = tuple(f"{split}" if self.seeds == 1 else f"{split}/{seed}" for split, seed in self._numbers())
        plan = ProtocolPlan(
            names, training.epochs, self.problem.task.metric, training.select, training.patience, self.title
        )
        callback.begin(plan)
        for split, (last, best) in ({} if run is None else _earlier(run.folder)).items():
            callback.resume(split, last, best)
        fits = fit_replicas(
            self._replicas(),
            self.problem.data,
            self.problem.task,
            on_epoch=callback.epoch,
            snapshots=snapshots,
        )
        for number, fit in enumerate(fits):
            callback.done(number, _require_some(fit))
        return fits

    def _result(self, fits: Sequence[FitResult]) -> Result:
        task, together = self.problem.task, ProtocolResult(self.problem.task.metric, tuple(fits), self.ddof)
        model = self.configuration.model
        return {
            **self.problem.about,
            "model": model_label(model),
            "config": describe_model(model, fits[0].model),
            "parameters": count_parameters(fits[0].model),
            "rules": self.rules,
            "metric": task.metric,
            "select": self.configuration.training.select,
            "mean": together.mean,
            "std": together.std,
            "std_kind": "sample" if self.ddof else "population",
            "val_mean": together.val_mean,
            "splits": [self._row(*numbers, fit) for numbers, fit in zip(self._numbers(), fits, strict=True)],
        }

    def _row(self, split: int, seed: int, fit: FitResult) -> Result:
        return {
            "split": split,
            "seed": seed,
            "fingerprint": self.problem.splits[split].fingerprint,
            "val": fit.val_metric,
            "val_loss": fit.val_loss,
            "test": fit.test_metric,
            "best_epoch": fit.best_epoch,
            "epochs": fit.epochs,
            "diverged": fit.diverged,
        }

    def _predictions(self, fits: Sequence[FitResult]) -> Any:
        rows = [(*numbers, fit.model) for numbers, fit in zip(self._numbers(), fits, strict=True)]
        return prediction_table(self.problem, rows)


def _earlier(folder: Path) -> dict[int, tuple[Epoch, Epoch]]:
    """The last and the best epoch of every replica that an interrupted run has reported."""
    found: dict[int, tuple[Epoch, Epoch]] = {}
    names = ("epoch", "train_loss", "val_loss", "val_metric", "is_best")
    for record in read_run(folder).metrics():
        if record.get("event") == "epoch":
            numbers: list[Any] = [math.nan if record[name] is None else record[name] for name in names]
            epoch, split = Epoch(*numbers), record["split"]
            found[split] = epoch, epoch if epoch.is_best or split not in found else found[split][1]
    return found


def _weights(fits: Sequence[FitResult]) -> dict[str, Any]:
    states = {number: fit.model.state_dict() for number, fit in enumerate(fits)}
    return {f"{number}.{name}": tensor for number, state in states.items() for name, tensor in state.items()}


def _require_some(fit: FitResult) -> FitResult:
    """A training that diverged later on has a best epoch all the same; one that never had any is refused."""
    if not fit.best_epoch:
        return require_finite(fit)
    if fit.diverged:
        logger.warning(
            "a training diverged after epoch %d; its best epoch %d counts.", fit.epochs, fit.best_epoch
        )
    return fit
