"""`PolySheafConv`: sheaf diffusion as a PyTorch Geometric convolution.

    conv = PolySheafConv(16, 8, stalk_dim=4, degree=8)
    y = conv(x, edge_index)                            # [N, conv.out_features] = [N, 32]

It is called like a layer of PyG and stands wherever one does, but it is not a `MessagePassing`:

* The output has `out_features = (stalk_dim + fixed channels) · out_channels` numbers per node, as `GATConv`
  has `heads · out_channels`. The next layer takes `conv.out_features` as its `in_channels`.
* The graph is undirected. A one-way edge gets its reverse, parallel edges are merged (their weights
  averaged), self-loops are dropped; there is no `flow`, no `add_self_loops`, and no bipartite input
  `(x_source, x_target)`.
* `edge_weight` must be non-negative and equal in both directions, because the sheaf Laplacian is symmetric.
* One layer reads `degree` hops, one more for the normaliser, and those of its learner, not one hop. A sampler
  such as `NeighborLoader` must sample that far (`polynsd.scale.receptive_field` says how far).
* There is no `message`, `aggregate` or `update` to override, and no `aggr`; messages are never stored. The
  parts to change are the options: maps, normalization, basis, coefficients.
* PyG's `GNNExplainer` and `CaptumExplainer` mask its edges; explainers that look into messages are refused.
  So is `to_hetero`, also of one type of nodes: make the graph one with `data.to_homogeneous()`, and give
  types as features.
* A mini-batch of graphs needs `batch` where λ_max belongs to a graph: under the normalizations `none` and
  `degree`, and with `lambda_max="lanczos"`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import Unpack

from polynsd.config import LayerConfig, LayerOptions, from_options
from polynsd.errors import require_at_least
from polynsd.nn.edge_mask import MaskableEdges
from polynsd.nn.inputs import check_features, linear, prepare_graph
from polynsd.nn.layer import SheafLayer


class PolySheafConv(MaskableEdges):
    r"""A polynomial filter of a learned sheaf Laplacian.

    .. math::
        \mathbf{H} = \mathbf{X} \mathbf{\Theta}, \qquad
        \mathbf{X}' = (1 + \tanh \epsilon) \circ \mathbf{H} -
        \phi\left( p(\tilde{\mathbf{L}}_{\mathcal{F}(\mathbf{H})}) \,
        (\mathbf{I} \otimes \mathbf{W}_1) \mathbf{H} \mathbf{W}_2 \right)

    The stalks play the part of attention heads: the output has `out_features` numbers per node,
    `out_channels` for every stalk coordinate. No graph is stored on the module, so it is inductive. Use
    `PolyNSD` for a whole model; use PyG's `ChebConv` where neighbours agree and no transport is needed.

    Args:
        in_channels: size of each input sample, or -1 to infer it at the first call.
        out_channels: channels per stalk coordinate.
        **options: the fields of `polynsd.LayerConfig`: `stalk_dim`, `degree`, `maps`, `basis`, …

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*, edge features *(optional)*
        - **output:** :math:`(|\mathcal{V}|, D \cdot F_{out})` with :math:`D = d` + number of fixed channels
    """

    def __init__(self, in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__()
        config = from_options(LayerConfig, options)
        require_at_least("out_channels", out_channels, 1)
        self.in_channels, self.out_channels, self.config = in_channels, out_channels, config
        self.lift = linear(in_channels, self.out_features)
        self.layer = SheafLayer(out_channels, config)

    @property
    def out_features(self) -> int:
        """Numbers per node of the output: (stalk_dim + fixed channels) · out_channels."""
        return self.config.total_stalk_dim * self.out_channels

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
        """Node features `[N, in_channels]` and a graph to `[N, out_features]`; see `PolyNSD.forward`."""
        check_features(self, x)
        graph = prepare_graph(x, edge_index, edge_weight, edge_attr, batch)
        state = self.lift(x).unflatten(-1, (self.config.total_stalk_dim, self.out_channels))
        return self.layer(state, *self.mask_edges(graph, x)).flatten(-2)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"stalk_dim={self.config.stalk_dim}, degree={self.config.degree}, maps={self.config.maps})"
        )
