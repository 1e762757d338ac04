"""`polynsd train --edges`: from a user's tables to a run folder that `polynsd predict` reads.

Reading is `polynsd.data.tables.read`, training is the estimator of `polynsd.estimator`, the folder is that of
`polynsd.runs`. A finished folder is reported and left as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from polynsd.data import Graph
from polynsd.data.tables import ReadOptions, predictions_table, read_tables
from polynsd.errors import ConfigError, DataError, PolyNSDError
from polynsd.report import ProgressReporter
from polynsd.runs.files import PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.data.tables import ReadResult
    from polynsd.estimator.base import SheafEstimator
    from polynsd.training import Epoch

READ_OPTIONS = [field.name for field in fields(ReadOptions)]
PLACEHOLDERS = {"nodes": "FILE", "features": "OTHER_COLUMNS …"}
PYTHON_ARGUMENT = re.compile(rf"\b({'|'.join(READ_OPTIONS)}|nodes|unseen)=(?:'(\w+)'|\[\.\.\.\]|…)")


@dataclass(frozen=True)
class Fit:
    """Train a model on your own tables; rows without a label are predicted."""

    edges: Annotated[Path, Positional, arg(metavar="EDGES")]
    """A table with a row per edge (.csv, .tsv, .parquet), or a .graphml file, which holds the nodes too."""
    label: Annotated[str, arg(metavar="COLUMN")]
    """The column of the node table to predict; a row without a label is one to predict."""
    out: Annotated[Path, arg(metavar="RUN")]
    """The run folder."""
    nodes: Annotated[Path | None, Positional, arg(metavar="NODES")] = None
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
    """Seed of the held-out rows, the weights and the dropout."""
    device: str = "auto"
    """Where to train: cpu, cuda or cuda:N; auto takes a GPU where there is one."""
    quiet: bool = False
    """No progress and no summary."""
    json: bool = False
    """No progress, and the summary as a JSON object."""

    @classmethod
    def rewrite(cls, arguments: Sequence[str]) -> list[str]:
        """`--edges E --nodes N …`, the older form, as `E N …`."""
        tables, rest, words = {}, [], iter(arguments)
        for word in words:
            name, is_joined, value = word.partition("=")
            if name in ("--edges", "--nodes"):
                tables[name] = value if is_joined else next(words, name)
            else:
                rest.append(word)
        return [*(tables[name] for name in ("--edges", "--nodes") if name in tables), *rest]

    def run(self) -> Path:
        """Reads, trains, writes the run folder and prints a summary; returns the folder."""
        from polynsd.estimator.storage import KIND, describe_parameters, learned_values, model_weights
        from polynsd.runs import Run

        options = ReadOptions(**{name: getattr(self, name) for name in READ_OPTIONS})
        with explain_options():
            tables = read_tables(self.edges, self.nodes, options)
        self._print(f"{tables.graph.name}: {tables.report}")
        estimator = self._make_estimator(tables.schema.task)
        estimator.check(tables.graph)  # before there is a folder, which would belong to these options
        config = {**describe_parameters(estimator), "tables": vars(options)}
        inputs = {"edges": _hash_file(self.edges)}
        if self.nodes is not None:
            inputs["nodes"] = _hash_file(self.nodes)
        with Run.start(self.out, KIND, config, inputs) as run:
            if run.result is None:
                self._fit(estimator, tables.graph, run.log)
                result = {**learned_values(estimator), "schema": tables.schema.to_dict()}
                run.finish(result, model_weights(estimator), _predict_unlabelled(estimator, tables))
            else:
                self._print(f"{self.out} was finished before; nothing is trained.")
            summary = self._summarize(tables, run.result or {})
        self._print(_format_summary(summary))
        if self.json:
            print(json.dumps(summary))
        return self.out

    def _make_estimator(self, task: str | None) -> SheafEstimator:
        from polynsd.estimator import SheafClassifier, SheafRegressor

        common: dict[str, Any] = {
            "budget": "short" if self.budget is None else self.budget,
            "validation_fraction": self.validation_fraction,
            "standardize": self.standardize,
            "random_state": self.seed,
            "device": self.device,
        }
        if task == "classification":
            calibrate = "temperature" if self.calibrate else None
            return SheafClassifier(metric=self.metric, calibrate=calibrate, **common)
        if self.calibrate or self.metric not in ("auto", "r2"):
            raise ConfigError(
                "the label is a number, so there are no classes: leave out --calibrate and --metric."
            )
        return SheafRegressor(**common)

    def _fit(self, estimator: SheafEstimator, graph: Graph, log: Callable[[dict[str, Any]], None]) -> None:
        with ProgressReporter(None, quiet=self.quiet or self.json) as progress:

            def on_epoch(name: str, epoch: Epoch) -> None:
                log({"candidate": name, **vars(epoch)})
                progress.advance(1, name)

            estimator.fit(graph, on_epoch=on_epoch)

    def _summarize(self, tables: ReadResult, result: dict[str, Any]) -> dict[str, Any]:
        values, predictions = result["values"], self.out / PREDICTIONS
        return {
            "run": str(self.out),
            "reading": str(tables.report),
            "trained": values["n_train_"],
            "held_out": values["n_val_"],
            "metric": values["metric_"],
            "val_score": values["val_score_"],
            "model": values["candidates_"][0],
            "candidates": len(values["candidates_"]),
            "predictions": str(predictions) if predictions.exists() else None,
        }

    def _print(self, text: str) -> None:
        if not self.quiet and not self.json:
            print(text)


@contextmanager
def explain_options() -> Iterator[None]:
    """Lets errors name options of the command line: `--missing mean` instead of `missing='mean'`."""
    try:
        yield
    except PolyNSDError as error:

        def name_option(match: re.Match[str]) -> str:
            value = match[2] or PLACEHOLDERS.get(match[1], "COLUMN …")
            return f"--{match[1].replace('_', '-')} {value}"

        raise type(error)(PYTHON_ARGUMENT.sub(name_option, str(error))) from error


def make_predictions(
    estimator: SheafEstimator, graph: Graph, class_names: tuple[str, ...] | None
) -> pd.DataFrame:
    """`id`, `prediction` and, for classes, a column of probabilities for each, in the order of the names."""
    unlabelled_graph = replace(graph, y=None, class_names=class_names)
    if class_names is None:
        return predictions_table(unlabelled_graph, estimator.predict(graph))
    position = {name: i for i, name in enumerate(estimator.classes_.tolist())}
    order = [position[name] for name in class_names]
    return predictions_table(unlabelled_graph, estimator.predict_proba(graph)[:, order])


def _predict_unlabelled(estimator: SheafEstimator, tables: ReadResult) -> pd.DataFrame | None:
    """Predictions for the rows without a label; None if all have one."""
    is_unlabelled = ~tables.graph.is_labelled
    if not is_unlabelled.any():
        return None
    predictions = make_predictions(estimator, tables.graph, tables.schema.class_names)
    return predictions[is_unlabelled].reset_index(drop=True)


def _format_summary(summary: dict[str, Any]) -> str:
    model = summary["model"]
    score = "undefined" if summary["val_score"] is None else f"{summary['val_score']:.4f}"
    lines = [
        f"{summary['trained']} rows trained, {summary['held_out']} rows were held out to choose on: "
        f"{summary['metric']} {score} there (chosen on them, so a little too good)",
        f"model: {model['name']} and others, best of {summary['candidates']} candidates",
        f"run: {summary['run']}",
    ]
    if summary["predictions"]:
        lines.append(f"rows without a label are predicted in {summary['predictions']}")
    return "\n".join(lines)


def _hash_file(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
