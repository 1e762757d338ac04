"""The numbers of replicas as rows of matrices: parameters, rules of training, best states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.data.splits import PARTS
from polynsd.devices import wide_dtype
from polynsd.errors import ConfigError
from polynsd.training.optimizer import rate_scales, trainable, weight_decays
from polynsd.training.probe import Probe
from polynsd.training.replica import Replica

CHANGING = (
    "theta", "mean", "square", "moving", "active",
    "best_theta", "best_moving", "best_score", "best_loss", "best_metric", "best_epoch", "ended",
)  # fmt: skip

ALIGNMENT = 4  # numbers; products of matrices that begin at a multiple of 16 bytes are twice as fast on a GPU


@dataclass
class Rows:
    """All numbers of the replicas, a row per replica; float64 unless noted."""

    train: Tensor  # bool [R, N]
    val: Tensor
    test: Tensor
    seed: Tensor  # int64 [R]
    rate: Tensor  # [R] learning rate
    decay: Tensor  # float [R, P]
    scale: Tensor  # float [R, P] factor on the learning rate
    dropout: Tensor  # [R, calls]
    patience: Tensor  # int64 [R] and below
    last_epoch: Tensor
    theta: Tensor  # float [R, P] parameters
    mean: Tensor  # first and second moment of Adam
    square: Tensor
    moving: Tensor  # [R, M] buffers and frozen parameters that differ between replicas, e.g. running means
    active: Tensor  # bool [R]
    best_theta: Tensor
    best_moving: Tensor
    best_score: Tensor  # [R] the score that selects the epoch
    best_loss: Tensor  # on validation, at that epoch
    best_metric: Tensor  # on validation, at that epoch
    best_epoch: Tensor  # int64 [R], 0 before the first
    ended: Tensor  # number of epochs trained

    def take(self, rows: Tensor) -> Rows:
        """Some of the replicas."""
        return Rows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def put(self, rows: Tensor, others: Rows) -> None:
        """Overwrites some of the replicas."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(others, field.name)


class Layout:
    """The positions of a model's tensors in a flat row, where matrices are stored transposed.

    Every tensor begins at a multiple of `ALIGNMENT`; what is between them is zero.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.kinds = {name: (_transpose(t).shape, t.dtype) for name, t in tensors.items()}
        self.sizes = [-(-t.numel() // ALIGNMENT) * ALIGNMENT for t in tensors.values()]
        """What every tensor takes of a row."""

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """`[R, P]` → named `[R, …]`, views of the rows where they have the right dtype."""
        if not self.kinds:
            return {}
        named = {}
        parts = flat.detach().split(self.sizes, -1)
        for (name, (shape, dtype)), part in zip(self.kinds.items(), parts, strict=True):
            own = part[..., : shape.numel()]
            tensor = own.unflatten(-1, shape) if shape else own.squeeze(-1)
            named[name] = _transpose(tensor, len(shape)).to(dtype)
        return named

    def join(self, named: Iterable[Tensor], dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
        """The inverse: `[R, …]` each → `[R, P]`."""
        parts: list[Tensor] = []
        for tensor, (shape, _), size in zip(named, self.kinds.values(), self.sizes, strict=True):
            parts.append(_transpose(tensor, len(shape)).reshape(len(tensor), -1).to(dtype))
            if size > shape.numel():
                parts.append(parts[-1].new_zeros(len(tensor), size - shape.numel()))
        return torch.cat(parts, -1, out=out)


def _transpose(t: Tensor, dim: int | None = None) -> Tensor:
    """A matrix, or as many as there are replicas, the other way round; everything else as it is."""
    return t.mT if (t.dim() if dim is None else dim) == 2 else t


def named_state(model: nn.Module, names: Iterable[str]) -> dict[str, Tensor]:
    """Buffers and frozen parameters by name."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: state[name] for name in names}


