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
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.config import ModelConfig, TrainConfig, from_options
from polynsd.devices import to_wide, with_double
from polynsd.errors import DataError
from polynsd.estimator.folds import Folds
from polynsd.estimator.members import OnEpoch, Outputs, State
from polynsd.training import Configuration, Epoch, FitResult, Replica, Task, fit_replicas
from polynsd.training.configuration import plain_configuration, shape_key
from polynsd.training.replica import NOT_FINITE, call_model
from polynsd.zoo import build_model

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs

LOSS_SHARE = 0.1  # of the loss in what chooses the epoch
FEWEST_JUDGES = 40  # held-out nodes of a fold that may choose the epoch
FIXED_EPOCHS = 100  # of a training whose epoch nobody chooses
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

    def fit(
        self,
        inputs: Inputs,
        target: NDArray[Any],
        folds: Folds,
        task: Task,
        *,
        weights: NDArray[np.float64] | None,
        seed: int,
        deadline: float | None,
        on_epoch: OnEpoch | None = None,
    ) -> NetworkMember:
        """See `Candidate`."""
        (member,) = fit_networks(
            [self],
            inputs,
            target,
            folds,
            task,
            weights=weights,
            seed=seed,
            deadline=deadline,
            on_epoch=on_epoch,
        )
        if member is None:
            raise DataError(NOT_FINITE)
        return member


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
    """Of the input and of the output."""
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
        configuration = Configuration(
            from_options(ModelConfig, data["model"]), from_options(TrainConfig, data["training"])
        )
        models, sizes = [], (int(data["sizes"][0]), int(data["sizes"][1]))
        for fold in range(len(next(iter(tensors.values())))):
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


def fit_networks(
    networks: Sequence[Network],
    inputs: Inputs,
    target: NDArray[Any],
    folds: Folds,
    task: Task,
    *,
    weights: NDArray[np.float64] | None,
    seed: int,
    deadline: float | None,
    on_epoch: OnEpoch | None = None,
) -> list[NetworkMember | None]:
    """Trains candidates of one shape on all folds in one call; None for one whose loss was not finite.

    Held-out nodes choose the epoch if they are many enough: the best of a hundred epochs on ten nodes would
    look far better than it is. Otherwise a training has a fixed length.

    The arguments are those of `Candidate.fit`.
    """
    judges = int((folds.val & ~folds.train).sum(1).min())
    is_judged = judges >= FEWEST_JUDGES
    data = copy.copy(inputs.data(networks[0].treatment, inputs.device))
    data.y = torch.from_numpy(target).to(inputs.device)
    if task.is_regression:
        data.y = data.y.float()[:, None]
    width = task.num_outputs(data.y)
    training_task = _training_task(task, weights, inputs.device, is_judged)
    splits = list((folds if is_judged else Folds(folds.train, folds.train)).splits())
    replicas = [
        Replica(
            partial(build_model, network.configuration.model, data.x.size(1), width),
            split,
            seed + fold,
            _training_rules(network.configuration.training, judges),
        )
        for network in networks
        for fold, split in enumerate(splits)
    ]
    rungs = RUNGS if is_judged else {}
    race = _Race([network.name for network in networks], len(splits), deadline, on_epoch, rungs)
    fits = fit_replicas(replicas, data, training_task, on_epoch=race.report, stop=race.stop, score_test=False)
    return [
        _member(network, fits[number * len(splits) : (number + 1) * len(splits)], (data.x.size(1), width))
        for number, network in enumerate(networks)
    ]


class _Race:
    """Ends the settings that are far behind at a rung, and all of them at the deadline."""

    def __init__(
        self,
        names: Sequence[str],
        num_folds: int,
        deadline: float | None,
        on_epoch: OnEpoch | None,
        rungs: Mapping[int, float],
    ) -> None:
        self.names, self.num_folds, self.deadline, self.on_epoch = names, num_folds, deadline, on_epoch
        self.rungs = rungs
        self.best = np.full((len(names), num_folds), -np.inf)
        self.left = set(range(len(names)))

    def report(self, number: int, epoch: Epoch) -> None:
        setting, fold = divmod(number, self.num_folds)
        if epoch.is_best or not np.isfinite(self.best[setting, fold]):
            self.best[setting, fold] = epoch.val_metric
        if self.on_epoch is not None:
            self.on_epoch(self.names[setting], epoch)

    def stop(self, epoch: int) -> Collection[int]:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.left = set()
        elif epoch in self.rungs:
            scores, margin = self.best.mean(1), self.rungs[epoch]
            self.left = {setting for setting in self.left if scores[setting] >= scores.max() - margin}
        return [
            setting * self.num_folds + fold
            for setting in range(len(self.names))
            if setting not in self.left
            for fold in range(self.num_folds)
        ]


def fit_again(
    member: NetworkMember,
    inputs: Inputs,
    target: NDArray[Any],
    folds: Folds,
    task: Task,
    **common: Any,
) -> NetworkMember:
    """The member with one more model, trained on all labelled nodes for as many epochs as were best before.

    The arguments are those of `Candidate.fit`.
    """
    everyone = folds.used
    model, training = member.configuration
    once = Configuration(model, replace(training, epochs=max(member.best_epochs)))
    network = Network(member.name, member.family, once, member.treatment)
    whole = Folds.one(everyone, everyone)
    (again,) = fit_networks([network], inputs, target, whole, task, **common)
    return member if again is None else replace(member, models=[*member.models, *again.models])


def _training_rules(training: TrainConfig, judges: int) -> TrainConfig:
    if judges >= FEWEST_JUDGES:
        return replace(training, select="metric")
    epochs = min(training.epochs, FIXED_EPOCHS) if judges else training.epochs
    return replace(training, select="metric", epochs=epochs, patience=epochs)


def _training_task(
    task: Task, weights: NDArray[np.float64] | None, device: torch.device, is_judged: bool
) -> Task:
    """The task whose metric chooses the epoch.

    The metric of few nodes has many ties, so a share of the loss is taken from it. Where nothing is held out,
    the training loss alone says how far a training has come.
    """
    factors = None if weights is None else torch.from_numpy(weights).float().to(device)

    def node_losses(output: Tensor, y: Tensor) -> Tensor:
        losses = task.node_losses(output, y)
        return losses if factors is None else factors * losses

    def progress(output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        losses = to_wide(task.losses(output, y, mask))
        return task.metrics(output, y, mask).nan_to_num() - LOSS_SHARE * losses if is_judged else -losses

    return replace(task, node_losses=node_losses, metrics=progress, check=_accept)


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
