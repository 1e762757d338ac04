"""Configuration: frozen dataclasses that validate themselves and round-trip through JSON.

Invalid values raise at construction; nothing is clamped. `LayerConfig` describes one sheaf layer, part by
part; `LayerOptions` names the same fields for editors and type checkers, as keyword arguments of layers and
models.

    config = ModelConfig("polynsd", num_layers=4, layer=LayerConfig(maps="orthogonal", degree=8))
    save_config("model.yaml", config)
    assert load_config("model.yaml", ModelConfig) == config
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from polynsd.documents import read_document, write_document
from polynsd.errors import ConfigError, require_at_least, require_at_most, require_choice, require_fraction
from polynsd.fields import check_fields, fit_fields

if TYPE_CHECKING:
    from polynsd.sheaf.families import MapFamily

FILTERS = ("polynomial", "diffusion")
MIXINGS = ("both", "stalk", "channel", "full", "none", "idle")
GATES = ("tanh", "linear", "none", "shortcut", "rezero")
SHORTCUTS = ("shortcut", "rezero")  # gates with a linear map beside the filter
SELECTIONS = ("metric", "loss", "acc", "auc")
UPDATES = ("elu", "relu", "tanh", "identity")
NORMS = ("none", "layer", "batch")
TRUNK_USES = ("maps", "state", "both")
LEARNER_INPUTS = ("state", "features", "degree")
FIXED_SOLVERS = ("euler", "midpoint", "rk4")
ADAPTIVE_SOLVERS = ("dopri5", "bosh3", "adaptive_heun")
GRADIENTS = ("auto", "checkpoint", "direct", "adjoint")
MOST_STEPS = 4096
MOST_HOPS = 4096  # of a filter or a trunk; a change of basis has the square of a degree in entries
MOST_LAYERS = 4096
MOST_CHANNELS = 2**20

C = TypeVar("C")


@dataclass(frozen=True)
class LayerConfig:
    """One layer: learner × map family × Laplacian × filter × update.

    With the defaults `x⁺ = dropout(φ(norm(p(L̃) W x + W₃ x + V t + b)))`, where the trunk t is a small graph
    network of the state and L̃ the Laplacian of the rotations that are read from it. As published,
    `x⁺ = (1 + tanh ε) ∘ x − φ(z)`, `z = p(L̃)h + α c(L)h`, `h = W₁ y W₂`, `y = dropout(norm(x))`.
    """

    stalk_dim: int = 4
    """d, the dimension of the learned stalks."""
    maps: str = "orthogonal"
    """identity, diagonal, orthogonal, orthogonal(cayley | matrix_exp | euler), conformal (a positive number
    times an orthogonal matrix), general."""
    maps_on: str = "nodes"
    """edges: a map for every incidence; nodes: one for every node, F_{v⊴e} = F_v. With orthogonal and
    conformal maps that is a flat sheaf, whose filter costs no more than that of identity maps."""
    fixed_channels: tuple[str, ...] = ()
    """Stalk coordinates with fixed maps: laplacian (D − A), signless (D + A)."""
    normalization: str = "sheaf-augmented"
    """none, sheaf, sheaf-augmented, degree, random-walk (means over neighbours)."""
    learner: str = "gnn"
    """What the maps are read from: the state (concat), its mean over the stalk (pooled), or a trunk: a
    perceptron at every node (mlp), a GraphSAGE with root term (gnn)."""
    learner_hops: int = 2
    """Layers of the trunk (mlp, gnn); a gnn reads so many hops."""
    learner_width: int = 64
    """Numbers per node that the trunk computes."""
    learner_inputs: tuple[str, ...] = ("state", "features", "degree")
    """What the trunk sees: state, features (the encoded ones of the input), degree (its logarithm)."""
    trunk: str = "both"
    """Where the trunk's output goes: maps, state (added to the update), both. With identity maps, both is
    state: the control of equal reach and size."""
    map_activation: str = "tanh"
    """Applied to the raw numbers of the maps: tanh, elu, identity."""
    map_start: str = "identity"
    """random maps; constant: one map for all incidences, whose differences are learned; identity: the model
    starts as the one with identity maps."""
    edge_weights: bool = False
    """Learn a symmetric weight in (0, 1) for every edge."""
    edge_dim: int = 0
    """Number of edge features that the learner sees."""
    filter: str = "polynomial"
    """polynomial, or diffusion (p(λ) = λ, Neural Sheaf Diffusion)."""
    degree: int = 4
    """K, the number of hops of one layer."""
    basis: str = "chebyshev1"
    """Polynomial basis, e.g. legendre, gegenbauer(1.5), jacobi(0.5, 0); normalized to sup-norm 1 unless raw:
    chebyshev2.raw()."""
    coefficients: str = "free"
    """convex (softmax), free, interpolation."""
    correction: str = "none"
    """linear (1 − λ/λ_max), high-pass (λ/λ_max), none."""
    lambda_max: str = "analytic"
    """analytic (certified) or lanczos (tighter)."""
    mixing: str = "full"
    """W₁ (stalk) and W₂ (channel): both, stalk, channel, none; full: one matrix on all D·C numbers of a
    node; idle: W₁ and W₂ exist but are not applied."""
    norm: str = "layer"
    """Normalisation of the state: none, layer, batch."""
    norm_position: str = "after"
    """before learner and filter, where the residual is left alone; after: of the sum that the layer returns,
    with a shortcut before the activation."""
    gate: str = "shortcut"
    """Weight of the residual: 1 + tanh ε, 1 + ε (linear) or 1 (none); shortcut: none at all but a linear map
    inside, x⁺ = φ(z + W₃y + b), and a filter that starts as the adjacency where its coefficients can; rezero:
    the same as a change of the state, x⁺ = x + ε φ(z + W₃y + b) with ε = 0 at the start, for deep models."""
    activation: str = "relu"
    """φ: elu, relu, tanh, identity."""
    dropout: float = 0.0
    """Dropout of the state, once per layer. Models that are given no `LayerConfig` have 0.5."""
    map_dropout: float | None = None
    """Dropout of what the map learner sees, with its own mask; as dropout unless given."""
    dropout_position: str = "last"
    """before the mixing, after the filter, or last: after the activation."""
    correction_state: str = "filtered"
    """The state in the correction's constant term: filtered (h), or residual (x)."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least("stalk_dim", self.stalk_dim, 1)
        require_at_least("degree", self.degree, 0)
        require_at_most("degree", self.degree, MOST_HOPS)
        require_at_least("edge_dim", self.edge_dim, 0)
        require_at_least("learner_hops", self.learner_hops, 1)
        require_at_most("learner_hops", self.learner_hops, MOST_HOPS)
        for name in ("stalk_dim", "edge_dim", "learner_width"):
            require_at_most(name, getattr(self, name), MOST_CHANNELS)
        require_at_least("learner_width", self.learner_width, 1)
        require_fraction("dropout", self.dropout)
        require_fraction("map_dropout", self.learner_dropout)
        changed = {each.name for each in fields(self) if getattr(self, each.name) != each.default}
        if changed - {"dropout", "map_dropout"}:  # the defaults fit together, and this needs torch
            self.check_parts()

    def check_parts(self) -> None:
        """Raises unless every part exists and they fit together."""
        from polynsd.sheaf.families import CHANNELS
        from polynsd.spectral.bases import get_basis

        for option, choices in _list_choices().items():
            require_choice(option, getattr(self, option), choices)
        for channel in self.fixed_channels:
            require_choice("fixed channel", channel, CHANNELS)
        self.family.num_params(self.stalk_dim)  # raises where the family does not admit d
        self._check_learner()
        if not self.family.is_learned and (self.edge_weights or self.edge_dim):
            raise ConfigError(
                f"maps='{self.maps}' learns nothing from edges; leave edge_weights and edge_dim out."
            )
        get_basis(self.basis)
        if self.normalization == "random-walk" and not self.family.orthogonal_columns:
            raise ConfigError(
                f"normalization='random-walk' needs maps with diagonal FᵀF; got maps='{self.maps}'."
            )
        if self.correction_state == "residual" and self.correction != "linear":
            raise ConfigError("correction_state='residual' needs correction='linear'.")
        is_published_order = self.dropout_position == "after" or self.correction_state == "residual"
        if self.gate in SHORTCUTS and is_published_order:
            raise ConfigError(
                f"gate='{self.gate}' has no residual inside and one dropout for filter and shortcut; use "
                "dropout_position='before' or 'last', and correction_state='filtered'."
            )

    def _check_learner(self) -> None:
        for name in self.learner_inputs:
            require_choice("learner input", name, LEARNER_INPUTS)
        if "state" not in self.learner_inputs:
            raise ConfigError(f"learner_inputs must contain 'state'; got {self.learner_inputs}.")
        if self.trunk == "state" and self.family.is_learned:
            raise ConfigError(
                f"trunk='state' leaves nothing to read maps='{self.maps}' from; use trunk='both', or "
                "maps='identity'."
            )
        if self.maps_on == "nodes" and self.edge_dim:
            raise ConfigError(
                "maps on nodes see no edge features; use maps_on='edges', or leave edge_dim out."
            )

    @property
    def family(self) -> MapFamily:
        from polynsd.sheaf.families import get_family

        return get_family(self.maps)

    @property
    def learner_dropout(self) -> float:
        """The dropout of what the map learner sees: `map_dropout`, or `dropout` unless that is given."""
        return self.dropout if self.map_dropout is None else self.map_dropout

    @property
    def adds_trunk(self) -> bool:
        """Whether the learner has a trunk whose output is added to the state."""
        return self.trunk != "maps" and self.has_trunk

    def trunk_sees(self, what: str) -> bool:
        """Whether there is a trunk that sees the `features` or the `degree` of a node."""
        return self.has_trunk and what in self.learner_inputs

    @property
    def has_trunk(self) -> bool:
        """Whether the learner has parameters between the state and its head."""
        from polynsd.sheaf.learner import TRUNKS

        return self.learner in TRUNKS

    @property
    def is_flat(self) -> bool:
        """Whether the sheaf is that of the plain graph up to a rotation of every stalk."""
        from polynsd.sheaf.families import Conformal, Orthogonal

        return self.maps_on == "nodes" and isinstance(self.family, Orthogonal | Conformal)

    @property
    def total_stalk_dim(self) -> int:
        """D = d + number of fixed channels."""
        return self.stalk_dim + len(self.fixed_channels)


