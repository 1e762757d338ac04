"""How far a model looks: the halo depth that makes it exact.

One sheaf layer with a filter of degree K reads, at node v,

* states up to K hops away, along walks of L̃;
* the normaliser S_u of the last node u of a walk. D_u sums over the edges at u, so u needs all its
  edges: one hop more. Where the maps are learned from this layer's states, it needs the states at their
  other ends too.

So a layer with learned maps reaches K + 1 hops, and layers add up: L (K + 1). Where D_u does not depend
on the state (identity maps, orthogonal maps without learned weights, maps shared by all layers), the extra
hop comes once: L K + 1. Without a normaliser there is none: L K. A learner that is a graph network of h hops
adds them to every layer: L (K + 1 + h).

In continuous time every evaluation of ẋ is such a layer: a solver of s stages that takes n steps has L s n of
them, with one sheaf for s n of them where maps are those of the start.

λ_max must be a constant. It is 2 under the normalizations `sheaf` and `sheaf-augmented` with
`lambda_max="analytic"`; everything else is a maximum over the whole graph, which no part of it knows.
"""

from __future__ import annotations

import logging

from torch import nn

from polynsd.config import ADAPTIVE_SOLVERS, LayerConfig
from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.nn import PolyNSD, PolySheafConv, SheafODE
from polynsd.nn.integration import FIXED
from polynsd.sheaf import Orthogonal
from polynsd.zoo import GCN, MLP

logger = logging.getLogger("polynsd")


def receptive_field(model: nn.Module) -> int:
    """The number of hops around a node that decide its output; raises where the whole graph does."""
    if isinstance(model, PolyNSD):
        num_layers = len(model.layers)
        return _sheaf_field(model.config, *((1, num_layers) if model.shared_maps else (num_layers, 1)))
    if isinstance(model, SheafODE):
        evaluations, num_layers = _count_evaluations(model), len(model.layers)
        is_frozen = model.ode.maps_at == "start"
        sheaves = (num_layers, evaluations) if is_frozen else (num_layers * evaluations, 1)
        return _sheaf_field(model.config, *sheaves)
    if isinstance(model, PolySheafConv):
        return layer_reach(model.config)
    if isinstance(model, MLP):
        return 0
    return _convolution_field(model)


def _sheaf_field(config: LayerConfig, sheaves: int, uses: int) -> int:
    """Hops of layers that learn a sheaf so often, and filter by each so many times."""
    degree, reach = layer_degree(config), layer_reach(config)
    if _normalizer_is_learned(config) or _trunk_hops(config):
        return sheaves * (reach + (uses - 1) * degree)
    return (sheaves * uses - 1) * degree + reach


def _count_evaluations(model: SheafODE) -> int:
    """Evaluations of ẋ in one layer, each of which sees the one before."""
    if model.ode.solver in ADAPTIVE_SOLVERS:
        raise ConfigError(
            f"solver='{model.ode.solver}' chooses its steps by the whole graph, so no part of it can be "
            "computed alone; build the model with solver='rk4' and a number of steps."
        )
    return model.ode.steps * len(FIXED[model.ode.solver].b)


def layer_reach(config: LayerConfig) -> int:
    """Hops that one sheaf layer reads of a given state and graph; raises where the whole graph matters."""
    if config.norm == "batch":
        raise ConfigError(
            "norm='batch' takes means over the whole graph, so no part of it can be trained alone; build the "
            "model with norm='layer'."
        )
    degree, hops = layer_degree(config), _trunk_hops(config)
    if not degree:
        return hops
    _require_local(config)
    return degree + hops + (config.normalization != "none")


def _trunk_hops(config: LayerConfig) -> int:
    """Hops that the learner reads before it says anything of a node."""
    is_used = config.family.is_learned or config.adds_trunk
    return config.learner_hops if config.learner == "gnn" and is_used else 0


def layer_degree(config: LayerConfig) -> int:
    """The degree of a layer's filter, its correction included."""
    if config.filter == "diffusion":
        return 1
    return max(config.degree, 0 if config.correction == "none" else 1)


def _require_local(config: LayerConfig) -> None:
    """Raises where λ_max belongs to the whole graph and matters."""
    if config.filter == "diffusion":  # which does not rescale
        return
    if config.lambda_max != "analytic":
        raise ConfigError(
            f"lambda_max='{config.lambda_max}' is estimated on the whole graph, so no part of it can be "
            "computed alone; build the model with lambda_max='analytic'."
        )
    if not config.normalization.startswith("sheaf") and config.normalization != "random-walk":
        raise ConfigError(
            f"normalization='{config.normalization}' takes λ_max over the whole graph, so no part of it can "
            "be computed alone; build the model with normalization='sheaf-augmented'."
        )


def _normalizer_is_learned(config: LayerConfig) -> bool:
    """Whether D_v depends on states; of orthogonal maps it is a number, unless their weights are learned."""
    has_unit_gram = isinstance(config.family, Orthogonal) and not config.edge_weights
    return config.family.is_learned and config.normalization.startswith("sheaf") and not has_unit_gram


def _convolution_field(model: nn.Module) -> int:
    """One hop for every layer of a GCN, and one for the degrees."""
    from torch_geometric.nn import models

    if type(model) is GCN:
        return len(model.layers) + 1
    if isinstance(model, models.GCN) and all(isinstance(norm, nn.Identity) for norm in model.norms or []):
        return int(model.num_layers) + 1
    raise ConfigError(
        f"the receptive field of {type(model).__name__} is not known; give the depth of the halos as a "
        "number, e.g. its number of message-passing steps and one more for degrees."
    )


def resolve_depth(model: nn.Module, depth: int | str) -> int:
    """The depth in hops. `exact` means the receptive field; a smaller one is used, but not in silence."""
    if isinstance(depth, str):
        require_choice("depth (a number of hops, or)", depth, ("exact",))
        return receptive_field(model)
    require_at_least("depth", depth, 0)
    try:
        needed = str(receptive_field(model))
    except ConfigError as error:
        needed = f"unknown ({error})"
    if not needed.isdigit() or depth < int(needed):
        logger.warning(
            "halos of depth %d are approximate; the exact depth is %s. polynsd.scale.halo_drift measures the "
            "difference.", depth, needed,
        )  # fmt: skip
    return depth
