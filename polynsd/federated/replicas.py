"""Several federated trainings side by side, without messages: seeds and settings as replicas.

    trainings = [[LocalClient(data, config, i) for i, data in enumerate(clients)] for config in configs]
    for curves in train_side_by_side(trainings): curves["local_val"]

All clients of all trainings are one batch; the server of each is the mean Σ_i (n_i / n) θ_i over its rows, so
nothing leaves the device but scores. Same numbers as by `FederatedServer`, up to rounding, without faults,
privacy and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from polynsd.devices import on_device, to_wide, wide_dtype
from polynsd.errors import ConfigError
from polynsd.federated.batch import Batch, pad_rows, trains_together
from polynsd.federated.client import LocalClient, initial_payload, prepare_clients
from polynsd.federated.scores import weigh_scores
from polynsd.training.task import roc_aucs

MEANS = ("fedavg", "fedprox")  # methods whose server takes the mean
METHODS = (*MEANS, "local")
SCORED = ("val", "test")

Curves = dict[str, list[float]]  # local_val, local_test, global_val, global_test: a number per round


def can_train_side_by_side(clients: Sequence[LocalClient]) -> bool:
    """Whether these clients of one training can have others beside them."""
    return clients[0].config.method in METHODS and trains_together(clients)


def train_side_by_side(
    trainings: Sequence[Sequence[LocalClient]],
    metric: str = "accuracy",
    on_round: Callable[[int, list[dict[str, float]]], None] = lambda round_, scores: None,
) -> list[Curves]:
    """All rounds of all trainings.

    Args:
        trainings: of each its clients, which are new; configurations differ in seed, rate and penalty alone.
        metric: accuracy, or roc_auc of two classes.
        on_round: is told the number of a round and the scores of every training after it.

    Returns:
        of every training its scores, round by round.

    Raises:
        ConfigError: the method is not one of fedavg, fedprox and local.
    """
    clients = [client for training in trainings for client in training]
    config = clients[0].config
    if config.method not in METHODS:
        raise ConfigError(f"trainings side by side are for {', '.join(METHODS)}; got {config.method}.")
    prepare_clients(clients)
    batch, scorer = Batch(clients), _Scorer(trainings, metric)
    _send_initial(batch, trainings)
    curves: list[Curves] = [{} for _ in trainings]
    with on_device(batch.theta.device):
        for number in range(1, config.rounds + 1):
            for _ in range(config.local_epochs):
                batch.step()
            local = batch.run({})
            counts = scorer.count("local", local.logits)
            if config.method in MEANS:
                means = {name: scorer.average(rows) for name, rows in batch.shared_rows().items()}
                counts |= scorer.count("global", batch.run(means, local).logits)
                batch.share(means)
            scores = scorer.weigh(counts)
            for curve, found in zip(curves, scores, strict=True):
                for name, value in found.items():
                    curve.setdefault(name, []).append(value)
            on_round(number, scores)
    return curves


def _send_initial(batch: Batch, trainings: Sequence[Sequence[LocalClient]]) -> None:
    """The first weights of every training, as its seed draws them."""
    for training in trainings:
        data = training[0].data
        payload = initial_payload(training[0].config, data.num_features, data.num_classes)
        for client in training:
            client.load_shared(payload.arrays)
    batch.read()


class _Scorer:
    """Means over the clients of every training, of weights and of scores."""

    def __init__(self, trainings: Sequence[Sequence[LocalClient]], metric: str) -> None:
        self.metric, self.sizes = metric, [len(training) for training in trainings]
        clients = [client for training in trainings for client in training]
        self.nodes = [client.data.num_nodes for client in clients]
        device, count = clients[0].device, max(self.nodes) + 2  # as the batch pads them
        owner = torch.repeat_interleave(torch.arange(len(trainings)), torch.tensor(self.sizes))
        weights = torch.zeros(len(trainings), len(clients), dtype=torch.float64)
        weights[owner, torch.arange(len(clients))] = torch.tensor(self.nodes, dtype=torch.float64)
        self.owner, self.weights = (
            owner.to(device),
            (weights / weights.sum(1, keepdim=True)).to(device, wide_dtype(device)),
        )
        self.y = torch.stack([pad_rows(client.data.y, count) for client in clients])
        self.masks = {
            part: torch.stack([pad_rows(getattr(client.data, part), count) for client in clients])
            for part in SCORED
        }
        self.totals = {f"{part}_count": mask.sum(-1) for part, mask in self.masks.items()}

    def average(self, rows: Tensor) -> Tensor:
        """Of every training the mean of its rows `[R, …]`, weighted by nodes, in every one of them."""
        means = self.weights @ to_wide(rows.reshape(len(rows), -1))
        return means[self.owner].view_as(rows).to(rows.dtype)

    def count(self, model: str, logits: Tensor) -> dict[str, Tensor]:
        """By name a number per client; an AUC that is not defined is NaN."""
        right = logits.argmax(-1) == self.y
        found = {f"{model}_{part}_correct": (right & mask).sum(-1) for part, mask in self.masks.items()}
        if self.metric == "roc_auc":
            for part, mask in self.masks.items():
                found[f"{model}_{part}_auc"] = roc_aucs(logits, self.y, mask)
        return found

    def weigh(self, counts: dict[str, Tensor]) -> list[dict[str, float]]:
        """The scores of every training."""
        counts = {**self.totals, **counts}
        table = torch.stack([to_wide(values) for values in counts.values()], -1).tolist()
        answers: list[dict[str, Any]] = [
            {"num_nodes": nodes, **dict(zip(counts, row, strict=True))}
            for nodes, row in zip(self.nodes, table, strict=True)
        ]
        ends = torch.tensor([0, *self.sizes]).cumsum(0).tolist()
        return [weigh_scores(answers[a:b], self.metric) for a, b in pairwise(ends)]
