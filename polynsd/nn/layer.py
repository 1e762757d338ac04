"""`SheafLayer`: one step of learned sheaf diffusion on a state `[..., N, D, C]`.

    L  = SheafLaplacian(learner(norm(x)))
    h  = W₁ dropout(norm(x)) W₂
    z  = p(L̃) h + α c(L) h
    x⁺ = (1 + tanh ε) ∘ x − φ(z)

so that, up to mixing and activation, a frequency λ is multiplied by r(λ) = 1 + tanh ε − m(λ), not
by m(λ). With a shortcut, x⁺ = φ(z + W₃ dropout(norm(x)) + b), r(λ) = m(λ) is the part through the graph; W₃
adds the same to all frequencies, and nothing of the state stays as it is. With norm and dropout at the end it
is the block of tuned graph convolutions, x⁺ = dropout(φ(norm(z + W₃x + b))). What the learner's trunk
computes, t, can be added to the state beside being read as maps: z + V t. Many such blocks make all nodes
alike and do not train; as changes of the state, x⁺ = x + ε ∘ dropout(φ(norm(z + W₃x + b))) with ε = 0 at the
start (rezero), a model of any depth starts as its encoder and decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.config import SHORTCUTS, LayerConfig
from polynsd.errors import ConfigError, ShapeError
from polynsd.kernels.ops import edges
from polynsd.nn.assembly import Laplacian, assemble_laplacian
from polynsd.nn.batch_norm import BatchNorm
from polynsd.nn.precision import in_full_precision
from polynsd.sheaf.families import Identity
from polynsd.sheaf.learner import SheafLearner, constant_maps, log_degrees
from polynsd.spectral.filter import Diffusion, PolynomialFilter
from polynsd.topology import Topology

NARROW = 128  # width of a state, up to which W₁ ⊗ W₂ is cheaper than W₁ and W₂
NORMS: dict[str, Callable[[int], Any]] = {
    "none": lambda width: None,
    "layer": nn.LayerNorm,
    "batch": BatchNorm,
}
ACTIVATION: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": functional.elu,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "identity": lambda z: z,
}


class LearnedSheaf(NamedTuple):
    """What a layer makes of a state before it filters."""

    laplacian: Laplacian
    trunk: Tensor | None  # [..., N, width] what is added to the state, if anything


class LayerResponse(NamedTuple):
    """What a layer does to frequencies: z = m(λ) h, x⁺ = r(λ) x."""

    lam: Tensor  # [n]
    m: Tensor  # [n] the filter
    r: Tensor  # [D, n] gate ± filter, or the filter beside a shortcut; one row per stalk coordinate


def build_filter(config: LayerConfig) -> PolynomialFilter | Diffusion:
    """The filter that a configuration names."""
    if config.filter == "diffusion":
        return Diffusion()
    return PolynomialFilter(config.basis, config.degree, config.coefficients, config.correction)


class SheafLayer(nn.Module):
    """One layer, assembled from the parts that the configuration names.

    Args:
        channels: C, per stalk coordinate.
        config: the parts.
        filter: a filter to share with other layers; by default the layer has its own.
        learns_maps: False for a layer that is always given another layer's sheaf.
        context_size: numbers per node that the learner's trunk sees beside the state.
    """

    hook: Callable[..., Tensor] | None = None  # set by `hook_layers` (hooks.py)

    def __init__(
        self,
        channels: int,
        config: LayerConfig,
        filter: PolynomialFilter | Diffusion | None = None,  # noqa: A002
        learns_maps: bool = True,
        context_size: int = 0,
    ) -> None:
        super().__init__()
        self.channels, self.config = channels, config
        D = config.total_stalk_dim
        learns = learns_maps and (config.family.is_learned or config.adds_trunk)
        self.learner = self._build_learner(context_size) if learns else None
        self.filter = build_filter(config) if filter is None else filter
        self.stalk_mixing = _square(D) if config.mixing in ("both", "stalk", "idle") else None
        self.channel_mixing = _square(channels) if config.mixing in ("both", "channel", "idle") else None
        self.full_mixing = _square(D * channels) if config.mixing == "full" else None
        self.norm = NORMS[config.norm](D * channels)
        self.epsilon = (
            nn.Parameter(torch.empty(D, 1)) if config.gate in ("tanh", "linear", "rezero") else None
        )
        self.shortcut = nn.Linear(D * channels, D * channels) if config.gate in SHORTCUTS else None
        self.addition = (
            nn.Linear(config.learner_width, D * channels, bias=False) if config.adds_trunk else None
        )
        self.reset_parameters()

    def _build_learner(self, context_size: int) -> SheafLearner:
        config = self.config
        return SheafLearner(
            config.total_stalk_dim,
            self.channels,
            config.family,
            config.stalk_dim,
            kind=config.learner,
            activation=config.map_activation,
            edge_weights=config.edge_weights,
            edge_dim=config.edge_dim,
            start=config.map_start,
            place=config.maps_on,
            extra=context_size + config.trunk_sees("degree"),
            width=config.learner_width,
            hops=config.learner_hops,
            dropout=config.learner_dropout,
        )

    def reset_parameters(self) -> None:
        """W₁ = I, W₂ (or the full matrix) random orthogonal, ε = 0; all else by its own rules."""
        if self.learner is not None:
            self.learner.reset_parameters()
        self.filter.reset_parameters()
        if self.stalk_mixing is not None:
            nn.init.eye_(self.stalk_mixing)
        for mixing in (self.channel_mixing, self.full_mixing):
            if mixing is not None:
                nn.init.orthogonal_(mixing)
        if self.norm is not None:
            self.norm.reset_parameters()
        if self.epsilon is not None:
            nn.init.zeros_(self.epsilon)
        if self.shortcut is not None:
            self.shortcut.reset_parameters()
            if isinstance(self.filter, PolynomialFilter):
                self.filter.start_as(0.0, -1.0)  # the adjacency
        if self.addition is not None:
            self.addition.reset_parameters()

    def forward(
        self,
        x: Tensor,
        topology: Topology,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        context: Tensor | None = None,
    ) -> Tensor:
        """[..., N, D, C] → [..., N, D, C]; `edge_weight` and `edge_attr` are on half-edges."""
        return self.diffuse(x, *self.learn(x, topology, edge_weight, edge_attr, batch, context))

    def laplacian(
        self,
        x: Tensor,
        topology: Topology,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        context: Tensor | None = None,
    ) -> Laplacian:
        """The sheaf Laplacian that this layer sees in a state."""
        return self.learn(x, topology, edge_weight, edge_attr, batch, context).laplacian

    @in_full_precision
    def learn(
        self,
        x: Tensor,
        topology: Topology,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        context: Tensor | None = None,
    ) -> LearnedSheaf:
        """The sheaf that this layer sees in a state, and what its trunk adds to the state.

        `context` `[..., N, context_size]` is what the trunk sees beside the state.
        """
        config, learner = self.config, self.learner
        if learner is None and (config.family.is_learned or config.adds_trunk):
            raise ConfigError("this layer learns no maps of its own (shared_maps); ask the first layer.")
        if edge_attr is not None and not config.family.is_learned:
            raise ShapeError(f"maps='{config.maps}' has no use for edge_attr; leave it out.")
        build = partial(assemble_laplacian, config, topology, edge_weight, batch)

        def build_constant() -> Laplacian:
            maps = constant_maps(config.family, topology, x, config.stalk_dim)
            return build(maps, constant=config.maps)

        if learner is None:
            return LearnedSheaf(build_constant(), None)
        y = self._normalize_before(x, is_counted=False)  # it is when the filter sees it
        if config.is_flat:
            learner.check_edge_attr(edge_attr)
        seen = [] if context is None else [context]
        if config.trunk_sees("degree"):
            seen.append(log_degrees(topology, x))
        t = learner.read(self._dropout(y, config.learner_dropout), topology, edge_weight, seen)
        trunk = t if config.adds_trunk else None
        if not config.family.is_learned:
            return LearnedSheaf(build_constant(), trunk)
        if not config.is_flat:
            return LearnedSheaf(build(learner.maps_on_edges(t, topology, edge_attr)), trunk)
        scale, rotation = config.family.split(learner.raw_maps(t, topology), config.stalk_dim)  # type: ignore[attr-defined]
        weight = learner.edge_scale(t, topology)
        maps = constant_maps(Identity(), topology, x, config.stalk_dim)
        for factor in (None if scale is None else edges.at_rows(scale, topology.pattern), weight):
            maps = maps if factor is None else maps * factor
        is_constant = scale is None and weight is None
        return LearnedSheaf(build(maps, rotation, "identity" if is_constant else None), trunk)

    def diffuse(self, x: Tensor, L: Laplacian, trunk: Tensor | None = None) -> Tensor:
        """The update of a state by a given sheaf, through the hook where one is set (`hook_layers`)."""
        return self.update(x, L, trunk) if self.hook is None else self.hook(self, x, L, trunk)

    def update(self, x: Tensor, L: Laplacian, trunk: Tensor | None = None) -> Tensor:
        """The update itself."""
        config, activate = self.config, ACTIVATION[self.config.activation]
        position, y = config.dropout_position, self._normalize_before(x)
        y = self._dropout(y, config.dropout) if position == "before" else y
        h = self._mix(y)
        z = self._filter(h, L)
        if config.correction_state == "residual" and isinstance(self.filter.alpha, Tensor):
            z = z + self.filter.alpha * (x - h)  # α(x − Lh/λ_max) instead of α(h − Lh/λ_max)
        z = self._dropout(z, config.dropout) if position == "after" else z
        added = None
        if self.addition is not None:
            assert trunk is not None
            added = self.addition(trunk).unflatten(-1, x.shape[-2:])
        if self.shortcut is not None:
            z = z + self.shortcut(y.flatten(-2)).unflatten(-1, y.shape[-2:])
            result = activate(self._normalize_after(z if added is None else z + added))
        else:
            result = self.residual_gain() * x - activate(z)
            result = self._normalize_after(result if added is None else result + added)
        result = self._dropout(result, config.dropout) if position == "last" else result
        if config.gate != "rezero":
            return result
        assert self.epsilon is not None
        return x + self.epsilon * result

    def flow(self, x: Tensor, L: Laplacian, is_inside: bool = False) -> Tensor:
        """ẋ = −φ(p(L̃) W₁ x W₂), what the update adds to a state with `gate="none"`; or φ(−p(L̃) W₁ x W₂)."""
        z, activate = self._filter(self._mix(x), L), ACTIVATION[self.config.activation]
        return activate(-z) if is_inside else -activate(z)

    @in_full_precision
    def _filter(self, h: Tensor, L: Laplacian) -> Tensor:
        return self.filter(L, h, L.lambda_max(self.config.lambda_max))

    def residual_gain(self) -> Tensor | float:
        """[D, 1] the factor of the residual: 1 + tanh ε, 1 + ε, 1 (none, rezero), or 0 (shortcut)."""
        if self.config.gate in ("tanh", "linear"):
            assert self.epsilon is not None
            return 1 + (self.epsilon.tanh() if self.config.gate == "tanh" else self.epsilon)
        return 0.0 if self.config.gate == "shortcut" else 1.0

    @torch.no_grad()
    def response(self, lam: Tensor, lam_max: float = 2.0) -> LayerResponse:
        """m(λ) and r(λ) at the given frequencies."""
        m = self.filter.response(lam, lam_max)
        gain = torch.as_tensor(self.residual_gain(), dtype=lam.dtype, device=lam.device)
        sign = -1 if self.shortcut is None else 1
        change = sign * m if self.config.gate != "rezero" else self.epsilon * m  # type: ignore[operator]
        return LayerResponse(lam, m, gain.expand(self.config.total_stalk_dim, 1) + change)

    def _dropout(self, x: Tensor, p: float) -> Tensor:
        return functional.dropout(x, p, self.training)

    def _normalize_before(self, x: Tensor, is_counted: bool = True) -> Tensor:
        """norm(x); running statistics count a state once, though learner and filter both see it."""
        return self._normalize(x, is_counted) if self.config.norm_position == "before" else x

    def _normalize_after(self, x: Tensor) -> Tensor:
        return self._normalize(x) if self.config.norm_position == "after" else x

    def _normalize(self, x: Tensor, is_counted: bool = True) -> Tensor:
        if self.norm is None:
            return x
        normalize = partial(self.norm, is_counted=is_counted) if self.config.norm == "batch" else self.norm
        return normalize(x.flatten(-2)).unflatten(-1, x.shape[-2:])

    def mixed(self, x: Tensor) -> Tensor:
        """What the filter sees of a state, h = W₁ norm(x) W₂, where nothing is dropped."""
        return self._mix(self._normalize_before(x, is_counted=False))

    def _mix(self, x: Tensor) -> Tensor:
        """(I ⊗ W₁) x W₂ᵀ."""
        if self.config.mixing == "idle":
            return x
        if self.full_mixing is not None:
            return mix_fully(x, self.full_mixing)
        return mix(x, self.stalk_mixing, self.channel_mixing)

    def extra_repr(self) -> str:
        return f"channels={self.channels}, maps={self.config.maps}, D={self.config.total_stalk_dim}"


def mix(x: Tensor, stalk: Tensor | None, channel: Tensor | None) -> Tensor:
    """(I ⊗ W₁) x W₂ᵀ; None stands for the identity."""
    if stalk is not None and channel is not None and x.shape[-2:].numel() <= NARROW:
        return mix_fully(x, torch.kron(stalk, channel))  # one product in place of N small ones
    x = x if stalk is None else stalk @ x
    return x if channel is None else x @ channel.mT


def mix_fully(x: Tensor, weight: Tensor) -> Tensor:
    """W vec(x) at every node, W `[dC, dC]`."""
    return functional.linear(x.flatten(-2), weight).unflatten(-1, x.shape[-2:])


def _square(n: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(n, n))