def load_row(tensors: Mapping[str, Tensor], row: Tensor) -> None:
    """Writes a flat row back into tensors of a model."""
    with torch.no_grad():
        for name, part in Layout(tensors).split(row[None]).items():
            tensors[name].copy_(part[0])


def make_rows(
    models: Sequence[nn.Module], replicas: Sequence[Replica], moving: Sequence[str], probes: Sequence[Probe]
) -> Rows:
    """The rows of all replicas before the first epoch."""
    theta = _stack_rows([trainable(model) for model in models])
    count, device = len(models), theta.device
    state = _stack_rows([named_state(model, moving) for model in models])
    wide = wide_dtype(device)
    state = state.to(wide).reshape(count, -1).to(device)
    train, val, test = (torch.stack([getattr(r.split, part) for r in replicas]).to(device) for part in PARTS)

    def column(value: Callable[[TrainConfig], float], dtype: torch.dtype = torch.long) -> Tensor:
        return torch.tensor([value(r.config) for r in replicas], dtype=dtype, device=device)

    sizes = torch.tensor(Layout(trainable(models[0])).sizes, dtype=torch.long, device=device)

    def of_parameters(value: Callable[[nn.Module, TrainConfig], list[float]]) -> Tensor:
        known = {config: value(models[0], config) for config in {r.config for r in replicas}}
        values = torch.tensor([known[r.config] for r in replicas], dtype=theta.dtype, device=device)
        return values.repeat_interleave(sizes, 1, output_size=theta.size(1))

    never = torch.full((count,), torch.nan, dtype=wide, device=device)
    return Rows(
        train=train,
        val=val,
        test=test,
        seed=torch.tensor([r.seed for r in replicas], device=device),
        rate=column(lambda config: config.learning_rate, wide),
        decay=of_parameters(weight_decays),
        scale=of_parameters(rate_scales),
        dropout=torch.tensor([probe.rates for probe in probes], dtype=wide, device=device),
        patience=column(lambda config: config.patience),
        last_epoch=column(lambda config: config.epochs),
        theta=theta,
        mean=torch.zeros_like(theta),
        square=torch.zeros_like(theta),
        moving=state,
        active=torch.ones(count, dtype=torch.bool, device=device),
        best_theta=theta.clone(),
        best_moving=state.clone(),
        best_score=never.clone(),
        best_loss=never.clone(),
        best_metric=never.clone(),
        best_epoch=torch.zeros(count, dtype=torch.long, device=device),
        ended=torch.zeros(count, dtype=torch.long, device=device),
    )


def find_replica_state(models: Sequence[nn.Module], probes: Sequence[Probe]) -> tuple[str, ...]:
    """Names of buffers and frozen parameters that differ between replicas or change in training.

    Raises:
        ConfigError: the models do not have the same shape.
    """
    for number, (model, probe) in enumerate(zip(models, probes, strict=True)):
        if _shape(model) != _shape(models[0]) or len(probe.rates) != len(probes[0].rates):
            raise ConfigError(
                f"the models of a batch must have the same shape; that of replica {number} is not that of "
                "replica 0. Train models of different shapes in different calls."
            )
    changing = {name for probe in probes for name in probe.moving}
    frozen = {name for name, p in models[0].named_parameters() if not p.requires_grad}
    constant = {name: b for name, b in models[0].named_buffers() if name not in changing}
    different = {
        name
        for model in models[1:]
        for name, buffer in model.named_buffers()
        if name in constant and not torch.equal(constant[name], buffer)
    }
    return tuple(sorted(changing | frozen | different))


def _shape(model: nn.Module) -> list[tuple[object, ...]]:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return [(name, t.shape, t.dtype, t.requires_grad) for name, t in tensors]


def _stack_rows(tensors: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """A flat row per model."""
    if not tensors[0]:
        return torch.zeros(len(tensors), 0)
    dtype = next(iter(tensors[0].values())).dtype
    rows = [Layout(named).join([t.detach()[None] for t in named.values()], dtype) for named in tensors]
    return torch.cat(rows)
