"""Switches of privacy: secure aggregation, and differential privacy of clients at the server.

Differential privacy: the change of every client is clipped to norm C, the changes are averaged with equal
weights, and Gaussian noise of standard deviation z·C/n is added (McMahan et al., 2018), by Flower's
`DifferentialPrivacyServerSideFixedClipping`. What that promises after T rounds is `spent_epsilon`: a
client's whole graph, present or left out, changes the probability of any model by at most e^ε, up to δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from polynsd.errors import ConfigError

DELTA = 1e-5
FEWEST = 3  # clients of a secure sum: of two, each could subtract itself


@dataclass(frozen=True)
class Privacy:
    """What the server may see of clients, and what a model may tell of them."""

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
