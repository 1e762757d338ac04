"""What a graph is like: sizes, degrees, components, and how far neighbours agree.

With labels y, edges counted in both directions, class shares p̄(c) weighted by degree and p(c, c')
the share of edges from class c to class c':

    edge homophily       Σ_c p(c, c)
    node homophily       mean over nodes with neighbours of the share of equal ones
    adjusted homophily   (Σ_c p(c, c) − Σ_c p̄(c)²) / (1 − Σ_c p̄(c)²): 0 where edges ignore the classes
    informativeness      2 − H[p(c, c')] / H[p̄(c)]: how much a neighbour's label tells about one's own

Only edges between labelled nodes count. The first two flatter graphs with a large class; compare
graphs by the last two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from polynsd.data.graph import Graph
from polynsd.memory import require_memory

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Description:
    """The facts about a graph; measures of agreement are NaN without class labels or edges."""

    nodes: int
    edges: int
    features: int
    class_sizes: tuple[int, ...]
    unlabelled: int
    isolated: int
    min_degree: int
    median_degree: float
    mean_degree: float
    max_degree: int
    components: int
    largest_component: int
    edge_homophily: float
    node_homophily: float
    adjusted_homophily: float
    label_informativeness: float


def describe_graph(graph: Graph) -> Description:
    """Sizes, degrees, components and measures of homophily of a graph."""
    degree = degrees(graph)
    adjacency = sparse.coo_matrix(
        (np.ones(graph.num_edges, dtype=bool), tuple(graph.edge_index)), shape=(graph.num_nodes,) * 2
    )
    num_components, component = connected_components(adjacency, directed=False)
    has_classes = graph.y is not None and not graph.is_regression
    mixing = class_mixing(graph) if has_classes else np.zeros((0, 0))
    edge_homophily = float(np.trace(mixing)) if mixing.size else float("nan")
    expected = float(np.square(mixing.sum(1)).sum())
    can_adjust = bool(mixing.size) and expected < 1
    marginal = _entropy(mixing.sum(1)) if mixing.size else 0.0
    return Description(
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        features=graph.num_features,
        class_sizes=tuple(class_sizes(graph).tolist()),
        unlabelled=0 if graph.y is None else int((~graph.is_labelled).sum()),
        isolated=int((degree == 0).sum()),
        min_degree=int(degree.min()) if degree.size else 0,
        median_degree=float(np.median(degree)) if degree.size else 0.0,
        mean_degree=float(degree.mean()) if degree.size else 0.0,
        max_degree=int(degree.max(initial=0)),
        components=int(num_components),
        largest_component=int(np.bincount(component).max(initial=0)),
        edge_homophily=edge_homophily,
        node_homophily=_node_homophily(graph) if has_classes else float("nan"),
        adjusted_homophily=(edge_homophily - expected) / (1 - expected) if can_adjust else float("nan"),
        label_informativeness=2 - _entropy(mixing.reshape(-1)) / marginal if marginal > 0 else float("nan"),
    )


def heterophily(graph: Graph) -> float:
    """Share of edges whose ends differ in class, unlabelled ones counted as a class; NaN without edges."""
    if graph.y is None or graph.num_edges == 0:
        return float("nan")
    source, target = graph.y[graph.edge_index]
    return float(np.mean(source != target))


def degrees(graph: Graph) -> NDArray[np.int64]:
    """[N] number of neighbours."""
    return np.bincount(graph.edge_index.reshape(-1), minlength=graph.num_nodes)


def class_sizes(graph: Graph) -> NDArray[np.int64]:
    """[C] labelled nodes of every class."""
    if not graph.num_classes or graph.y is None:
        return np.zeros(0, dtype=np.int64)
    return np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes)


def class_mixing(graph: Graph) -> FloatArray:
    """[C, C] p(c, c'): the share of edges, counted in both directions, from class c to class c'."""
    assert graph.y is not None
    u, v = graph.y[_labelled_edges(graph)]
    C = graph.num_classes
    require_memory(4 * 8 * C * C, f"the mixing of {C:,} classes")
    counts = np.bincount(u * C + v, minlength=C * C).reshape(C, C).astype(np.float64)
    counts = counts + counts.T
    return counts / counts.sum() if counts.any() else np.zeros((0, 0))


def local_homophily(graph: Graph, classes: NDArray[np.int64]) -> FloatArray:
    """[N] the share of a node's labelled neighbours that have its class; NaN where there is none.

    Args:
        graph: whose edges are looked at.
        classes: `[N]` numbers of classes, −1 for nodes without a label.
    """
    u, v = graph.edge_index
    is_labelled = (classes[u] >= 0) & (classes[v] >= 0)
    u, v = u[is_labelled], v[is_labelled]
    ends = np.concatenate([u, v])
    same = np.tile(classes[u] == classes[v], 2).astype(np.float64)
    total = np.bincount(ends, minlength=graph.num_nodes)
    equal = np.bincount(ends, same, graph.num_nodes)
    return np.divide(equal, total, out=np.full(graph.num_nodes, np.nan), where=total > 0)


def _node_homophily(graph: Graph) -> float:
    """Mean, over labelled nodes with labelled neighbours, of the share of neighbours of the same class."""
    assert graph.y is not None
    shares = local_homophily(graph, np.asarray(graph.y, dtype=np.int64))
    shares = shares[np.isfinite(shares)]
    return float(shares.mean()) if len(shares) else float("nan")


def _labelled_edges(graph: Graph) -> NDArray[np.integer[Any]]:
    return graph.edge_index[:, graph.is_labelled[graph.edge_index].all(axis=0)]


def _entropy(p: FloatArray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())
