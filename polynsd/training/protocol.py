"""`fit_splits`: one configuration trained on all splits of a problem.

    problem = Source("texas").problem()
    result = fit_splits(problem, Configuration(ModelConfig(), TrainConfig(epochs=200)))
    print(result)  # mean ± std of the test metric over the splits

All models train together as replicas. With S splits, split i of round s has seed `problem.seed` + i + s·S,
and no model depends on the others. With `out` the training is a run folder: an interrupted one resumes from
its last snapshot, and a finished one is read instead of trained.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from polynsd.config import ModelConfig, to_dict
from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError, require_at_least
from polynsd.nn import SheafModel, count_parameters
from polynsd.runs import Run, read_run
from polynsd.runs.files import SNAPSHOT_SECONDS, to_json
from polynsd.training.callback import Callback, CallbackList, EventLog, ProtocolPlan
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Problem
from polynsd.training.replica import Epoch, FitResult, Replica, Snapshots, call_model, check_replicas
from polynsd.training.replicas import fit_replicas, require_finite
from polynsd.training.result import ProtocolResult, SplitResult
from polynsd.zoo import model_label

logger = logging.getLogger("polynsd")

SECONDS = "clock.seconds"  # the entry of a snapshot that holds the time so far


def fit_splits(
    problem: Problem,
    configuration: Configuration,
    *,
    seeds: int = 1,
    rules: str = "default",
    ddof: int = 0,
    out: str | Path | None = None,
    keep: bool = True,
    callback: Callback | None = None,
    snapshot_seconds: float = SNAPSHOT_SECONDS,
    build: Callable[[], nn.Module] | None = None,
) -> ProtocolResult:
    """Trains `seeds` models on every split; selects epochs on validation and scores the test set once.

    Args:
        problem: graph, splits, task and the first seed.
        configuration: model and training rules.
        seeds: models per split.
        rules: the name of the training rules, for the record.
        ddof: of the standard deviation: 0 for the population's, 1 for the sample's.
        out: a run folder; None keeps nothing on the disk.
        keep: whether the run folder keeps weights, predictions and all epochs, or the result alone.
        callback: gets all events.
        snapshot_seconds: at least so long between two snapshots in the run folder; 0: one per epoch.
        build: makes the model in place of `configuration.model`; such a training has no run folder, because
            its identity would not be known.

    Raises:
        DataError: a model has no finite loss in any epoch.
        ConfigError: the folder holds another run, or the models cannot be trained together.
    """
    require_at_least("seeds", seeds, 1)
    if not problem.splits:
        raise ConfigError("at least one split is needed; got none.")
    if build is not None and out is not None:
        raise ConfigError(
            "a run folder needs a model that a configuration describes; got both build and out. Leave one "
            "of them out."
        )
    replicas = _replicas(problem, configuration, seeds, build)
    check_replicas(replicas, problem.data, problem.task, None)  # before there is a folder
    callback = Callback() if callback is None else callback
    with ExitStack() as stack:
        run = None
        if out is not None:
            identity = protocol_identity(problem, configuration, rules=rules, seeds=seeds, ddof=ddof)
            run = stack.enter_context(
                Run.start(out, "protocol", *identity, snapshot_seconds=snapshot_seconds)
            )
            if run.result is not None:
                return _read_finished(run, callback)
        log = [EventLog(partial(_keep_event, run), every=1)] if run is not None and keep else []
        callbacks = stack.enter_context(CallbackList(callback, *log))
        callbacks.begin(_plan(problem, configuration, seeds, rules))
        fits, seconds = _train(problem, replicas, callbacks, run)
        model, network = configuration.model, fits[0].model
        result = ProtocolResult(
            metric=problem.task.metric,
            rows=tuple(_rows(problem, fits)),
            ddof=ddof,
            about=problem.about,
            model=model_label(model) if build is None else type(network).__name__,
            config=describe_model(model, network) if build is None else {},
            parameters=count_parameters(network),
            rules=rules,
            select=configuration.training.select,
            models=tuple(fit.model for fit in fits),
            seconds=seconds,
        )
        if run is not None:
            weights = {
                f"{number}.{name}": tensor
                for number, model in enumerate(result.models if keep else ())
                for name, tensor in model.state_dict().items()
            }
            predictions = _predictions(problem, result) if keep else None
            run.finish(result.to_dict(), weights, predictions, {"seconds": seconds})
        callback.finish(result.to_dict())  # what is reported is on the disk
    return result


def _keep_event(run: Run, record: Mapping[str, Any]) -> None:
    """Logs what every repetition has as metrics; sessions, which an interruption adds, are noted apart."""
    (run.log if record["event"] in ("epoch", "done") else run.note)(record)


def _read_finished(run: Run, callback: Callback) -> ProtocolResult:
    assert run.result is not None
    with callback:
        callback.finish(run.result)
    seconds = read_run(run.folder).timings.get("seconds")
    return replace(ProtocolResult.from_dict(run.result), seconds=seconds)


def _train(
    problem: Problem, replicas: Sequence[Replica], callback: Callback, run: Run | None
) -> tuple[list[FitResult], float]:
    """The fitted models, and the seconds that they took."""
    snapshots = TimedSnapshots(None if run is None else run.snapshots)
    for number, (last, best) in ({} if run is None else _earlier_epochs(run.folder)).items():
        callback.resume(number, last, best)
    fits = fit_replicas(replicas, problem.data, problem.task, on_epoch=callback.epoch, snapshots=snapshots)
    for number, fit in enumerate(fits):
        callback.done(number, _require_best_epoch(fit))
    return fits, round(snapshots.seconds, 3)


def protocol_identity(
    problem: Problem, configuration: Configuration, *, rules: str = "default", seeds: int = 1, ddof: int = 0
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that a result depends on: what is done, and on which data."""
    config = {"model": to_dict(configuration.model), "training": to_dict(configuration.training)}
    return {**config, "rules": rules, "seeds": seeds, "ddof": ddof}, problem.identity()


