"""What moved predictions, for a choice of nodes.

First-order effects on the margin of the predicted class, gradient × value, as in `estimator/gradients.py`:
with pre = X Wᵀ + b and g = ∂ margin_v / ∂ pre, node u contributes g_u · (pre_u − b), and column f of the node
itself x_vf (g_v W)_f. One forward pass serves all nodes, each takes one backward pass.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.data.graph import Graph
from polynsd.diagnostics.trace import as_data, graph_input
from polynsd.errors import PolyNSDError
from polynsd.estimator.explanation import largest
from polynsd.nn import PolyNSD
from polynsd.nn.features import encode_features
from polynsd.report.html.blocks import round_numbers, shorten
from polynsd.report.html.predicted import Predicted
from polynsd.training.replica import eval_mode

if TYPE_CHECKING:
    from polynsd.estimator.base import SheafEstimator

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]

WORK = 500_000  # nodes and edge ends of all explanations
FEWEST, MOST = 2, 120  # nodes that are explained
SHOWN = 6  # features, and other nodes, of an explanation
SECONDS, MOST_OF_ENSEMBLE = 1.5, 24  # for explanations of an ensemble
LETTERS = 60  # of the name of a feature


@dataclass(frozen=True, eq=False)
class Choice:
    """What may be explained.

    Attributes:
        predicted: what was said.
        shown: `[n]` the nodes to choose from.
        position: `[N]` where nodes stand in the report, −1 where they do not.
        names: of the features.
    """

    predicted: Predicted
    shown: Integers
    position: Integers
    names: tuple[str, ...]

    def draw(self, count: int) -> list[int]:
        """So many nodes: half of them errors that were made with confidence, the rest by chance."""
        rng, predicted, count = np.random.default_rng(0), self.predicted, min(count, len(self.shown))
        wrong = np.zeros(0, np.int64)
        if predicted.classes is not None:
            is_wrong = (predicted.said != predicted.truth) & (predicted.truth >= 0) & (predicted.part != 0)
            wrong = self.shown[is_wrong[self.shown]]
            wrong = wrong[np.argsort(-predicted.confidence[wrong], kind="stable")][: count // 2]
        rest = rng.permutation(np.setdiff1d(self.shown, wrong))[: count - len(wrong)]
        return np.concatenate([wrong, rest]).tolist()


def explain_model(model: nn.Module | None, data: Any, choice: Choice) -> dict[str, Any]:
    """Explanations by position in the report; none of a model without sheaf layers."""
    if data is None or not isinstance(model, PolyNSD) or not isinstance(model.encoder, nn.Linear):
        return {}
    work = max(1, data.num_nodes + data.num_edges)
    nodes = choice.draw(min(MOST, max(FEWEST, WORK // work)))
    try:
        effects = _effects(model, as_data(data, model), nodes)
    except PolyNSDError:
        return {}
    names, position, x = choice.names, choice.position, data.x[torch.tensor(nodes)].double().numpy()
    if x.shape[1] != len(names):  # a treatment made others of them
        names = tuple(f"input {i}" for i in range(x.shape[1]))
    found = {}
    for row, (node, (of_nodes, of_features)) in enumerate(zip(nodes, effects, strict=True)):
        own, others = float(of_nodes[node]), of_nodes.copy()
        others[node] = 0.0
        around, columns = (
            largest(each, SHOWN) for each in (np.where(position >= 0, others, 0.0), of_features)
        )
        found[str(position[node])] = _entry(
            own,
            float(others.sum()),
            (position[around], others[around]),
            ([names[column] for column in columns], x[row, columns], of_features[columns]),
        )
    return found


def explain_ensemble(estimator: SheafEstimator, graph: Graph, choice: Choice) -> dict[str, Any]:
    """The same of an ensemble, by its own `explain`, for as many nodes as a short time allows."""
    position = {str(name): place for name, place in zip(graph.ids, choice.position, strict=True)}
    found: dict[str, Any] = {}
    end = time.monotonic() + SECONDS
    for node in choice.draw(MOST_OF_ENSEMBLE):
        try:
            reason = estimator.explain(graph.ids[node], graph, top=SHOWN, exact=0)
        except PolyNSDError:
            return found
        around, features = reason.neighbours, reason.features
        places = np.array([position[str(name)] for name in around["node"]], dtype=np.int64)
        effects = around["contribution"].to_numpy(dtype=np.float64)
        entry = _entry(
            reason.own,
            reason.others,
            (places[places >= 0], effects[places >= 0]),
            (features["feature"].tolist(), features["value"].to_numpy(), features["own"].to_numpy()),
        )
        found[str(choice.position[node])] = entry | {"left_out": round(reason.left_out, 2)}
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


def _effects(model: PolyNSD, data: Any, nodes: list[int]) -> list[tuple[Numbers, Numbers]]:
    """For every node: the effects `[N]` of all nodes, and `[F]` those of its own features."""
    encoder: Any = model.encoder
    found = []
    with eval_mode(model), torch.enable_grad():
        with torch.no_grad():
            pre = encode_features(encoder, data.x, 0.0, False)
        pre = pre.detach().requires_grad_()
        output = model.propagate(model.start(pre), graph_input(model, data))
        linear = pre.detach() if encoder.bias is None else pre.detach() - encoder.bias.detach()
        for node in nodes:
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
