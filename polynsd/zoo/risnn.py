"""`RiSNN`: Neural Sheaf Diffusion whose maps do not see how the channels are rotated."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from polynsd.kernels.ops import blocks, edges
from polynsd.sheaf.families import MapFamily, get_family
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.topology import Topology
from polynsd.zoo.sheaf_block import PUBLISHED, SPACE, SheafModel, nsd_layers


class RotationInvariantLearner(nn.Module):
    """F⁺_{v⊴e} = family(tanh(W vec(G) + b)),      G = (2/d) (F_{v⊴e} X_v − F_{u⊴e} X_u) X_vᵀ.

    G is, up to 1/d, the gradient of the disagreement ‖F_v X_v − F_u X_u‖² by F_v. It is the same for X and
    X Q with any orthogonal Q, and W has d² inputs however many channels there are.
    """

    def __init__(self, family: MapFamily, d: int) -> None:
        super().__init__()
        self.family, self.d = family, d
        self.linear = nn.Linear(d * d, family.num_params(d))

    def reset_parameters(self) -> None:
        """PyTorch's default for linear layers."""
        self.linear.reset_parameters()

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
    """Neural Sheaf Diffusion with maps from `RotationInvariantLearner`.

        x⁺ = (1 + tanh ε) x − φ(L_F (I ⊗ W₁) dropout(x) W₂)

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate.
        num_layers: number of steps, each with a learner of its own.
        out_channels: classes.
        dropout: of the state, and (from the second layer on) of what the learners see.
        input_dropout: of the features.
        stalk_dim: d.
        maps: the family: `general`, `diagonal`, `orthogonal`, ….
        time: whether a learner sees the maps of the layer before it; if not, F = I in G everywhere.
    """

    space: ClassVar[dict[str, Any]] = {**SPACE, "maps": ["diagonal", "orthogonal", "general"]}
    published: ClassVar[dict[str, Any]] = {**PUBLISHED, "maps": "general"}

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
        maps: str = "general",
        time: bool = True,
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
        self.family, self.time = get_family(maps), time
        self.learners = nn.ModuleList(
            RotationInvariantLearner(self.family, stalk_dim) for _ in range(num_layers)
        )

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        super().reset_parameters()
        for learner in self.learners:
            learner.reset_parameters()  # type: ignore[operator]

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The parameters of the map learners."""
        return list(self.learners.parameters())

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """New maps, then a step along them, layer by layer."""
        maps: Tensor | None = None
        for index, (layer, learner) in enumerate(zip(self.layers, self.learners, strict=True)):
            maps = learner(self.dropped(state, index), maps if self.time else None, topology)
            state = layer.diffuse(state, self.laplacian(maps, topology))  # type: ignore[operator]
        return state

    def laplacian(self, maps: Tensor, topology: Topology) -> SheafLaplacian:
        """L_F."""
        return SheafLaplacian(
            topology, maps, orthogonal_columns=self.family.orthogonal_columns, stalk_dim=self.stalk_dim
        )
