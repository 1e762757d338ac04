"""The graph: sizes, degrees, classes, how far neighbours agree, and its drawing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.describe import Description, class_mixing, degrees, describe_graph
from polynsd.data.graph import Graph
from polynsd.report.html.blocks import (
    Block,
    Chart,
    Section,
    Table,
    Text,
    Widget,
    bars,
    class_axes,
    hover_text,
    log_axis,
    marked_line,
    number,
    percent,
    plot_text,
    shares,
    titled_axes,
)

MOST_CLASSES = 20  # in a picture
MOST_DEGREES = 40  # as bars; beyond, on logarithmic axes


def graph_section(graph: Graph | None, problem: str, drawing_note: str, has_drawing: bool) -> Section:
    """The drawing of a graph, its sizes, degrees and classes."""
    if graph is None:
        return Section("graph", "Graph", [Text(problem or "The graph could not be read.", "problem")])
    facts = describe_graph(graph)
    blocks: list[Block] = []
    if has_drawing:
        words = "Every point is a node, every line an edge; choose what the colour means. "
        blocks.append(Widget("drawing", words + drawing_note))
    elif drawing_note:
        blocks.append(Text(drawing_note, "problem"))
    blocks.append(_sizes(facts))
    if graph.num_edges:
        blocks.append(_degrees(degrees(graph)))
    else:
        message = "The graph has no edges, so every node is predicted from its own features."
        blocks.append(Text(message, "problem"))
    if 1 < len(facts.class_sizes) <= MOST_CLASSES:
        names = [plot_text(name, 18) for name in graph.class_names or map(str, range(graph.num_classes))]
        blocks.append(_class_sizes(names, facts.class_sizes))
        mixing = class_mixing(graph)
        if mixing.size:
            blocks.append(_mixing(names, mixing, facts))
    return Section("graph", "Graph", blocks)


def _sizes(facts: Description) -> Table:
    pieces = f"{number(facts.components)}, the largest with {number(facts.largest_component)} nodes"
    rows = [
        ("nodes", number(facts.nodes)),
        ("edges", number(facts.edges)),
        ("features", number(facts.features)),
        ("classes", number(len(facts.class_sizes)) if facts.class_sizes else "– (numbers are predicted)"),
        ("nodes without a label", number(facts.unlabelled)),
        ("nodes without an edge", number(facts.isolated)),
        ("neighbours", f"{number(facts.mean_degree)} on average, {number(facts.max_degree)} at most"),
        ("connected pieces", pieces),
        ("edges within a class", percent(facts.edge_homophily)),
        ("adjusted homophily", number(facts.adjusted_homophily)),
        ("label informativeness", number(facts.label_informativeness)),
    ]
    return Table("Sizes", ("", ""), rows)


def _degrees(degree: NDArray[np.int64]) -> Chart:
    most = int(degree.max())
    words = "a few hubs stand far to the right" if most > 10 * degree.mean() else "there are no hubs"
    sentence = (
        f"Half of the nodes have at most {number(float(np.median(degree)))} neighbours, the largest has "
        f"{number(float(most))}: {words}."
    )
    hover = "%{y:,} nodes with %{x} neighbours"
    if most <= MOST_DEGREES:
        counts = np.bincount(degree)
        trace = bars(list(range(len(counts))), counts.tolist(), "$0", hover)
        return Chart("Neighbours of a node", sentence, [trace], titled_axes("neighbours", "nodes"))
    values, counts = _log_bins(degree[degree > 0])
    trace = marked_line(values.tolist(), counts, "nodes") | hover_text(hover.replace("with", "with about"))
    layout = {"xaxis": log_axis("neighbours", values), "yaxis": log_axis("nodes", counts)}
    return Chart("Neighbours of a node", sentence, [trace], layout)


def _log_bins(degree: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lower ends and counts of bins of equal width on a logarithmic axis, without empty ones."""
    ends = np.unique(np.geomspace(1, degree.max() + 1, 40).astype(np.int64))
    counts = np.bincount(np.searchsorted(ends, degree, side="right") - 1, minlength=len(ends))
    return ends[counts > 0], counts[counts > 0]


def _class_sizes(names: list[str], sizes: tuple[int, ...]) -> Chart:
    colours = [f"${c % 10}" for c in range(len(sizes))]
    trace = bars(list(range(len(sizes))), list(sizes), colours, "%{y:,} nodes")
    share = max(sizes) / max(1, sum(sizes))
    sentence = (
        f"The largest class has {percent(share, 0)} of the labelled nodes; a model must be right more often "
        "than that to be of use."
    )
    layout: dict[str, Any] = {
        "xaxis": {"tickvals": list(range(len(names))), "ticktext": names},
        "yaxis": {"title": {"text": "labelled nodes"}},
    }
    return Chart("Classes", sentence, [trace], layout)


def _mixing(names: list[str], mixing: NDArray[np.float64], facts: Description) -> Chart:
    totals = mixing.sum(1, keepdims=True)
    rows = np.divide(mixing, totals, out=np.zeros_like(mixing), where=totals > 0)
    text = [[f"{100 * share:.0f} %" for share in row] for row in rows] if len(names) <= 10 else None
    trace = shares(rows, text, "class %{y}: %{z:.0%} of its edges lead to class %{x}")
    adjusted = facts.adjusted_homophily
    kind = "neighbours say little of each other's class"
    if adjusted > 0.3 or adjusted < -0.05:
        kind = "neighbours are mostly alike" if adjusted > 0 else "neighbours mostly differ"
    sentence = (
        "A strong diagonal means that neighbours share their class; here "
        f"{percent(facts.edge_homophily, 0)} of the edges do, and {kind}."
    )
    layout = class_axes(names, "class of the neighbour", "class of the node")
    return Chart("Where edges lead", sentence, [trace], layout, height=360)
