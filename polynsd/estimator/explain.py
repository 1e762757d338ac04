"""`explain_node`: which features, neighbours and edges moved what a model says of a node.

`assemble` makes the tables of an `Explanation` from the effects of one model, or of all models of an ensemble
(`explain_ensemble.py`); the effects themselves are those of `gradients.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from polynsd.errors import ConfigError, GraphError, require_at_least
from polynsd.estimator.explanation import Explanation
from polynsd.estimator.features import Numbers
from polynsd.estimator.gradients import (
    Effects,
    ForwardPass,
    LinearFirstModel,
    NetworkModel,
    Transport,
    dense_row,
    find_removal_effects,
    find_transports,
    network_model,
)
from polynsd.nn import PolyNSD
from polynsd.optional import load_optional
from polynsd.sparse import is_sparse, to_scipy
from polynsd.topology import Topology, as_topology

if TYPE_CHECKING:
    import pandas as pd

Score = Callable[[Sequence[Tensor]], Tensor]  # from the outputs [O] of all models at the node


@dataclass(frozen=True, eq=False)
class Names:
    """How the user calls nodes and features, and the values of the features at the node."""

    nodes: NDArray[Any]
    features: Sequence[str]
    values: Numbers

    @classmethod
    def of(cls, nodes: NDArray[Any], features: Sequence[str] | None, values: Numbers) -> Names:
        """Features without names are x0, x1, …"""
        return cls(nodes, [f"x{i}" for i in range(len(values))] if features is None else features, values)


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
    chosen = int(logits.argmax()) if target is None else target

    @torch.no_grad()
    def score_without(ends: tuple[int, int]) -> float:
        return float(score([still(*_inputs(_without_edge(data, ends)))[node]]))

    return assemble(
        models={"model": network},
        outputs={"model": logits},
        score=score,
        node=node,
        names=Names.of(np.arange(topology.num_nodes), feature_names, dense_row(x, node)),
        target=chosen if len(logits) > 1 else None,
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
        lost_without: of models whose edges have no gradients, `[O]` what their outputs lose without an edge
            of the node, by the number of the edge.
    """
    require_at_least("top", top, 1)
    require_at_least("exact", exact, 0)
    leaves = [value.detach().double().requires_grad_() for value in outputs.values()]
    with torch.enable_grad():
        value = score(leaves)
    slopes = dict(zip(outputs, torch.autograd.grad(value, leaves), strict=True))
    value = value.detach()
    effects = Effects.none(topology, len(names.features))
    lost_without = lost_without or {}
    for name, model in models.items():
        found = ForwardPass(model, topology).find_effects(node, slopes[name], len(names.features))
        effects += found.without_edges(node) if name in lost_without else found
    for name, changes in lost_without.items():
        effects += find_removal_effects(changes, topology, node, slopes[name], len(names.features))
    transports = {
        name: find_transports(model, node)
        for name, model in models.items()
        if isinstance(model, NetworkModel) and model.model.config.family.is_learned
    }
    ends = torch.stack([topology.row, topology.col], 1)[topology.first_half].numpy()
    again = largest(effects.edges, min(top, exact)).tolist()
    without = {edge: float(value) - score_without(tuple(ends[edge].tolist())) for edge in again}
    neighbours = tabulate_neighbours(effects, topology, node, names, transports, top)
    edges = tabulate_edges(effects, ends, names, top, without)
    own, center = float(effects.nodes[node]), names.nodes[[node]].tolist()[0]
    shown = [center, *neighbours["node"], *edges["source"], *edges["target"]]
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
        links=find_links(ends, names, shown),
    )


def other_edges(edge_index: NDArray[Any], ends: tuple[int, int]) -> NDArray[np.bool_]:
    """Which columns of an edge index `[2, M]` do not join these two nodes, in whichever direction."""
    return (np.sort(edge_index, axis=0) != np.sort(ends)[:, None]).any(0)


def log_odds(log_p: Tensor, target: int) -> Tensor:
    """The number log p/(1 − p) of a class from log-probabilities `[O]`, also where p is 1 up to rounding."""
    others = torch.cat([log_p[:target], log_p[target + 1 :]])
    return log_p[target] - others.logsumexp(-1)


