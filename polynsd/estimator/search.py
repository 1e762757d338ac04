"""The built-in search: successive halving on validation, candidates of equal shape trained together.

Every candidate trains for a few epochs, the best of them for more, the best of those to the end. A rung
begins anew, so a candidate's result does not depend on who else was tried. The epoch of a candidate is
the one with the smallest validation loss; candidates are compared by the metric there, ties by the loss,
then by the order of the list.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import nn

from polynsd.data import Split
from polynsd.errors import ConfigError, DataError
from polynsd.estimator.candidates import Candidate
from polynsd.training import Epoch, FitResult, Replica, Task, fit_replicas
from polynsd.zoo import build_model

if TYPE_CHECKING:
    from torch_geometric.data import Data

SHORT = "short"
RUNGS = ((30, None), (100, 3), (None, 1))  # (epochs at most, candidates at most)
SHARES = (0.35, 0.6, 1.0)  # of a budget in seconds that has passed when a rung ends

OnEpoch = Callable[[str, Epoch], None]  # what trains, and its epoch


@dataclass(frozen=True)
class Problem:
    """What is learned: a graph, its labelled nodes, a loss with a metric, and a seed."""

    data: Data
    split: Split
    task: Task
    num_outputs: int
    seed: int


@dataclass(frozen=True)
class Trial:
    """A candidate and what came of the last rung that it reached."""

    candidate: Candidate
    rung: int
    result: FitResult

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The larger the better."""
        return not self.result.diverged, self.result.val_metric, -self.result.val_loss

    def row(self, is_chosen: bool) -> dict[str, Any]:
        """For people and files."""
        result = self.result
        return {
            **self.candidate.options,
            "rung": self.rung,
            "trained_epochs": result.epochs,
            "best_epoch": result.best_epoch,
            "val_score": result.val_metric,
            "val_loss": result.val_loss,
            "diverged": result.diverged,
            "chosen": is_chosen,
        }


class Deadline:
    """A time by which to end; None for never."""

    def __init__(self, end: float | None) -> None:
        self.end = end

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return self.end is not None and time.monotonic() >= self.end

    def share(self, parts: int) -> Deadline:
        """The deadline of the first of `parts` that divide the time left."""
        now = time.monotonic()
        return self if self.end is None else Deadline(now + max(self.end - now, 0.0) / parts)


def seconds_of(budget: Any) -> float | None:
    """The seconds that a budget means; None where it is counted in epochs."""
    if budget is None or budget == SHORT:
        return None
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
        raise ConfigError(f"budget must be '{SHORT}', a positive number of seconds or None; got {budget!r}.")
    return float(budget)


def most_epochs(tries: Sequence[Candidate]) -> int:
    """How many epochs all replicas train together, if none stops early."""
    longest, total = max(one.training.epochs for one in tries), 0
    for epochs, count in RUNGS:
        if epochs is None or len(tries) > 1:
            total += len(tries[:count]) * min(longest, epochs or longest)
    return total


def find_best(
    tries: Sequence[Candidate],
    problem: Problem,
    seconds: float | None = None,
    on_epoch: OnEpoch | None = None,
) -> tuple[Trial, list[Trial]]:
    """The best candidate, trained to the end, and all that were tried, the best first."""
    began, trials, left = time.monotonic(), dict[Candidate, Trial](), list(tries)
    for rung, (epochs, count) in enumerate(RUNGS):
        if epochs is not None and len(tries) == 1:
            continue
        deadline = Deadline(None if seconds is None else began + SHARES[rung] * seconds)
        reached = _run_rung(left[:count], rung, epochs, problem, deadline, on_epoch)
        trials.update({trial.candidate: trial for trial in reached})
        left = [trial.candidate for trial in _ranked(reached)]
    ranked = _ranked(list(trials.values()))
    if ranked[0].result.diverged:
        raise DataError("the training loss is not finite; lower learning_rate or check the features' scale.")
    return ranked[0], ranked


def _ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Those that came further first, then by rank; equals in their order."""
    return sorted(trials, key=lambda trial: (trial.rung, trial.rank), reverse=True)


def _run_rung(
    tries: Sequence[Candidate],
    rung: int,
    epochs: int | None,
    problem: Problem,
    deadline: Deadline,
    on_epoch: OnEpoch | None,
) -> list[Trial]:
    """Trains batch after batch, each for its part of the time but at least for an epoch."""
    trials: list[Trial] = []
    batches = _batches(tries)
    for number, batch in enumerate(batches):
        part = deadline.share(len(batches) - number)
        results = _train(batch, epochs, problem, part, on_epoch)
        trials += [Trial(one, rung, result) for one, result in zip(batch, results, strict=True)]
    order = {candidate: number for number, candidate in enumerate(tries)}
    return sorted(trials, key=lambda trial: order[trial.candidate])


def _batches(tries: Sequence[Candidate]) -> list[list[Candidate]]:
    """Candidates by shape, in their order."""
    batches: dict[Any, list[Candidate]] = {}
    for candidate in tries:
        batches.setdefault(candidate.shape, []).append(candidate)
    return list(batches.values())


def _train(
    batch: Sequence[Candidate],
    epochs: int | None,
    problem: Problem,
    deadline: Deadline,
    on_epoch: OnEpoch | None,
) -> list[FitResult]:
    replicas = [_replica(candidate, epochs, problem) for candidate in batch]

    def stop(_: int) -> Collection[int]:
        return range(len(batch)) if deadline.is_over else ()

    def report(number: int, epoch: Epoch) -> None:
        if on_epoch is not None:
            on_epoch(batch[number].label, epoch)

    return fit_replicas(replicas, problem.data, problem.task, on_epoch=report, stop=stop)


def _replica(candidate: Candidate, epochs: int | None, problem: Problem) -> Replica:
    config = candidate.training
    if epochs is not None:
        epochs = min(epochs, config.epochs)
        config = replace(config, epochs=epochs, patience=epochs)

    def build() -> nn.Module:
        return build_model(candidate.model, problem.data.num_features, problem.num_outputs)

    return Replica(build, problem.split, problem.seed, config)
