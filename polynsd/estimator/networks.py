"""PolyNSD models as candidates: trained on all folds at once, and kept as one state per fold.

Candidates whose models have the same shape train together as replicas (`fit_networks`). Those that fall
behind on validation are ended on the way, so a second and third setting of one shape costs little more than
the epochs in which it might still have been the best.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from polynsd.config import ModelConfig, TrainConfig, from_options
from polynsd.devices import to_wide, with_double
from polynsd.errors import DataError
from polynsd.estimator.folds import Folds
from polynsd.estimator.judge import LOSS_SHARE as JUDGED_SHARE
from polynsd.estimator.members import FitData, Fitted, Outputs, State
from polynsd.fields import require_fields
from polynsd.training import Configuration, Epoch, FitResult, Replica, Task, fit_replicas
from polynsd.training.configuration import plain_configuration, shape_key
from polynsd.training.replica import NOT_FINITE, call_model
from polynsd.zoo import build_model
from polynsd.zoo.states import check_state

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs

LOSS_SHARE = 0.1  # of the loss in what chooses the epoch where one part is held out
TEMPERATURES = tuple(2 ** (step / 2) for step in range(-2, 7))  # ½ … 8, at which folds judge together
FEWEST_JUDGES = 200  # held-out nodes that may end a setting early
RUNGS = {40: 0.03, 100: 0.01}  # epochs, and by how much a setting may then be behind the best of its shape


@dataclass(frozen=True)
class Network:
    """A configuration of PolyNSD, and the features that it sees."""

    name: str
    family: str
    configuration: Configuration
    treatment: str = "standard"

    @property
    def shape(self) -> tuple[str, str]:
        """Equal for candidates that can train together."""
        return self.treatment, shape_key(self.configuration)

    def fit(self, data: FitData) -> Fitted:
        """See `Candidate`."""
        (member,) = fit_networks([self], data)
        if member is None:
            raise DataError(NOT_FINITE)
        return Fitted(member, member.outputs(data.inputs))


@dataclass(frozen=True, eq=False)
class NetworkMember:
    """The models of a configuration, one per fold."""

    name: str
    family: str
    configuration: Configuration
    treatment: str
    models: Sequence[nn.Module]
    epochs: int
    """How many were trained, over all folds."""
    sizes: tuple[int, int]
    """Columns of the input and of the output."""
    best_epochs: Sequence[int]
    """The epoch of every fold that was kept."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The settings that a reader asks for."""
        model, training = self.configuration
        return {
            "treatment": self.treatment,
            "maps": model.layer.maps,
            "stalk_dim": model.layer.stalk_dim,
            "degree": model.layer.degree,
            "hidden_channels": model.hidden_channels,
            "num_layers": model.num_layers,
            "dropout": model.layer.dropout,
            "learning_rate": training.learning_rate,
            "weight_decay": training.weight_decay,
            "epochs": self.epochs,
        }

    @torch.no_grad()
    def outputs(self, inputs: Inputs) -> Outputs:
        """See `Member`; in double precision, where the order of nodes does not matter."""
        data = inputs.data(self.treatment, with_double(inputs.device), torch.float64)
        models = [model.to(data.x.device).double() for model in self.models]
        return np.stack([call_model(model, data).cpu().numpy() for model in models])

    def state(self) -> State:
        """See `Member`."""
        data = {
            "name": self.name,
            "family": self.family,
            "treatment": self.treatment,
            "epochs": self.epochs,
            "best_epochs": list(self.best_epochs),
            **plain_configuration(self.configuration),
            "sizes": list(self.sizes),
        }
        states = [model.state_dict() for model in self.models]
        tensors = {name: torch.stack([_stored(s[name]) for s in states]) for name in states[0]}
        return data, tensors

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NetworkMember:
        """See `Member`."""
        require_fields(
            data,
            **dict.fromkeys(("name", "family", "treatment"), str),
            epochs=int,
            best_epochs=list[int],
            sizes=list[int],
            **dict.fromkeys(("model", "training"), dict[str, Any]),
        )
        configuration = Configuration(
            from_options(ModelConfig, data["model"]), from_options(TrainConfig, data["training"])
        )
        width, num_outputs = data["sizes"]
        models, sizes = [], (width, num_outputs)
        counts = {len(values) if values.ndim else 0 for values in tensors.values()}
        if len(counts) != 1 or counts == {0}:
            raise DataError("there must be as many models in every tensor of a network")
        check_state(configuration.model, sizes, {name: values[0] for name, values in tensors.items()})
        for fold in range(*counts):
            model = build_model(configuration.model, *sizes)
            model.load_state_dict({name: values[fold] for name, values in tensors.items()})
            models.append(model.double().eval())
        return cls(
            data["name"],
            data["family"],
            configuration,
            data["treatment"],
            models,
            data["epochs"],
            sizes,
            data["best_epochs"],
        )

    def takes(self, columns: int, num_outputs: int) -> bool:
        """See `Member`."""
        return self.sizes == (columns, num_outputs)


