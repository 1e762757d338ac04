"""`explain_node`: which features, neighbours and edges moved what a model says of a node."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polynsd.errors import ConfigError, GraphError, require_at_least
from polynsd.estimator.explanation import (
    Explanation,
    Names,
    find_links,
    largest,
    tabulate_edges,
    tabulate_features,
    tabulate_neighbours,
)
from polynsd.estimator.gradients import (
    Effects,
    ForwardPass,
    LinearFirstModel,
    NetworkModel,
    dense_row,
    find_removal_effects,
    find_transports,
)
from polynsd.nn import PolyNSD
from polynsd.nn.inputs import half_edge_weights
from polynsd.sparse import is_sparse, to_scipy
from polynsd.topology import Topology, as_topology

Score = Callable[[Sequence[Tensor]], Tensor]  # from the outputs [O] of all models at the node


def explain_node(
    model: PolyNSD,
    data: Any,
    node: int,
    *,
    target: int | None = None,
    top: int = 10,
    exact: int = 3,
    feature_names: Sequence[str] | None = None,
) -> Explanation:
    """What moved the output of a model at a node; of a `SheafClassifier` use its method `explain`.

    Everything is computed in double precision on the CPU. λ_max, where it depends on the edges
    (normalizations `none` and `degree`), counts as a constant.

    Args:
        model: trained.
        data: PyG's `Data` with `x`, dense or sparse, `edge_index` and, where the model takes them,
            `edge_weight`, `edge_attr`.
        node: its number.
        target: the class to explain; the most likely one by default. A model with one output is explained as
            it is.
        top: rows of every table.
        exact: of how many of the top edges the score is computed again without the edge.
        feature_names: of the columns of x.
    """
    topology = as_topology(data.edge_index, data.num_nodes).to("cpu")
    if not 0 <= node < topology.num_nodes:
        raise GraphError(f"node {node} is not in the graph; its nodes are 0 to {topology.num_nodes - 1}.")
    if not isinstance(model, PolyNSD):
        raise ConfigError(f"explain_node takes a PolyNSD; got {type(model).__name__}.")
    x = data.x.detach().cpu().double()
    x = to_scipy(x) if is_sparse(x) else x.numpy()
    still = copy.deepcopy(model).cpu().double().eval()
    network = network_model(still, topology, x, data)

    def score(outputs: Sequence[Tensor]) -> Tensor:
        logits = outputs[0]
        return logits[0] if len(logits) == 1 else log_odds(logits.log_softmax(-1), chosen)

    with torch.no_grad():
        logits = still(*_inputs(data))[node]
    is_class = len(logits) > 1
    chosen = int(logits.argmax()) if target is None else target
    names = Names.numbered(topology.num_nodes, dense_row(x, node))
    if feature_names is not None:
        names = Names(names.nodes, feature_names, names.values)

    @torch.no_grad()
    def score_without(ends: tuple[int, int]) -> float:
        return float(score([still(*_inputs(_without_edge(data, ends)))[node]]))

    return assemble(
        models={"model": network},
        outputs={"model": logits},
        score=score,
        node=node,
        names=names,
        target=chosen if is_class else None,
        top=top,
        exact=exact,
        score_without=score_without,
        topology=topology,
    )


def assemble(
    *,
    models: Mapping[str, LinearFirstModel],
    outputs: Mapping[str, Tensor],
    score: Score,
    node: int,
    names: Names,
    target: Any,
    top: int,
    exact: int,
    score_without: Callable[[tuple[int, int]], float],
    topology: Topology,
    lost_without: Mapping[str, Mapping[int, Tensor]] | None = None,
) -> Explanation:
    """The explanation of a score that depends on several models.

    Args:
        models: the models that have gradients, by name.
        outputs: `[O]` of all models at the node, those without gradients included.
        score: of the outputs, in their order.
        node: its number.
        names: of nodes and features.
        target: the class that the score belongs to; None of a number.
        top: rows of every table.
        exact: of how many edges the score is computed again.
        score_without: the score of the graph without the edge between two nodes.
        topology: the graph.
        lost_without: of models without gradients, `[O]` what their outputs lose without an edge of the node,
            by the number of the edge.
    """
    require_at_least("top", top, 1)
    require_at_least("exact", exact, 0)
    leaves = [value.detach().double().requires_grad_() for value in outputs.values()]
    with torch.enable_grad():
        value = score(leaves)
    slopes = dict(zip(outputs, torch.autograd.grad(value, leaves), strict=True))
    value = value.detach()
    effects = Effects.none(topology, len(names.features))
    for name, model in models.items():
        effects += ForwardPass(model, topology).find_effects(node, slopes[name], len(names.features))
    for name, changes in (lost_without or {}).items():
        effects += find_removal_effects(changes, topology, node, slopes[name], len(names.features))
    transports = {
        name: find_transports(model, node)
        for name, model in models.items()
        if isinstance(model, NetworkModel) and model.model.config.family.is_learned
    }
    half = topology.first_half
    ends = torch.stack([topology.row[half], topology.col[half]], 1).tolist()
    again = largest(effects.edges, min(top, exact)).tolist()
    without = {edge: float(value) - score_without((ends[edge][0], ends[edge][1])) for edge in again}
    neighbours = tabulate_neighbours(effects, topology, node, names, transports, top)
    edges = tabulate_edges(effects, topology, names, top, without)
    own, center = float(effects.nodes[node]), names.nodes[[node]].tolist()[0]
    return Explanation(
        node=center,
        target=target,
        score=float(value),
        probability=None if target is None else float(value.sigmoid()),
        features=tabulate_features(effects, names, top),
        neighbours=neighbours,
        edges=edges,
        own=own,
        others=float(effects.nodes.sum()) - own,
        transports=transports,
        links=find_links(topology, names, [center], neighbours["node"], edges["source"], edges["target"]),
    )


def log_odds(log_p: Tensor, target: int) -> Tensor:
    """The number log p/(1 − p) of a class from log-probabilities `[O]`, also where p is 1 up to rounding."""
    others = torch.cat([log_p[:target], log_p[target + 1 :]])
    return log_p[target] - others.logsumexp(-1)


def network_model(model: PolyNSD, topology: Topology, x: Any, data: Any) -> NetworkModel:
    """A model and the graph that it is called with."""
    like = torch.empty(0, dtype=torch.double)
    weight, attr = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    if attr is not None:
        attr = attr[:, None] if attr.dim() == 1 else attr
        attr = topology.per_half_edge(attr.cpu().double())
    half = None if weight is None else half_edge_weights(weight.cpu(), topology, like)
    return NetworkModel(
        model, topology, x, np.arange(x.shape[1]), half, attr if model.config.edge_dim else None
    )


def _inputs(data: Any) -> tuple[Any, ...]:
    """The arguments of `PolyNSD.forward`, in double precision on the CPU."""
    weight, attr = (getattr(data, name, None) for name in ("edge_weight", "edge_attr"))
    numbers = (None if value is None else value.cpu().double() for value in (weight, attr))
    return data.x.cpu().double(), data.edge_index.cpu(), *numbers


def _without_edge(data: Any, ends: tuple[int, int]) -> Any:
    """The data without all columns between two nodes."""
    low, high = data.edge_index.min(0).values, data.edge_index.max(0).values
    kept = ~((low == min(ends)) & (high == max(ends)))
    rest = copy.copy(data)
    rest.edge_index = data.edge_index[:, kept]
    for name in ("edge_weight", "edge_attr"):
        if getattr(data, name, None) is not None:
            rest[name] = data[name][kept]
    return rest
