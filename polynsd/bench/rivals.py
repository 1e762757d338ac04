"""What a user would take instead of the estimator, each with a search on validation nodes.

    inputs = RivalInputs(graph, "accuracy", torch.device("cpu"))
    found = search_rival("gcn", inputs, split, seconds=20.0, seed=0)

| rival                     | what it is                                                                  |
|---------------------------|-----------------------------------------------------------------------------|
| gcn, sage, gat, mlp       | the models of PyTorch Geometric                                             |
| gprgnn                    | a learned polynomial of the graph, behind an MLP                            |
| tuned-gcn, tuned-sage     | convolutions with norm, residual and depth (Luo et al., 2024)               |
| logistic                  | scikit-learn's `LogisticRegression` on [X, PX, P²X], P = D⁻¹A               |
| boosting                  | scikit-learn's `HistGradientBoostingClassifier` on [X, PX]                  |

Networks train on the full batch with Adam and stop early on validation. A search begins with the usual
configuration, draws others at random until its time is over, and keeps the best on validation. The first one
always ends; a network that trains when the time is over counts as far as it came.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import models

from polynsd.bench.rival_inputs import RivalInputs
from polynsd.data import Split
from polynsd.data.graph import Features
from polynsd.optional import load_optional
from polynsd.zoo import model_class

Options = dict[str, Any]
Grid = Mapping[str, tuple[Any, ...]]

EPOCHS, PATIENCE = 1000, 100  # of a network
WIDE = 256  # of more columns, boosting sees as many principal components
LEAST = 1e-12  # a probability, before its logarithm
MOST_DRAWS = 1000  # without a new configuration: the grid is used up


@dataclass(frozen=True, eq=False)
class Trial:
    """A trained configuration: its validation score and loss, and logits `[N, C]`."""

    val: float
    val_loss: float
    logits: Tensor

    def is_better(self, other: Trial | None) -> bool:
        return other is None or (self.val, -self.val_loss) > (other.val, -other.val_loss)


@dataclass(frozen=True)
class Found:
    """The outcome of a search."""

    test: float
    val: float
    seconds: float
    trials: int
    parameters: Options


@dataclass(frozen=True)
class Rival:
    """How one configuration is trained, the usual configuration, and what a search varies.

    Args:
        fit: (inputs, split, options, seed, the time to stop at) → the trained configuration.
        usual: what is tried first.
        grid: option → values; the treatment of the features, `features`, is varied as well.
    """

    fit: Callable[[RivalInputs, Split, Options, int, float], Trial]
    usual: Options
    grid: Grid

    def configurations(self, treatments: tuple[str, ...], seed: int) -> Iterator[Options]:
        """The usual one, then others in random order, none twice."""
        draw, seen = np.random.default_rng(seed), set[tuple[Any, ...]]()
        grid = {"features": treatments, **self.grid}
        options, misses = {"features": treatments[0], **self.usual}, 0
        while misses < MOST_DRAWS:
            key = tuple(options[name] for name in grid)
            misses = 0 if key not in seen else misses + 1
            if key not in seen:
                seen.add(key)
                yield options
            options = {name: values[draw.integers(len(values))] for name, values in grid.items()}


def search_rival(name: str, inputs: RivalInputs, split: Split, seconds: float, seed: int) -> Found:
    """The best on validation of the configurations that so many seconds allow.

    One that does not fit in the memory of the device is passed over; if none does, that is the error.
    """
    start, rival = time.perf_counter(), RIVALS[name]
    best, chosen, trials, failure = None, Options(), 0, None
    for options in rival.configurations(inputs.treatments, seed):
        if (trials or failure) and time.perf_counter() - start >= seconds:
            break
        try:
            trial = rival.fit(inputs, split, options, seed + trials, start + seconds if trials else math.inf)
        except torch.OutOfMemoryError as error:
            failure = error.with_traceback(None)  # its frames would keep the memory
            torch.cuda.empty_cache()
            continue
        trials += 1
        if trial.is_better(best):
            best, chosen = trial, options
    if best is None:
        assert failure is not None
        raise failure
    test = inputs.task.score(best.logits[split.test], inputs.y[split.test])
    return Found(test, best.val, time.perf_counter() - start, trials, chosen)


# networks

Build = Callable[..., nn.Module]


def train_network(
    build: Build, edges: str, inputs: RivalInputs, split: Split, options: Options, seed: int, stop_at: float
) -> Trial:
    """Adam on all training nodes at once; the epoch with the best validation score counts."""
    rest = dict(options)
    x, edge_index = inputs.tensor(rest.pop("features")), getattr(inputs, edges)
    rate, decay, input_dropout = (rest.pop(key) for key in ("rate", "decay", "input_dropout"))
    torch.manual_seed(seed)
    sizes = (x.size(1), rest.pop("width"), rest.pop("depth"), inputs.graph.num_classes)
    model = build(*sizes, **rest).to(inputs.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
    train, val = (part.nonzero().squeeze(1).to(inputs.device) for part in (split.train, split.val))
    y, best, best_epoch = inputs.y.to(inputs.device), None, 0
    for epoch in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        logits = model(functional.dropout(x, input_dropout), edge_index)
        functional.cross_entropy(logits[train], y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            logits = model(x, edge_index)
        val_loss = float(functional.cross_entropy(logits[val], y[val]))
        trial = Trial(inputs.task.score(logits[val], y[val]), val_loss, logits)
        if trial.is_better(best):
            best, best_epoch = trial, epoch
        if epoch - best_epoch >= PATIENCE or time.perf_counter() >= stop_at:
            break
    assert best is not None
    return Trial(best.val, best.val_loss, best.logits.cpu())


class MLP(nn.Module):
    """PyG's MLP, called with edges that it does not look at."""

    def __init__(self, *sizes: int, dropout: float, norm: str | None) -> None:
        super().__init__()
        names = ("in_channels", "hidden_channels", "num_layers", "out_channels")
        self.mlp = models.MLP(**dict(zip(names, sizes, strict=True)), dropout=dropout, norm=norm)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.mlp(x)
        return logits