def describe_model(config: ModelConfig, model: nn.Module) -> dict[str, Any]:
    """The configuration as it was built, as plain data: with presets, without options of other models."""
    options = to_dict(config)
    if isinstance(model, SheafModel):
        return to_json({**options, "layer": to_dict(model.config)}, "configuration")
    sizes = {name: options[name] for name in ("model", "hidden_channels", "num_layers")}
    return {**sizes, "dropout": config.layer.dropout}


class TimedSnapshots:
    """Snapshots that also keep the time spent so far, so that a resumed training counts all its sessions.

    What an interrupted session did after its last snapshot is done again, and counted once.

    Args:
        inner: where snapshots are kept; None keeps none.
    """

    def __init__(self, inner: Snapshots | None) -> None:
        self._inner, self._earlier = inner, 0.0
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds of this session and of the earlier ones that it resumes."""
        return self._earlier + time.perf_counter() - self._start

    def load(self) -> Mapping[str, Tensor] | None:
        """The last snapshot, without the time."""
        state = None if self._inner is None else self._inner.load()
        if state is None:
            return None
        self._earlier = float(state.get(SECONDS, torch.tensor(0.0)))
        return {name: tensor for name, tensor in state.items() if name != SECONDS}

    def offer(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keeps `state()` and the time, if a snapshot is due."""
        if self._inner is not None:
            self._inner.offer(lambda: {**state(), SECONDS: torch.tensor(self.seconds, dtype=torch.float64)})


def _replicas(
    problem: Problem, configuration: Configuration, seeds: int, build: Callable[[], nn.Module] | None
) -> list[Replica]:
    count = len(problem.splits)
    return [
        replica if build is None else replace(replica, build=build)
        for turn in range(seeds)
        for replica in problem.replicas(configuration, range(count), problem.seed + turn * count)
    ]


def _plan(problem: Problem, configuration: Configuration, seeds: int, rules: str) -> ProtocolPlan:
    training, data, about, count = configuration.training, problem.data, problem.about, len(problem.splits)
    names = [
        f"{split}" if seeds == 1 else f"{split}/{problem.seed + split + turn * count}"
        for turn in range(seeds)
        for split in range(count)
    ]
    title = f"{about.get('dataset', 'graph')}: {data.num_nodes:,} nodes, {data.num_edges // 2:,} edges"
    for name, words in (("protocol", "splits by"), ("features", "features")):
        title += f"; {words} {about[name]}" if name in about else ""
    title += f"; rules {rules}"
    return ProtocolPlan(
        tuple(names), training.epochs, problem.task.metric, training.select, training.patience, title
    )


def _rows(problem: Problem, fits: Sequence[FitResult]) -> list[SplitResult]:
    prints = [split.fingerprint for split in problem.splits]
    return [
        SplitResult(
            split=number % len(prints),
            seed=fit.seed,
            fingerprint=prints[number % len(prints)],
            val=fit.val_metric,
            val_loss=fit.val_loss,
            test=fit.test_metric,
            best_epoch=fit.best_epoch,
            epochs=fit.epochs,
            diverged=fit.diverged,
            train=fit.train_metric,
            train_loss=fit.train_loss,
        )
        for number, fit in enumerate(fits)
    ]


def _require_best_epoch(fit: FitResult) -> FitResult:
    """A training that diverges later on still has a best epoch; one that never had any is refused."""
    if not fit.best_epoch:
        return require_finite(fit)
    if fit.diverged:
        logger.warning(
            "a training diverged after epoch %d; its best epoch %d counts.", fit.epochs, fit.best_epoch
        )
    return fit


def _earlier_epochs(folder: Path) -> dict[int, tuple[Epoch, Epoch]]:
    """The last and the best epoch of every replica that an interrupted run has logged."""
    earlier: dict[int, tuple[Epoch, Epoch]] = {}
    names = ("epoch", "train_loss", "val_loss", "val_metric", "is_best")
    for record in read_run(folder).metrics():
        if record.get("event") == "epoch":
            numbers: list[Any] = [math.nan if record[name] is None else record[name] for name in names]
            epoch, split = Epoch(*numbers), record["split"]
            earlier[split] = epoch, epoch if epoch.is_best or split not in earlier else earlier[split][1]
    return earlier


@torch.no_grad()
def _predictions(problem: Problem, result: ProtocolResult) -> Any:
    """A row per model and node: split, seed, node, part, prediction; None without pandas and pyarrow."""
    if find_spec("pandas") is None or find_spec("pyarrow") is None:
        return None
    import pandas as pd

    tables = []
    for row, model in zip(result.rows, result.models, strict=True):
        output = call_model(model.eval(), problem.data)
        prediction = output.squeeze(-1) if problem.task.is_regression else output.argmax(-1)
        parts = ["unused"] * output.size(0)
        for part in PARTS:
            for node in getattr(problem.splits[row.split], part).nonzero().squeeze(-1).tolist():
                parts[node] = part
        columns = {"node": range(len(parts)), "part": parts, "prediction": prediction.tolist()}
        tables.append(pd.DataFrame({"split": row.split, "seed": row.seed, **columns}))
    return pd.concat(tables, ignore_index=True)
