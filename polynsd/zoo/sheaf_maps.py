"""Sheaf models that learn their maps: sheaf attention (SAN, ANSD), maps that do not see rotations of the
channels (RiSNN), joint diffusion of state and maps (JdSNN).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import require_choice
from polynsd.kernels import BlockOperator
from polynsd.kernels.ops import blocks, edges
from polynsd.sheaf.families import MapFamily, Orthogonal, get_family
from polynsd.sheaf.inverse_sqrt import inverse_sqrt
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sheaf.learner import ACTIVATIONS, SheafLearner
from polynsd.spectral.filter import Diffusion
from polynsd.spectral.operator import SymmetricOperator
from polynsd.topology import Topology
from polynsd.zoo.layers import NEGATIVE_SLOPE, Options
from polynsd.zoo.neighbours import Neighbourhood, softmax_with_self
from polynsd.zoo.sheaf import (
    BASIS,
    PUBLISHED,
    SPACE,
    DiffusionBlock,
    Mixing,
    SheafModel,
    identity_laplacian,
    nsd_layer,
)

DUAL_NORMS = ("matrix", "degree")


class SheafAttentionLayer(nn.Module):
    """A_v m = α_vv m_v + Σ_u α_vu F_vᵀ F_u m_u,      α_v = softmax over u of LeakyReLU(a · [h_v ‖ h_u]).

    The maps F are orthogonal and learned from h; u runs over the neighbours of v and v itself.

    A is not symmetric: its eigenvalues may be complex, where polynomials are not bounded by their values on
    an interval. A polynomial filter therefore acts on L = I − S, where S has the geometric mean √(α_vu α_uv)
    in place of α_vu. Where α is reversible, c_v α_vu = c_u α_uv, A is similar to S. Rows of α add up to 1,
    hence −I ⪯ S ⪯ I and λ_max = 2.
    """

    def __init__(self, model: SheafModel) -> None:
        super().__init__()
        stalk_dim, channels = model.stalk_dim, model.channels
        self.filter = model.make_filter()
        self.learner = SheafLearner(stalk_dim, channels, Orthogonal(), stalk_dim)
        self.score = nn.Linear(stalk_dim * channels, 2, bias=False)  # the halves of a
        self.mixing = Mixing(stalk_dim, channels)

    def forward(self, h: Tensor, topology: Topology) -> tuple[Tensor, Tensor]:
        """(A m, m) with m = (I ⊗ W₁) h W₂; with a polynomial (m − p(L) m, m)."""
        pattern, m, F = topology.pattern, self.mixing(h), self.learner(h, topology)
        others, own = (alpha[..., None, None] for alpha in self.attention(h, topology))
        transport = blocks.transport(F, edges.swap_halves(F, pattern))
        if isinstance(self.filter, Diffusion):
            messages = (others * transport) @ edges.at_columns(m, pattern)
            return own * m + edges.sum_at_nodes(messages, pattern), m
        product = others * edges.swap_halves(others, pattern)
        mean = product.clamp(min=torch.finfo(product.dtype).tiny).sqrt()  # the root has no slope at 0
        L = SymmetricOperator(BlockOperator(pattern, 1 - own, -mean * transport), 2.0)
        return m - self.filter(L, m), m

    def attention(self, h: Tensor, topology: Topology) -> tuple[Tensor, Tensor]:
        """α_vu `[H]` on half-edges and α_vv `[N]`."""
        here, there = self.score(h.flatten(-2)).split(1, -1)
        pattern = topology.pattern
        others = edges.at_rows(here, pattern, -2) + edges.at_columns(there, pattern, -2)
        scores, own = (functional.leaky_relu(s, NEGATIVE_SLOPE) for s in (others, here + there))
        alpha, own = softmax_with_self(scores, own, Neighbourhood(pattern, topology.row))
        return alpha.squeeze(-1), own.squeeze(-1)


class SheafAttention(SheafModel):
    """Sheaf attention (Barbero et al., 2022).

        SAN:   x⁺ = φ(A (I ⊗ W₁) h W₂)
        ANSD:  x⁺ = x + φ((A − I) (I ⊗ W₁) h W₂)

    with A = Λ ∘ Â_F of `SheafAttentionLayer`, h = dropout(x) and φ = ELU. A polynomial p makes it I − p(L).

    The other arguments are those of `SheafModel`; d ≥ 2.

    Args:
        residual: ANSD instead of SAN.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, stalk_dim: int = 3, degree: int = 1,
        basis: str = BASIS, coefficients: str = "own", residual: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, dropout=dropout,
            input_dropout=input_dropout, stalk_dim=stalk_dim, degree=degree, basis=basis,
            coefficients=coefficients,
        )  # fmt: skip
        self.residual = residual

    def make_layer(self) -> nn.Module:
        return SheafAttentionLayer(self)

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The parameters of the map learners."""
        return [p for name, p in self.named_parameters() if ".learner." in name]

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.layers):
            attended, mixed = layer(self.drop_before(index, state), topology)
            state = state + functional.elu(attended - mixed) if self.residual else functional.elu(attended)
        return state


class RotationInvariantLearner(nn.Module):
    """F⁺_{v⊴e} = family(tanh(W vec(G) + b)),      G = (2/d) (F_{v⊴e} X_v − F_{u⊴e} X_u) X_vᵀ.

    G is, up to 1/d, the gradient of the disagreement ‖F_v X_v − F_u X_u‖² by F_v. It is the same for X and
    X Q with any orthogonal Q, and W has d² inputs however many channels there are.
    """

    def __init__(self, family: MapFamily, d: int) -> None:
        super().__init__()
        self.family, self.d = family, d
        self.linear = nn.Linear(d * d, family.num_params(d))

    def forward(self, x: Tensor, maps: Tensor | None, topology: Topology) -> Tensor:
        """New maps on half-edges from a state `[N, d, C]` and the maps before, None for F = I."""
        G = 2 / self.d * disagreement_gradient(x, maps, topology)
        return self.family.build(self.linear(G.flatten(-2)).tanh(), self.d)


def disagreement_gradient(x: Tensor, maps: Tensor | None, topology: Topology) -> Tensor:
    """[H, d, d] (F_v X_v − F_u X_u) X_vᵀ on every half-edge (v, u)."""
    own = edges.at_rows(x, topology.pattern)
    image = own if maps is None else blocks.apply(maps, own)
    return (image - edges.swap_halves(image, topology.pattern)) @ own.mT


class RiSNN(SheafModel):
    """Neural Sheaf Diffusion with maps from `RotationInvariantLearner` (Hernandez Caralt et al., 2024).

        x⁺ = (1 + tanh ε) x − φ(L_F (I ⊗ W₁) dropout(x) W₂)

    Every layer has its own learner; from the second on, learners see the state after dropout. The other
    arguments are those of `SheafModel`.

    Args:
        maps: the family: `general`, `diagonal`, `orthogonal`, ….
        time: whether a learner sees the maps of the layer before it; if not, F = I in G everywhere.
    """

    space: ClassVar[Options] = {**SPACE, "maps": ["diagonal", "orthogonal", "general"]}
    published: ClassVar[Options] = {**PUBLISHED, "maps": "general"}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, stalk_dim: int = 3, degree: int = 1,
        basis: str = BASIS, coefficients: str = "own", maps: str = "general", time: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, dropout=dropout,
            input_dropout=input_dropout, stalk_dim=stalk_dim, degree=degree, basis=basis,
            coefficients=coefficients,
        )  # fmt: skip
        self.family, self.time = get_family(maps), time
        self.learners = nn.ModuleList(
            RotationInvariantLearner(self.family, stalk_dim) for _ in range(num_layers)
        )

    def make_layer(self) -> nn.Module:
        return nsd_layer(self)

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The parameters of the map learners."""
        return list(self.learners.parameters())

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """New maps, then a step along them, layer by layer."""
        maps: Tensor | None = None
        for index, (layer, learner) in enumerate(zip(self.layers, self.learners, strict=True)):
            maps = learner(self.drop_before(index, state), maps if self.time else None, topology)
            L = SheafLaplacian(
                topology, maps, orthogonal_columns=self.family.orthogonal_columns, stalk_dim=self.stalk_dim
            )
            state = layer.diffuse(state, L)
        return state


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
        flow = disagreement_gradient(self.normalize(x), maps, topology)
        return (1 + self.epsilon.tanh()) * maps - ACTIVATIONS[self.map_activation](flow)

    def normalize(self, x: Tensor) -> Tensor:
        """The normalised states Y."""
        if self.dual_norm == "degree":
            return x * (x.size(-2) + 1) ** -0.5
        gram = x @ x.mT
        return inverse_sqrt(gram + blocks.identity_like(gram)) @ x


