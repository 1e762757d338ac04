"""What moved predictions, for a choice of nodes.

First-order effects on the margin of the predicted class, gradient × value, as in `estimator/gradients.py`:
with pre = X Wᵀ + b and g = ∂ margin_v / ∂ pre, node u contributes g_u · (pre_u − b), and column f of the node
itself x_vf (g_v W)_f. One forward pass serves all nodes, each takes one backward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.diagnostics.trace import as_data, evaluating, graph_input
from polynsd.errors import PolyNSDError
from polynsd.estimator.explanation import largest
from polynsd.nn import PolyNSD
from polynsd.nn.features import encode_features
from polynsd.report.html.blocks import round_numbers, shorten
from polynsd.report.html.predicted import Predicted

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]

WORK = 500_000  # nodes and edge ends of all explanations
FEWEST, MOST = 3, 120  # nodes that are explained
SHOWN = 6  # features, and other nodes, of an explanation


def explain_nodes(
    predicted: Predicted,
    data: Any,
    model: nn.Module | None,
    shown: Integers,
    position: Integers,
    names: tuple[str, ...],
) -> dict[str, Any]:
    """The explanations by position in the report; none where the model is not one with sheaf layers.

    Args:
        predicted: what was said.
        data: the graph as the model sees it.
        model: to explain.
        shown: `[n]` the nodes to choose from: surprising errors first, then any.
        position: `[N]` where nodes stand in the report, −1 where they do not.
        names: of the features.
    """
    if data is None or not isinstance(model, PolyNSD) or not isinstance(model.encoder, nn.Linear):
        return {}
    work = max(1, data.num_nodes + data.num_edges)
    nodes = _choose(predicted, shown, min(MOST, len(shown), max(FEWEST, WORK // work)))
    try:
        effects = _effects(model, as_data(data, model), nodes)
    except PolyNSDError:
        return {}
    known = names if data.x.size(1) == len(names) else tuple(f"input {i}" for i in range(data.x.size(1)))
    x = data.x[torch.from_numpy(nodes)].double().numpy()
    return {
        str(position[node]): _describe(node, x[row], *effects[row], position, known)
        for row, node in enumerate(nodes.tolist())
    }


def _choose(predicted: Predicted, shown: Integers, count: int) -> Integers:
    """Half of them errors that were made with confidence, the rest by chance."""
    rng = np.random.default_rng(0)
    if predicted.classes is None:
        return np.sort(rng.choice(shown, count, replace=False))
    is_wrong = (predicted.said != predicted.truth) & (predicted.truth >= 0) & (predicted.part != 0)
    wrong = shown[is_wrong[shown]]
    wrong = wrong[np.argsort(-predicted.confidence[wrong], kind="stable")][: count // 2]
    return np.concatenate([wrong, rng.permutation(np.setdiff1d(shown, wrong))[: count - len(wrong)]])


def _effects(model: PolyNSD, data: Any, nodes: Integers) -> list[tuple[Numbers, Numbers]]:
    """For every node: the effects `[N]` of all nodes, and `[F]` those of its own features."""
    encoder: Any = model.encoder
    found = []
    with evaluating(model), torch.enable_grad():
        with torch.no_grad():
            pre = encode_features(encoder, data.x, 0.0, False)
        pre = pre.detach().requires_grad_()
        output = model.propagate(model.start(pre), graph_input(model, data))
        linear = pre.detach() if encoder.bias is None else pre.detach() - encoder.bias.detach()
        for node in nodes.tolist():
            (g,) = torch.autograd.grad(_margin(output[node]), pre, retain_graph=True)
            own = data.x[node] * (g[node] @ encoder.weight.detach())
            found.append(((g * linear).sum(-1).double().numpy(), own.double().numpy()))
    return found


def _margin(logits: Tensor) -> Tensor:
    """The largest output minus the next one; of a number itself."""
    if len(logits) == 1:
        return logits[0]
    top = logits.topk(2).values
    return top[0] - top[1]


def _describe(
    node: int, x: Numbers, effect: Numbers, features: Numbers, position: Integers, names: tuple[str, ...]
) -> dict[str, Any]:
    own, others = float(effect[node]), effect.copy()
    others[node] = 0.0
    nodes, columns = (largest(each, SHOWN) for each in (np.where(position >= 0, others, 0.0), features))
    around = zip(position[nodes].tolist(), round_numbers(others[nodes], 3), strict=True)
    values = zip(round_numbers(x[columns], 4), round_numbers(features[columns], 3), strict=True)
    return {
        "own": round_numbers([own], 3)[0],
        "others": round_numbers([others.sum()], 3)[0],
        "nodes": [list(pair) for pair in around],
        "features": [[shorten(names[f], 60), *pair] for f, pair in zip(columns, values, strict=True)],
    }
