"""What `SheafClassifier` and `SheafRegressor` share: parameters, `fit`, and the predictions of the ensemble.

`fit` reads the graph and its labels (`inputs.py`, `labels.py`), divides the labelled nodes (`folds.py`),
tries candidates from cheap to dear (`candidates.py`, `search.py`), and keeps the ensemble that predicts best
what its members have not seen (`ensemble.py`).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data import Graph
from polynsd.devices import get_device
from polynsd.errors import ConfigError, DataError
from polynsd.estimator.candidates import EXAMPLES, make_candidates
from polynsd.estimator.ensemble import Predictions, average
from polynsd.estimator.estimate import estimate_score
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.folds import Folds, hold_out, make_folds
from polynsd.estimator.inputs import Inputs, Scaling
from polynsd.estimator.judge import Judge
from polynsd.estimator.kinds import Parts
from polynsd.estimator.labels import Labels, Mask, graph_labels, labelled_mask, read_labels
from polynsd.estimator.members import TRANSDUCTIVE, Candidate, FitData, Member, OnEpoch
from polynsd.estimator.nodes import GraphNodes
from polynsd.estimator.reading import as_graph, is_table
from polynsd.estimator.search import Attempt, OnCandidate, Search
from polynsd.estimator.sklearn_compat import BaseEstimator, NotFittedError, as_python, draw_seed
from polynsd.training import Task

if TYPE_CHECKING:
    from polynsd.estimator.explanation import Explanation

logger = logging.getLogger("polynsd")

E = TypeVar("E", bound="SheafEstimator")

LARGEST_ENSEMBLE = 12


class Chosen(NamedTuple):
    """A member of the ensemble."""

    member: Member
    weight: float
    temperature: float


class _Prepared(NamedTuple):
    """Everything that `fit` knows before it trains."""

    inputs: Inputs
    target: NDArray[Any]
    folds: Folds
    test: Mask
    weights: NDArray[np.float64] | None
    candidates: Sequence[Candidate]


class SheafEstimator(BaseEstimator):  # type: ignore[misc]
    """An ensemble of models of a graph that chooses for itself what was left `"auto"`."""

    is_regression = False

    def __init__(
        self,
        budget: Any = None,
        ensemble: Any = "auto",
        features: str = "auto",
        inductive: bool = False,
        test_fraction: float | None = None,
        validation_fraction: float = 0.2,
        device: str = "auto",
        random_state: Any = 0,
        verbose: int = 0,
        maps: Any = "auto",
        stalk_dim: Any = "auto",
        degree: Any = "auto",
        hidden_channels: Any = "auto",
        num_layers: Any = "auto",
        dropout: Any = "auto",
        learning_rate: Any = "auto",
        weight_decay: Any = "auto",
        epochs: Any = "auto",
    ) -> None:
        self.budget, self.ensemble = budget, ensemble
        self.features, self.inductive = features, inductive
        self.test_fraction, self.validation_fraction = test_fraction, validation_fraction
        self.device, self.random_state, self.verbose = device, random_state, verbose
        self.maps, self.stalk_dim, self.degree = maps, stalk_dim, degree
        self.hidden_channels, self.num_layers, self.dropout = hidden_channels, num_layers, dropout
        self.learning_rate, self.weight_decay, self.epochs = learning_rate, weight_decay, epochs

    def fit(
        self: E,
        graph: Any,
        y: Any = None,
        *,
        train: Any = None,
        val: Any = None,
        test: Any = None,
        edges: Any = None,
        sample_weight: Any = None,
        on_epoch: OnEpoch | None = None,
        parts: Parts | None = None,
        on_candidate: OnCandidate | None = None,
        candidates: Sequence[Candidate] | None = None,
    ) -> E:
        """Tries candidates on the labelled nodes, and keeps the ensemble that is best on held-out ones.

        Ctrl-C ends the search; what is complete by then is kept. With `parts` it ends the fit, which another
        one goes on with.

        Args:
            graph: a `Graph`, PyG's `Data`, a NetworkX graph, a pair (x, edge_index), or a table of features
                `[n, F]`, also a sparse matrix or a DataFrame; or `GraphNodes`, whose labels alone are used.
            y: a label per node, in place of the graph's own; of a NetworkX graph the attribute that holds it.
            train: the nodes to train on, as a mask or as numbers; all labelled ones by default.
            val: the nodes to choose on. By default a share of every class of the training nodes
                (`validation_fraction`), or with few labels each of them in turn.
            test: the nodes that are kept apart for `estimate_`, in place of `test_fraction` of them.
            edges: with a table of features: an edge index `[2, E]` or SciPy's sparse adjacency matrix.
            sample_weight: `[N]` how much every node counts in the loss.
            on_epoch: called with what trains and its epoch, e.g. to move a progress bar.
            parts: where fitted candidates are kept, so that an interrupted fit goes on from them.
            on_candidate: called with the row in `candidates_` of one that has ended, and the share of the
                search that is done.
            candidates: what is tried in place of the estimator's own, e.g. a rival on the same nodes.
        """
        if hasattr(self, "members_"):
            del self.members_  # a fit that fails leaves no half of an older one
        prepared = self._prepare(graph, y, (train, val, test), edges, sample_weight)
        search = self._search(prepared, on_epoch, parts, on_candidate or self._print_candidate)
        attempts = search.run(prepared.candidates if candidates is None else candidates)
        self._keep(prepared, search, attempts)
        return self

    def _print_candidate(self, row: dict[str, Any], share: float) -> None:
        if self.verbose:
            score = row["failure"] or f"{row['val_score']:.4f}"
            print(f"{share:4.0%}  {row['seconds']:6.1f} s  {row['name']}: {score}", flush=True)  # noqa: T201

    def check(
        self,
        graph: Any,
        y: Any = None,
        *,
        train: Any = None,
        val: Any = None,
        test: Any = None,
        edges: Any = None,
        sample_weight: Any = None,
    ) -> None:
        """Raises what `fit` would raise before it trains; the estimator stays as it is."""
        copy.deepcopy(self)._prepare(graph, y, (train, val, test), edges, sample_weight)

    def _prepare(
        self, graph: Any, y: Any, given: tuple[Any, Any, Any], edges: Any, sample_weight: Any
    ) -> _Prepared:
        """Reads what was given, with the nodes to train, choose and test on; what comes before training."""
        self._seconds()
        self._size()
        device = get_device(self.device)
        self.seed_ = draw_seed(self.random_state)
        nodes = graph if isinstance(graph, GraphNodes) else None
        graph = graph if nodes is None else nodes.graph
        label = y if isinstance(y, str) else None
        source = as_graph(self, graph, edges, reset=True, label=label)
        y = None if label is not None else y
        self._source: Graph | None = source
        self._in_table = is_table(graph, edges)
        if source.masks and all(part is None for part in given) and nodes is None:
            logger.warning("the splits of '%s' are not used; pass train=… and val=… to use one.", source.name)
        self._labels = self._read_labels(source, y, self._in_table, nodes)
        strata = self._learn_classes(self._labels)
        folds, test = self._divide(strata, *given)
        self.train_mask_, self.val_mask_, self.test_mask_ = folds.train.any(0), folds.judged, test
        self.n_train_, self.n_val_ = int(self.train_mask_.sum()), int(self.val_mask_.sum())
        self._learn_target(self._labels)
        target = self._as_target(self._labels)
        self.metric_ = self._choose_metric(target, folds)
        if nodes is not None and sample_weight is not None:
            sample_weight = nodes.spread(sample_weight)
        weights = self._node_weights(sample_weight, target, folds)
        self._learn_inputs(source)
        inputs = self._inputs(source, device)
        given_parameters = {name: as_python(getattr(self, name)) for name in EXAMPLES}
        candidates = make_candidates(inputs, self._treatments(), given_parameters)
        if self.inductive:
            candidates = [each for each in candidates if each.family not in TRANSDUCTIVE]
        return _Prepared(inputs, target, folds, test, weights, candidates)

    def _divide(self, strata: NDArray[Any], train: Any, val: Any, kept: Any) -> tuple[Folds, Mask]:
        """The folds, and the nodes that are kept for the estimate: those given, or `test_fraction` of all."""
        has_label = self._labels.has_label
        nodes = has_label.copy() if train is None else labelled_mask("train", train, has_label)
        given = None if val is None else labelled_mask("val", val, has_label)
        if given is not None and train is None:
            nodes &= ~given
        test = np.zeros_like(nodes) if kept is None else labelled_mask("test", kept, has_label)
        share = as_python(self.test_fraction)
        if share is not None and kept is None:
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
                raise ConfigError(f"test_fraction must lie between 0 and 1, or be None; got {share!r}.")
            test = hold_out(nodes, strata, float(share), self.seed_ + 1)
        nodes &= ~test
        if given is None:
            return make_folds(nodes, strata, as_python(self.validation_fraction), self.seed_), test
        shared = int((nodes & given).sum())
        if shared:
            raise DataError(f"train and val must be disjoint; they share {shared} nodes.")
        if not nodes.any() or not given.any():
            raise DataError(
                f"training and validation need a node each; got {int(nodes.sum())} and {int(given.sum())}."
            )
        return Folds.one(nodes, given), test

    def _learn_inputs(self, source: Graph) -> None:
        """Learns how features of nodes and edges are put on a common scale."""
        self.treatments_ = FeatureTreatments.learn(source.x, self.train_mask_ | self.val_mask_)
        self.treatments_.log(source.feature_names)
        attr = source.edge_attr
        self.edge_scaling_ = None if attr is None else Scaling.of_features(attr.astype(np.float64))
        self.has_edge_weights_ = source.edge_weight is not None

    def _treatments(self) -> Sequence[str]:
        names = self.treatments_.names
        if self.features == "auto":
            return names
        from polynsd.estimator.features import TREATMENTS

        if self.features not in TREATMENTS:
            raise ConfigError(
                f"features must be 'auto' or one of {', '.join(TREATMENTS)}; got {self.features!r}."
            )
        return [self.features]

    def _inputs(self, source: Graph, device: torch.device) -> Inputs:
        return Inputs(source, self.treatments_, self.edge_scaling_, device)

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

    def _search(
        self,
        prepared: _Prepared,
        on_epoch: OnEpoch | None,
        parts: Parts | None,
        on_candidate: OnCandidate | None,
    ) -> Search:
        graph_and_labels = (prepared.inputs, prepared.target, prepared.folds)
        data = FitData(*graph_and_labels, self._task(), prepared.weights, self.seed_, on_epoch=on_epoch)
        judge = self._judge(prepared.target, prepared.folds.judged)
        return Search(data, judge, self._seconds(), self._size(), parts, on_candidate)

    def _keep(self, prepared: _Prepared, search: Search, attempts: Sequence[Attempt]) -> None:
        """Keeps the ensemble, what it says of the graph of `fit`, and the table of candidates."""
        chosen = sorted((a for a in search.complete if a.weight), key=lambda a: -a.weight)
        self.members_ = [
            Chosen(attempt.member, attempt.weight, attempt.temperature)
            for attempt in chosen
            if attempt.member is not None
        ]
        weights = np.array([attempt.weight for attempt in chosen])
        judged = average([a.judged for a in chosen if a.judged is not None], weights)
        everywhere = average([a.everywhere for a in chosen if a.everywhere is not None], weights)
        self._everywhere: Predictions | None = everywhere  # not stored with a model
        order = sorted(attempts, key=lambda a: (-a.weight, -a.objective))
        self.candidates_ = [attempt.describe() for attempt in order]
        self._decide(judged, prepared.target[prepared.folds.judged])
        self.val_score_ = search.judge.score(self._scored(judged))
        test = self._judge(prepared.target, prepared.test) if prepared.test.any() else None
        guess = self._guess(prepared.target, prepared.folds)
        self.estimate_ = estimate_score(search, self.metric_, everywhere, guess, test, self._scored)

    def _seconds(self) -> float | None:
        """The budget in seconds; None where work decides."""
        budget = as_python(self.budget)
        if budget is None:
            return None
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
            raise ConfigError(f"budget must be a positive number of seconds or None; got {budget!r}.")
        return float(budget)

    def _size(self) -> int:
        """The most members of the ensemble."""
        size = as_python(self.ensemble)
        if isinstance(size, str) and size == "auto":
            return LARGEST_ENSEMBLE
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"ensemble must be 'auto' or a number of models, 1 or more; got {size!r}.")
        return size

    def _predictions(self, graph: Any, edges: Any = None) -> Predictions:
        """`[N, O]` the mean over the ensemble: probabilities, or standardised targets."""
        self._require_fitted()
        if isinstance(graph, GraphNodes):
            return self._predictions(graph.graph)[graph.numbers]
        if graph is None:
            if self._everywhere is None:
                raise ConfigError("the graph of fit is not stored with a model; pass the graph to predict.")
            return self._everywhere
        source = self._with_edges_of_fit(as_graph(self, graph, edges))
        inputs = self._inputs(source, get_device(self.device))
        means = [
            self._as_predictions(member.outputs(inputs), temperature).mean(0)
            for member, _, temperature in self.members_
        ]
        return average(means, np.array([chosen.weight for chosen in self.members_]))

    def _with_edges_of_fit(self, graph: Graph) -> Graph:
        """The graph, whose edges must carry what those of `fit` did."""
        edge_dim = 0 if self.edge_scaling_ is None else len(self.edge_scaling_.mean)
        if not graph.num_edges:
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
            predictions = self._predictions(source)
            labels = self._read_labels(source, y, is_table(graph, edges), some)
        has_label = labels.has_label
        chosen = has_label if nodes is None else labelled_mask("nodes", nodes, has_label)
        return self._judge(self._as_target(labels), chosen).score(self._scored(predictions[chosen]))

    def explain(
        self,
        node: Any,
        graph: Any = None,
        *,
        edges: Any = None,
        target: Any = None,
        top: int = 10,
        exact: int = 3,
    ) -> Explanation:
        """Which features, neighbours and edges moved the prediction of a node.

        Args:
            node: its id, or its number where nodes have no ids.
            graph: as for `predict`; that of `fit` by default.
            edges: likewise.
            target: the class to explain; the predicted one by default.
            top: rows of every table.
            exact: of how many of the top edges the prediction is made again without the edge.
        """
        from polynsd.estimator.explain_ensemble import explain_prediction

        self._require_fitted()
        graph = graph.graph if isinstance(graph, GraphNodes) else graph
        known = getattr(self, "_source", None)
        source = known if graph is None else self._with_edges_of_fit(as_graph(self, graph, edges))
        if source is None:
            raise ConfigError("the graph of fit is not stored with a model; pass the graph to explain.")
        return explain_prediction(self, source, node, target, top, exact)

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
        return {name: value for name, value in vars(self).items() if name != "_source"}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _learn_classes(self, labels: Labels) -> NDArray[Any]:
        """Learns the classes; returns the strata `[N]` by which nodes are held out."""
        raise NotImplementedError

    def _learn_target(self, labels: Labels) -> None:
        """Learns the scale of targets, where they are numbers."""

    def _as_target(self, labels: Labels) -> NDArray[Any]:
        """Labels as candidates are fitted to them `[N]`."""
        raise NotImplementedError

    def _choose_metric(self, target: NDArray[Any], folds: Folds) -> str:
        raise NotImplementedError

    def _node_weights(
        self, sample_weight: Any, target: NDArray[Any], folds: Folds
    ) -> NDArray[np.float64] | None:
        """`[N]` of mean 1 on the labelled nodes; None where all are alike."""
        if sample_weight is None:
            return None
        values = np.asarray(sample_weight, dtype=np.float64)
        if values.shape != target.shape[:1]:
            raise DataError(
                f"sample_weight must hold one weight per node, [{len(target)}]; got {list(values.shape)}."
            )
        used = folds.used
        if not np.isfinite(values[used]).all() or (values[used] < 0).any():
            raise DataError("sample_weight must be finite and not negative; correct or leave out such nodes.")
        if not (folds.train * values).any(1).all():
            raise DataError("sample_weight is zero on all training nodes; some weight must be positive.")
        return np.where(used, values / values[used].mean(), 0.0)

    def _task(self) -> Task:
        raise NotImplementedError

    def _judge(self, target: NDArray[Any], nodes: Mask) -> Judge:
        raise NotImplementedError

    def _as_predictions(self, outputs: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
        """Outputs of a member as what is averaged."""
        raise NotImplementedError

    def _guess(self, target: NDArray[Any], folds: Folds) -> NDArray[np.float64]:
        """`[O]` the prediction that looks at nothing."""
        raise NotImplementedError

    def _scored(self, predictions: Predictions) -> Predictions:
        """What the metric sees of predictions."""
        return predictions

    def _decide(self, judged: Predictions, y: NDArray[Any]) -> None:
        """Learns how predictions become decisions, where there is something to learn."""
