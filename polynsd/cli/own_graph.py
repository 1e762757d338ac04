"""Training on a graph of your own: from tables to a run folder that `polynsd predict` reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data import Graph
from polynsd.data.tables import read_tables as read_first
from polynsd.data.tables.files import write_table
from polynsd.data.tables.options import ReadOptions
from polynsd.errors import ConfigError, DataError
from polynsd.report import ProgressReporter
from polynsd.runs.files import PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.data.tables import ReadResult as Assembled
    from polynsd.estimator.base import SheafEstimator
    from polynsd.training import Epoch


@dataclass(frozen=True)
class OwnGraph:
    """Train a model on your own tables; rows without a label are predicted."""

    edges: Path
    """A table with a row per edge (.csv, .tsv, .parquet), or a .graphml file, which holds the nodes too."""
    label: str
    """The column of the node table to predict; a row without a label is one to predict."""
    out: Path
    """The run folder."""
    nodes: Path | None = None
    """A table with a row per node."""
    task: str = "auto"
    """classification, regression, or auto: fractions are regression, everything else is classes."""
    id_column: str | None = None
    """The column of ids in the node table; the first unless given."""
    source: str | None = None
    """The column where an edge begins; the first unless given."""
    target: str | None = None
    """The column where an edge ends; the second unless given."""
    weight: str | None = None
    """The column of edge weights."""
    edge_features: tuple[str, ...] = ()
    """The columns of edge features."""
    features: tuple[str, ...] | None = None
    """The columns of node features; all that are left unless given."""
    categorical: tuple[str, ...] | None = None
    """Columns to encode one-hot although they hold numbers, or text that hardly repeats."""
    missing: str = "error"
    """Gaps in features: error, or mean to fill and mark them."""
    metric: str = "auto"
    """accuracy or roc_auc for classes; auto takes roc_auc where one of two classes is rare."""
    budget: float | None = None
    """Seconds for the search; a short one by epochs unless given."""
    calibrate: bool = False
    """Rescale the probabilities on the validation rows."""
    validation_fraction: float = 0.2
    """The share of labelled rows that is held out to choose on."""
    standardize: bool = True
    """Standardise numeric features by the training rows."""
    seed: int = 0
    """Of the held-out rows, the weights and the dropout."""
    device: str = "auto"
    """Where to train: cpu, cuda or cuda:N; auto takes a GPU where there is one."""
    quiet: bool = False
    """No progress and no summary."""
    json: bool = False
    """No progress, and the summary as a JSON object."""

    def run(self) -> Path:
        """Reads, trains, writes the run folder and tells what came of it."""
        return train_own_graph(self)


def train_own_graph(asked: OwnGraph) -> Path:
    """Trains an estimator on tables; the same call on a finished run trains nothing and reports it."""
    from polynsd.estimator.storage import KIND, describe_parameters, learned_values, model_weights
    from polynsd.runs import Run

    given = read_first(asked.edges, asked.nodes, read_options(asked))
    _say(asked, f"{given.graph.name}: {given.report}")
    estimator = _estimator(asked, given)
    estimator.check(given.graph)  # before there is a folder, which would belong to these options
    config = {**describe_parameters(estimator), "tables": vars(read_options(asked))}
    inputs = {part: _sha256(path) for part, path in (("edges", asked.edges), ("nodes", asked.nodes)) if path}
    with Run.start(asked.out, KIND, config, inputs) as run:
        if run.result is None:
            _fit(estimator, given.graph, asked.quiet or asked.json, run.log)
            result = {**learned_values(estimator), "schema": given.schema.to_dict()}
            run.finish(result, model_weights(estimator), unlabelled_rows(estimator, given))
        else:
            _say(asked, f"{asked.out} was finished before; nothing is trained.")
        facts = _facts(asked, given, run.result or {})
    _say(asked, _summary(facts))
    if asked.json:
        print(json.dumps(facts))
    return asked.out


def read_options(asked: OwnGraph) -> ReadOptions:
    """What each column means."""
    return ReadOptions(**{field.name: getattr(asked, field.name) for field in fields(ReadOptions)})


def unlabelled_rows(estimator: SheafEstimator, given: Assembled) -> pd.DataFrame | None:
    """Predictions for the rows without a label; None if all have one."""
    wanted = unlabelled(given.graph)
    if not wanted.any():
        return None
    table = prediction_table(estimator, given.graph, given.schema.class_names)
    return table[wanted].reset_index(drop=True)


def unlabelled(graph: Graph) -> NDArray[np.bool_]:
    """The rows without a label."""
    assert graph.y is not None  # a label column was read
    return np.isnan(graph.y) if graph.is_regression else graph.y == -1


def prediction_table(estimator: Any, graph: Graph, class_names: tuple[str, ...] | None) -> pd.DataFrame:
    """`id`, `prediction` and, for classes, a column of probabilities for each, in the owner's order."""
    from polynsd.data.tables import predictions_table

    bare = replace(graph, y=None, class_names=class_names)
    if class_names is None:
        return predictions_table(bare, estimator.predict(graph))
    place = {name: number for number, name in enumerate(estimator.classes_.tolist())}
    return predictions_table(bare, estimator.predict_proba(graph)[:, [place[name] for name in class_names]])