@cache
def _list_choices() -> dict[str, tuple[str, ...]]:
    """The values of every option that is chosen from a list."""
    from polynsd.sheaf.laplacian import BOUNDS, NORMALIZATIONS
    from polynsd.sheaf.learner import ACTIVATIONS, LEARNERS, MAP_STARTS, PLACES
    from polynsd.spectral.filter import COEFFICIENTS, CORRECTIONS

    return {
        "normalization": (*NORMALIZATIONS, "random-walk"),
        "maps_on": PLACES,
        "learner": LEARNERS,
        "trunk": TRUNK_USES,
        "map_activation": tuple(ACTIVATIONS),
        "map_start": MAP_STARTS,
        "filter": FILTERS,
        "coefficients": COEFFICIENTS,
        "correction": tuple(CORRECTIONS),
        "lambda_max": BOUNDS,
        "mixing": MIXINGS,
        "norm": NORMS,
        "norm_position": ("before", "after"),
        "gate": GATES,
        "activation": UPDATES,
        "dropout_position": ("before", "after", "last"),
        "correction_state": ("filtered", "residual"),
    }


class LayerOptions(TypedDict, total=False):
    """The fields of `LayerConfig` as keyword arguments; meanings and defaults are there.

    `PolyNSD(16, 8, 2, 3, maps="general", degree=8)` is checked against this list.
    """

    stalk_dim: int
    maps: str
    maps_on: str
    fixed_channels: tuple[str, ...]
    normalization: str
    learner: str
    learner_hops: int
    learner_width: int
    learner_inputs: tuple[str, ...]
    trunk: str
    map_activation: str
    map_start: str
    edge_weights: bool
    edge_dim: int
    filter: str
    degree: int
    basis: str
    coefficients: str
    correction: str
    lambda_max: str
    mixing: str
    norm: str
    norm_position: str
    gate: str
    activation: str
    dropout: float
    map_dropout: float | None
    dropout_position: str
    correction_state: str


