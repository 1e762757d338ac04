"""What is trained over clients (`FederatedConfig`), and what a server is told beside it (`ServerOptions`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polynsd.config import LayerConfig
from polynsd.errors import ConfigError, require_at_least, require_choice, require_fraction

SHEAVES = ("polynsd", "nsd", "identity")
BACKBONES = (*SHEAVES, "gcn", "gatv2", "gin", "transformer")
WIDTHS = {"gcn": 64, "gin": 64, "gatv2": 8, "transformer": 16}  # of the last two: per head
SHEAF_WIDTH = 20
MASK_WIDTH = 64
MASKS = ("none", "fedath", "current", "loaded", "full")
ENTROPIES = ("mean", "sum")
METRICS = ("accuracy", "roc_auc")
DELTA = 1e-5  # of differential privacy
FEWEST = 3  # clients of a secure sum: of two, each could subtract itself


@dataclass(frozen=True)
class FederatedConfig:
    """One federated training. Backbone and source of masks are independent of each other and of the method.

    As FedATH is published: `backbone="gcn", masks="fedath", width=512, rate=1e-3, penalty=7, entropy="sum"`.
    """

    backbone: str = "polynsd"
    """polynsd, nsd, identity (sheaves with learned maps, p(λ) = λ, maps F = I), gcn, gatv2, gin,
    transformer."""
    masks: str = "none"
    """Where the scores of edges come from: none (all are 1); fedath (a graph network); from restriction maps:
    current (of the causal branch, without gradient: RGSheafMask), loaded (of a sheaf that is trained locally
    beforehand: LoadRMaps), full (of a third branch that trains with the others: FullSheafMask)."""
    method: str = "fedavg"
    """fedavg, fedprox, fedadam, moon, fedproto, fedpub, fgssl, fedtad, fedsage; local: nothing is shared."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of the method, e.g. `{"mu": 1e-3}` of fedprox; see the class of the method."""
    maps: str = "diagonal"
    """Family of the restriction maps, of sheaf backbones and of masks: diagonal, orthogonal, general."""
    stalk_dim: int = 3
    width: int | None = None
    """Channels per stalk coordinate (20), per head of gatv2 (8 heads × 8) and transformer (4 × 16), or of the
    hidden state (gcn, gin and, whatever the backbone, the network of fedath masks: 64); that number unless
    given."""
    num_layers: int = 2
    degree: int = 4
    """K of polynsd and identity."""
    dropout: float = 0.5
    rounds: int = 100
    local_epochs: int = 3
    rate: float = 1e-2
    decay: float = 5e-4
    penalty: float = 1.0
    """λ, the weight of the dependence between causal and biased branch."""
    entropy: str = "mean"
    """Negative entropy of the biased branch: the mean or the sum over nodes."""
    seed: int = 0
    """Of weights and dropout."""

    def __post_init__(self) -> None:
        require_choice("backbone", self.backbone, BACKBONES)
        require_choice("masks", self.masks, MASKS)
        require_choice("entropy", self.entropy, ENTROPIES)
        for name in ("num_layers", "rounds", "local_epochs", "channels", "stalk_dim"):
            require_at_least(name, getattr(self, name), 1)
        require_at_least("seed", self.seed, 0)
        require_fraction("dropout", self.dropout)
        for name in ("rate", "decay", "penalty"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} must be a finite number of at least 0; got {value!r}.")
        LayerConfig(maps=self.maps, stalk_dim=self.stalk_dim, degree=self.degree)  # checks these three
        if self.masks == "current" and self.backbone not in ("polynsd", "nsd"):
            raise ConfigError(
                "masks='current' reads the maps of the causal branch, so the backbone must learn some: "
                f"polynsd or nsd; got {self.backbone}. Use masks='loaded' or 'full', with their own sheaf."
            )

    @property
    def channels(self) -> int:
        """The width, or the backbone's own."""
        return WIDTHS.get(self.backbone, SHEAF_WIDTH) if self.width is None else self.width

    @property
    def mask_width(self) -> int:
        """Of the network of fedath masks; the same for every backbone."""
        return MASK_WIDTH if self.width is None else self.width


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
