"""`FederatedConfig`: what is trained over clients, by which method, for how long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from polynsd.config import LayerConfig
from polynsd.errors import ConfigError, require_at_least, require_choice, require_fraction

SHEAVES = ("polynsd", "nsd", "identity")
BACKBONES = (*SHEAVES, "gcn", "gatv2", "gin", "transformer")
WIDTHS = {"gcn": 64, "gin": 64, "gatv2": 8, "transformer": 16}  # of the last two: per head
SHEAF_WIDTH = 20
MASK_WIDTH = 64
MASKS = ("none", "fedath", "current", "loaded", "full")
ENTROPIES = ("mean", "sum")


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