def fit_networks(networks: Sequence[Network], data: FitData) -> list[NetworkMember | None]:
    """Trains candidates of one shape on all folds in one call; None for one whose loss was not finite.

    All folds choose one epoch together, by all held-out nodes. Were every fold to choose its own by its own
    nodes, the best of some hundred epochs would be one by luck, and a network would seem better than a
    linear model that has no such choice: of 20 networks on six graphs the score out of fold was then 2.8
    points above that on test nodes (spread 3.4), with one epoch for all 0.5 (2.1); test scores were alike.
    """
    inputs, folds = data.inputs, data.folds
    graph = copy.copy(inputs.data(networks[0].treatment, inputs.device))
    graph.y = torch.from_numpy(data.target).to(inputs.device)
    if data.task.is_regression:
        graph.y = graph.y.float()[:, None]
    sizes = (graph.x.size(1), data.num_outputs)
    num_judges, splits = int((folds.val & ~folds.train).sum()), list(folds.splits())
    replicas = [
        Replica(
            partial(build_model, network.configuration.model, *sizes),
            split,
            data.seed + fold,
            _training_rules(network.configuration.training, num_judges),
            network.shape[1],
        )
        for network in networks
        for fold, split in enumerate(splits)
    ]
    rungs = RUNGS if num_judges >= FEWEST_JUDGES else {}
    race = _Race([network.name for network in networks], data, rungs)
    training_task = _training_task(data, num_judges)
    fits = fit_replicas(
        replicas, graph, training_task, on_epoch=race.report, stop=race.stop, score_test=False
    )
    return [
        _member(network, fits[number * len(splits) : (number + 1) * len(splits)], sizes)
        for number, network in enumerate(networks)
    ]


class _Race:
    """Ends the settings that are far behind at a rung, and all of them at the deadline."""

    def __init__(self, names: Sequence[str], data: FitData, rungs: Mapping[int, float]) -> None:
        self.names, self.data, self.rungs = names, data, rungs
        self.best = np.full((len(names), len(data.folds)), -np.inf)
        self.left = set(range(len(names)))

    def report(self, number: int, epoch: Epoch) -> None:
        setting, fold = divmod(number, len(self.data.folds))
        if epoch.is_best or not np.isfinite(self.best[setting, fold]):
            self.best[setting, fold] = epoch.val_metric
        if self.data.on_epoch is not None:
            self.data.on_epoch(self.names[setting], epoch)

    def stop(self, epoch: int) -> Collection[int]:
        deadline, num_folds = self.data.deadline, len(self.data.folds)
        if deadline is not None and time.monotonic() >= deadline:
            self.left = set()
        elif epoch in self.rungs:
            scores, margin = self.best.mean(1), self.rungs[epoch]
            self.left = {setting for setting in self.left if scores[setting] >= scores.max() - margin}
        return [
            setting * num_folds + fold
            for setting in range(len(self.names))
            if setting not in self.left
            for fold in range(num_folds)
        ]


def fit_again(member: NetworkMember, data: FitData) -> NetworkMember:
    """The member with one more model, of all labelled nodes and for as many epochs as were best before."""
    everyone = data.folds.used
    model, training = member.configuration
    once = Configuration(model, replace(training, epochs=max(member.best_epochs)))
    network = Network(member.name, member.family, once, member.treatment)
    (again,) = fit_networks([network], replace(data, folds=Folds.one(everyone, everyone)))
    return member if again is None else replace(member, models=[*member.models, *again.models])


def _training_rules(training: TrainConfig, num_judges: int) -> TrainConfig:
    return replace(training, select="metric", patience=training.patience if num_judges else training.epochs)


def _training_task(data: FitData, num_judges: int) -> Task:
    """The task whose metric chooses the epoch, with so many held-out nodes in all folds.

    The metric of few nodes has many ties, so a share of the loss is taken from it. Where nothing is held out,
    the training loss alone says how far a training has come.
    """
    task, weights = data.task, data.weights
    held_out = torch.from_numpy(np.flatnonzero(data.folds.judged)).to(data.inputs.device)
    factors = None if weights is None else torch.from_numpy(weights).float().to(data.inputs.device)

    def node_losses(output: Tensor, y: Tensor) -> Tensor:
        losses = task.node_losses(output, y)
        return losses if factors is None else factors * losses

    def progress(output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        if num_judges and len(data.folds) > 1 and len(output) % len(data.folds) == 0:  # all in one batch
            return _judge_together(task, output[:, held_out], y[held_out], mask[:, held_out], len(data.folds))
        losses = to_wide(task.losses(output, y, mask))
        return task.metrics(output, y, mask).nan_to_num() - LOSS_SHARE * losses if num_judges else -losses

    return replace(task, node_losses=node_losses, metrics=progress, check=_accept)


def _judge_together(task: Task, output: Tensor, y: Tensor, mask: Tensor, num_folds: int) -> Tensor:
    """`[S R]` of S settings: what a judge will say of all folds of a setting, the same number for each.

    That is the metric less a share of the loss at the best temperature; of numbers the loss, because R² of
    two nodes is wild.
    """
    counts = to_wide(mask.sum(-1)).reshape(-1, num_folds)

    def pool(values: Tensor) -> Tensor:
        return (to_wide(values).reshape(-1, num_folds) * counts).sum(1) / counts.sum(1)

    if task.is_regression:
        together = -pool(task.losses(output, y, mask))
    else:
        losses = torch.stack([pool(task.losses(output / T, y, mask)) for T in TEMPERATURES])
        together = pool(task.metrics(output, y, mask).nan_to_num()) - JUDGED_SHARE * losses.amin(0)
    return together.repeat_interleave(num_folds)


def _accept(y: Tensor) -> None:
    """A loss is defined for all labels."""


def _member(network: Network, fits: Sequence[FitResult], sizes: tuple[int, int]) -> NetworkMember | None:
    if any(fit.diverged and not np.isfinite(fit.val_loss) for fit in fits):
        return None
    device = with_double(next(fits[0].model.parameters()).device)
    models = [fit.model.to(device).double().eval() for fit in fits]
    epochs, best = sum(fit.epochs for fit in fits), [fit.best_epoch for fit in fits]
    return NetworkMember(
        network.name, network.family, network.configuration, network.treatment, models, epochs, sizes, best
    )


def _stored(values: Tensor) -> Tensor:
    """As it was trained; predictions alone are made in double precision."""
    return (values.float() if values.is_floating_point() else values).cpu()
