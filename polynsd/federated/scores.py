"""Scores of clients, their means, and the round that validation chooses."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

KINDS = ("local", "global")
GONE_AFTER = 3  # rounds without a score, after which a client is not waited for any more


@dataclass(frozen=True)
class Choice:
    """A round that validation chose, with its scores."""

    round: int = 0  # 0: none yet
    val: float = -math.inf
    test: float = math.nan
    clients: int = 0  # of how many clients these are means


@dataclass(frozen=True)
class Outcome:
    """A finished federated training."""

    choices: Mapping[str, Choice]  # by kind: local, global
    arrays: Mapping[str, NDArray[Any]]  # what was sent of the chosen global model
    names: Sequence[str]  # of clients, by number
    num_features: int
    num_classes: int
    columns: str  # a hash of the names of the features
    sent: int  # bytes, of all rounds
    received: int
    faults: int


class ClientScore(NamedTuple):
    """The validation score of one client in the round that is the best so far."""

    num_nodes: float
    val: float
    missed: int = 0  # rounds since then without a score, one after the other


class RoundChoice:
    """The best round so far, by validation.

    Means over different clients are means over different nodes, so two rounds are compared over the clients
    that both have. A round in which a client failed that is still there is not compared at all. A client that
    has left, or had no score for `GONE_AFTER` rounds, is not waited for: later rounds are compared without
    it. A round with a client that the best one lacks goes before it.

    Args:
        kind: local or global.
        metric: accuracy or roc_auc.
    """

    def __init__(self, kind: str, metric: str) -> None:
        self.kind, self.metric = kind, metric
        self.choice = Choice()
        self.scores: dict[str, ClientScore] = {}  # of the chosen round, by client

    def offer(self, round_: int, answers: Mapping[str, Mapping[str, Any]], present: Collection[str]) -> bool:
        """Takes the round if it is better than the best so far; whether it is.

        Args:
            round_: its number.
            answers: by client the numbers that `LocalClient.evaluate` gives, and `num_nodes`.
            present: the clients that have not left.
        """
        found = {
            client: ClientScore(float(answer["num_nodes"]), val)
            for client, answer in answers.items()
            if not math.isnan(val := _score(answer, f"{self.kind}_val", self.metric))
        }
        for client, score in self.scores.items():
            missed = 0 if client in found else score.missed + 1
            self.scores[client] = score._replace(missed=missed)
        if not found or not self._is_better(found, present):
            return False
        means = weigh_scores(list(answers.values()), self.metric)
        test = means.get(f"{self.kind}_test", math.nan)
        self.choice, self.scores = Choice(round_, means[f"{self.kind}_val"], test, len(found)), found
        return True

    def _is_better(self, found: Mapping[str, ClientScore], present: Collection[str]) -> bool:
        expected = {c for c, score in self.scores.items() if c in present and score.missed < GONE_AFTER}
        if not expected <= found.keys():
            return False
        if not found.keys() <= self.scores.keys():
            return True
        return _mean(found.values()) > _mean(self.scores[client] for client in found)


def weigh_scores(answers: Sequence[Mapping[str, Any]], metric: str) -> dict[str, float]:
    """`local_val`, `local_test`, `global_val`, `global_test`: means over clients, weighted by their nodes.

    Args:
        answers: of every client the numbers that `LocalClient.evaluate` gives, and `num_nodes`.
        metric: accuracy or roc_auc; clients where it is not defined do not count.
    """
    means = {}
    for key in (f"{kind}_{part}" for kind in KINDS for part in ("val", "test")):
        values = [ClientScore(float(answer["num_nodes"]), _score(answer, key, metric)) for answer in answers]
        known = [score for score in values if not math.isnan(score.val)]
        if known:
            means[key] = _mean(known)
    return means


def _mean(scores: Iterable[ClientScore]) -> float:
    scores = list(scores)
    return sum(score.num_nodes * score.val for score in scores) / sum(score.num_nodes for score in scores)


def _score(answer: Mapping[str, Any], key: str, metric: str) -> float:
    """Of one client; NaN where it is not defined."""
    if metric == "roc_auc":
        return float(answer.get(f"{key}_auc", math.nan))
    count = float(answer.get(f"{key.partition('_')[2]}_count", 0.0))
    return float(answer.get(f"{key}_correct", math.nan)) / count if count else math.nan