def network(build: Build, usual: Options, grid: Grid, edges: str = "edge_index") -> Rival:
    """A network whose size, dropout and optimiser are searched with its own options.

    `edges` says in which form of `RivalInputs` the network takes them.
    """
    start = {"width": 64, "depth": 2, "dropout": 0.5, "input_dropout": 0.0, "rate": 0.01, "decay": 5e-4}
    common = {
        "width": (32, 64, 128, 256),
        "depth": (2, 3),
        "dropout": (0.0, 0.2, 0.5, 0.7),
        "input_dropout": (0.0, 0.5),
        "rate": (0.003, 0.01, 0.03),
        "decay": (0.0, 5e-5, 5e-4, 5e-3),
    }
    return Rival(partial(train_network, build, edges), {**start, **usual}, {**common, **grid})


# scikit-learn


def fit_logistic(inputs: RivalInputs, split: Split, options: Options, seed: int, stop_at: float) -> Trial:
    """Logistic regression on [X, PX, P²X] with penalty ‖W‖²/2C."""
    linear = load_optional("sklearn.linear_model", "logistic regression needs", "dev")
    model = linear.LogisticRegression(C=options["C"], max_iter=options["iterations"])
    return fit_sklearn(model, inputs.hops(options["features"], 2), inputs, split)


def fit_boosting(inputs: RivalInputs, split: Split, options: Options, seed: int, stop_at: float) -> Trial:
    """Boosted trees on [X, PX], or on principal components where it has many columns."""
    ensemble = load_optional("sklearn.ensemble", "gradient boosting needs", "dev")
    rest = {name: value for name, value in options.items() if name != "features"}
    model = ensemble.HistGradientBoostingClassifier(**rest, early_stopping=False, random_state=seed)
    return fit_sklearn(model, inputs.components(options["features"], WIDE), inputs, split)


def fit_sklearn(model: Any, x: Features, inputs: RivalInputs, split: Split) -> Trial:
    """Log-probabilities of all nodes as logits; a class without training nodes has the least."""
    train = split.train.numpy()
    model.fit(x[train], inputs.y.numpy()[train])
    probabilities = np.full((len(inputs.y), inputs.graph.num_classes), LEAST)
    probabilities[:, model.classes_] = np.maximum(model.predict_proba(x), LEAST)
    logits, y = torch.from_numpy(np.log(probabilities)), inputs.y
    val_loss = float(inputs.task.loss(logits[split.val], y[split.val]))
    return Trial(inputs.task.score(logits[split.val], y[split.val]), val_loss, logits)


TUNED: Grid = {
    "width": (64, 128, 256, 512),
    "depth": (1, 2, 3, 4, 6, 8),
    "norm": ("batch", "layer", "none"),
    "residual": (True, False),
    "pre_linear": (False, True),
    "rate": (0.001, 0.005, 0.01),
}
TUNED_USUAL: Options = {"width": 256, "norm": "batch", "residual": True, "pre_linear": False, "rate": 0.005}
RIVALS: Mapping[str, Rival] = {
    "gcn": network(models.GCN, {"cached": True}, {"cached": (True,)}),
    "sage": network(models.GraphSAGE, {}, {}, edges="adjacency"),
    "gat": network(models.GAT, {"heads": 8}, {"heads": (1, 4, 8)}),
    "mlp": network(MLP, {"norm": None}, {"norm": (None, "batch_norm")}),
    "gprgnn": network(
        model_class("gprgnn"),
        {"alpha": 0.1, "filter_dropout": 0.5},
        {"alpha": (0.1, 0.2, 0.5, 0.9), "filter_dropout": (0.0, 0.2, 0.5, 0.8)},
    ),
    "tuned-gcn": network(partial(model_class("tuned-gcn"), conv="gcn"), TUNED_USUAL, TUNED),
    "tuned-sage": network(partial(model_class("tuned-sage"), conv="sage"), TUNED_USUAL, TUNED),
    "logistic": Rival(
        fit_logistic,
        {"C": 1.0, "iterations": 300},
        {"C": (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0), "iterations": (300,)},
    ),
    "boosting": Rival(
        fit_boosting,
        {
            "max_iter": 100,
            "learning_rate": 0.1,
            "max_leaf_nodes": 31,
            "min_samples_leaf": 5,
            "max_features": 1.0,
            "l2_regularization": 0.0,
        },
        {
            "max_iter": (30, 100, 200),
            "learning_rate": (0.03, 0.1),
            "max_leaf_nodes": (7, 15, 31),
            "min_samples_leaf": (5, 20),
            "max_features": (0.3, 1.0),
            "l2_regularization": (0.0, 1.0, 10.0),
        },
    ),
}
