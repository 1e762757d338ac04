"""What moved predictions, for a sample of nodes.

Of a model these are first-order effects on the margin of the predicted class (`estimator/gradients.py`); one
forward pass serves all nodes, each takes one backward pass. Of an ensemble they are those of its `explain`.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.data.graph import Graph
from polynsd.diagnostics import OpenedRun
from polynsd.errors import PolyNSDError
from polynsd.estimator.explain import largest
from polynsd.estimator.gradients import ForwardPass, network_model
from polynsd.nn import PolyNSD
from polynsd.report.html.blocks import round_numbers, shorten
from polynsd.report.html.predicted import Predicted
from polynsd.topology import as_topology

if TYPE_CHECKING:
    from polynsd.estimator.base import SheafEstimator

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]

WORK = 500_000  # nodes and edge ends of all explanations
FEWEST, MOST = 2, 120  # nodes that are explained
SHOWN = 6  # features, and other nodes, of an explanation
SECONDS, MOST_OF_ENSEMBLE = 1.5, 24  # for explanations of an ensemble
LETTERS = 60  # of the name of a feature


def explain_nodes(
    run: OpenedRun, predicted: Predicted, shown: Integers, position: Integers, names: tuple[str, ...]
) -> dict[str, Any]:
    """Explanations of some predictions by position in the report; none of a model without sheaf layers.

    Args:
        run: whose main model, or ensemble, is explained.
        predicted: what it predicts.
        shown: `[n]` the nodes to choose from.
        position: `[N]` where nodes stand in the report, −1 where they do not.
        names: of the features.
    """
    if run.estimator is not None:
        nodes = _choose_nodes(predicted, shown, MOST_OF_ENSEMBLE)
        return _explain_ensemble(run.estimator, run.graph, nodes, position)
    data, model = run.data, run.models[0] if run.models else None
    if data is None or not isinstance(model, PolyNSD) or not isinstance(model.encoder, nn.Linear):
        return {}
    count = WORK // max(1, data.num_nodes + data.num_edges)
    nodes = _choose_nodes(predicted, shown, min(MOST, max(FEWEST, count)))
    return _explain_model(model, data, nodes, position, names)


def _choose_nodes(predicted: Predicted, shown: Integers, count: int) -> list[int]:
    """So many nodes: half of them errors that were made with confidence, the rest by chance."""
    rng, count = np.random.default_rng(0), min(count, len(shown))
    wrong = np.zeros(0, np.int64)
    if predicted.classes is not None:
        is_wrong = (predicted.prediction != predicted.truth) & (predicted.truth >= 0) & (predicted.part != 0)
        wrong = shown[is_wrong[shown]]
        wrong = wrong[np.argsort(-predicted.confidence[wrong], kind="stable")][: count // 2]
    rest = rng.permutation(np.setdiff1d(shown, wrong))[: count - len(wrong)]
    return np.concatenate([wrong, rest]).tolist()


def _explain_model(
    model: PolyNSD, data: Any, nodes: list[int], position: Integers, names: tuple[str, ...]
) -> dict[str, Any]:
    x = data.x.cpu().double().numpy()
    if x.shape[1] != len(names):  # a treatment made others of them
        names = tuple(f"input {i}" for i in range(x.shape[1]))
    still, topology = copy.deepcopy(model).cpu().double().eval(), as_topology(data.edge_index, data.num_nodes)
    forward = ForwardPass(network_model(still, topology, x, data), topology)
    found = {}
    for node in nodes:
        effects = forward.find_effects(node, _margin_slope(forward.outputs[node]), len(names))
        others = np.where(np.arange(len(x)) == node, 0.0, effects.nodes)
        around = largest(np.where(position >= 0, others, 0.0), SHOWN)
        columns = largest(effects.own, SHOWN)
        found[str(position[node])] = _entry(
            float(effects.nodes[node]),
            float(others.sum()),
            (position[around], others[around]),
            ([names[column] for column in columns], x[node, columns], effects.own[columns]),
        )
    return found


def _margin_slope(outputs: Tensor) -> Tensor:
    """The derivative of the margin, the largest output minus the next one; of a number itself, 1."""
    slope = torch.zeros_like(outputs)
    top = outputs.topk(min(2, len(outputs))).indices
    slope[top[:1]] = 1.0
    slope[top[1:]] = -1.0
    return slope


def _explain_ensemble(
    estimator: SheafEstimator, graph: Graph | None, nodes: list[int], position: Integers
) -> dict[str, Any]:
    """By its own `explain`, for as many nodes as a short time allows."""
    assert graph is not None
    position_of = {str(name): place for name, place in zip(graph.ids, position, strict=True)}
    found: dict[str, Any] = {}
    end = time.monotonic() + SECONDS
    for node in nodes:
        try:
            reason = estimator.explain(graph.ids[node], graph, top=SHOWN, exact=0)
        except PolyNSDError:
            return found
        around, features = reason.neighbours, reason.features
        places = np.array([position_of[str(name)] for name in around["node"]], dtype=np.int64)
        effects = around["contribution"].to_numpy(dtype=np.float64)
        entry = _entry(
            reason.own,
            reason.others,
            (places[places >= 0], effects[places >= 0]),
            (features["feature"].tolist(), features["value"].to_numpy(), features["own"].to_numpy()),
        )
        found[str(position[node])] = entry | {"left_out": round(reason.left_out, 2)}
        if time.monotonic() > end:
            break
    return found


def _entry(
    own: float, others: float, nodes: tuple[Any, Numbers], features: tuple[list[str], Numbers, Numbers]
) -> dict[str, Any]:
    """An explanation as plain data."""
    names = [shorten(name, LETTERS) for name in features[0]]
    columns = (names, round_numbers(features[1], 4), round_numbers(features[2], 3))
    pairs = (nodes[0].tolist(), round_numbers(nodes[1], 3))
    return {
        "own": round_numbers([own], 3)[0],
        "others": round_numbers([others], 3)[0],
        "nodes": [list(pair) for pair in zip(*pairs, strict=True)],
        "features": [list(row) for row in zip(*columns, strict=True)],
    }
