"""What `SheafClassifier` and `SheafRegressor` share: parameters and `fit`; for the rest see `fitted.py`.

`fit` reads the graph and its labels (`inputs.py`, `labels.py`), divides the labelled nodes (`folds.py`),
tries candidates, cheapest first (`candidates.py`, `search.py`), and keeps the ensemble that predicts best
what its members have not seen (`ensemble.py`).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polynsd.data import Graph
from polynsd.devices import get_device
from polynsd.errors import ConfigError, DataError
from polynsd.estimator.candidates import EXAMPLES, make_candidates
from polynsd.estimator.ensemble import Predictions, average
from polynsd.estimator.estimate import Answers, estimate_score
from polynsd.estimator.features import TREATMENTS, FeatureTreatments
from polynsd.estimator.fitted import Chosen, FittedEstimator
from polynsd.estimator.folds import Folds, GivenNodes, divide_nodes
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.judge import Judge
from polynsd.estimator.labels import Labels, Mask, read_groups
from polynsd.estimator.members import TRANSDUCTIVE, Candidate, FitData, OnEpoch
from polynsd.estimator.nodes import GraphNodes
from polynsd.estimator.nodes_of_fit import NodesOfFit
from polynsd.estimator.reading import as_graph, is_table
from polynsd.estimator.search import Attempt, CandidateSearch, CandidateStore, OnCandidate
from polynsd.estimator.sklearn_compat import as_python, draw_seed

logger = logging.getLogger("polynsd")

E = TypeVar("E", bound="SheafEstimator")

LARGEST_ENSEMBLE = 12


class SheafEstimator(FittedEstimator):
    """An ensemble of models of a graph that chooses for itself what was left `"auto"`."""

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
        groups: Any = None,
        edges: Any = None,
        sample_weight: Any = None,
        on_epoch: OnEpoch | None = None,
        parts: CandidateStore | None = None,
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
            groups: `[N]` a number or a name per node, e.g. of a customer; nodes of one group are held out
                together, to choose on and for `test_fraction`. A gap or −1 is a group of its own.
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
        data, apart, own = self._prepare(graph, y, GivenNodes(train, val, test, groups), edges, sample_weight)
        search = CandidateSearch(
            replace(data, on_epoch=on_epoch),
            self._make_judge(data.folds.judged, data.target),
            self._seconds(),
            self._size(),
            parts,
            on_candidate or self._print_candidate,
        )
        search.run(own if candidates is None else candidates)
        self._keep_ensemble(search, apart)
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
        groups: Any = None,
        edges: Any = None,
        sample_weight: Any = None,
    ) -> None:
        """Raises what `fit` would raise before it trains; changes nothing and tells nothing."""
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            copy.deepcopy(self)._prepare(graph, y, GivenNodes(train, val, test, groups), edges, sample_weight)
        finally:
            logger.setLevel(level)

    def _prepare(
        self, graph: Any, y: Any, given: GivenNodes, edges: Any, sample_weight: Any
    ) -> tuple[FitData, Mask, list[Candidate]]:
        """What comes before training: data, nodes `[N]` that only the estimate sees, and candidates."""
        self._seconds()
        self._size()
        device = get_device(self.device)
        self.seed_ = draw_seed(self.random_state)
        nodes = graph if isinstance(graph, GraphNodes) else None
        graph = graph if nodes is None else nodes.graph
        label = y if isinstance(y, str) else None
        source = as_graph(self, graph, edges, reset=True, label=label)
        y = None if label is not None else y
        self._source = source
        self._in_table = is_table(graph, edges)
        if source.masks and all(part is None for part in given) and nodes is None:
            logger.warning("the splits of '%s' are not used; pass train=… and val=… to use one.", source.name)
        self._labels = self._read_labels(source, y, self._in_table, nodes)
        strata = self._make_strata(self._labels)
        if given.groups is not None:
            rows = None if nodes is None else nodes.numbers
            given = given._replace(groups=read_groups(given.groups, source.num_nodes, rows))
        shares = as_python(self.test_fraction), as_python(self.validation_fraction)
        folds, test = divide_nodes(given, self._labels.has_label, strata, *shares, self.seed_)
        folds = replace(folds, groups=given.groups)
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
        return FitData(inputs, target, folds, self._task, weights, self.seed_), test, candidates

    def _learn_inputs(self, source: Graph) -> None:
        """Learns how features of nodes and edges are put on a common scale."""
        self.treatments_ = FeatureTreatments.learn(source.x, self.train_mask_ | self.val_mask_)
        self.treatments_.log(source.feature_names)
        self.nodes_of_fit_ = NodesOfFit.of(source, self.treatments_.apply(source.x))
        attr = source.edge_attr
        self.edge_scaling_ = None if attr is None else Scaling.of_features(attr.astype(np.float64))
        self.has_edge_weights_ = source.edge_weight is not None
        self.has_edges_ = bool(source.num_edges)

    def _treatments(self) -> Sequence[str]:
        names = self.treatments_.names
        if self.features == "auto":
            return names
        if self.features not in TREATMENTS:
            raise ConfigError(
                f"features must be 'auto' or one of {', '.join(TREATMENTS)}; got {self.features!r}."
            )
        return [self.features]

    def _keep_ensemble(self, search: CandidateSearch, apart: Mask) -> None:
        """Keeps the ensemble, what it says of the graph of `fit`, the candidates and the estimate."""
        chosen = sorted((a for a in search.complete if a.weight), key=lambda a: -a.weight)
        self.members_ = [
            Chosen(attempt.member, attempt.weight, attempt.calibration)
            for attempt in chosen
            if attempt.member is not None
        ]
        weights = np.array([attempt.weight for attempt in chosen])
        judged = average([a.judged for a in chosen], weights)
        self._everywhere = average([a.everywhere for a in chosen], weights)
        order = sorted(search.attempts, key=lambda a: (-a.weight, -a.objective))
        self.candidates_ = [attempt.describe() for attempt in order]
        self._decide(judged, search.judge.y)
        folds, target, is_apart = search.data.folds, search.data.target, bool(apart.any())
        judge = Judge.of_nodes(folds.judged, target, self._task)
        self.val_score_ = judge.score(self._scored(judged))
        if is_apart:
            judge = Judge.of_nodes(apart, target, self._task)
        ensemble = Attempt("ensemble", "ensemble", 0.0, everywhere=self._everywhere, judged=judged)
        guess = self._guess(target, folds)
        self.estimate_ = estimate_score(search, judge, ensemble, guess, self._answer, is_apart)

    def _make_judge(self, nodes: Mask, target: NDArray[Any]) -> Judge:
        """What compares candidates and ensembles on these nodes."""
        return Judge.of_nodes(nodes, target, self._task)

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

    def _make_strata(self, labels: Labels) -> NDArray[Any]:
        """Learns the classes; returns the strata `[N]` by which nodes are held out."""
        raise NotImplementedError

    def _learn_target(self, labels: Labels) -> None:
        """Learns the scale of targets, where they are numbers."""

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

    def _guess(self, target: NDArray[Any], folds: Folds) -> NDArray[np.float64]:
        """`[O]` the prediction that looks at nothing."""
        raise NotImplementedError

    def _decide(self, judged: Predictions, y: NDArray[Any]) -> None:
        """Learns how predictions become decisions, where there is something to learn."""

    def _answer(self, known: Predictions, y: NDArray[Any], asked: Predictions) -> Answers:
        """What is said of the predictions `asked`, by a decision that is learned on other nodes."""
        return Answers(self._rescale(asked), asked, None)
