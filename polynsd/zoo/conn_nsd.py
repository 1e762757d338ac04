"""`ConnNSD`: Neural Sheaf Diffusion along a connection that the features give, not a learner."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from polynsd.topology import Topology
from polynsd.zoo.connection import connection_laplacian
from polynsd.zoo.sheaf_block import PUBLISHED, SPACE, SheafModel, nsd_layers


class ConnNSD(SheafModel):
    """x⁺ = (1 + tanh ε) x − φ(L (I ⊗ W₁) dropout(x) W₂), L the connection Laplacian of the features.

    Args:
        in_channels: features per node, at least stalk_dim, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate.
        num_layers: number of steps.
        out_channels: classes.
        dropout: of the state.
        input_dropout: of the features that are encoded; the connection sees all of them.
        stalk_dim: d, the dimension of the local tangent spaces.
    """

    space: ClassVar[dict[str, Any]] = SPACE
    published: ClassVar[dict[str, Any]] = PUBLISHED

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        stalk_dim: int = 3,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            stalk_dim=stalk_dim,
            dropout=dropout,
            input_dropout=input_dropout,
            layers=nsd_layers(num_layers, hidden_channels, stalk_dim, dropout),
        )

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """All steps, with one Laplacian."""
        L = connection_laplacian(x, topology, self.stalk_dim)
        for layer in self.layers:
            state = layer.diffuse(state, L)  # type: ignore[operator]
        return state
