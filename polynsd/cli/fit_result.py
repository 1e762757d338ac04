"""What a fit gives: predictions, and a summary as plain data, printed by `polynsd.report.fit_summary`."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.runs.files import MODEL, PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.data import Graph
    from polynsd.data.tables import ReadResult
    from polynsd.estimator.base import SheafEstimator


def make_predictions(
    estimator: SheafEstimator, graph: Graph, class_names: tuple[str, ...] | None
) -> pd.DataFrame:
    """`id`, `prediction` and, for classes, a column of probabilities for each, in the order of the names."""
    from polynsd.data.tables import predictions_table

    unlabelled_graph = replace(graph, y=None, class_names=class_names)
    if class_names is None:
        return predictions_table(unlabelled_graph, estimator.predict(graph))
    names = estimator.classes_.tolist()
    probabilities = estimator.predict_proba(graph)
    table = predictions_table(unlabelled_graph, probabilities[:, [names.index(name) for name in class_names]])
    return table.assign(prediction=[names[k] for k in estimator.decision_.predict(probabilities)])


def predict_unlabelled(estimator: SheafEstimator, tables: ReadResult) -> pd.DataFrame | None:
    """Predictions for the rows without a label; None if all have one."""
    is_unlabelled = ~tables.graph.is_labelled
    if not is_unlabelled.any():
        return None
    predictions = make_predictions(estimator, tables.graph, tables.schema.class_names)
    return predictions[is_unlabelled].reset_index(drop=True)


def summarize_fit(estimator: SheafEstimator, tables: ReadResult, label: str) -> dict[str, Any]:
    """What a fitted estimator came to on its own tables."""
    graph, estimate = tables.graph, estimator.estimate_
    num_labelled = int(graph.is_labelled.sum())
    num_unlabelled = graph.num_nodes - num_labelled
    files = {MODEL: "the model"}
    if num_unlabelled:
        files = {PREDICTIONS: f"the {num_unlabelled:,} rows without a label", **files}
    chosen = [row for row in estimator.candidates_ if row["weight"]]
    return {
        "dataset": graph.name,
        "label": label,
        "task": tables.schema.task,
        "metric": estimator.metric_,
        "positive": positive_name(estimator),
        "rows": {
            "nodes": graph.num_nodes,
            "labelled": num_labelled,
            "fitted": int((estimator.train_mask_ | estimator.val_mask_).sum()),
            "scored": estimate.nodes,
            "predicted": num_unlabelled,
        },
        "estimate": estimate.to_dict(),
        "errors": _measure_errors(estimator, graph),
        **_summarize_classes(estimator, graph),
        "ensemble": [{key: row[key] for key in ("name", "family", "weight", "val_score")} for row in chosen],
        "tried": len(estimator.candidates_),
        "files": files,
    }


def positive_name(estimator: SheafEstimator) -> str | None:
    """The name of the positive class; None where there are not two."""
    positive = getattr(estimator, "positive_", None)
    return None if positive is None else str(positive)


def describe_split(estimator: SheafEstimator, graph: Graph) -> dict[str, Any]:
    """The scores as `polynsd runs` tabulates them; equal fingerprints mean that equal rows were scored."""
    estimate = estimator.estimate_
    ids, labels = np.asarray(graph.ids)[estimate.scored], np.asarray(graph.y)[estimate.scored]
    text = "\n".join(f"{name}\t{label}" for name, label in sorted(zip(map(str, ids), labels, strict=True)))
    return {
        "split": 0,
        "seed": estimator.seed_,
        "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        "val": estimator.val_score_,
        "test": estimate.score,
    }


def _measure_errors(estimator: SheafEstimator, graph: Graph) -> dict[str, float] | None:
    """The root mean square and the mean of the absolute errors on the rows that were scored; of numbers."""
    predictions, scored = estimator.estimate_.predictions, estimator.estimate_.scored
    if not estimator.is_regression or predictions is None:
        return None
    errors = np.asarray(graph.y, dtype=np.float64)[scored] - predictions
    return {"rmse": float(np.sqrt((errors**2).mean())), "mae": float(np.abs(errors).mean())}


def _summarize_classes(estimator: SheafEstimator, graph: Graph) -> dict[str, Any]:
    """Precision, recall and confusion on the rows that were scored; nothing for numbers."""
    if graph.class_names is None or graph.y is None or estimator.estimate_.classes is None:
        return {"classes": None, "confusion": None, "decision": None}
    names = estimator.classes_.tolist()
    position = {name: number for number, name in enumerate(names)}
    truth = np.array([position[graph.class_names[number]] for number in graph.y[estimator.estimate_.scored]])
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(confusion, (truth, estimator.estimate_.classes), 1)
    right = np.diag(confusion)
    precision, recall = _share(right, confusion.sum(0)), _share(right, confusion.sum(1))
    classes = [
        {"name": str(name), "rows": int(rows), "precision": p, "recall": r}
        for name, rows, p, r in zip(names, confusion.sum(1), precision, recall, strict=True)
    ]
    decision = {"rule": estimator.decision_.rule, "threshold": estimator.decision_.threshold}
    return {"classes": classes, "confusion": confusion.tolist(), "decision": decision}


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> list[float | None]:
    """The quotients; None where there is nothing."""
    return [float(p / w) if w else None for p, w in zip(part.tolist(), whole.tolist(), strict=True)]
