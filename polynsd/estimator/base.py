"""What `SheafClassifier` and `SheafRegressor` share: parameters, `fit`, and the outputs of the model.

`fit` reads the graph and its labels (`inputs.py`, `labels.py`), holds nodes out, and searches a list of
configurations (`candidates.py`) by successive halving (`polynsd.search.halving`). It keeps the best model.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.data import Graph
from polynsd.devices import get_device
from polynsd.errors import ConfigError
from polynsd.estimator.candidates import DEFAULTS, label_of, make_candidates, parameters_of
from polynsd.estimator.inputs import Scaling, as_data, as_graph, dense_features, edge_inputs, is_table
from polynsd.estimator.labels import HeldOut, Labels, graph_labels, hold_out, labelled_mask, read_labels
from polynsd.estimator.sklearn_compat import BaseEstimator, NotFittedError, as_python, draw_seed
from polynsd.search.halving import successive_halving
from polynsd.search.trials import Trial
from polynsd.training import Configuration, Epoch, Problem, Task, get_task

if TYPE_CHECKING:
    from torch_geometric.data import Data

logger = logging.getLogger("polynsd")

E = TypeVar("E", bound="SheafEstimator")
OnEpoch = Callable[[str, Epoch], None]  # the name of what trains, and its epoch

SHORT = "short"


class SheafEstimator(BaseEstimator):  # type: ignore[misc]
    """A PolyNSD model that chooses for itself what was left `"auto"`."""

    is_regression = False

    def __init__(
        self,
        maps: Any = "auto",
        stalk_dim: Any = "auto",
        degree: Any = "auto",
        hidden_channels: Any = "auto",
        num_layers: Any = "auto",
        dropout: Any = "auto",
        learning_rate: Any = "auto",
        weight_decay: Any = "auto",
        epochs: Any = "auto",
        budget: Any = "short",
        validation_fraction: float = 0.2,
        standardize: bool = True,
        device: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.maps, self.stalk_dim, self.degree = maps, stalk_dim, degree
        self.hidden_channels, self.num_layers, self.dropout = hidden_channels, num_layers, dropout
        self.learning_rate, self.weight_decay, self.epochs = learning_rate, weight_decay, epochs
        self.budget, self.validation_fraction = budget, validation_fraction
        self.standardize, self.device, self.random_state = standardize, device, random_state

    def fit(
        self: E,
        graph: Any,
        y: Any = None,
        *,
        train: Any = None,
        val: Any = None,
        edges: Any = None,
        on_epoch: OnEpoch | None = None,
    ) -> E:
        """Trains on the labelled nodes, choosing on held-out ones.

        Args:
            graph: a `Graph`, PyG's `Data`, a pair (x, edge_index), or a table of features `[n, F]`.
            y: a label per node, in place of the graph's own.
            train: the nodes to train on, as a mask or as numbers; all labelled ones by default.
            val: the nodes to choose on; a share of every class of the training nodes by default
                (`validation_fraction`).
            edges: with a table of features: an edge index `[2, E]` or SciPy's sparse adjacency matrix.
            on_epoch: called with what trains and its epoch, e.g. to move a progress bar.
        """
        if hasattr(self, "model_"):
            del self.model_  # a fit that fails leaves no half of an older one
        source, target, split = self._prepare(graph, y, train, val, edges)
        self._train(source, target, split, on_epoch)
        self._calibrate(target)
        return self

    def check(
        self, graph: Any, y: Any = None, *, train: Any = None, val: Any = None, edges: Any = None
    ) -> None:
        """Raises what `fit` would raise before it trains; the estimator stays as it is."""
        other = copy.deepcopy(self)
        other.candidates(other._prepare(graph, y, train, val, edges)[0])

    def _prepare(self, graph: Any, y: Any, train: Any, val: Any, edges: Any) -> tuple[Graph, Tensor, HeldOut]:
        """Graph, target and split; everything of `fit` that comes before training."""
        self._seconds()
        self._device()
        self.seed_ = draw_seed(self.random_state)
        source = as_graph(self, graph, edges, reset=True)
        self._in_table = is_table(graph, edges)
        if source.masks and train is None and val is None:
            logger.warning("the splits of '%s' are not used; pass train=… and val=… to use one.", source.name)
        given = graph_labels(source) if y is None and not self._in_table else y
        self._labels = read_labels(given, source.num_nodes, self._in_table, self.is_regression)
        strata = self._learn_classes(self._labels)
        split = hold_out(self._labels.has_label, strata, train, val, self.validation_fraction, self.seed_)
        self.train_mask_, self.val_mask_ = split.train.numpy(), split.val.numpy()
        self.n_train_, self.n_val_ = int(split.train.sum()), int(split.val.sum())
        self._learn_scaling(source)
        target = self._as_target(self._labels)
        self.metric_ = self._choose_metric(target)
        return source, target, split

    def score(self, graph: Any = None, y: Any = None, *, nodes: Any = None, edges: Any = None) -> float:
        """`metric_` on the labelled nodes, or on those in `nodes`.

        Without a graph it is that of `fit`; without `y` and `nodes` too, its validation nodes. A label that
        is none of the model's classes is never right; ROC-AUC leaves it out.
        """
        if graph is None:
            outputs, in_table = self._outputs(None), self._in_table
            labels = self._labels if y is None else read_labels(y, len(outputs), in_table, self.is_regression)
            chosen = self.val_mask_ if y is None else labels.has_label
        else:
            self._require_fitted()
            source, in_table = as_graph(self, graph, edges), is_table(graph, edges)
            outputs, given = self._outputs(source), graph_labels(source) if y is None else y
            labels = read_labels(given, len(outputs), in_table, self.is_regression)
            chosen = labels.has_label
        chosen = chosen if nodes is None else labelled_mask("nodes", nodes, labels.has_label)
        target = self._as_target(labels)[chosen]
        return get_task(self.metric_).score(torch.from_numpy(outputs[chosen]), target)

    def _train(self, source: Graph, target: Tensor, split: HeldOut, on_epoch: OnEpoch | None) -> None:
        """Searches the candidates, and keeps the best."""
        self.graph_ = self._as_data(source)
        data = copy.copy(self.graph_)
        data.x, data.y = data.x.float(), target.to(data.x.device)
        problem = Problem(data, (split,), self._task(target), self.seed_)

        def report(trial: Trial, epoch: Epoch) -> None:
            if on_epoch is not None:
                on_epoch(label_of(trial.configuration), epoch)

        trials = successive_halving(problem, self.candidates(source), self._seconds(), report)
        best = trials[0]
        self._keep(best.configuration, best.models[0])
        self.val_score_, self.best_epoch_ = best.val[0], best.best_epoch[0]
        self.search_results_ = [
            {
                **parameters_of(trial.configuration),
                "rung": trial.rung,
                "trained_epochs": trial.epochs[0],
                "best_epoch": trial.best_epoch[0],
                "val_score": trial.val[0],
                "val_loss": trial.val_loss[0],
                "diverged": trial.state == "failed",
                "chosen": trial is best,
            }
            for trial in trials
        ]

    def candidates(self, source: Graph) -> list[Configuration]:
        """The configurations that `fit` will try on a graph."""
        given = {name: as_python(getattr(self, name)) for name in DEFAULTS}
        edge_dim = 0 if source.edge_attr is None else source.edge_attr.shape[1]
        return make_candidates(given, self.budget is not None, edge_dim)

    def _seconds(self) -> float | None:
        """The budget in seconds; None where epochs alone decide."""
        budget = as_python(self.budget)
        if budget is None or budget == SHORT:
            return None
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
            raise ConfigError(
                f"budget must be '{SHORT}', a positive number of seconds or None; got {budget!r}."
            )
        return float(budget)

    def _keep(self, configuration: Configuration, model: nn.Module) -> None:
        self.config_, self.train_config_ = configuration
        self.model_ = model.double().eval()

    def _learn_scaling(self, source: Graph) -> None:
        x = dense_features(source)
        self.feature_scaling_ = self._scaling(x[self.train_mask_])
        attr = source.edge_attr
        self.edge_scaling_ = None if attr is None else self._scaling(attr.astype(np.float64))
        self.has_edge_weights_ = source.edge_weight is not None

    def _scaling(self, values: NDArray[np.float64]) -> Scaling:
        if self.standardize and len(values):
            return Scaling.of_features(values)
        return Scaling.none(values.shape[1])

    def _as_data(self, graph: Graph) -> Data:
        return as_data(graph, self.feature_scaling_, self.edge_scaling_).to(self._device())

    def _device(self) -> torch.device:
        return get_device(self.device)

    @torch.no_grad()
    def _outputs(self, graph: Any, edges: Any = None) -> NDArray[np.float64]:
        """Logits or standardised targets of every node `[N, O]`."""
        self._require_fitted()
        if graph is not None:
            data = self._as_data(as_graph(self, graph, edges))
        elif getattr(self, "graph_", None) is not None:
            data = self.graph_
        else:
            raise ConfigError("the graph of fit is not stored with a model; pass the graph to predict.")
        extra = edge_inputs(data, self.has_edge_weights_, self.config_.layer.edge_dim)
        return self.model_.to(data.x.device)(data.x, data.edge_index, **extra).cpu().numpy()

    def _require_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit or load first.")

    def save(self, folder: str | Path) -> Path:
        """Writes the fitted model into a new folder: weights, configuration, scores; no pickles."""
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _learn_classes(self, labels: Labels) -> NDArray[Any]:
        """Learns the classes; returns the strata `[N]` by which validation nodes are drawn."""
        raise NotImplementedError

    def _as_target(self, labels: Labels) -> Tensor:
        """Labels as the model is trained on them `[N]`."""
        raise NotImplementedError

    def _choose_metric(self, target: Tensor) -> str:
        raise NotImplementedError

    def _task(self, target: Tensor) -> Task:
        raise NotImplementedError

    def _num_outputs(self) -> int:
        raise NotImplementedError

    def _calibrate(self, target: Tensor) -> None:
        """Rescales probabilities, where there are any."""