def write_predictions(table: pd.DataFrame, path: Path) -> Path:
    """Writes a table by its extension: beside the target first, then moved there."""
    unfinished = path.with_name(f"partial-{path.name}")
    write_table(table, unfinished)
    return unfinished.replace(path)


def _estimator(asked: OwnGraph, given: Assembled) -> SheafEstimator:
    from polynsd.estimator import SheafClassifier, SheafRegressor

    common: dict[str, Any] = {
        "budget": "short" if asked.budget is None else asked.budget,
        "validation_fraction": asked.validation_fraction,
        "standardize": asked.standardize,
        "random_state": asked.seed,
        "device": asked.device,
    }
    if given.schema.task == "classification":
        calibrate = "temperature" if asked.calibrate else None
        return SheafClassifier(metric=asked.metric, calibrate=calibrate, **common)
    if asked.calibrate or asked.metric not in ("auto", "r2"):
        raise ConfigError(
            "the label is a number, so there are no classes: leave out --calibrate and --metric."
        )
    return SheafRegressor(**common)


def _fit(estimator: SheafEstimator, graph: Graph, quiet: bool, log: Callable[[dict[str, Any]], None]) -> None:
    from polynsd.search.halving import most_epochs

    with ProgressReporter(most_epochs(estimator.candidates(graph)), quiet=quiet) as progress:

        def on_epoch(name: str, epoch: Epoch) -> None:
            log({"candidate": name, **vars(epoch)})
            progress.advance(1, name)

        estimator.fit(graph, on_epoch=on_epoch)


def _facts(asked: OwnGraph, given: Assembled, result: dict[str, Any]) -> dict[str, Any]:
    """What came of it, as plain data."""
    values, predictions = result["values"], asked.out / PREDICTIONS
    return {
        "run": str(asked.out),
        "reading": str(given.report),
        "trained": values["n_train_"],
        "held_out": values["n_val_"],
        "metric": values["metric_"],
        "val_score": values["val_score_"],
        "model": values["search_results_"][0],
        "candidates": len(values["search_results_"]),
        "predictions": str(predictions) if predictions.exists() else None,
    }


def _summary(facts: dict[str, Any]) -> str:
    chosen = facts["model"]
    score = "undefined" if facts["val_score"] is None else f"{facts['val_score']:.4f}"
    lines = [
        f"{facts['trained']} rows trained, {facts['held_out']} rows were held out to choose on: "
        f"{facts['metric']} {score} there (chosen on them, so a little too good)",
        f"model: {chosen['maps']} maps, d={chosen['stalk_dim']}, K={chosen['degree']}, "
        f"dropout {chosen['dropout']}, best of {facts['candidates']} candidates",
        f"run: {facts['run']}",
    ]
    if facts["predictions"]:
        lines.append(f"rows without a label are predicted in {facts['predictions']}")
    return "\n".join(lines)


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error


def _say(asked: OwnGraph, text: str) -> None:
    if not asked.quiet and not asked.json:
        print(text)