@dataclass(frozen=True)
class ODEConfig:
    """How continuous models go through time, from 0 to the horizon in every layer."""

    horizon: float = 1.0
    """T, the time over which a layer of a continuous model is integrated."""
    solver: str = "rk4"
    """euler, midpoint, rk4: fixed steps; dopri5, bosh3, adaptive_heun: steps by tolerance (package
    torchdiffeq)."""
    steps: int = 4
    """Steps over the horizon, of solvers with fixed steps."""
    tolerance: float = 1e-4
    """Relative tolerance of adaptive solvers; the absolute one is a tenth of it."""
    gradient: str = "auto"
    """checkpoint: keep states between steps and compute the rest again; direct: keep everything; adjoint:
    solve back in time; auto: checkpoint with fixed steps, adjoint with adaptive ones."""
    maps_at: str = "state"
    """The sheaf of sheaf-ode: anew at every evaluation from the state, or from that at the start alone."""
    sign: str = "outside"
    """Of sheaf-ode: minus outside, ẋ = −φ(q(L̃) W₁xW₂) as printed, or inside, φ(−q(L̃) W₁xW₂), as in
    published code."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_choice("solver", self.solver, (*FIXED_SOLVERS, *ADAPTIVE_SOLVERS))
        require_choice("gradient", self.gradient, GRADIENTS)
        require_choice("maps_at", self.maps_at, ("state", "start"))
        require_choice("sign", self.sign, ("outside", "inside"))
        require_at_least("steps", self.steps, 1)
        require_at_most("steps", self.steps, MOST_STEPS)
        for name in ("horizon", "tolerance"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a positive finite number; got {getattr(self, name)}.")
        unfit = "adjoint" if self.solver in FIXED_SOLVERS else "checkpoint"
        if self.gradient == unfit:
            raise ConfigError(
                f"gradient='{unfit}' does not go with solver='{self.solver}': fixed steps have checkpoint or "
                "direct, adaptive ones adjoint or direct. Use gradient='auto'."
            )


class ModelOptions(LayerOptions, total=False):
    """The keyword arguments of `PolyNSD`: those of its layers, and its own."""

    input_dropout: float
    linear_encoder: bool
    second_linear: bool
    shared_filter: bool
    shared_maps: bool
    checkpoint_layers: bool


def from_options(kind: type[C], options: Mapping[str, Any]) -> C:
    """Builds a configuration from keyword options; an unknown one is an error with a suggestion."""
    return fit_fields(kind, options)


def to_dict(config: Any) -> dict[str, Any]:
    """Plain data that `from_options` turns back into the same configuration."""
    return asdict(config)


@dataclass(frozen=True)
class ModelConfig:
    """A whole model: which one, how large, and its layers."""

    model: str = "polynsd"
    """polynsd, nsd, identity-sheaf, poly-spectral, sheaf-ode, or a model of the zoo: gcn, mlp, h2gcn, …"""
    hidden_channels: int = 32
    """Per stalk coordinate for sheaf models, in total for others."""
    num_layers: int = 2
    """L, the number of layers."""
    input_dropout: float = 0.0
    """Dropout of the input features."""
    linear_encoder: bool = False
    """No activation after the encoder, which pays in deep models without norm."""
    second_linear: bool = False
    """A second linear layer in the encoder."""
    shared_filter: bool = False
    """One set of filter coefficients for all layers."""
    shared_maps: bool = False
    """One sheaf for all layers."""
    checkpoint_layers: bool = False
    """Compute layers again in the backward pass instead of keeping what they computed: less memory."""
    ode: ODEConfig = ODEConfig()
    """How continuous models are integrated: sheaf-ode, grand, grand-nl, cgnn."""
    layer: LayerConfig = LayerConfig(dropout=0.5)
    """The layers of sheaf models; models of the zoo use its dropout only."""
    options: dict[str, int | float | bool | str] = field(default_factory=dict, hash=False)
    """Names and values of further options of a model of the zoo, e.g. heads 4."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least("hidden_channels", self.hidden_channels, 1)
        require_at_least("num_layers", self.num_layers, 1)
        require_at_most("num_layers", self.num_layers, MOST_LAYERS)
        require_at_most("hidden_channels", self.hidden_channels, MOST_CHANNELS)
        require_fraction("input_dropout", self.input_dropout)


