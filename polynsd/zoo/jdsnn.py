"""`JdSNN`: joint diffusion, of a signal along the maps and of the maps along the signal."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from polynsd.errors import require_choice
from polynsd.kernels import BlockOperator
from polynsd.kernels.ops import blocks
from polynsd.sheaf.families import get_family
from polynsd.sheaf.inverse_sqrt import inverse_sqrt
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sheaf.learner import ACTIVATIONS, SheafLearner
from polynsd.topology import Topology
from polynsd.zoo.risnn import disagreement_gradient
from polynsd.zoo.sheaf_block import (
    PUBLISHED,
    SPACE,
    DiffusionBlock,
    SheafModel,
    identity_laplacian,
)

DUAL_NORMS = ("matrix", "degree")


class MapDiffusion(nn.Module):
    """F⁺ = (1 + tanh ε) F' − ψ((F'_v Y_v − F'_u Y_u) Y_vᵀ),      F' = W_l F W_r.

    The second term is the normalised Laplacian of the dual sheaf, in which incidences are nodes, maps are
    the signal and the states X_vᵀ are the maps. Its degree block is X_v X_vᵀ, hence Y = (X Xᵀ + I)^{−1/2} X,
    or Y = X / √(d + 1) where the norm counts degrees. There is one ε per coordinate of the node stalk. The
    factor 2 of the gradient, which is published for the norm that counts degrees, is left out here.

    Args:
        d: stalk dimension.
        weights: whether there are W_l and W_r, the identity at first.
        dual_norm: `matrix` or `degree`.
        map_activation: ψ: `identity`, `tanh` or `elu`.
    """

    def __init__(self, d: int, weights: bool, dual_norm: str, map_activation: str) -> None:
        super().__init__()
        self.dual_norm, self.map_activation = dual_norm, map_activation
        self.epsilon = nn.Parameter(torch.zeros(d))
        self.left = nn.Parameter(torch.eye(d)) if weights else None
        self.right = nn.Parameter(torch.eye(d)) if weights else None

    def reset_parameters(self) -> None:
        """ε = 0, W_l = W_r = I."""
        nn.init.zeros_(self.epsilon)
        for weight in (self.left, self.right):
            if weight is not None:
                nn.init.eye_(weight)

    def forward(self, maps: Tensor, x: Tensor, topology: Topology) -> Tensor:
        """[H, d, d] maps and a state `[N, d, C]` to new maps."""
        if self.left is not None and self.right is not None:
            maps = self.left @ maps @ self.right
        flow = disagreement_gradient(self.normalized(x), maps, topology)
        return (1 + self.epsilon.tanh()) * maps - ACTIVATIONS[self.map_activation](flow)

    def normalized(self, x: Tensor) -> Tensor:
        """The states Y."""
        if self.dual_norm == "degree":
            return x * (x.size(-2) + 1) ** -0.5
        gram = x @ x.mT
        return inverse_sqrt(gram + blocks.identity_like(gram)) @ x


class JdSNN(SheafModel):
    """Joint diffusion of state and maps: `DiffusionBlock` along L_F, and `MapDiffusion` along the state.

        x⁺ = LayerNorm( (1 + tanh ε) x − φ(L_F M₂ φ(M₁ h)) ),    F⁺ = MapDiffusion(F, h),    h = dropout(x)

    The published variant "Init", whose first maps come from 500 steps of joint diffusion of the features'
    principal components, is missing: the first maps are the identity or learned.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate.
        num_layers: number of steps of the state; the maps take one less, so one layer has the first maps.
        out_channels: classes.
        dropout: of the state.
        input_dropout: of the features.
        stalk_dim: d.
        maps: the first maps: `identity`, or a family that is learned from the encoded features.
        weights: whether maps are mixed by W_l and W_r.
        dual_norm: of the maps' diffusion: `matrix` or `degree`.
        map_activation: ψ: `identity`, `tanh` or `elu`.
    """

    space: ClassVar[dict[str, Any]] = {**SPACE, "map_activation": ["identity", "tanh"]}
    published: ClassVar[dict[str, Any]] = {**PUBLISHED, "map_activation": "identity"}

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
        maps: str = "identity",
        weights: bool = True,
        dual_norm: str = "matrix",
        map_activation: str = "identity",
    ) -> None:
        require_choice("dual_norm", dual_norm, DUAL_NORMS)
        require_choice("map_activation", map_activation, ACTIVATIONS)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            stalk_dim=stalk_dim,
            dropout=dropout,
            input_dropout=input_dropout,
            layers=[DiffusionBlock(stalk_dim, hidden_channels) for _ in range(num_layers)],
        )
        family = get_family(maps)
        learner = SheafLearner(stalk_dim, hidden_channels, family, stalk_dim) if family.is_learned else None
        self.learner = learner
        self.flows = nn.ModuleList(
            MapDiffusion(stalk_dim, weights, dual_norm, map_activation) for _ in range(num_layers - 1)
        )

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        super().reset_parameters()
        for module in (self.learner, *self.flows):
            if module is not None:
                module.reset_parameters()

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The parameters that shape the maps."""
        first = [] if self.learner is None else list(self.learner.parameters())
        return [*first, *self.flows.parameters()]

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """Both diffusions side by side."""
        maps, L = self.first_maps(state, topology)
        for index, block in enumerate(self.layers):
            h = self.dropped(state, index)
            state = block(state, h, L)
            if index < len(self.flows):
                maps = self.flows[index](maps, h, topology)
                L = SheafLaplacian(topology, maps).blocks
        return state

    def first_maps(self, state: Tensor, topology: Topology) -> tuple[Tensor, BlockOperator]:
        """[H, d, d] F⁰, and its Laplacian."""
        d = self.stalk_dim
        if self.learner is None:
            eye = torch.eye(d, dtype=state.dtype, device=state.device)
            return eye.expand(topology.num_half_edges, d, d), identity_laplacian(topology, state)
        maps = blocks.to_dense(self.learner(state, topology), d)
        return maps, SheafLaplacian(topology, maps).blocks
