"""`SheafODE`: sheaf diffusion in continuous time.

    ẋ = −φ( q(L̃_{F(x)}) (I ⊗ W₁) x W₂ ),   q = p + α c,   x(0) = encoder(features),   logits = decoder(x(T))

One step of Euler with Δt = 1 is a `SheafLayer` with `gate="none"`. With p(λ) = λ (`filter="diffusion"`) it is
the ODE of Neural Sheaf Diffusion, with `maps="identity"` its control. For φ = identity, W₁ = W₂ = I and a
frozen sheaf a mode of frequency λ is multiplied by exp(−T q(λ)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, cast

from torch import Tensor, nn
from typing_extensions import Self, Unpack

from polynsd.config import LayerOptions, ODEConfig
from polynsd.nn.assembly import Laplacian
from polynsd.nn.inputs import GraphInput, linear
from polynsd.nn.integration import Inputs, integrate
from polynsd.nn.layer import SheafLayer, build_filter
from polynsd.nn.sheaf_model import SheafModel
from polynsd.published import PUBLISHED_LAYER


class SheafODE(SheafModel):
    """Encoder, `num_layers` sheaf layers that each run over a time T, decoder; returns logits.

    A layer has one set of parameters for all times. The published model has one layer. Nothing inside is
    dropped or normalised, so that ẋ depends on the state alone.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: channels per stalk coordinate; the state has D times as many numbers.
        num_layers: L ≥ 1, run one after the other.
        out_channels: classes, or regression targets.
        input_dropout: dropout of the features.
        linear_encoder: no activation after the encoder.
        second_linear: a second linear layer in the encoder.
        shared_filter: one set of filter coefficients for all layers.
        horizon: T > 0.
        solver: `euler`, `midpoint`, `rk4` with fixed steps; `dopri5`, `bosh3`, `adaptive_heun` by tolerance.
        steps: over the horizon, of solvers with fixed steps.
        tolerance: relative tolerance of adaptive solvers; the absolute one is a tenth of it.
        gradient: `checkpoint`, `direct` or `adjoint`, see `integration.py`; `auto`: the first with fixed
            steps, the last with adaptive ones. Memory grows with the steps for `direct` only.
        maps_at: `state`: maps, Laplacian and filter anew at every evaluation; `start`: the sheaf of x(0).
        sign: minus `outside`, ẋ = −φ(…), as printed, or `inside`, ẋ = φ(−…), as in published code.
        **options: the fields of `polynsd.LayerConfig`, with published values unless given; `dropout` is that
            of the encoder's output.
    """

    preset: ClassVar[dict[str, Any]] = {
        "gate": "none",
        "norm": "none",
        "trunk": "maps",
        "map_dropout": None,
        "correction_state": "filtered",
    }
    defaults: ClassVar[dict[str, Any]] = PUBLISHED_LAYER

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
        horizon: float = 1.0,
        solver: str = "rk4",
        steps: int = 4,
        tolerance: float = 1e-4,
        gradient: str = "auto",
        maps_at: str = "state",
        sign: str = "outside",
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
        self.ode = ODEConfig(horizon, solver, steps, tolerance, gradient, maps_at, sign)
        shared = build_filter(self.config) if shared_filter else None
        deterministic = replace(self.config, dropout=0.0)
        self.layers = nn.ModuleList(
            SheafLayer(hidden_channels, deterministic, shared, context_size=self.context_size)
            for _ in range(num_layers)
        ).eval()
        self.decoder = linear(self.width, out_channels)

    def train(self, mode: bool = True) -> Self:
        """As everywhere; layers evaluate in training too, because a derivative has nothing random."""
        super().train(mode)
        self.layers.eval()
        return self

    def propagate(self, state: Tensor, graph: GraphInput) -> Tensor:
        """What `encode` gave, `[N, D, hidden_channels]`, through all layers → `[N, out_channels]`."""
        context = self.context(state)
        for layer in self.layers:
            assert isinstance(layer, SheafLayer)
            frozen = self._frozen_sheaf(layer, state, graph, context)
            state = self._run(layer, state, graph, context, frozen, self.ode)
        return self.decode(state)

    def decode(self, state: Tensor) -> Tensor:
        """The last state `[N, D, hidden_channels]` → [N, out_channels]."""
        return self.decoder(state.flatten(-2))

    def trajectory(
        self, state: Tensor, graph: GraphInput, pieces: int
    ) -> Iterator[tuple[SheafLayer, Tensor, Laplacian]]:
        """(layer, x(t), the sheaf that ẋ has there) at the beginning of equal pieces of time, and at the end.

        `pieces` is their number in every layer. It divides the steps of solvers that have fixed ones, so that
        the states are those of `propagate`.
        """
        context, layers = self.context(state), cast(list[SheafLayer], list(self.layers))
        steps = max(self.ode.steps // pieces, 1)
        piece = replace(self.ode, horizon=self.ode.horizon / pieces, steps=steps)
        for layer in layers:
            frozen = self._frozen_sheaf(layer, state, graph, context)
            for _ in range(pieces):
                yield layer, state, layer.laplacian(state, *graph, context) if frozen is None else frozen
                state = self._run(layer, state, graph, context, frozen, piece)
        yield layer, state, layer.laplacian(state, *graph, context) if frozen is None else frozen

    def _frozen_sheaf(
        self, layer: SheafLayer, state: Tensor, graph: GraphInput, context: Tensor | None
    ) -> Laplacian | None:
        """The sheaf of x(0), where it is that of all times."""
        return layer.laplacian(state, *graph, context) if self.ode.maps_at == "start" else None

    def _run(
        self,
        layer: SheafLayer,
        state: Tensor,
        graph: GraphInput,
        context: Tensor | None,
        frozen: Laplacian | None,
        ode: ODEConfig,
    ) -> Tensor:
        """x(T) of a layer with x(0) = state."""
        is_inside, inputs = ode.sign == "inside", graph._asdict() | {"context": context}
        topology = inputs.pop("topology")
        if frozen is not None:
            return integrate(
                layer,
                lambda x, tensors: layer.flow(x, _with_tensors(frozen, tensors), is_inside),
                state,
                _tensors_of(frozen),
                ode,
            )
        return integrate(
            layer,
            lambda x, tensors: layer.flow(x, layer.laplacian(x, topology, **tensors), is_inside),
            state,
            inputs,
            ode,
        )


def _tensors_of(L: Laplacian) -> dict[str, Tensor]:
    """The tensors of an operator, by their numbers."""
    tensors: dict[str, Tensor] = {}

    def collect(tensor: Tensor) -> Tensor:
        return tensors.setdefault(str(len(tensors)), tensor)

    L.convert(collect)
    return tensors


def _with_tensors(L: Laplacian, tensors: Inputs) -> Laplacian:
    """The operator with other tensors, in the order of `_tensors_of`."""
    values = iter(tensors.values())
    return L.convert(lambda _: next(values))
