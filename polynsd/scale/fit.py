"""Training in parts, for graphs whose training step does not fit.

Every step takes some parts with their halos; the loss counts the training nodes of these parts. It is
weighted so that the mean of an epoch's gradients is the full-batch gradient, if halos are exact and
nothing is dropped out: with `update="part"` that is stochastic training, one step per part. `update="epoch"`
adds up the gradients of all parts and takes one step per epoch: with exact halos that is full-batch
training, in less memory. Shallow halos bias the gradient; `halo_drift` measures by how much.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.data import Split
from polynsd.devices import on_device
from polynsd.errors import DataError, require_at_least, require_choice
from polynsd.nn.precision import autocast, grad_scaler
from polynsd.scale.halo import PartHalos
from polynsd.scale.inference import core_output
from polynsd.scale.reach import resolve_depth
from polynsd.training import Epoch, FitResult, Replica, Task, get_task
from polynsd.training.optimizer import ParameterRule, parameter_rules, trainable
from polynsd.training.replica import NOT_FINITE, check_replicas, eval_mode
from polynsd.training.task import METRIC_OF

if TYPE_CHECKING:
    from torch_geometric.data import Data


def fit_in_parts(
    build: Callable[[], nn.Module],
    data: Data,
    split: Split,
    task: Task,
    config: TrainConfig | None = None,
    *,
    num_parts: int,
    depth: int | str = "exact",
    eval_depth: int | str | None = None,
    seed: int = 0,
    parts_per_step: int = 1,
    update: str = "part",
    precision: str | None = None,
    method: str = "auto",
    device: torch.device | str | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> FitResult:
    """Trains one model on one split, part by part.

    Args:
        build: makes the model; called under the seed.
        data: a PyG graph with `x`, `edge_index` and `y`; it stays where it is.
        split: masks of the nodes to train on, to select on and to test on.
        task: loss and metric.
        config: the training self.
        num_parts: how many parts.
        depth: of the halos in training, in hops, or `exact`.
        eval_depth: of the halos in evaluation; as `depth` unless given.
        seed: of weights, dropout, partition and the order of the parts; the global random state is left
            as it was.
        parts_per_step: how many parts, drawn anew in every epoch, are joined into one step.
        update: `part` (a step of Adam after each step's parts) or `epoch` (one, with the gradients of all).
        precision: `float32`, or `bf16`, `fp16` for the linear maps of the training steps; that of `config`
            unless given. Evaluation is in full precision.
        method: of the partition.
        device: where parts are computed; data's unless given.
        on_epoch: called after every epoch.
    """
    config = TrainConfig() if config is None else config
    check_replicas([Replica(build, split, seed, config)], data, task, None)
    require_at_least("parts_per_step", parts_per_step, 1)
    require_choice("update", update, ("part", "epoch"))
    device = data.x.device if device is None else torch.device(device)
    with torch.random.fork_rng(), on_device(device):
        torch.manual_seed(seed)
        model = build().to(device)
        hops = resolve_depth(model, depth)
        training = _PartTraining(
            model=model,
            halos=PartHalos(data, num_parts, method, seed),
            split=split,
            task=task,
            config=config,
            device=device,
            precision=precision or config.precision,
            parts_per_step=parts_per_step,
            update=update,
            depth=hops,
            eval_depth=hops if eval_depth is None else resolve_depth(model, eval_depth),
        )
        return training.run(seed, on_epoch)


@dataclass
class _PartTraining:
    """A model, the parts, and what an epoch does; the fields are the arguments of `fit_in_parts`."""

    model: nn.Module
    halos: PartHalos
    split: Split
    task: Task
    config: TrainConfig
    device: torch.device
    precision: str
    parts_per_step: int
    update: str
    depth: int
    eval_depth: int

    def __post_init__(self) -> None:
        self.train = self.split.train.to(self.halos.graph.data.edge_index.device)
        with torch.no_grad(), eval_mode(self.model):  # lets lazy layers learn their size
            core_output(self.model, self.halos.around([0], self.eval_depth), self.device)
        groups = _parameter_groups(self.model, self.config)
        self.optimizer = torch.optim.Adam(groups)
        self.scaler = grad_scaler(self.precision, self.device)

    def run(self, seed: int, on_epoch: Callable[[Epoch], None] | None) -> FitResult:
        """Trains until the patience or the epochs end; the test nodes are scored once, at the end."""
        generator, config = torch.Generator().manual_seed(seed), self.config
        best: Epoch | None = None
        best_score = -math.inf
        state: dict[str, Tensor] = {}
        for number in range(1, config.epochs + 1):
            train_loss = self._train_epoch(generator)
            val_loss, val_metric, score = self._evaluate(self.split.val)
            epoch = Epoch(number, train_loss, val_loss, val_metric, best is None or score > best_score)
            if best is None or epoch.is_best:
                best, best_score = epoch, score
                state = copy.deepcopy(self.model.state_dict())
            if on_epoch is not None:
                on_epoch(epoch)
            if number - best.epoch >= config.patience:
                break
        assert best is not None  # epochs >= 1
        self.optimizer.zero_grad()
        self.model.load_state_dict(state)
        test = self.task.score(*self._predict(self.split.test))
        return FitResult(
            model=self.model.eval(), best_epoch=best.epoch, epochs=number, val_metric=best.val_metric,
            test_metric=test, val_loss=best.val_loss, seed=seed,
        )  # fmt: skip

    def _train_epoch(self, generator: torch.Generator) -> float:
        """One pass over all training nodes in random order; their mean loss."""
        self.model.train()
        self.optimizer.zero_grad()
        steps, nodes, total = self._draw(generator), int(self.train.sum()), 0.0
        by_part = self.update == "part"
        for parts, count in steps:
            weight = count / nodes * (len(steps) if by_part else 1)
            total += self._step(parts, weight) * count / nodes
            if by_part:
                self._update()
        if not by_part:
            self._update()
        return total

    def _draw(self, generator: torch.Generator) -> list[tuple[list[int], int]]:
        """The parts of every step, and how many training nodes they have; those without any are left out."""
        order = torch.randperm(len(self.halos.cores), generator=generator)
        groups = [group.tolist() for group in order.split(self.parts_per_step)]
        counts = [sum(int(self.train[self.halos.cores[part]].sum()) for part in group) for group in groups]
        return [(group, count) for group, count in zip(groups, counts, strict=True) if count]

    def _step(self, parts: Sequence[int], weight: float) -> float:
        """Adds the gradient of the weighted loss; returns the loss itself."""
        halo = self.halos.around(parts, self.depth)
        chosen = self.train[halo.core].nonzero().squeeze(-1)
        y = halo.data.y[chosen].to(self.device)
        with autocast(self.precision, self.device):
            output = core_output(self.model, halo, self.device)
        output = _to_full_precision(output)[chosen.to(self.device)]
        loss = self.task.loss(output, y)
        if not math.isfinite(value := float(loss.detach())):
            raise DataError(NOT_FINITE)
        self.scaler.scale(weight * loss).backward()
        return value

    def _update(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def _evaluate(self, mask: Tensor) -> tuple[float, float, float]:
        """Loss and metric over the nodes of a mask, and what chooses the epoch: the higher the better."""
        task, select, (output, y) = self.task, self.config.select, self._predict(mask)
        loss, metric = float(task.loss(output, y)), task.score(output, y)
        if select in METRIC_OF:
            return loss, metric, get_task(METRIC_OF[select]).score(output, y)
        return loss, metric, -loss if select == "loss" else metric

    @torch.no_grad()
    def _predict(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and labels of the nodes of a mask, part by part."""
        mask, outputs, labels = mask.to(self.train.device), [], []
        with eval_mode(self.model):
            for part, core in enumerate(self.halos.cores):
                chosen = mask[core].nonzero().squeeze(-1)
                if chosen.numel():
                    halo = self.halos.around([part], self.eval_depth)
                    output = core_output(self.model, halo, self.device)
                    outputs.append(_to_full_precision(output).to(chosen.device)[chosen])
                    labels.append(halo.data.y[chosen])
        return torch.cat(outputs), torch.cat(labels)


def _to_full_precision(output: Tensor) -> Tensor:
    return output if output.dtype == torch.float64 else output.float()


def _parameter_groups(model: nn.Module, config: TrainConfig) -> list[dict[str, object]]:
    """Adam's groups: map learners may have a learning rate and a decay of their own."""
    groups: dict[ParameterRule, list[nn.Parameter]] = {}
    parameters = trainable(model)
    for name, rule in parameter_rules(model, config).items():
        groups.setdefault(rule, []).append(parameters[name])
    return [{"params": group, "lr": rule.rate, "weight_decay": rule.decay} for rule, group in groups.items()]
