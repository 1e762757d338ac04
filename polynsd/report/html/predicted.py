"""`Predicted`: what the models of a run predict for all nodes, and for those that they were tested on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data.graph import Graph
from polynsd.diagnostics import OpenedRun
from polynsd.errors import DataError, PolyNSDError
from polynsd.training.replica import call_model

if TYPE_CHECKING:
    from polynsd.estimator.classifier import SheafClassifier

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

WORK = 60_000  # nodes of all models that are called
PARTS = ("train", "val", "test", "unused")
UNSEEN = "none of which the model had learned from"
OF_CLIENTS = "all labelled nodes; clients, who keep their graphs, may have learned from any of them"
GLOBAL = ". They are of the global model, for which every edge counts in full"
FIT_PARTS = ("learned from", "scored", "to predict")


@dataclass(frozen=True, eq=False)
class Tested:
    """Predictions for nodes that the model had not learned from, several for a node with several splits.

    Of a federated model whose clients kept their graphs, for all labelled nodes: nobody knows what they
    learned from.

    Attributes:
        node: `[n]` numbers of nodes.
        truth: `[n]` classes, or targets.
        prediction: `[n]` what was predicted.
        confidence: `[n]` the probability of the prediction; NaN of numbers.
        note: whose predictions they are, and whether the model had learned from them.
    """

    node: Integers
    truth: NDArray[Any]
    prediction: NDArray[Any]
    confidence: Numbers
    note: str


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of all nodes.

    Attributes:
        classes: their names; None of numbers.
        truth: `[N]` numbers of classes (−1 unknown), or targets (NaN unknown).
        prediction: `[N]` the prediction: a class, or a number.
        confidence: `[N]` its probability; NaN of numbers.
        part: `[N]` what the node was to the model, a number of `parts`.
        parts: their names.
        tested: what the score is about.
    """

    classes: tuple[str, ...] | None
    truth: NDArray[Any]
    prediction: NDArray[Any]
    confidence: Numbers
    part: Integers
    parts: tuple[str, ...]
    tested: Tested


def try_predict(run: OpenedRun) -> tuple[Predicted | None, str]:
    """What the models of a run predict, or why nothing is predicted."""
    if run.graph is None or (run.estimator is None and not run.models):
        return None, "there are no models and no graph to call them with."
    try:
        return (_of_fit(run) if run.is_fit else _of_protocol(run)), ""
    except PolyNSDError as error:
        return None, str(error)


@torch.no_grad()
def _of_protocol(run: OpenedRun) -> Predicted:
    data, graph = run.data, run.graph
    assert graph is not None
    is_regression = data.y.is_floating_point()
    truth = data.y.cpu().numpy().reshape(data.num_nodes, -1)[:, 0]
    count = max(1, min(len(run.models), WORK // max(1, data.num_nodes)))
    whole, rows = [], []
    for number in range(count):
        prediction, confidence = _read_output(call_model(run.models[number], data), is_regression)
        whole.append((prediction, confidence))
        nodes = np.flatnonzero(run.splits[number].test if run.splits else graph.is_labelled)
        rows.append((nodes, truth[nodes], prediction[nodes], confidence[nodes]))
    node, known, guess, sure = (np.concatenate(column) for column in zip(*rows, strict=True))
    note = f"test nodes of {count} of {len(run.models)} models" if count > 1 else "test nodes of one model"
    if count == len(run.models) > 1:
        note = f"test nodes of all {count} models, each on its own split"
    note = f"{note}, {UNSEEN}" if run.splits else OF_CLIENTS
    note += GLOBAL if run.is_federated else ""
    names = graph.class_names or range(int(truth.max()) + 1)
    classes = None if is_regression else tuple(map(str, names))
    part = np.full(data.num_nodes, len(PARTS) - 1)
    for index, name in enumerate(PARTS[:-1] if run.splits else ()):
        part[np.asarray(getattr(run.splits[0], name))] = index
    return Predicted(classes, truth, *whole[0], part, PARTS, Tested(node, known, guess, sure, note))


def _read_output(output: torch.Tensor, is_regression: bool) -> tuple[NDArray[Any], Numbers]:
    """(prediction, confidence) of every node."""
    if not bool(torch.isfinite(output).all()):
        raise DataError(
            "the outputs of a model hold NaN or infinity; its training has diverged, or its features are "
            "too large."
        )
    if is_regression:
        return output[:, 0].double().cpu().numpy(), np.full(len(output), np.nan)
    top = output.double().softmax(-1).max(-1)
    return top.indices.cpu().numpy(), top.values.cpu().numpy()


def _of_fit(run: OpenedRun) -> Predicted:
    from polynsd.estimator.classifier import SheafClassifier

    estimator, graph = run.estimator, run.graph
    assert estimator is not None
    assert graph is not None
    estimate = estimator.estimate_
    nodes = np.zeros(0, np.int64) if estimate.scored is None else estimate.scored
    part = np.where(graph.is_labelled, 0, 2)
    part[nodes] = 1
    if isinstance(estimator, SheafClassifier):
        classes, truth, prediction, confidence = _classes_of_fit(estimator, graph, nodes)
    else:
        classes, confidence = None, np.full(graph.num_nodes, np.nan)
        truth, prediction = (
            np.array(values, dtype=np.float64).reshape(graph.num_nodes, -1)[:, 0]
            for values in (graph.y, estimator.predict(graph))
        )
        if estimate.predictions is not None:  # predicted before the target was seen
            prediction[nodes] = estimate.predictions
    kind = "kept apart" if estimate.source == "test" else "held out from training"
    note = f"the {estimate.nodes:,} rows {kind}, {UNSEEN}"
    tested = Tested(nodes, truth[nodes], prediction[nodes], confidence[nodes], note)
    return Predicted(classes, truth, prediction, confidence, part, FIT_PARTS, tested)


def _classes_of_fit(
    estimator: SheafClassifier, graph: Graph, nodes: Integers
) -> tuple[tuple[str, ...] | None, NDArray[Any], NDArray[Any], Numbers]:
    """Names of the classes; of all nodes the true class, the prediction and its probability."""
    estimate, names = estimator.estimate_, tuple(map(str, estimator.classes_.tolist()))
    place = {name: number for number, name in enumerate(names)}
    known = np.array([*(place.get(str(name), -1) for name in graph.class_names or ()), -1])
    truth = known[np.maximum(np.asarray(graph.y), -1)]
    p = estimator.predict_proba(graph)
    prediction = estimator.decision_.predict(p)
    if estimate.predictions is not None and estimate.classes is not None:  # before the label was seen
        p[nodes], prediction[nodes] = estimate.predictions, estimate.classes
    return names, truth, prediction, np.take_along_axis(p, prediction[:, None], 1)[:, 0]
