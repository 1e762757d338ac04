"""`Explanation`: which features, neighbours and edges moved a prediction, as tables, text and picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.estimator.gradients import Transport
from polynsd.optional import load_optional

if TYPE_CHECKING:
    import pandas as pd

Places = dict[Any, tuple[float, float]]

FOR, AGAINST, OWN = "#2166ac", "#b2182b", "#333333"  # colours of the picture
LONGEST = 14  # letters of an id that are drawn


@dataclass(frozen=True)
class DateFeature:
    """A feature that is a date.

    Attributes:
        text: the date of the node, as the table writes it.
        unit: year, month, day or hour: the largest that the column spans several of.
        later: what the score gains if the date of the node were one unit later, predicted again; None where
            the node has no date.
    """

    text: str
    unit: str
    later: float | None


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
        figure = _draw(self)
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
            f"its own features {self.own:+.3g}, other nodes {self.others:+.3g}",
        ]
        if self.left_out:
            lines.append(f"{self.left_out:.0%} of the ensemble reads links and labels; features leave it out")
        features = self.features.assign(value=self.value_texts)
        named = {"features": features, "neighbours": self.neighbours, "edges": self.edges}
        for title, table in named.items():
            if len(table):
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


def _draw(explanation: Explanation) -> Any:
    """Matplotlib's `Figure`: the node among those that moved it (left), and the features (right)."""
    figures = load_optional("matplotlib.figure", "pictures need", "plots")
    figure = figures.Figure(figsize=(11, 5), layout="constrained")
    graph, bars = figure.subplots(1, 2, width_ratios=[1.25, 1])
    _draw_neighbourhood(graph, explanation)
    _draw_features(bars, explanation)
    unit = "log-odds" if explanation.probability is not None else "the prediction"
    figure.suptitle(explanation.headline, fontsize=12)
    figure.supxlabel(
        f"blue speaks for it, red against it (first order, in {unit}); width and size show how much",
        fontsize=8,
    )
    return figure


def _draw_neighbourhood(axis: Any, explanation: Explanation) -> None:
    effects = load_optional("matplotlib.patheffects", "pictures need", "plots")
    edges, neighbours = explanation.edges, explanation.neighbours
    effect = dict(zip(neighbours["node"], neighbours["contribution"], strict=True))
    places = _place_nodes(explanation)
    for pair in explanation.links:
        (x0, y0), (x1, y1) = (places[node] for node in pair)
        axis.plot([x0, x1], [y0, y1], color="#dddddd", linewidth=0.8, zorder=0)
    largest = edges["contribution"].abs().max() if len(edges) else 0.0
    for source, target, change in zip(edges["source"], edges["target"], edges["contribution"], strict=True):
        (x0, y0), (x1, y1) = places[source], places[target]
        width = 0.6 + 4.4 * abs(change) / largest
        axis.plot([x0, x1], [y0, y1], color=_colour(change), linewidth=width, alpha=0.7, zorder=1)
    most = max((abs(value) for value in effect.values()), default=0.0) or 1.0
    for node, (x, y) in places.items():
        change = effect.get(node, 0.0)
        is_centre = node == explanation.node
        size = 500 if is_centre else 60 + 340 * abs(change) / most
        colour = OWN if is_centre else _colour(change) if change else "#cccccc"
        axis.scatter([x], [y], s=size, color=colour, edgecolors="white", linewidths=1.2, zorder=2)
        away, distance = math.hypot(x, y) or 1.0, math.sqrt(size) / 2 + 4  # in points
        is_beside = abs(x) > 0.35 * away
        axis.annotate(
            _shorten(node),
            (x, y),
            (distance * x / away, (distance + (0 if is_beside else 4)) * y / away),
            textcoords="offset points",
            ha=("left" if x > 0 else "right") if is_beside else "center",
            va="center",
            fontsize=8,
            color="white" if is_centre else "black",
            path_effects=[effects.withStroke(linewidth=2, foreground=OWN if is_centre else "white")],
        )
    axis.set_title("neighbours by what their features add, edges by what they add", fontsize=9)
    reach = 1.15 * max(1.0, *(math.hypot(x, y) for x, y in places.values()))
    axis.set(aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))  # also where all lie on one line
    axis.axis("off")


def _place_nodes(explanation: Explanation) -> Places:
    """The node in the middle, others on rings by their distance, near the inner ends of their edges."""
    rings = _find_rings(explanation)
    angle: dict[Any, float] = {}
    for number, ring in enumerate(rings):
        for place, node in enumerate(ring):
            inner = [
                angle[other] for pair in explanation.links if node in pair for other in pair if other in angle
            ]
            start = 2 * math.pi * place / len(ring) + 0.4 * number
            if inner:
                start = math.atan2(np.mean(np.sin(inner)), np.mean(np.cos(inner))) + 1e-3 * place
            angle[node] = start % (2 * math.pi)
        # in this order, spread evenly and turned to where they are wanted
        ordered = sorted(ring, key=lambda node: angle[node])
        even = 2 * math.pi * np.arange(len(ring)) / len(ring)
        turn = np.array([angle[node] for node in ordered]) - even
        even += math.atan2(np.sin(turn).mean(), np.cos(turn).mean())
        angle.update(zip(ordered, even.tolist(), strict=True))
    places = {explanation.node: (0.0, 0.0)}
    for number, ring in enumerate(rings, 1):
        for node in ring:
            places[node] = (number * math.cos(angle[node]), number * math.sin(angle[node]))
    return places


def _find_rings(explanation: Explanation) -> list[list[Any]]:
    """The nodes of both tables by their distance; ends of edges that are no neighbours come one ring on."""
    hops = dict(zip(explanation.neighbours["node"], explanation.neighbours["hops"], strict=True))
    known = {explanation.node: 0, **hops}
    pairs = list(zip(explanation.edges["source"], explanation.edges["target"], strict=True))
    for pair in pairs * 2:
        for node, other in (pair, pair[::-1]):
            if node not in known and other in known:
                known[node] = known[other] + 1
    for node in {node for pair in pairs for node in pair}:
        known.setdefault(node, max(known.values()))
    distances = sorted({distance for distance in known.values() if distance > 0})
    return [[node for node, distance in known.items() if distance == d] for d in distances]


def _draw_features(axis: Any, explanation: Explanation) -> None:
    table = explanation.features.iloc[::-1]
    rows = np.arange(len(table))
    own, others = table["own"].to_numpy(), table["others"].to_numpy()
    axis.barh(rows + 0.2, own, height=0.38, color=[_colour(value) for value in own])
    axis.barh(rows - 0.2, others, height=0.38, color=[_colour(value) for value in others], alpha=0.45)
    names = zip(table["feature"], explanation.value_texts[::-1], strict=True)
    axis.set_yticks(rows, [f"{_shorten(name)} = {value}" for name, value in names], fontsize=8)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_title("features: of the node itself (full), of other nodes (pale)", fontsize=9)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _colour(change: float) -> str:
    return FOR if change > 0 else AGAINST


def _shorten(name: Any) -> str:
    text = str(name)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
