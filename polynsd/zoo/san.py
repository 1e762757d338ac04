"""`SheafAttention`: attention whose messages are rotated on their way (SAN), and its residual form (ANSD)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from polynsd.kernels.ops import blocks, edges
from polynsd.sheaf.families import Orthogonal
from polynsd.sheaf.learner import SheafLearner
from polynsd.topology import Topology
from polynsd.zoo.attention import Edges, softmax_with_self
from polynsd.zoo.sheaf_block import PUBLISHED, SPACE, Mixing, SheafModel

NEGATIVE_SLOPE = 0.2


class SheafAttentionLayer(nn.Module):
    """A_v m = α_vv m_v + Σ_u α_vu F_vᵀ F_u m_u,      α_v = softmax over u of LeakyReLU(a · [h_v ‖ h_u]).

    The maps F are orthogonal and learned from h; u runs over the neighbours of v and v itself.
    """

    def __init__(self, stalk_dim: int, channels: int) -> None:
        super().__init__()
        self.learner = SheafLearner(stalk_dim, channels, Orthogonal(), stalk_dim)
        self.score = nn.Linear(stalk_dim * channels, 2, bias=False)  # the halves of a
        self.mixing = Mixing(stalk_dim, channels)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.learner, self.score, self.mixing):
            module.reset_parameters()

    def forward(self, h: Tensor, topology: Topology) -> tuple[Tensor, Tensor]:
        """(A m, m) with m = (I ⊗ W₁) h W₂."""
        m, F = self.mixing(h), self.learner(h, topology)
        others, own = self.attention(h, topology)
        transport = others[..., None, None] * blocks.transport(F, edges.swap_halves(F, topology.pattern))
        messages = transport @ edges.at_columns(m, topology.pattern)
        return own[..., None, None] * m + edges.sum_at_nodes(messages, topology.pattern), m

    def attention(self, h: Tensor, topology: Topology) -> tuple[Tensor, Tensor]:
        """α_vu `[H]` on half-edges and α_vv `[N]`."""
        here, there = self.score(h.flatten(-2)).split(1, -1)
        pattern = topology.pattern
        others = edges.at_rows(here, pattern, -2) + edges.at_columns(there, pattern, -2)
        scores, own = (functional.leaky_relu(s, NEGATIVE_SLOPE) for s in (others, here + there))
        alpha, own = softmax_with_self(scores, own, Edges(pattern, topology.row))
        return alpha.squeeze(-1), own.squeeze(-1)


class SheafAttention(SheafModel):
    """Layers of sheaf attention, with A = Λ ∘ Â_F of `SheafAttentionLayer`, h = dropout(x) and φ = ELU.

        SAN:   x⁺ = φ(A (I ⊗ W₁) h W₂)
        ANSD:  x⁺ = x + φ((A − I) (I ⊗ W₁) h W₂)

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate.
        num_layers: number of steps.
        out_channels: classes.
        dropout: of the state.
        input_dropout: of the features.
        stalk_dim: d, at least 2.
        residual: ANSD instead of SAN.
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
        residual: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            stalk_dim=stalk_dim,
            dropout=dropout,
            input_dropout=input_dropout,
            layers=[SheafAttentionLayer(stalk_dim, hidden_channels) for _ in range(num_layers)],
        )
        self.residual = residual

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The parameters of the map learners."""
        return [p for name, p in self.named_parameters() if ".learner." in name]

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """All steps."""
        for index, layer in enumerate(self.layers):
            attended, mixed = layer(self.dropped(state, index), topology)
            state = state + functional.elu(attended - mixed) if self.residual else functional.elu(attended)
        return state
