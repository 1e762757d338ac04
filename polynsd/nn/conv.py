"""`PolySheafConv`: sheaf diffusion as a PyTorch Geometric convolution."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from polynsd.config import LayerConfig, from_options
from polynsd.errors import require_at_least
from polynsd.nn.inputs import check_features, linear, prepare_graph
from polynsd.nn.layer import SheafLayer


class PolySheafConv(nn.Module):
    r"""A polynomial filter of a learned sheaf Laplacian.

    .. math::
        \mathbf{H} = \mathbf{X} \mathbf{\Theta}, \qquad
        \mathbf{X}' = (1 + \tanh \epsilon) \circ \mathbf{H} -
        \phi\left( p(\tilde{\mathbf{L}}_{\mathcal{F}(\mathbf{H})}) \,
        (\mathbf{I} \otimes \mathbf{W}_1) \mathbf{H} \mathbf{W}_2 \right)

    The stalks play the part of attention heads: the output has `stalk_dim * out_channels` numbers
    per node. No graph is stored on the module, so it is inductive. Use `PolyNSD` for a whole model;
    use a plain `ChebConv` where neighbours agree and no transport is needed.

    Args:
        in_channels: size of each input sample, or -1 to infer it at the first call.
        out_channels: channels per stalk coordinate.
        stalk_dim: d.
        degree: K, the number of hops.
        maps: `identity`, `diagonal`, `orthogonal`, `orthogonal(cayley)`, …, `general`.
        **options: any other field of `polynsd.LayerConfig`.

    A mini-batch of graphs needs `batch` where λ_max belongs to a graph: under the normalizations `none` and
    `degree`, and with `lambda_max="lanczos"`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*, edge features *(optional)*
        - **output:** :math:`(|\mathcal{V}|, d \cdot F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        stalk_dim: int = 4,
        degree: int = 4,
        maps: str = "diagonal",
        **options: Any,
    ) -> None:
        super().__init__()
        config = from_options(
            LayerConfig, {"stalk_dim": stalk_dim, "degree": degree, "maps": maps, **options}
        )
        require_at_least("out_channels", out_channels, 1)
        self.in_channels, self.out_channels, self.config = in_channels, out_channels, config
        self.lift = linear(in_channels, config.total_stalk_dim * out_channels)
        self.layer = SheafLayer(out_channels, config)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.lift.reset_parameters()  # type: ignore[operator]
        self.layer.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Node features `[N, in_channels]` and a graph to `[N, stalk_dim * out_channels]`."""
        check_features(x, self.in_channels)
        graph = prepare_graph(x, edge_index, edge_weight, edge_attr, batch)
        state = self.lift(x).unflatten(-1, (self.config.total_stalk_dim, self.out_channels))
        return self.layer(state, *graph).flatten(-2)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"stalk_dim={self.config.stalk_dim}, degree={self.config.degree}, maps={self.config.maps})"
        )
