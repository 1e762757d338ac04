"""`SheafModel`: what models of sheaf layers share, an encoder, the options of layers, and the call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import Unpack

from polynsd.config import LayerConfig, LayerOptions, from_options
from polynsd.errors import ConfigError, require_at_least, require_fraction, unknown_name
from polynsd.fields import field_types
from polynsd.nn.edge_mask import MaskableEdges
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import GraphInput, check_features, linear, prepare_graph
from polynsd.nn.layer import ACTIVATION


class SheafModel(MaskableEdges):
    """The encoder and the options of the layers; a subclass has `layers`, `decoder` and `propagate`.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate; the state has D times as many numbers.
        num_layers: L ≥ 1.
        out_channels: classes, or regression targets.
        input_dropout: dropout of the features.
        linear_encoder: no activation after the encoder.
        second_linear: a second linear layer in the encoder.
        **options: the fields of `polynsd.LayerConfig`.
    """

    preset: ClassVar[dict[str, Any]] = {}  # options that make the model what it is
    defaults: ClassVar[dict[str, Any]] = {"dropout": 0.5}  # where they are not those of `LayerConfig`
    layers: nn.ModuleList
    decoder: Any

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        input_dropout: float = 0.0,
        linear_encoder: bool = False,
        second_linear: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__()
        require_at_least("num_layers", num_layers, 1)
        require_at_least("hidden_channels", hidden_channels, 1)
        require_fraction("input_dropout", input_dropout)
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.config = self._layer_config(options)
        self.dropout, self.input_dropout = self.config.dropout, input_dropout
        self.linear_encoder = linear_encoder
        self.encoder = linear(in_channels, self.width)
        self.second = linear(self.width, self.width) if second_linear else None

    @property
    def width(self) -> int:
        """D · hidden_channels, the numbers of the state at a node."""
        return self.config.total_stalk_dim * self.hidden_channels

    @property
    def context_size(self) -> int:
        """Numbers per node that the trunks of the learners see beside the state."""
        return self.width if self.config.trunk_sees("features") else 0

    def context(self, state: Tensor) -> Tensor | None:
        """What they see, from the initial state."""
        return state.flatten(-2) if self.context_size else None

    def _layer_config(self, options: Mapping[str, Any]) -> LayerConfig:
        for name, value in self.preset.items():
            if options.get(name, value) != value:
                raise ConfigError(
                    f"{type(self).__name__} means {name}={value!r}; got {options[name]!r}. "
                    "Use PolyNSD for that."
                )
        own = set(inspect.signature(type(self)).parameters) - {"options"}
        known = {*field_types(LayerConfig), *own}
        for name in options:
            if name not in known:
                raise unknown_name("option", name, known)
        return from_options(LayerConfig, {**self.defaults, **options, **self.preset})

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.encoder, self.second, *self.layers, self.decoder):
            if module is not None:
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Node features `[N, in_channels]` and a graph to `[N, out_channels]`.

        Args:
            x: node features, finite.
            edge_index: an `edge_index` tensor, `EdgeIndex`, adjacency matrix, `Data`, NetworkX graph or
                `Topology`; weights that it carries are used. The graph is undirected: a one-way edge gets
                its reverse, weights of parallel columns are averaged.
            edge_weight: one non-negative weight per column of `edge_index`, equal in both directions. An edge
                of weight 0 still counts in the degrees that the learner sees.
            edge_attr: edge features per column (needs `edge_dim`).
            batch: sorted graph numbers of the nodes of a PyG mini-batch; needed where λ_max belongs to a
                graph (normalizations `none` and `degree`, and `lambda_max="lanczos"`).
        """
        check_features(self, x)
        graph = prepare_graph(x, edge_index, edge_weight, edge_attr, batch)
        return self.propagate(self.encode(x), self.mask_edges(graph, x))

    def propagate(self, state: Tensor, graph: GraphInput) -> Tensor:
        """What `encode` gave, `[N, D, hidden_channels]`, through all layers → `[N, out_channels]`."""
        raise NotImplementedError

    def encode(self, x: Tensor) -> Tensor:
        """[N, in_channels] → the initial state [N, D, hidden_channels]."""
        return self.start(encode_features(self.encoder, x, self.input_dropout, self.training))

    def start(self, h: Tensor) -> Tensor:
        """The encoder's output `[N, D · hidden_channels]` → the initial state [N, D, hidden_channels]."""
        h = h if self.linear_encoder else ACTIVATION[self.config.activation](h)
        h = functional.dropout(h, self.dropout, self.training)
        h = h if self.second is None else self.second(h)
        return h.unflatten(-1, (self.config.total_stalk_dim, self.hidden_channels))

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The parameters of the map learners, which have a weight decay of their own."""
        learners = (".learner.maps.", ".learner.bias")
        return [p for name, p in self.named_parameters() if any(part in name for part in learners)]

    def __repr__(self) -> str:
        layer = self.config
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, "
            f"num_layers={len(self.layers)}, out_channels={self.out_channels}, "
            f"stalk_dim={layer.stalk_dim}, maps={layer.maps}, degree={layer.degree})"
        )
