"""`PolyNSD` and its controls: one model, some of its options fixed.

| model             | fixed                                                  | asks whether          |
|-------------------|--------------------------------------------------------|-----------------------|
| `PolyNSD`         | nothing: learned maps, polynomial filter               |                       |
| `NSD`             | p(λ) = λ, no correction: Neural Sheaf Diffusion        | the polynomial helps  |
| `IdentitySheaf`   | maps F = I                                             | learning maps helps   |
| `PolySpectralGNN` | F = I, d = 1, L = I − D^{−1/2} A D^{−1/2}              | sheaves help at all   |

`IdentitySheaf` differs from `PolyNSD` in one part, and so does `NSD` with equal options: those that it is not
given are the published ones, as for `PolySpectralGNN`. `PolySpectralGNN` differs in several at once:
with d = 1 the state has `hidden_channels` numbers per node where `PolyNSD` has d times as many (raise
`hidden_channels` for equal width), and its normaliser adds no identity to the degrees. A difference to it
has more than one cause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from polynsd.config import LayerOptions, ModelOptions
from polynsd.errors import ConfigError
from polynsd.nn.checkpoint import run_checkpointed
from polynsd.nn.inputs import GraphInput, linear
from polynsd.nn.layer import LayerResponse, SheafLayer, build_filter
from polynsd.nn.sheaf_model import SheafModel
from polynsd.published import PUBLISHED_LAYER, PUBLISHED_MODEL, published_layer


class PolyNSD(SheafModel):
    """Encoder, `num_layers` sheaf layers, decoder; returns logits (or regression outputs).

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate; the state has D times as many numbers.
        num_layers: L ≥ 1.
        out_channels: classes, or regression targets.
        input_dropout: dropout of the features.
        linear_encoder: no activation after the encoder.
        second_linear: a second linear layer in the encoder.
        shared_filter: one set of filter coefficients for all layers.
        shared_maps: one sheaf, seen by the first layer and used by all.
        checkpoint_layers: keep only the states between layers for the backward pass and compute the layers
            again there: less memory, about a third more time, the same gradients.
        **options: the fields of `polynsd.LayerConfig`: `stalk_dim`, `degree`, `maps`, `basis`, `dropout`, …
            `dropout` acts after the encoder and in every layer, and (from the second layer on) on what the
            map learners see.
    """

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
        shared_filter: bool = False,
        shared_maps: bool = False,
        checkpoint_layers: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            input_dropout=input_dropout,
            linear_encoder=linear_encoder,
            second_linear=second_linear,
            **options,
        )
        self.shared_maps, self.checkpoint_layers = shared_maps, checkpoint_layers
        if checkpoint_layers and self.config.norm == "batch":
            raise ConfigError(
                "checkpoint_layers computes every layer twice, and norm='batch' would count its state twice; "
                "use norm='layer'."
            )
        shared = build_filter(self.config) if shared_filter else None
        self.layers = nn.ModuleList(
            SheafLayer(
                hidden_channels,
                # the first learner sees the encoder's output as it is
                replace(self.config, map_dropout=self.config.learner_dropout if index else 0.0),
                shared,
                learns_maps=index == 0 or not shared_maps,
                context_size=self.context_size,
            )
            for index in range(num_layers)
        )
        self.decoder = linear(self.width, out_channels)

    @classmethod
    def reference(
        cls,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        **options: Unpack[ModelOptions],
    ) -> PolyNSD:
        """The published architecture: one filter for all layers and each family's own order of operations.

        Differences that remain: the normaliser keeps its gradient and is not jittered, and logits
        are returned in place of log-probabilities.
        """
        maps = options.get("maps", cls.preset.get("maps", "diagonal"))
        layer = published_layer(maps, cls.preset.get("filter", "polynomial"))
        model = {n: value for n, value in PUBLISHED_MODEL.items() if n in ModelOptions.__annotations__}
        return cls(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            **{**model, "shared_filter": True, **layer, **cls.preset, **options},
        )

    def propagate(self, state: Tensor, graph: GraphInput) -> Tensor:
        """What `encode` gave, `[N, D, hidden_channels]`, through all layers → `[N, out_channels]`."""
        context = self.context(state)
        layers: list[Any] = list(self.layers)
        sheaf = layers[0].learn(state, *graph, context) if self.shared_maps else None
        for layer in layers:
            step, rest = (layer.forward, (*graph, context)) if sheaf is None else (layer.diffuse, sheaf)
            state = run_checkpointed(step, state, *rest) if self.checkpoint_layers else step(state, *rest)
        return self.decode(state)

    def decode(self, state: Tensor) -> Tensor:
        """The last state `[N, D, hidden_channels]` → [N, out_channels]."""
        return self.decoder(state.flatten(-2))

    def responses(self, lam: Tensor, lam_max: float = 2.0) -> list[LayerResponse]:
        """m(λ) and r(λ) of every layer."""
        return [layer.response(lam, lam_max) for layer in self.layers]  # type: ignore[operator]


class NSD(PolyNSD):
    """Neural Sheaf Diffusion: `x⁺ = (1 + tanh ε) x − φ(L W₁ x W₂)`."""

    preset: ClassVar[dict[str, Any]] = {
        "filter": "diffusion",
        "degree": 1,
        "basis": "chebyshev1",
        "coefficients": "convex",
        "correction": "none",
        "lambda_max": "analytic",
    }
    defaults: ClassVar[dict[str, Any]] = PUBLISHED_LAYER


class IdentitySheaf(PolyNSD):
    """The control for the learned sheaf: the same model on the constant sheaf, F = I."""

    preset: ClassVar[dict[str, Any]] = {"maps": "identity"}


class PolySpectralGNN(PolyNSD):
    """The polynomial filter on the graph itself: F = I, d = 1, L = I − D^{−1/2} A D^{−1/2}.

    The row of a node without neighbours is zero. It differs from `PolyNSD` in d, width and normalisation.
    """

    preset: ClassVar[dict[str, Any]] = {
        "maps": "identity",
        "stalk_dim": 1,
        "fixed_channels": (),
        "normalization": "sheaf",
    }
    defaults: ClassVar[dict[str, Any]] = PUBLISHED_LAYER


def sheaf_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters with a weight decay of their own; none where a model has no `sheaf_parameters()`."""
    parameters: list[nn.Parameter] = getattr(model, "sheaf_parameters", list)()
    return parameters


def count_parameters(model: nn.Module) -> int:
    """The number of learnable numbers; layers that infer their size count after their first call."""
    return sum(p.numel() for p in model.parameters() if not isinstance(p, torch.nn.UninitializedParameter))
