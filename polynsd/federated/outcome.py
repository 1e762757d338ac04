"""What a server is asked for, what it tells in between, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from polynsd.errors import ConfigError, PolyNSDError, require_at_least, require_choice

if TYPE_CHECKING:
    from polynsd.federated.payload import Array

METRICS = ("accuracy", "roc_auc")
KINDS = ("local", "global")
DELTA = 1e-5
FEWEST = 3  # clients of a secure sum: of two, each could subtract itself


class FederationError(PolyNSDError):
    """A program of Flower's ended, or a training failed."""


@dataclass(frozen=True)
class Privacy:
    """What the server may see of clients, and what a model may tell of them.

    Differential privacy: the change of every client is clipped to norm C, the changes are averaged with equal
    weights, and Gaussian noise of standard deviation z·C/n is added (McMahan et al., 2018), by Flower's
    `DifferentialPrivacyServerSideFixedClipping`. What that promises after T rounds is `spent_epsilon`: a
    client's whole graph, present or left out, changes the probability of any model by at most e^ε, up to δ.
    """

    secure_aggregation: bool = False
    """The server sees the sum of the clients' weights alone (SecAgg+); needs three clients or more."""
    dp_noise: float = 0.0
    """z, the noise in units of the clipping norm over the number of clients; 0: no differential privacy."""
    dp_clip: float = 1.0
    """C, the norm to which the change of a client in a round is clipped."""

    def __post_init__(self) -> None:
        if not (0 <= self.dp_noise < math.inf and 0 < self.dp_clip < math.inf):
            raise ConfigError(
                "dp_noise must be at least 0 and dp_clip positive; "
                f"got {self.dp_noise!r} and {self.dp_clip!r}."
            )
        if self.secure_aggregation and self.is_noisy:
            raise ConfigError(
                "the server clips the change of every client before it adds noise, and secure aggregation "
                "hides these changes from it; use one of the two."
            )

    @property
    def is_noisy(self) -> bool:
        return self.dp_noise > 0

    def check_method(self, method: str) -> None:
        """Raises unless the method averages weights, which is what these switches protect."""
        if (self.secure_aggregation or self.is_noisy) and method not in ("fedavg", "fedprox"):
            raise ConfigError(
                "secure aggregation and differential privacy are for averages of weights, so the method must "
                f"be fedavg or fedprox; got {method}."
            )

    def spent_epsilon(self, rounds: int) -> float:
        """ε at δ = 1e-5 after so many rounds; infinite without noise.

        The Gaussian mechanism has Rényi divergence T α / (2 z²) at order α; the conversion is that of
        Canonne, Kamath and Steinke (2020).
        """
        if not self.is_noisy:
            return math.inf
        orders = 1 + np.geomspace(1e-3, 1e4, 4000)
        divergence = rounds * orders / (2 * self.dp_noise**2)
        loss = np.log1p(-1 / orders) - (math.log(DELTA) + np.log(orders)) / (orders - 1)
        return float(max(0.0, np.min(divergence + loss)))


@dataclass(frozen=True)
class ServerOptions:
    """What a server needs to know beside the training itself."""

    clients: int = 10
    """How many must be there before the first round."""
    timeout: float = 600.0
    """Seconds that clients have for a round; who is later is left out of it."""
    metric: str = "accuracy"
    """accuracy, or roc_auc of two classes."""
    privacy: Privacy = field(default_factory=Privacy)
    """Secure aggregation and differential privacy."""
    max_nodes: int = 10_000_000
    """The most nodes that a client may say it has: by them it is weighted. Who says more is not let in."""

    def __post_init__(self) -> None:
        require_at_least("clients", self.clients, 1)
        require_at_least("max_nodes", self.max_nodes, 1)
        require_choice("metric", self.metric, METRICS)
        if not 0 < self.timeout < math.inf:
            raise ConfigError(f"timeout must be a positive number of seconds; got {self.timeout!r}.")
        if self.privacy.secure_aggregation and self.clients < FEWEST:
            raise ConfigError(f"secure aggregation needs {FEWEST} clients or more; got {self.clients}.")


@dataclass(frozen=True)
class Choice:
    """A round that validation chose, with its scores."""

    round: int = 0  # 0: none yet
    val: float = -math.inf
    test: float = math.nan
    clients: int = 0  # of how many clients these are means


@dataclass(frozen=True)
class RoundReport:
    """What is worth saying after a round; scores are of the round before."""

    round: int
    clients: int  # whose replies were used
    invited: int
    sent: int  # bytes of the round, to all clients
    received: int
    scores: Mapping[str, float]  # local_val, local_test, global_val, global_test


@dataclass(frozen=True)
class Outcome:
    """A finished federated training."""

    choices: Mapping[str, Choice]  # by kind: local, global
    arrays: Mapping[str, Array]  # what was sent of the chosen global model
    names: Sequence[str]  # of clients, by number
    num_features: int
    num_classes: int
    columns: str  # a hash of the names of the features
    sent: int  # bytes, of all rounds
    received: int
    faults: int


class Watcher(Protocol):
    """What a server tells while it runs."""

    def waiting(self, present: int, wanted: int) -> None:
        """Clients are still missing."""

    def fault(self, round_: int, client: str, reason: str) -> None:
        """A client is left out of a round; round 0 is the time before the first."""

    def report(self, report: RoundReport) -> None:
        """A round is over."""


class Silence:
    """A watcher that tells nobody."""

    def waiting(self, present: int, wanted: int) -> None:
        pass

    def fault(self, round_: int, client: str, reason: str) -> None:
        pass

    def report(self, report: RoundReport) -> None:
        pass


def weigh_scores(answers: Sequence[Mapping[str, Any]], metric: str) -> dict[str, float]:
    """`local_val`, `local_test`, `global_val`, `global_test`: means over clients, weighted by their nodes.

    Args:
        answers: of every client the numbers that `LocalClient.evaluate` gives, and `num_nodes`.
        metric: accuracy or roc_auc; clients where it is not defined do not count.
    """
    means = {}
    for key in (f"{kind}_{part}" for kind in KINDS for part in ("val", "test")):
        values = [(float(answer["num_nodes"]), _score(answer, key, metric)) for answer in answers]
        known = [(weight, value) for weight, value in values if not math.isnan(value)]
        if known:
            means[key] = sum(w * value for w, value in known) / sum(w for w, _ in known)
    return means


def count_scored(answers: Sequence[Mapping[str, Any]], key: str, metric: str) -> int:
    """Of how many clients a mean of `weigh_scores` is, e.g. `local_val`."""
    return sum(not math.isnan(_score(answer, key, metric)) for answer in answers)


def _score(answer: Mapping[str, Any], key: str, metric: str) -> float:
    """Of one client; NaN where it is not defined."""
    if metric == "roc_auc":
        return float(answer.get(f"{key}_auc", math.nan))
    count = float(answer.get(f"{key.partition('_')[2]}_count", 0.0))
    return float(answer.get(f"{key}_correct", math.nan)) / count if count else math.nan
