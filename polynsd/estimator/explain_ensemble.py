"""The explanation of what an ensemble says of a node: the weighted sum over its members and their folds.

    classes    s = log p_c/(1 − p_c),   p ∝ P^(1/T),   P = Σ_m w_m mean_r softmax(out_mr / T_m)
    numbers    s = mean + deviation · Σ_m w_m mean_r out_mr

Networks and linear models have exact gradients. Trees have none: around the row z of the node they are
replaced by a linear model. Its slope in column j of their table is that of the line through (z_j, f(z)) that
is nearest to f at the quantiles q of the column,

    slope_j = Σ_q (z_j − q) (f(z) − f(z with z_j = q)) / Σ_q (z_j − q)²,

so that a flag contributes what the output loses without it. Members that read links or labels have no
gradients either: an edge of the node contributes what their output loses without it, and so does its other
end. Of these, trees still have slopes in features; the share of the others is said, as contributions of
features leave them out. `exact` effects of edges count all.

A date is a number to a model, days since 1970. It is shown as it was written, and its effect in a unit that
people count dates in: what the score gains if the date of the node were a year (a month, a day) later,
predicted again.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.data import Graph
from polynsd.data.tables.dates import ISO
from polynsd.errors import ConfigError, GraphError
from polynsd.estimator.calibration import Calibration
from polynsd.estimator.explain import Names, Score, assemble, log_odds, other_edges
from polynsd.estimator.explanation import DateFeature, Explanation
from polynsd.estimator.features import STANDARD, Numbers
from polynsd.estimator.gradients import HopModel, LinearFirstModel, dense_row, network_model
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.label_trees import LabelTreesMember
from polynsd.estimator.linear import LinearMember
from polynsd.estimator.members import Member
from polynsd.estimator.networks import NetworkMember
from polynsd.estimator.trees import TreesMember
from polynsd.nn import PolyNSD
from polynsd.topology import Topology, as_topology

if TYPE_CHECKING:
    from polynsd.data.tables.encoder import FeatureEncoder
    from polynsd.estimator.base import SheafEstimator

QUANTILES = 16  # of a column, at which trees are asked
MOST_REMOVED = 20  # edges of the node that are taken away; of more, those to the nodes of the fewest edges
WORDS = "(number of words and flags)"  # the name of the column that treatments add
UNITS = {"year": 365.25, "month": 30.4375, "day": 1.0, "hour": 1 / 24}  # in days
FEWEST_UNITS = 3  # that the dates of a column must span to be counted in this unit


def explain_prediction(
    estimator: SheafEstimator,
    graph: Graph,
    node: Any,
    target: Any,
    top: int,
    exact: int,
    dates: Mapping[str, str],
) -> Explanation:
    """See `SheafEstimator.explain`."""
    number = find_node(graph, node)
    inputs = estimator._inputs(graph, torch.device("cpu"))
    topology = as_topology(inputs.data("standard").edge_index, graph.num_nodes)
    outputs: dict[str, Tensor] = {}
    models: dict[str, LinearFirstModel] = {}
    lost_without: dict[str, dict[int, Tensor]] = {}
    shares, left_out = [], 0.0
    for place, (member, weight, calibration) in enumerate(estimator.members_, 1):
        predicted = torch.from_numpy(member.outputs(inputs)[:, number])
        names = [f"{place}. {member.name}, fold {fold}" for fold in range(1, len(predicted) + 1)]
        outputs.update(zip(names, predicted, strict=True))
        shares += [Share(weight / len(predicted), calibration)] * len(predicted)
        found = find_models(member, inputs, topology, number)
        models.update(zip(names, found, strict=False))
        left_out += 0.0 if found else weight
        if not found or isinstance(member, LabelTreesMember):
            lost = remove_edges(member, predicted, inputs, topology, number)
            lost_without.update(zip(names, lost, strict=True))
    classes = getattr(estimator, "classes_", None)
    score, chosen = make_score(estimator, shares, list(outputs.values()), target)

    def score_of(other: Graph) -> float:
        changed = inputs.with_graph(other)
        predicted = [torch.from_numpy(m.outputs(changed)[:, number]) for m, _, _ in estimator.members_]
        return float(score([row for rows in predicted for row in rows]))

    labels = _names(estimator, graph, inputs, number)
    explanation = assemble(
        models=models,
        outputs=outputs,
        score=score,
        node=number,
        names=labels,
        target=None if classes is None or chosen is None else classes[chosen].item(),
        top=top,
        exact=exact,
        score_without=lambda ends: score_of(_without_edge(graph, ends)),
        topology=topology,
        lost_without=lost_without,
    )
    shown = explanation.features["feature"].tolist()
    described = describe_dates(graph, number, labels, dates, shown, explanation.score, score_of)
    return replace(explanation, left_out=left_out, dates=described)


def remove_edges(
    member: Member, outputs: Tensor, inputs: Inputs, topology: Topology, node: int
) -> list[dict[int, Tensor]]:
    """For every fold of a member, what its outputs `[R, O]` at a node lose without each edge of the node."""
    half = torch.nonzero(topology.row == node)[:, 0]
    half = half[topology.degree[topology.col[half]].argsort(stable=True)][:MOST_REMOVED]
    folds: list[dict[int, Tensor]] = [{} for _ in outputs]
    for edge, other in zip(topology.edge[half].tolist(), topology.col[half].tolist(), strict=True):
        graph = _without_edge(inputs.graph, (node, other))
        rest = inputs.with_graph(graph)
        changes = outputs - torch.from_numpy(member.outputs(rest)[:, node])
        for fold, change in zip(folds, changes, strict=True):
            fold[edge] = change
    return folds


def find_node(graph: Graph, node: Any) -> int:
    """The number of the node with that id, also where the id of a number is given as text."""
    same = np.flatnonzero(graph.ids == node)
    if not same.size:
        same = np.flatnonzero(graph.ids.astype(str) == str(node))
    if not same.size:
        examples = ", ".join(str(name) for name in graph.ids[:3].tolist())
        raise GraphError(f"there is no node '{node}' in '{graph.name}'; its ids are like {examples}.")
    return int(same[0])


class Share(NamedTuple):
    """The share of a model in the ensemble, and the calibration of its probabilities."""

    weight: float
    calibration: Calibration


def make_score(
    estimator: Any, shares: Sequence[Share], outputs: Sequence[Tensor], target: Any
) -> tuple[Score, int | None]:
    """The score as a function of the outputs of all models at the node, and the class that it belongs to."""
    if estimator.is_regression:
        mean, deviation = float(estimator.target_scaling_.mean), float(estimator.target_scaling_.scale)

        def number(predicted: Sequence[Tensor]) -> Tensor:
            weighted = [share.weight * value[0] for share, value in zip(shares, predicted, strict=True)]
            return mean + deviation * torch.stack(weighted).sum()

        return number, None

    def log_probabilities(predicted: Sequence[Tensor]) -> Tensor:
        each = [
            share.calibration.apply(value).log_softmax(-1) + math.log(share.weight)
            for share, value in zip(shares, predicted, strict=True)
        ]
        return estimator.calibration_.apply(torch.stack(each).logsumexp(0)).log_softmax(-1)

    classes = estimator.classes_.tolist()
    if target is not None and target not in classes:
        raise ConfigError(f"target must be one of the classes {', '.join(map(str, classes))}; got {target}.")
    if target is None:
        (chosen,) = estimator.decision_.predict(log_probabilities(outputs).exp()[None].numpy()).tolist()
    else:
        chosen = classes.index(target)
    return lambda predicted: log_odds(log_probabilities(predicted), chosen), chosen


def find_models(member: Any, inputs: Inputs, topology: Topology, node: int) -> list[LinearFirstModel]:
    """The models of a member, one per fold; none where it has no slopes in features."""
    columns = inputs.treatments.columns
    if isinstance(member, TreesMember | LabelTreesMember):
        trees = member if isinstance(member, TreesMember) else member.trees
        slopes = tree_slopes(trees, member.tables(inputs), node, len(columns))
        nothing = torch.zeros(len(slopes), slopes.size(-1), dtype=torch.double)
        member = LinearMember(trees.name, trees.family, STANDARD, "mean", trees.hops, 0.0, slopes, nothing)
    if isinstance(member, NetworkMember):
        data, x = inputs.data(member.treatment, "cpu", torch.float64), inputs.features(member.treatment)
        return [
            network_model(copy.deepcopy(model).cpu().double(), topology, x, data, columns)
            for model in member.models
            if isinstance(model, PolyNSD)
        ]
    if not isinstance(member, LinearMember):
        return []
    x = inputs.features(member.treatment)
    weight = inputs.data(member.treatment, "cpu", torch.float64).edge_weight
    half = None if weight is None else topology.symmetric_weight(weight)
    return [
        HopModel(x, columns, weights, intercept, member.hops, member.adjacency, topology, half)
        for weights, intercept in zip(member.weights, member.intercepts, strict=True)
    ]


def tree_slopes(member: TreesMember, tables: Iterable[Numbers], node: int, num_features: int) -> Tensor:
    """`[R, (H + 1) F, O]` slopes of boosted trees in the features of their tables, one per fold; see above.

    Slopes of components are those of the features that they add up. What stands behind the features in a
    table, the structure of the graph and labels, is no feature and is left out.
    """
    width = num_features if member.components is None else member.components.shape[1]
    count, quantiles = (member.hops + 1) * width, np.empty((0, 0))
    slopes = []
    for fold, table in enumerate(tables):
        if not fold:  # features are the same in all folds
            places = (np.arange(QUANTILES) + 0.5) / QUANTILES
            quantiles = np.quantile(table[:, :count], places, axis=0, method="lower")
        each = _slopes_of_fold(member, fold, table[node], quantiles)
        if member.components is not None:
            each = np.einsum("fc,hco->hfo", member.components, each.reshape(-1, width, each.shape[-1]))
        slopes.append(each.reshape(-1, each.shape[-1]))
    return torch.from_numpy(np.stack(slopes))


def _slopes_of_fold(member: TreesMember, fold: int, z: Numbers, quantiles: Numbers) -> Numbers:
    """`[count, O]` the slopes at a row z in its first columns, whose quantiles are `[Q, count]`."""
    count, num_outputs = quantiles.shape[1], member.start.shape[1]
    forest = member.forest.of_fold(fold, num_outputs)
    rows = np.tile(z, (QUANTILES, count, 1))
    rows[:, np.arange(count), np.arange(count)] = quantiles
    outputs = forest.predict(rows.reshape(-1, len(z)), num_outputs).reshape(QUANTILES, count, num_outputs)
    change, step = forest.predict(z[None], num_outputs) - outputs, z[:count] - quantiles
    product, square = np.einsum("qj,qjo->jo", step, change), (step**2).sum(0)[:, None]
    slopes: Numbers = np.divide(product, square, out=np.zeros_like(product), where=square > 0)
    return slopes


def _names(estimator: Any, graph: Graph, inputs: Inputs, number: int) -> Names:
    known = getattr(estimator, "feature_names_in_", graph.feature_names)
    encoders = getattr(estimator, "column_encoders_", ())
    if encoders:  # a column may have become several features
        known = [name for encoder in encoders for name in encoder.names]
    features = None if known is None else [str(name) for name in known]
    names = Names.of(graph.ids, features, dense_row(graph.x, number).astype(np.float64))
    if not inputs.treatments.counts_words:
        return names
    count = np.count_nonzero(names.values[inputs.treatments.sparse])
    return Names(names.nodes, [*names.features, WORDS], np.append(names.values, count))


def _without_edge(graph: Graph, ends: tuple[int, int]) -> Graph:
    kept = other_edges(graph.edge_index, ends)
    weight, attr = (None if v is None else v[kept] for v in (graph.edge_weight, graph.edge_attr))
    return replace(graph, edge_index=graph.edge_index[:, kept], edge_weight=weight, edge_attr=attr)


def find_date_formats(encoders: Iterable[FeatureEncoder]) -> dict[str, str]:
    """The format of every feature that is a date, by its name."""
    return {encoder.column: encoder.date_format for encoder in encoders if encoder.date_format is not None}


def describe_dates(
    graph: Graph,
    node: int,
    names: Names,
    formats: Mapping[str, str],
    shown: Sequence[str],
    score: float,
    score_of: Callable[[Graph], float],
) -> dict[str, DateFeature]:
    """The dates among the features that are shown.

    Args:
        graph: the graph of the node.
        node: its number.
        names: of the features.
        formats: of all features that are dates.
        shown: the names of the features in the table.
        score: of the node.
        score_of: the score of the node in another graph.
    """
    dates = {}
    columns = {name: number for number, name in enumerate(names.features)}
    for name in (name for name in shown if name in formats):
        column = columns[name]
        values = graph.x[:, [column]]
        unit = _choose_unit(values.toarray() if sparse.issparse(values) else np.asarray(values))
        mark = columns.get(f"{name} is missing")  # the feature that marks gaps (`FeatureEncoder.names`)
        if mark is not None and names.values[mark]:
            dates[name] = DateFeature("missing", unit, None)
            continue
        gain = score_of(_shift(graph, node, column, UNITS[unit])) - score
        dates[name] = DateFeature(format_days(names.values[column], formats[name]), unit, gain)
    return dates


def format_days(days: float, date_format: str) -> str:
    """Days since 1970 as a table writes them; with the time of day in ISO 8601 alone, and if there is one."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=round(days * 24 * 60))
    if date_format != ISO:
        return moment.strftime(date_format)
    return moment.strftime("%Y-%m-%d" if days == np.floor(days) else "%Y-%m-%dT%H:%M")


def _choose_unit(values: NDArray[np.float32]) -> str:
    span = float(values.max() - values.min())
    return next((unit for unit, days in UNITS.items() if span >= FEWEST_UNITS * days), "hour")


def _shift(graph: Graph, node: int, column: int, days: float) -> Graph:
    """The graph in which the date of one node is so many days later."""
    x = graph.x.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)  # 1970-01-01 is not stored
        x[node, column] += days
    return replace(graph, x=x)
