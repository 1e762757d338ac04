"""The nodes of a report as plain data: what is drawn, searched and explained in the browser.

Of at most `SEARCHABLE` nodes all predictions are there; beyond, and for features and neighbours beyond
`DRAWN` nodes, the surroundings of random nodes are (`diagnostics.region`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.data.describe import degrees, local_homophily
from polynsd.data.graph import Graph
from polynsd.diagnostics import OpenedRun, trace_layers
from polynsd.diagnostics.region import draw_surroundings
from polynsd.errors import PolyNSDError
from polynsd.estimator.gradients import couplings
from polynsd.nn import PolyNSD
from polynsd.report.html.blocks import Block, Section, Text, Widget, round_numbers, shorten
from polynsd.report.html.layout import place_nodes
from polynsd.report.html.predicted import Predicted
from polynsd.report.html.reasons import explain_nodes
from polynsd.topology import Topology, as_topology

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
    graph = run.graph
    assert graph is not None
    once = torch.from_numpy(graph.edge_index.astype(np.int64))
    topology = as_topology(torch.cat([once, once.flip(0)], 1), graph.num_nodes)
    shown = np.arange(graph.num_nodes)
    if graph.num_nodes > drawn:
        shown = draw_surroundings(topology, drawn).numpy()
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
        "neighbours": _neighbours(run, topology, shown, position),
    }
    if predicted is not None:
        content |= _list_predictions(graph, predicted, listed)
        content["explained"] = explain_nodes(run, predicted, shown, position, names)
    note = (
        f"{len(listed):,} of {graph.num_nodes:,} nodes can be found here, the surroundings of random ones."
        if len(listed) < graph.num_nodes
        else f"Features and neighbours are there for {len(shown):,} of {graph.num_nodes:,} nodes."
        if len(shown) < graph.num_nodes
        else ""
    )
    return Nodes(content, _describe_drawing(graph, shown, len(edges), len(lines)), note)


def explorer_section(nodes: Nodes | None, problem: str) -> Section:
    """The nodes of a run, to be searched and looked at one by one."""
    if nodes is None:
        return Section("nodes", "Nodes", [Text(problem or "The graph could not be read.", "problem")])
    sentence = (
        "Type an id to see what the model predicts for a node, what is unusual about it, and how its "
        "neighbours agree with it before and after the learned maps."
    )
    blocks: list[Block] = [Widget("explorer", sentence)]
    if problem:
        blocks.append(Text(problem, "problem"))
    if nodes.note:
        blocks.append(Text(nodes.note))
    return Section("nodes", "Nodes", blocks)


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


def _neighbours(run: OpenedRun, topology: Topology, shown: Integers, position: Integers) -> dict[str, Any]:
    """For every drawn node its neighbours [node, share of what is received, agreement before, after].

    Of many neighbours those with the largest share are kept, in the order of their numbers.
    """
    row, col = topology.row.numpy(), topology.col.numpy()
    transport = _measure_transport(run)
    share = np.zeros(len(row)) if transport is None else transport[0]
    listed = np.flatnonzero(np.isin(row, shown) & (position[col] >= 0))
    listed = listed[np.lexsort((-share[listed], row[listed]))]
    rank = np.arange(len(listed)) - np.searchsorted(row[listed], row[listed])
    kept = np.sort(listed[rank < NEIGHBOURS])
    columns = [position[col[kept]].tolist(), *(round_numbers(values[kept], 2) for values in transport or ())]
    entries = [list(entry) for entry in zip(*columns, strict=True)]
    ends = np.searchsorted(row[kept], np.stack([shown, shown + 1])).tolist()
    rows = [entries[start:end] for start, end in zip(*ends, strict=True)]
    return {"rows": rows, "has_transport": transport is not None}


@torch.no_grad()
def _measure_transport(run: OpenedRun) -> tuple[NDArray[np.float64], ...] | None:
    """Of the last layer, by half-edge (v, u): the share of what v receives, agreement before and after."""
    data, model = run.data, run.models[0] if run.models else None
    if data is None or not data.num_edges or not isinstance(model, PolyNSD):
        return None
    try:
        trace = trace_layers(model, data)
    except PolyNSDError:
        return None
    L, layer = trace.laplacians[len(trace.layers) - 1], trace.layers[-1]
    h = layer.mixed(trace.states[-2])
    topology = as_topology(data.edge_index, data.num_nodes)
    share, before, after = (torch.empty(topology.num_half_edges) for _ in range(3))
    for some in torch.arange(topology.num_half_edges).split(50_000):
        here, there = h[topology.row[some]], h[topology.col[some]]
        came = couplings(L, some) @ there
        before[some] = _cosine(here, there)
        after[some] = _cosine(here, came)
        share[some] = came.flatten(1).norm(dim=1).float()
    total = torch.zeros(data.num_nodes).index_add_(0, topology.row, share).clamp(min=1e-12)
    share /= total[topology.row]
    return tuple(t.double().numpy() for t in (share, before, after))


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return torch.cosine_similarity(a.flatten(1), b.flatten(1), dim=1).float()