def _inputs(data: Any) -> tuple[Any, ...]:
    """The arguments of `PolyNSD.forward`, in double precision on the CPU."""
    weight, attr = (getattr(data, name, None) for name in ("edge_weight", "edge_attr"))
    numbers = (None if value is None else value.cpu().double() for value in (weight, attr))
    return data.x.cpu().double(), data.edge_index.cpu(), *numbers


def _without_edge(data: Any, ends: tuple[int, int]) -> Any:
    """The data without all columns between two nodes."""
    kept = torch.from_numpy(other_edges(data.edge_index.cpu().numpy(), ends))
    rest = copy.copy(data)
    rest.edge_index = data.edge_index[:, kept]
    for name in ("edge_weight", "edge_attr"):
        if getattr(data, name, None) is not None:
            rest[name] = data[name][kept]
    return rest


def largest(values: Numbers, count: int) -> NDArray[np.int64]:
    """The places of the largest absolute values that are not 0, in descending order."""
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return order[values[order] != 0]


def tabulate_features(effects: Effects, names: Names, top: int) -> pd.DataFrame:
    """The columns with the largest contributions."""
    pd = load_optional("pandas", "explanations need", "data")
    rows = largest(effects.all, top)
    return pd.DataFrame(
        {
            "feature": [names.features[row] for row in rows],
            "value": names.values[rows],
            "own": effects.own[rows],
            "others": effects.all[rows] - effects.own[rows],
            "contribution": effects.all[rows],
        }
    )


def tabulate_neighbours(
    effects: Effects,
    topology: Topology,
    node: int,
    names: Names,
    transports: Mapping[str, Sequence[Transport]],
    top: int,
) -> pd.DataFrame:
    """The other nodes with the largest contributions, and how direct neighbours agree."""
    pd = load_optional("pandas", "explanations need", "data")
    others = effects.nodes.copy()
    others[node] = 0.0
    rows = largest(others, top)
    table = pd.DataFrame(
        {"node": names.nodes[rows], "hops": count_hops(topology, node)[rows], "contribution": others[rows]}
    )
    layers = [layer for network in transports.values() for layer in network]
    if layers:
        for name in ("before", "after"):
            agreement = np.full(topology.num_nodes, np.nan)
            each = [layer.agreement(getattr(layer, name)) for layer in layers]
            agreement[layers[0].neighbours] = np.mean(each, axis=0)
            table[f"agreement_{name}"] = agreement[rows]
    return table


def tabulate_edges(
    effects: Effects, ends: NDArray[np.int64], names: Names, top: int, exact: Mapping[int, float]
) -> pd.DataFrame:
    """The edges with the largest contributions, and the effect of their removal where it was computed.

    Args:
        effects: of the edges.
        ends: `[E, 2]` the nodes that they join.
        names: of the nodes.
        top: how many edges.
        exact: the effects of removals, by the number of the edge.
    """
    pd = load_optional("pandas", "explanations need", "data")
    rows = largest(effects.edges, top)
    source, target = names.nodes[ends[rows]].T
    table = pd.DataFrame({"source": source, "target": target, "contribution": effects.edges[rows]})
    if exact:
        table["exact"] = [exact.get(row, np.nan) for row in rows.tolist()]
    return table


def find_links(ends: NDArray[np.int64], names: Names, shown: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Of all edges, by their ends `[E, 2]`, those between nodes that are shown, by their ids."""
    is_shown = np.isin(names.nodes, np.array(shown, dtype=names.nodes.dtype))
    kept = names.nodes[ends[is_shown[ends].all(1)]]
    return [(source, target) for source, target in kept.tolist()]


def count_hops(topology: Topology, node: int) -> NDArray[np.int64]:
    """`[N]` the edges between every node and one of them; −1 where there is no path."""
    N, row, col = topology.num_nodes, topology.row.numpy(), topology.col.numpy()
    adjacency = sparse.csr_array((np.ones(len(row)), (row, col)), shape=(N, N))
    distance = csgraph.dijkstra(adjacency, indices=node, unweighted=True)
    return np.where(np.isinf(distance), -1, distance).astype(np.int64)
