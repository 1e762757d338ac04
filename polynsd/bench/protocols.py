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

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from polynsd.bench.results import Columns, graph_cell, number_cell, print_rows
from polynsd.bench.samples import TRAIN, Row, Sample
from polynsd.bench.steps import TimedTraining
from polynsd.config import ModelConfig
from polynsd.data import Split, random_split
from polynsd.published import published_training
from polynsd.training import Replica, fit, fit_replicas, get_task
from polynsd.training.capture import capture_step
from polynsd.zoo import build_model

WARM_UP = 5  # epochs, enough to compile and to capture


@dataclass(frozen=True)
class TimedProtocol:
    """A model on several splits of a graph, for a fixed number of epochs."""

    sample: Sample
    model: ModelConfig
    splits: int
    epochs: int

    @property
    def data(self) -> Data:
        sample = self.sample
        edge_index = torch.stack([sample.topology.row, sample.topology.col]).long()
        return Data(x=sample.x, edge_index=edge_index, y=sample.y)

    def build(self) -> nn.Module:
        return build_model(self.model, self.sample.x.size(-1), self.sample.num_classes)

    def make_splits(self) -> list[Split]:
        """Random splits: only the time counts."""
        return [random_split(self.sample.topology.num_nodes, TRAIN, seed=i) for i in range(self.splits)]


def measure_protocol(protocol: TimedProtocol, ways: Sequence[str]) -> list[Row]:
    """A row per way, with its speed-up over the first."""
    seconds = {way: _measure_seconds(WAYS[way], protocol) for way in ways}
    base = seconds[ways[0]]
    facts = {"splits": protocol.splits, "epochs": protocol.epochs}
    steps = protocol.splits * protocol.epochs
    return [
        {"way": way, **facts, "seconds": s, "ms_per_epoch": 1e3 * s / steps, "speedup": base / s}
        for way, s in seconds.items()
    ]


def print_protocols(record: Row, sizes: str) -> None:
    """Prints the rows of all graphs; `sizes` are those of the model, for the title."""
    rows, device = record["rows"], record["environment"]["device_name"]
    columns: Columns = {
        "graph": graph_cell,
        "way": lambda row: row["way"],
        "seconds": number_cell("seconds", 2),
        "ms per split and epoch": number_cell("ms_per_epoch", 3),
        f"speed-up over {rows[0]['way']}": number_cell("speedup", 2, "x"),
    }
    print_rows(f"{rows[0]['splits']} splits × {rows[0]['epochs']} epochs, {sizes}; {device}", columns, rows)


def _measure_seconds(run: Callable[[TimedProtocol, Data, int], object], protocol: TimedProtocol) -> float:
    data = protocol.data
    synchronize = torch.cuda.synchronize if data.x.is_cuda else lambda: None
    run(protocol, data, WARM_UP)
    synchronize()
    start = time.perf_counter()
    run(protocol, data, protocol.epochs)
    synchronize()
    return time.perf_counter() - start


def _train_replicas(protocol: TimedProtocol, data: Data, epochs: int) -> None:
    config = published_training(epochs=epochs, patience=epochs)
    replicas = [Replica(protocol.build, split, i, config) for i, split in enumerate(protocol.make_splits())]
    fit_replicas(replicas, data, get_task("accuracy"))


def _train_sequence(protocol: TimedProtocol, data: Data, epochs: int) -> None:
    config = published_training(epochs=epochs, patience=epochs)
    for i, split in enumerate(protocol.make_splits()):
        fit(protocol.build, data, split, get_task("accuracy"), config, i)


def _train_plain(protocol: TimedProtocol, data: Data, epochs: int) -> None:
    for i, split in enumerate(protocol.make_splits()):
        torch.manual_seed(i)
        _fit_plain(protocol.build().to(data.x.device), data, split, epochs)


def _fit_plain(model: nn.Module, data: Data, split: Split, epochs: int) -> float:
    """A loop as anyone would write it; returns the test accuracy."""
    device = data.x.device
    val, test = (mask.nonzero().squeeze(-1).to(device) for mask in (split.val, split.test))
    inputs = (data.x, data.edge_index)
    training = TimedTraining(model, inputs, data.y, split.train.to(device), weight_decay=5e-4)
    step = capture_step(training.step, "auto", device)
    infer = capture_step(training.infer, "auto", device)
    best, state = -1.0, model.state_dict()
    for _ in range(epochs):
        step()
        score = _accuracy(infer(), data.y, val)
        if score > best:
            best, state = score, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    return _accuracy(training.infer(), data.y, test)


def _accuracy(output: Tensor, y: Tensor, nodes: Tensor) -> float:
    return float((output[nodes].argmax(-1) == y[nodes]).double().mean())


WAYS: dict[str, Callable[[TimedProtocol, Data, int], None]] = {
    "plain": _train_plain,
    "sequence": _train_sequence,
    "replicas": _train_replicas,
}
