"""What a search may spend: an amount of work that is estimated from shapes, or a number of seconds.

Work is the usual case, so that a result does not depend on how busy a machine is; it is counted in seconds of
one core of a usual CPU, or of a GPU. Where the user gives a number of seconds, the clock counts instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scipy import sparse

from polynsd.estimator.folds import LARGE
from polynsd.estimator.networks import Network, NetworkMember
from polynsd.training import Configuration

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs
    from polynsd.estimator.members import Candidate

FEWEST_EPOCHS = 40  # a training that cannot have as many is not begun
SETUP = 0.3  # estimated seconds before a training begins
SHARE = 0.35  # of what is left, that one group of candidates may take
LAST_SHARE = 1.25  # of the allowance, up to which members are trained again


class Budget:
    """What a search may spend, and what it has spent since it began, which is now.

    Args:
        seconds: the user's; None: an amount of work.
        candidates: everything that may be tried.
        inputs: the graph.
        num_folds: the models of a candidate.
    """

    def __init__(
        self, seconds: float | None, candidates: Iterable[Candidate], inputs: Inputs, num_folds: int
    ) -> None:
        self.seconds, self.inputs, self.num_folds = seconds, inputs, num_folds
        self.began, self.spent = time.monotonic(), 0.0
        self.on_gpu = inputs.device.type == "cuda"
        self.allowance = math.inf if seconds is not None else self._estimate_allowance(candidates)

    def _estimate_allowance(self, candidates: Iterable[Candidate]) -> float:
        """Estimated seconds of work: a minute for a few thousand nodes, four for twenty thousand."""
        networks = [candidate for candidate in candidates if isinstance(candidate, Network)]
        if not networks:
            return math.inf
        usual = next((n for n in networks if n.family == "convolution"), networks[0])
        plain = self._epoch_seconds(usual, self.num_folds)
        if self.on_gpu:
            return min(3.5 * (plain / 0.0012) ** 0.8, 15.0)
        growth = 0.8 if self.inputs.num_nodes >= LARGE else 0.4  # a small graph is not worth minutes
        return min(45 * (plain / 0.025) ** growth, 240.0)

    @property
    def share_spent(self) -> float:
        """How much of it is used up, from 0 to 1."""
        if self.seconds is not None:
            return min((time.monotonic() - self.began) / self.seconds, 1.0)
        return min(self.spent / self.allowance, 1.0)

    @property
    def is_over(self) -> bool:
        """Whether the user's seconds have passed."""
        return self.seconds is not None and time.monotonic() >= self.began + self.seconds

    def deadline(self, is_first: bool) -> float | None:
        """The `time.monotonic()` when the next candidate has to end; the first may take all that is left."""
        if self.seconds is None:
            return None
        now = time.monotonic()
        left = max(self.began + self.seconds - now, 0.0)
        return now + (left if is_first else SHARE * left)

    def shorten(self, networks: Sequence[Network], is_first: bool) -> list[Network]:
        """The networks with as many epochs as there is time for; none if those are too few.

        Of networks that train together the last ones are left out first. What comes first is tried in any
        case.
        """
        if self.seconds is not None:
            return list(networks) if is_first or not self.is_over else []
        longest = max(network.configuration.training.epochs for network in networks)
        left = (self.allowance - self.spent) * (1.0 if is_first else SHARE)
        for count in range(len(networks), 0, -1):
            epochs = min(longest, int(left / self._epoch_seconds(networks[0], count * self.num_folds)))
            if epochs >= min(FEWEST_EPOCHS, longest) or is_first:
                return [_with_epochs(network, max(epochs, 1)) for network in networks[:count]]
        return []

    def charge(self, members: Sequence[NetworkMember]) -> None:
        """Takes off the work of networks that have been trained together."""
        self.spent += sum(map(self._work, members)) + SETUP * bool(members)

    def allows_again(self, member: NetworkMember, seconds: float) -> bool:
        """Whether a network that took so long can be trained once more, which is then taken off.

        The end of the allowance may be passed a little, that of the seconds may not.
        """
        if self.seconds is not None:
            return time.monotonic() + seconds < self.began + self.seconds
        spent = self.spent + self._work(member)
        if spent >= LAST_SHARE * self.allowance:
            return False
        self.spent = spent
        return True

    def _work(self, member: NetworkMember) -> float:
        """The estimated seconds of a training that has ended."""
        return member.epochs * self._epoch_seconds(member, self.num_folds) / self.num_folds

    def _epoch_seconds(self, network: Network | NetworkMember, replicas: int) -> float:
        """What an epoch of so many models together takes, on one core of a usual CPU or on a GPU.

        An estimate from shapes alone, so that what is tried does not depend on how busy a machine is.
        """
        model, x = network.configuration.model, self.inputs.features(network.treatment)
        layer, nodes, half_edges = model.layer, self.inputs.num_nodes, 2 * self.inputs.graph.num_edges
        width = layer.total_stalk_dim * model.hidden_channels
        entries = x.nnz if sparse.issparse(x) else x.size
        dense, gathered = 2 * nodes * width**2, max(layer.degree, 1) * half_edges * width
        if layer.adds_trunk:
            trunk = layer.learner_width
            dense += nodes * trunk * (2 * width + 2 * trunk * layer.learner_hops)
            gathered += layer.learner_hops * half_edges * trunk
        products = entries * width + model.num_layers * dense
        moved = model.num_layers * (gathered + 8 * nodes * width)
        if self.on_gpu:
            return 5e-4 * model.num_layers + replicas * (products / 2e12 + moved / 1e11)
        overhead = 3e-3 * (1 + model.num_layers * (4 if layer.adds_trunk else 1))
        return overhead + replicas * (products / 5e9 + moved / 1e9)


def _with_epochs(network: Network, most: int) -> Network:
    model, training = network.configuration
    shorter = Configuration(model, replace(training, epochs=min(most, training.epochs)))
    return replace(network, configuration=shorter)