@dataclass(frozen=True)
class TrainConfig:
    """Full-batch Adam with early stopping on validation."""

    epochs: int = 500
    """The most epochs that a training takes."""
    patience: int = 100
    """Stop after so many epochs without improvement on validation."""
    learning_rate: float = 0.005
    """Step size of Adam."""
    weight_decay: float = 5e-4
    """L2 penalty on everything but the map learners."""
    sheaf_decay: float | None = None
    """L2 penalty on the map learners; the same as weight_decay unless given."""
    sheaf_rate: float | None = None
    """Learning rate of the map learners, 0 to leave them as they start; learning_rate unless given."""
    select: str = "metric"
    """What chooses the epoch on validation: metric (the dataset's own), loss, acc or auc."""
    precision: str = "float32"
    """Precision of linear maps in training: float32, bf16 (autocast); sheaves and filters stay in float32."""
    capture: str = "auto"
    """Replay the training step as a CUDA graph: auto (where possible), on (or fail), off."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least("epochs", self.epochs, 1)
        require_at_least("patience", self.patience, 1)
        require_choice("select", self.select, SELECTIONS)
        require_choice("precision", self.precision, ("float32", "bf16"))
        require_choice("capture", self.capture, ("auto", "on", "off"))
        if not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"learning_rate must be a positive finite number; got {self.learning_rate}.")
        for name in ("weight_decay", "sheaf_decay", "sheaf_rate"):
            if not 0 <= (getattr(self, name) or 0.0) < math.inf:
                raise ConfigError(f"{name} must not be negative; got {getattr(self, name)}.")


def save_config(path: str | Path, config: Any) -> None:
    """Writes a configuration to a `.json` or `.yaml` file."""
    write_document(path, json.loads(json.dumps(to_dict(config))))  # tuples become lists


def load_config(path: str | Path, kind: type[C]) -> C:
    """Reads a configuration of the given kind back from a `.json` or `.yaml` file."""
    document = read_document(path, f"the options of a {kind.__name__}")
    return document.build(partial(from_options, kind))
