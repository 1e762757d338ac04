"""`VanillaSheaf`: the block of the sheaf models without a sheaf, F = I on every edge."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from polynsd.errors import require_choice
from polynsd.sheaf.laplacian import NORMALIZATIONS
from polynsd.topology import Topology
from polynsd.zoo.sheaf_block import (
    PUBLISHED,
    SPACE,
    DiffusionBlock,
    SheafModel,
    identity_laplacian,
)


class VanillaSheaf(SheafModel):
    """Diffusion on the constant sheaf, with LayerNorm: the identity sheaf network (ISN + LN).

        x⁺ = LayerNorm( (1 + tanh ε) x − φ(L M₂ φ(M₁ dropout(x))) ),      M_i x = (I ⊗ W_i) x W'_i

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate.
        num_layers: number of steps.
        out_channels: classes.
        dropout: of the state.
        input_dropout: of the features.
        stalk_dim: d.
        normalization: of L: `sheaf-augmented`, `sheaf`, `degree` or `none`.
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
        normalization: str = "sheaf-augmented",
    ) -> None:
        require_choice("normalization", normalization, NORMALIZATIONS)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            stalk_dim=stalk_dim,
            dropout=dropout,
            input_dropout=input_dropout,
            layers=[DiffusionBlock(stalk_dim, hidden_channels) for _ in range(num_layers)],
        )
        self.normalization = normalization

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """All steps, with one Laplacian."""
        L = identity_laplacian(topology, state, self.normalization)
        for index, block in enumerate(self.layers):
            state = block(state, self.dropped(state, index), L)
        return state
