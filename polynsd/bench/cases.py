"""`Case`: one combination of graph, stalk, channels, maps, degree and backend that is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polynsd.config import LayerConfig
from polynsd.errors import require_at_least, require_choice
from polynsd.kernels.registry import NAMES as BACKENDS

Row = dict[str, Any]  # columns that describe the case and its graph, and what was measured


@dataclass(frozen=True)
class Case:
    """One combination; a value that no layer admits raises."""

    graph: str
    d: int
    C: int
    maps: str
    K: int
    backend: str

    def __post_init__(self) -> None:
        require_choice("backend", self.backend, BACKENDS)
        require_at_least("channels", self.C, 1)
        _ = self.layer

    @property
    def layer(self) -> LayerConfig:
        return LayerConfig(stalk_dim=self.d, maps=self.maps, degree=self.K)

    @property
    def facts(self) -> Row:
        """The columns of a row that describe the case."""
        return {"backend": self.backend, "maps": self.maps, "K": self.K, "d": self.d, "C": self.C}

    def __str__(self) -> str:
        return f"{self.graph}, {self.maps}, K={self.K}, {self.backend}"
