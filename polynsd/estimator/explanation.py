"""`Explanation`: which features, neighbours and edges moved a prediction, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from polynsd.estimator.explain_dates import DateFeature
from polynsd.estimator.gradients import Effects, Transport
from polynsd.optional import load_optional
from polynsd.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """What moved a prediction, and by how much.

    A contribution is in the unit of `score`, and positive where it speaks for `target`. It is a first-order
    effect: of features, gradient × value (0 stands for a feature that is absent, or average where it was
    standardised; of trees, a slope takes the place of the gradient); of an edge, the derivative by its
    weight, which is what the score loses to first order if the edge is removed. All tables begin with the
    largest contributions.

    Attributes:
        node: the id of the node.
        target: the class that was explained; None of a number.
        score: the log-odds log p/(1 − p) of the class, or the predicted number.
        probability: p; None of a number.
        features: feature, value at the node, and the contributions of the feature at the node itself (`own`),
            at all others (`others`) and together (`contribution`).
        neighbours: node, hops, the contribution of its features; and for direct neighbours how its state
            agrees with that of the node (a cosine) before and after the learned transport.
        edges: source, target, contribution, and of the first ones `exact`: the score minus the score without
            that edge.
        own: the contribution of the node's own features.
        others: that of the features of all other nodes.
        left_out: the share of the ensemble that reads links and labels: its edges and neighbours are shown by
            what is lost without them, its features are left out.
        transports: for each network that learns maps, layer by layer, the transport to the node.
        links: all edges between the nodes of the tables.
        dates: of features that are dates, the date of the node and the effect of a later one, by their names.
    """

    node: Any
    target: Any
    score: float
    probability: float | None
    features: pd.DataFrame
    neighbours: pd.DataFrame
    edges: pd.DataFrame
    own: float
    others: float
    left_out: float = 0.0
    transports: Mapping[str, Sequence[Transport]] = field(default_factory=dict)
    links: Sequence[tuple[Any, Any]] = ()
    dates: Mapping[str, DateFeature] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """One table: kind (feature, neighbour or edge), name, contribution; the largest first."""
        pd = load_optional("pandas", "explanations need", "data")
        ends = zip(self.edges["source"], self.edges["target"], strict=True)
        names = {
            "feature": self.features["feature"],
            "neighbour": self.neighbours["node"],
            "edge": pd.Series([f"{a} – {b}" for a, b in ends], dtype=object),
        }
        tables = (self.features, self.neighbours, self.edges)
        parts = [
            pd.DataFrame(
                {"kind": kind, "name": name.astype(object), "contribution": table["contribution"].to_numpy()}
            )
            for (kind, name), table in zip(names.items(), tables, strict=True)
        ]
        whole = pd.concat(parts, ignore_index=True)
        order = np.argsort(-whole["contribution"].abs().to_numpy(), kind="stable")
        return whole.iloc[order].reset_index(drop=True)

    def plot(self, path: Any = None) -> Any:
        """The node among its neighbours and the features, coloured by contribution: matplotlib's `Figure`.

        With a path the picture is written there, too.
        """
        from polynsd.estimator.explanation_picture import draw_explanation

        figure = draw_explanation(self)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    @property
    def headline(self) -> str:
        """What was predicted, in one line."""
        if self.probability is None:
            return f"node {self.node}: {self.score:.4g}"
        return f"node {self.node}: {self.target}, {self.probability:.1%} (log-odds {self.score:+.2f})"

    def __str__(self) -> str:
        lines = [
            self.headline,
            f"its own features {self.own:+.3g}, those of other nodes {self.others:+.3g}",
        ]
        if self.left_out:
            lines.append(f"{self.left_out:.0%} of the ensemble reads links and labels; features leave it out")
        for title, table in (
            ("features", self.features),
            ("neighbours", self.neighbours),
            ("edges", self.edges),
        ):
            if len(table):
                if title == "features":
                    table = table.assign(value=self.value_texts)
                text = table.to_string(index=False, float_format=lambda value: f"{value:.3g}", na_rep="–")
                lines += ["", title, text]
                if title == "features":
                    lines += self.date_lines
        return "\n".join(lines)

    @property
    def value_texts(self) -> list[str]:
        """The values of the features at the node, as they are shown: dates as the table writes them."""
        named = zip(self.features["feature"], self.features["value"], strict=True)
        return [
            self.dates[name].text if name in self.dates else _format_value(value) for name, value in named
        ]

    @property
    def date_lines(self) -> list[str]:
        """What a later date would change, a line for each."""
        return [
            f"{name}: one {date.unit} later {date.later:+.3g}"
            for name, date in self.dates.items()
            if date.later is not None
        ]


def _format_value(value: float) -> str:
    """Three digits, or all of a large number."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


@dataclass(frozen=True, eq=False)
class Names:
    """How the user calls nodes and features, and the values of the features at the node."""

    nodes: NDArray[Any]
    features: Sequence[str]
    values: Numbers

    @classmethod
    def numbered(cls, num_nodes: int, values: Numbers) -> Names:
        """Nodes by their numbers, features as x0, x1, …"""
        return cls(np.arange(num_nodes), [f"x{i}" for i in range(len(values))], values)


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
    effects: Effects, topology: Topology, names: Names, top: int, exact: Mapping[int, float]
) -> pd.DataFrame:
    """The edges with the largest contributions, and the effect of their removal where it was computed."""
    pd = load_optional("pandas", "explanations need", "data")
    rows = largest(effects.edges, top)
    half = topology.first_half.numpy()[rows]
    ends = (names.nodes[side.numpy()[half]] for side in (topology.row, topology.col))
    table = pd.DataFrame(dict(zip(("source", "target"), ends, strict=True)))
    table["contribution"] = effects.edges[rows]
    if exact:
        table["exact"] = [exact.get(row, np.nan) for row in rows.tolist()]
    return table


def find_links(topology: Topology, names: Names, *shown: Iterable[Any]) -> list[tuple[Any, Any]]:
    """The edges between nodes that are shown, by their ids."""
    is_shown = np.isin(names.nodes, np.array(list(chain(*shown)), dtype=names.nodes.dtype))
    half = topology.first_half.numpy()
    ends = np.stack([topology.row.numpy()[half], topology.col.numpy()[half]], 1)
    kept = names.nodes[ends[is_shown[ends].all(1)]]
    return [(source, target) for source, target in kept.tolist()]


def count_hops(topology: Topology, node: int) -> NDArray[np.int64]:
    """`[N]` the edges between every node and one of them; −1 where there is no path."""
    N, row, col = topology.num_nodes, topology.row.numpy(), topology.col.numpy()
    adjacency = sparse.csr_array((np.ones(len(row)), (row, col)), shape=(N, N))
    distance = csgraph.dijkstra(adjacency, indices=node, unweighted=True)
    return np.where(np.isinf(distance), -1, distance).astype(np.int64)
