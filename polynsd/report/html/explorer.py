"""The nodes of a report as plain data: what is drawn, searched and explained in the browser.

Of at most `SEARCHABLE` nodes all predictions are there; beyond, and for features and neighbours beyond
`DRAWN` nodes, the surroundings of random nodes are (`diagnostics.sample_region`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from polynsd.data.describe import degrees
from polynsd.data.graph import Graph
from polynsd.diagnostics import OpenedRun, sample_region, trace_layers
from polynsd.errors import PolyNSDError
from polynsd.estimator.gradients import couplings
from polynsd.nn import PolyNSD
from polynsd.report.html.blocks import round_numbers, shorten
from polynsd.report.html.layout import place_nodes
from polynsd.report.html.predicted import Predicted
from polynsd.report.html.quality_section import local_homophily
from polynsd.report.html.reasons import NodeSample, explain_ensemble, explain_model
from polynsd.topology import as_topology

Integers = NDArray[np.int64]

SEARCHABLE, DRAWN = 20_000, 5_000
EDGES = 12_000  # lines of a drawing
ID = 120  # characters of an id
FEATURES, NEIGHBOURS = 6, 10  # of a node


@dataclass(frozen=True, eq=False)
class Nodes:
    """What the browser knows of nodes.

    Attributes:
        data: plain data.
        drawing_note: what was left out of the drawing.
        note: what was left out of the rest.
    """

    data: dict[str, Any]
    drawing_note: str
    note: str


def gather_nodes(run: OpenedRun, predicted: Predicted | None, drawn: int = DRAWN) -> Nodes:
    """All that is embedded of the nodes of a run whose graph is there."""
    graph, data, model = run.graph, run.data, run.models[0] if run.models else None
    assert graph is not None
    shown = _choose_nodes(graph, drawn)
    listed = np.arange(graph.num_nodes) if graph.num_nodes <= SEARCHABLE else shown
    position = np.full(graph.num_nodes, -1)
    position[listed] = np.arange(len(listed))
    edges = _edges_between(graph, shown)
    place = place_nodes(len(shown), edges)
    lines = edges if len(edges) <= EDGES else edges[np.random.default_rng(0).permutation(len(edges))[:EDGES]]
    names = graph.feature_names or tuple(f"feature {i}" for i in range(graph.num_features))
    content: dict[str, Any] = {
        "ids": [shorten(name, ID) for name in np.asarray(graph.ids)[listed].tolist()],
        "degree": degrees(graph)[listed].tolist(),
        "drawn": {
            "nodes": position[shown].tolist(),
            "x": round_numbers(place[:, 0], 4),
            "y": round_numbers(place[:, 1], 4),
            "edges": lines.ravel().tolist(),
        },
        "features": _strongest_features(graph, shown, names),
        "neighbours": _neighbours(graph, shown, position, data, model),
    }
    if predicted is not None:
        content |= _list_predictions(graph, predicted, listed)
        sample = NodeSample(predicted, shown, position, names)
        content["explained"] = (
            explain_model(model, data, sample)
            if run.estimator is None
            else explain_ensemble(run.estimator, graph, sample)
        )
    note = (
        f"{len(listed):,} of {graph.num_nodes:,} nodes can be found here, the surroundings of random ones."
        if len(listed) < graph.num_nodes
        else f"Features and neighbours are there for {len(shown):,} of {graph.num_nodes:,} nodes."
        if len(shown) < graph.num_nodes
        else ""
    )
    return Nodes(content, _describe_drawing(graph, shown, len(edges), len(lines)), note)


def _choose_nodes(graph: Graph, most: int) -> Integers:
    """All nodes, or the surroundings of random ones."""
    if graph.num_nodes <= most:
        return np.arange(graph.num_nodes)
    from torch_geometric.data import Data

    both = np.concatenate([graph.edge_index, graph.edge_index[::-1]], 1)
    plain = Data(edge_index=torch.from_numpy(np.ascontiguousarray(both)).long(), num_nodes=graph.num_nodes)
    return sample_region(plain, most)[1].numpy()


def _edges_between(graph: Graph, shown: Integers) -> Integers:
    """`[E, 2]` edges of the drawing, as places among its nodes."""
    place = np.full(graph.num_nodes, -1)
    place[shown] = np.arange(len(shown))
    ends = place[graph.edge_index.T]
    return ends[(ends >= 0).all(1)]


def _describe_drawing(graph: Graph, shown: Integers, edges: int, lines: int) -> str:
    parts = []
    if len(shown) < graph.num_nodes:
        parts.append(
            f"{len(shown):,} of {graph.num_nodes:,} nodes are drawn, the surroundings of random ones"
        )
    if lines < edges:
        parts.append(f"{lines:,} of {edges:,} edges are drawn, at random")
    return "; ".join(parts) + "." if parts else ""


def _list_predictions(graph: Graph, predicted: Predicted, listed: Integers) -> dict[str, Any]:
    content: dict[str, Any] = {
        "parts": list(predicted.parts),
        "part": predicted.part[listed].tolist(),
    }
    truth, prediction = predicted.truth[listed], predicted.prediction[listed]
    if predicted.classes is None:
        return content | {"truth": round_numbers(truth), "prediction": round_numbers(prediction)}
    homophily = local_homophily(graph, predicted.truth)[listed]
    return content | {
        "classes": [shorten(name, ID) for name in predicted.classes],
        "truth": truth.tolist(),
        "prediction": prediction.tolist(),
        "confidence": round_numbers(predicted.confidence[listed], 3),
        "homophily": round_numbers(homophily, 2),
    }


def _strongest_features(graph: Graph, shown: Integers, names: tuple[str, ...]) -> dict[str, Any]:
    """The features of every drawn node that are farthest from their mean, in standard deviations."""
    if not graph.num_features:
        return {"names": [], "rows": []}
    x = graph.x
    if sparse.issparse(x):
        mean = np.asarray(x.mean(0, np.float64)).ravel()
        squares = x.astype(np.float64).power(2)
        std = np.sqrt(np.maximum(np.asarray(squares.mean(0)).ravel() - mean**2, 0))
    else:  # squares of large numbers do not fit in single precision
        mean, std = x.mean(0, np.float64), x.std(0, np.float64)
    scale = np.where(std > 1e-9, std, np.inf)
    rows: list[list[Any]] = []
    used: dict[int, int] = {}
    for start in range(0, len(shown), 512):
        part = x[shown[start : start + 512]]
        values = part.toarray() if sparse.issparse(part) else np.asarray(part)
        unusual = (values - mean) / scale
        top = np.argsort(-np.abs(unusual), axis=1, kind="stable")[:, :FEATURES]
        pairs = (round_numbers(np.take_along_axis(each, top, 1), 3) for each in (values, unusual))
        for columns, own, by in zip(top.tolist(), *pairs, strict=True):
            places = [used.setdefault(column, len(used)) for column in columns]
            rows.append([item for entry in zip(places, own, by, strict=True) for item in entry])
    return {"names": [shorten(names[column], 60) for column in used], "rows": rows}


def _neighbours(
    graph: Graph, shown: Integers, position: Integers, data: Any, model: nn.Module | None
) -> dict[str, Any]:
    """For every drawn node its neighbours [node, share of what is received, agreement before, after]."""
    u, v = np.concatenate([graph.edge_index, graph.edge_index[::-1]], 1)
    order = np.lexsort((v, u))
    u, v = u[order], v[order]
    found = _transport(data, model, u, v) if model is not None and data is not None else None
    kept = np.flatnonzero(_strongest_first(u, v, position, shown, None if found is None else found[0]))
    columns = [position[v[kept]].tolist(), *(round_numbers(values[kept], 2) for values in found or ())]
    entries = [list(entry) for entry in zip(*columns, strict=True)]
    ends = np.searchsorted(u[kept], np.stack([shown, shown + 1])).tolist()
    rows = [entries[start:end] for start, end in zip(*ends, strict=True)]
    return {"rows": rows, "has_transport": found is not None}


def _strongest_first(
    u: Integers, v: Integers, position: Integers, shown: Integers, share: NDArray[np.float64] | None
) -> NDArray[np.bool_]:
    """Which half-edges (u, v), sorted by u, are shown: of every drawn node those with the largest share."""
    is_shown = np.zeros(len(position), dtype=bool)
    is_shown[shown] = True
    chosen = np.flatnonzero(is_shown[u] & (position[v] >= 0))
    weight = np.zeros(len(chosen)) if share is None else share[chosen]
    chosen = chosen[np.lexsort((-weight, u[chosen]))]
    rank = np.arange(len(chosen)) - np.searchsorted(u[chosen], u[chosen])
    kept = np.zeros(len(u), dtype=bool)
    kept[chosen[rank < NEIGHBOURS]] = True
    return kept


@torch.no_grad()
def _transport(
    data: Any, model: nn.Module, u: Integers, v: Integers
) -> tuple[NDArray[np.float64], ...] | None:
    """Of the last layer, by half-edge (u, v): the share of what u receives, agreement before and after."""
    if not isinstance(model, PolyNSD) or not len(u):
        return None
    try:
        trace = trace_layers(model, data)
    except PolyNSDError:
        return None
    L, layer = trace.laplacians[len(trace.layers) - 1], trace.layers[-1]
    h = layer.mixed(trace.states[-2])
    topology = as_topology(data.edge_index, data.num_nodes)
    half = torch.arange(topology.num_half_edges)
    share, before, after = (torch.empty(len(half)) for _ in range(3))
    for some in half.split(50_000):
        row, col = topology.row[some], topology.col[some]
        here, there = h[row], h[col]
        came = couplings(L, some) @ there
        before[some] = _cosine(here, there)
        after[some] = _cosine(here, came)
        share[some] = came.flatten(1).norm(dim=1).float()
    total = torch.zeros(data.num_nodes).index_add_(0, topology.row, share).clamp(min=1e-12)
    share /= total[topology.row]
    place = sparse.csr_array(
        (np.arange(1, len(half) + 1), (topology.row.numpy(), topology.col.numpy())),
        shape=(data.num_nodes,) * 2,
    )
    index = np.asarray(place[u, v]).ravel() - 1
    return tuple(t.double().numpy()[index] for t in (share, before, after))


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return torch.cosine_similarity(a.flatten(1), b.flatten(1), dim=1).float()
