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

λ_max must be a constant. It is 2 under the normalizations `sheaf` and `sheaf-augmented` with
`lambda_max="analytic"`; everything else is a maximum over the whole graph, which no part of it knows.
"""

from __future__ import annotations

import logging

from torch import nn

from polynsd.config import LayerConfig
from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.nn import PolyNSD
from polynsd.sheaf import Orthogonal
from polynsd.zoo import GCN, MLP

logger = logging.getLogger("polynsd")


def receptive_field(model: nn.Module) -> int:
    """The number of hops around a node that decide its output; raises where the whole graph does."""
    if isinstance(model, PolyNSD):
        config, num_layers, reach = model.config, len(model.layers), layer_reach(model.config)
        if (_normalizer_is_learned(config) or _trunk_hops(config)) and not model.shared_maps:
            return num_layers * reach
        return (num_layers - 1) * layer_degree(config) + reach
    if isinstance(model, MLP):
        return 0
    return _convolution_field(model)


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
