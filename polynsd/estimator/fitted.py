"""What a fitted estimator can do: predict with its ensemble, score, explain, and be stored."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from polynsd.data import Graph
from polynsd.devices import get_device
from polynsd.errors import ConfigError, DataError
from polynsd.estimator.calibration import UNCALIBRATED, Calibration
from polynsd.estimator.ensemble import Predictions, average
from polynsd.estimator.estimate import Estimate
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.inputs import Inputs, Scaling
from polynsd.estimator.judge import Judge, as_predictions
from polynsd.estimator.labels import Labels, graph_labels, labelled_mask, read_labels
from polynsd.estimator.members import TRANSDUCTIVE, Member
from polynsd.estimator.nodes import GraphNodes
from polynsd.estimator.nodes_of_fit import NodesOfFit
from polynsd.estimator.reading import as_graph, is_table
from polynsd.estimator.sklearn_compat import NotFittedError
from polynsd.threads import PASS_BYTES, use_threads_for
from polynsd.training import Task, get_task

if TYPE_CHECKING:
    from polynsd.estimator.explanation import Explanation

logger = logging.getLogger("polynsd")

E = TypeVar("E", bound="FittedEstimator")


class Chosen(NamedTuple):
    """A member of the ensemble."""

    member: Member
    weight: float
    calibration: Calibration = UNCALIBRATED


class FittedEstimator(BaseEstimator):  # type: ignore[misc]
    """The ensemble that `fit` has found, and what it is asked."""

    is_regression = False
    device: str
    members_: list[Chosen]
    metric_: str
    val_score_: float
    estimate_: Estimate
    treatments_: FeatureTreatments
    nodes_of_fit_: NodesOfFit
    edge_scaling_: Scaling | None
    has_edge_weights_: bool
    has_edges_: bool
    _source: Graph | None  # of `fit`
    _everywhere: Predictions | None  # on the graph of `fit`; not stored with a model
    _labels: Labels
    _in_table: bool

    def _predictions(self, graph: Any, edges: Any = None) -> Predictions:
        """`[N, O]` the mean over the ensemble: probabilities, or standardised targets."""
        self._require_fitted()
        if isinstance(graph, GraphNodes):
            return self._predictions(graph.graph)[graph.numbers]
        if graph is None:
            if self._everywhere is None:
                raise ConfigError("the graph of fit is not stored with a model; pass the graph to predict.")
            return self._everywhere
        return self._predict_graph(as_graph(self, graph, edges))

    def _predict_graph(self, graph: Graph) -> Predictions:
        source = self._with_edges_of_fit(graph)
        inputs = self._inputs(source, get_device(self.device))
        self._warn_of_other_nodes(inputs)
        with use_threads_for(source.num_nodes * PASS_BYTES):
            means = [
                as_predictions(member.outputs(inputs), calibration, self.is_regression).mean(0)
                for member, _, calibration in self.members_
            ]
        return average(means, np.array([chosen.weight for chosen in self.members_]))

    def _with_edges_of_fit(self, graph: Graph) -> Graph:
        """The graph, whose edges must carry what those of `fit` did."""
        edge_dim = 0 if self.edge_scaling_ is None else len(self.edge_scaling_.mean)
        if not graph.num_edges:
            if self.has_edges_ and graph.num_nodes > 1:
                logger.warning(
                    "the model was fitted with edges, and there are none here; give them with edges=…."
                )
            return replace(graph, edge_attr=np.zeros((0, edge_dim), np.float32) if edge_dim else None)
        if self.has_edge_weights_ != (graph.edge_weight is not None):
            wanted, came = ("with", "without") if self.has_edge_weights_ else ("without", "with")
            raise DataError(
                f"the model was fitted {wanted} edge weights; this graph comes {came} them. Give it the same."
            )
        count = 0 if graph.edge_attr is None else graph.edge_attr.shape[1]
        if edge_dim and count != edge_dim:
            raise DataError(
                f"the model was fitted with {edge_dim} edge features; this graph has {count}. "
                "Give it the same."
            )
        return graph

    def score(self, graph: Any = None, y: Any = None, *, nodes: Any = None, edges: Any = None) -> float:
        """`metric_` on the labelled nodes, or on those in `nodes`.

        Without a graph it is that of `fit`; without `y` and `nodes` too, it is `val_score_`. A label that is
        none of the model's classes is never right; ROC-AUC leaves it out.
        """
        self._require_fitted()
        if graph is None and y is None and nodes is None:
            return self.val_score_
        if graph is None:
            predictions, in_table = self._predictions(None), self._in_table
            labels = (
                self._labels if y is None else read_labels(y, len(predictions), in_table, self.is_regression)
            )
        else:
            some = graph if isinstance(graph, GraphNodes) else None
            graph = graph if some is None else some.graph
            source = as_graph(self, graph, edges)
            predictions = self._predict_graph(source)
            labels = self._read_labels(source, y, is_table(graph, edges), some)
        has_label = labels.has_label
        chosen = has_label if nodes is None else labelled_mask("nodes", nodes, has_label)
        judge = Judge.of_nodes(chosen, self._as_target(labels), self._task)
        return judge.score(self._scored(predictions[chosen]))

    def explain(
        self,
        node: Any,
        graph: Any = None,
        *,
        edges: Any = None,
        target: Any = None,
        top: int = 10,
        exact: int = 3,
        dates: Mapping[str, str] | None = None,
    ) -> Explanation:
        """Which features, neighbours and edges moved the prediction of a node.

        Args:
            node: its id, or its number where nodes have no ids.
            graph: as for `predict`; that of `fit` by default.
            edges: likewise.
            target: the class to explain; the predicted one by default.
            top: rows of every table.
            exact: of how many of the top edges the prediction is made again without the edge.
            dates: the format of every feature that holds days since 1970, by its name: `ISO8601` or one of
                strftime's. The dates of a DataFrame are known.
        """
        from polynsd.estimator.explain_ensemble import explain_prediction, find_date_formats

        self._require_fitted()
        graph = graph.graph if isinstance(graph, GraphNodes) else graph
        known = getattr(self, "_source", None)
        source = known if graph is None else self._with_edges_of_fit(as_graph(self, graph, edges))
        if source is None:
            raise ConfigError("the graph of fit is not stored with a model; pass the graph to explain.")
        formats = find_date_formats(getattr(self, "column_encoders_", ())) if dates is None else dates
        return explain_prediction(self, source, node, target, top, exact, formats)

    def _read_labels(self, graph: Graph, y: Any, in_table: bool, nodes: GraphNodes | None) -> Labels:
        """Labels that were given, or else the graph's own; of some nodes only, where these are."""
        if nodes is not None:
            return nodes.labels(y, self.is_regression)
        given = graph_labels(graph) if y is None and not in_table else y
        return read_labels(given, graph.num_nodes, in_table, self.is_regression)

    def _require_fitted(self) -> None:
        if not hasattr(self, "members_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit or load first.")

    def save(self, folder: str | Path) -> Path:
        """Writes the fitted model into a new folder: weights, parameters, scores; no pickles."""
        from polynsd.estimator.storage import save_estimator

        return save_estimator(self, folder)

    @classmethod
    def load(cls: type[E], folder: str | Path) -> E:
        """Reads what `save` wrote; nothing in the files is executed."""
        from polynsd.estimator.storage import load_estimator

        estimator = load_estimator(folder)
        if not isinstance(estimator, cls):
            raise ConfigError(f"{folder} holds a {type(estimator).__name__}, not a {cls.__name__}.")
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but the graph of `fit`."""
        return {name: value for name, value in vars(self).items() if name not in ("_source", "_told")}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _inputs(self, source: Graph, device: torch.device) -> Inputs:
        inputs = Inputs(source, self.treatments_, self.edge_scaling_, device)
        if source is not getattr(self, "_source", None):
            inputs.places = self.nodes_of_fit_.find(source, inputs.features())
        return inputs

    def _warn_of_other_nodes(self, inputs: Inputs) -> None:
        """Says how many nodes are not those of `fit`, where members know the labels or links of those."""
        count = 0 if inputs.places is None else int((inputs.places < 0).sum())
        share = sum(chosen.weight for chosen in self.members_ if chosen.member.family in TRANSDUCTIVE)
        if count and share:
            text = (
                f"{count} of {inputs.num_nodes} nodes are not those of fit (their ids, or all features, are "
                f"others), so {share:.0%} of the ensemble, which reads labels of nodes and links to them, "
                "knows less of these. A model for other nodes is fitted with inductive=True (--inductive)."
            )
            if text != getattr(self, "_told", None):
                self._told = text
                logger.warning("%s", text)

    def network_data(self, graph: Any, treatment: str) -> Any:
        """What networks of the ensemble see of a graph: PyG's `Data` in double precision on the CPU.

        Labels `y` are numbers of `classes_` (−1 where there is none), or standardised targets (NaN).
        """
        self._require_fitted()
        source = self._with_edges_of_fit(as_graph(self, graph))
        data = copy.copy(self._inputs(source, torch.device("cpu")).data(treatment, "cpu", torch.float64))
        if source.y is not None:
            data.y = torch.from_numpy(self._as_target(self._read_labels(source, None, False, None)))
        return data

    @property
    def _task(self) -> Task:
        """What the metric is computed by."""
        return get_task(self.metric_)

    def _as_target(self, labels: Labels) -> NDArray[Any]:
        """Labels as candidates are fitted to them `[N]`."""
        raise NotImplementedError

    def _rescale(self, predictions: Predictions) -> Predictions:
        """Averaged predictions as users get them: probabilities at `temperature_`, or numbers like labels."""
        raise NotImplementedError

    def _scored(self, predictions: Predictions) -> Predictions:
        """What the metric sees of predictions."""
        return predictions