class JdSNN(SheafModel):
    """Joint diffusion of state and maps (Hernandez Caralt et al., 2024).

    `DiffusionBlock` moves the state along L_F, `MapDiffusion` the maps along the state:

        x⁺ = LayerNorm( (1 + tanh ε) x − φ(L_F M₂ φ(M₁ h)) ),    F⁺ = MapDiffusion(F, h),    h = dropout(x)

    The published variant "Init", whose first maps come from 500 steps of joint diffusion of the features'
    principal components, is missing: the first maps are the identity or learned.

    `num_layers` counts steps of the state; the maps take one less, so one layer has the first maps. The other
    arguments are those of `SheafModel`.

    Args:
        maps: the first maps: `identity`, or a family that is learned from the encoded features.
        weights: whether maps are mixed by W_l and W_r.
        dual_norm: of the maps' diffusion: `matrix` or `degree`.
        map_activation: ψ: `identity`, `tanh` or `elu`.
    """

    space: ClassVar[Options] = {**SPACE, "map_activation": ["identity", "tanh"]}
    published: ClassVar[Options] = {**PUBLISHED, "map_activation": "identity"}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, stalk_dim: int = 3, degree: int = 1,
        basis: str = BASIS, coefficients: str = "own", maps: str = "identity", weights: bool = True,
        dual_norm: str = "matrix", map_activation: str = "identity",
    ) -> None:  # fmt: skip
        require_choice("dual_norm", dual_norm, DUAL_NORMS)
        require_choice("map_activation", map_activation, ACTIVATIONS)
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, dropout=dropout,
            input_dropout=input_dropout, stalk_dim=stalk_dim, degree=degree, basis=basis,
            coefficients=coefficients,
        )  # fmt: skip
        family = get_family(maps)
        learner = SheafLearner(stalk_dim, hidden_channels, family, stalk_dim) if family.is_learned else None
        self.learner = learner
        self.flows = nn.ModuleList(
            MapDiffusion(stalk_dim, weights, dual_norm, map_activation) for _ in range(num_layers - 1)
        )

    def make_layer(self) -> nn.Module:
        return DiffusionBlock(self)

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The parameters that shape the maps."""
        first = [] if self.learner is None else list(self.learner.parameters())
        return [*first, *self.flows.parameters()]

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """Both diffusions side by side."""
        maps, L = self.first_maps(state, topology)
        for index, block in enumerate(self.layers):
            h = self.drop_before(index, state)
            state = block(state, h, L)
            if index < len(self.flows):
                maps = self.flows[index](maps, h, topology)
                L = SheafLaplacian(topology, maps)
        return state

    def first_maps(self, state: Tensor, topology: Topology) -> tuple[Tensor, SheafLaplacian]:
        """[H, d, d] F⁰, and its Laplacian."""
        d = self.stalk_dim
        if self.learner is None:
            eye = torch.eye(d, dtype=state.dtype, device=state.device)
            return eye.expand(topology.num_half_edges, d, d), identity_laplacian(topology, state)
        maps = blocks.to_dense(self.learner(state, topology), d)
        return maps, SheafLaplacian(topology, maps)
