"""One row of `bench protocol`: all splits of a graph, trained in three ways.

| way        | what it does                                                                          |
|------------|---------------------------------------------------------------------------------------|
| `plain`    | one split after another in a plain PyTorch loop, on a GPU with both passes captured    |
| `sequence` | one split after another by `polynsd.training.fit`                                     |
| `replicas` | all splits together by `polynsd.training.fit_replicas`                                |

Every epoch takes a step with dropout, evaluates on validation and keeps the best state. Times are
wall time from the first model built to the last test score, after a short run that compiles.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from polynsd.bench.cases import Row
from polynsd.bench.samples import TRAIN, Sample
from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.data import Split, random_split
from polynsd.training import Replica, fit, fit_replicas, get_task
from polynsd.training.capture import captured
from polynsd.zoo import build_model

WARM_UP = 5  # epochs, enough to compile and to capture


@dataclass(frozen=True)
class Protocol:
    """What is trained."""

    sample: Sample
    model: ModelConfig
    splits: int
    epochs: int

    @property
    def data(self) -> Data:
        """The graph as the trainer takes it."""
        sample = self.sample
        edge_index = torch.stack([sample.topology.row, sample.topology.col]).long()
        return Data(x=sample.x, edge_index=edge_index, y=sample.y)

    def build(self) -> nn.Module:
        """A fresh model."""
        return build_model(self.model, self.sample.x.size(-1), self.sample.num_classes)

    def parts(self) -> list[Split]:
        """Random ones: only the time counts."""
        return [random_split(self.sample.topology.num_nodes, TRAIN, seed=i) for i in range(self.splits)]


def measure_protocol(protocol: Protocol, ways: Sequence[str]) -> list[Row]:
    """A row per way, with its speed-up over the first."""
    seconds = {way: _seconds(WAYS[way], protocol) for way in ways}
    base = seconds[ways[0]]
    facts = {"splits": protocol.splits, "epochs": protocol.epochs}
    steps = protocol.splits * protocol.epochs
    return [
        {"way": way, **facts, "seconds": s, "ms_per_epoch": 1e3 * s / steps, "speedup": base / s}
        for way, s in seconds.items()
    ]


def _seconds(run: Callable[[Protocol, Data, int], object], protocol: Protocol) -> float:
    data = protocol.data
    run(protocol, data, WARM_UP)
    _finish(data)
    start = time.perf_counter()
    run(protocol, data, protocol.epochs)
    _finish(data)
    return time.perf_counter() - start


def _finish(data: Data) -> None:
    if data.x.is_cuda:
        torch.cuda.synchronize()


def _config(epochs: int) -> TrainConfig:
    return TrainConfig(epochs=epochs, patience=epochs)


def _replicas(protocol: Protocol, data: Data, epochs: int) -> None:
    config = _config(epochs)
    replicas = [Replica(protocol.build, split, i, config) for i, split in enumerate(protocol.parts())]
    fit_replicas(replicas, data, get_task("accuracy"))


def _sequence(protocol: Protocol, data: Data, epochs: int) -> None:
    for i, split in enumerate(protocol.parts()):
        fit(protocol.build, data, split, get_task("accuracy"), _config(epochs), i)


def _plain(protocol: Protocol, data: Data, epochs: int) -> None:
    for i, split in enumerate(protocol.parts()):
        torch.manual_seed(i)
        _plain_loop(protocol.build().to(data.x.device), data, split, epochs)


def _plain_loop(model: nn.Module, data: Data, split: Split, epochs: int) -> float:
    """As anyone would write it."""
    device = data.x.device
    train, val, test = (
        getattr(split, part).nonzero().squeeze(-1).to(device) for part in ("train", "val", "test")
    )
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=5e-4, capturable=data.x.is_cuda)
    step = captured(partial(_plain_step, model, data, train, optimizer), "auto", device)
    predict = captured(partial(_plain_output, model, data), "auto", device)
    best, state = -1.0, model.state_dict()
    for _ in range(epochs):
        step()
        score = _accuracy(predict(), data.y, val)
        if score > best:
            best, state = score, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    return _accuracy(_plain_output(model, data), data.y, test)


def _plain_step(model: nn.Module, data: Data, nodes: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    model.train()
    optimizer.zero_grad()
    loss = cross_entropy(model(data.x, data.edge_index).index_select(0, nodes), data.y.index_select(0, nodes))
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def _plain_output(model: nn.Module, data: Data) -> Tensor:
    model.eval()
    return model(data.x, data.edge_index)


def _accuracy(output: Tensor, y: Tensor, nodes: Tensor) -> float:
    return float((output[nodes].argmax(-1) == y[nodes]).double().mean())


WAYS: dict[str, Callable[[Protocol, Data, int], None]] = {
    "plain": _plain,
    "sequence": _sequence,
    "replicas": _replicas,
}


def polynsd_model(
    maps: str, degree: int, stalk_dim: int, channels: int, layers: int, dropout: float
) -> ModelConfig:
    """What the row trains."""
    layer = LayerConfig(maps=maps, degree=degree, stalk_dim=stalk_dim, dropout=dropout)
    return ModelConfig(hidden_channels=channels, num_layers=layers, layer=layer)
