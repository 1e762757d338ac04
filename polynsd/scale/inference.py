"""Inference in parts: the graph stays where it is, one part after the other visits the device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from polynsd.devices import on_device
from polynsd.errors import ConfigError, require_at_least
from polynsd.nn import PolyNSD
from polynsd.nn.inputs import prepare_graph
from polynsd.nn.precision import autocast
from polynsd.scale.halo import Halo, Halos
from polynsd.scale.partition import members, partition
from polynsd.scale.reach import layer_reach, resolve_depth
from polynsd.training.replica import call_model, eval_mode

if TYPE_CHECKING:
    from torch_geometric.data import Data


@torch.no_grad()
def predict_in_parts(
    model: nn.Module,
    data: Data,
    num_parts: int | None = None,
    *,
    max_nodes: int | None = None,
    depth: int | str = "exact",
    layerwise: bool = False,
    device: torch.device | str | None = None,
    precision: str = "float32",
    method: str = "auto",
    seed: int = 0,
) -> Tensor:
    """The outputs `[N, out]` of a model, in evaluation mode, on data's device.

    Args:
        model: it is moved to `device`.
        data: a PyG graph; only one part of it with its halo is on the device at a time.
        num_parts: how many parts. Give this or `max_nodes`.
        max_nodes: the most nodes, halo included, that the device can take; parts are halved until they
            fit.
        depth: of the halos: `exact` (`receptive_field(model)`) gives what the whole graph gives, a smaller
            number approximates it and says so in the log.
        layerwise: computes a sheaf model one layer at a time, which needs halos of one layer's reach only;
            the states of all nodes are kept beside the graph. Exact.
        device: the model's unless given.
        precision: `float32`, `bf16` or `fp16` for the linear maps.
        method: of the partition.
        seed: of the partition.
    """
    if device is None:
        device = next((p.device for p in model.parameters()), "cpu")
    device = torch.device(device)
    model.to(device)
    halos, hops = Halos(data), _hops(model, depth, layerwise)
    cores = _cores(halos, hops, num_parts, max_nodes, method, seed)
    with on_device(device), eval_mode(model), autocast(precision, device):
        if layerwise and isinstance(model, PolyNSD):
            return _predict_by_layers(model, halos, cores, device)
        return halos.assemble(cores, lambda core: core_output(model, halos.around(core, hops), device))


def _predict_by_layers(model: PolyNSD, halos: Halos, cores: Sequence[Tensor], device: torch.device) -> Tensor:
    """[N, out], one layer at a time: halos of one layer's reach suffice; all states are kept."""
    reach, sees_features = layer_reach(model.config), model.config.trunk_sees("features")

    def update(layer: Any, learner: Any, state: Tensor, seen: Tensor, core: Tensor) -> Tensor:
        """The new states `[num_core, D, C]` under the sheaf that `learner` makes of the states `seen`."""
        halo = halos.around(core, reach).to(device)
        data, (x_seen, x) = halo.data, (t[halo.nodes].to(device) for t in (seen, state))
        edge_attr = data.edge_attr if model.config.edge_dim else None
        graph = prepare_graph(x_seen.flatten(1), data.edge_index, data.edge_weight, edge_attr)
        context = first[halo.nodes].to(device).flatten(-2) if sees_features else None
        updated: Tensor = layer.diffuse(x, *learner.learn(x_seen, *graph, context))
        return updated[: halo.num_core]

    x = halos.data.x
    state = first = halos.assemble(cores, lambda core: model.encode(x[core].to(device)))
    for layer in model.layers:
        learner, seen = (model.layers[0], first) if model.shared_maps else (layer, state)
        state = halos.assemble(cores, partial(update, layer, learner, state, seen))
    return halos.assemble(cores, lambda core: model.decode(state[core].to(device)))


def core_output(model: nn.Module, halo: Halo, device: torch.device) -> Tensor:
    """[num_core, out] what a model says of the core of a halo."""
    return call_model(model, halo.to(device).data)[: halo.num_core]


def _hops(model: nn.Module, depth: int | str, layerwise: bool) -> int:
    if not layerwise:
        return resolve_depth(model, depth)
    if not isinstance(model, PolyNSD):
        raise ConfigError(f"layerwise inference knows sheaf models only; got {type(model).__name__}.")
    if depth != "exact":
        raise ConfigError(f"layerwise inference is always exact; leave depth={depth!r} out.")
    return layer_reach(model.config)


def _cores(
    halos: Halos, depth: int, num_parts: int | None, max_nodes: int | None, method: str, seed: int
) -> list[Tensor]:
    """The parts; with `max_nodes`, halved until each fits with its halo."""
    if max_nodes is None and num_parts is not None:
        return members(partition(halos.topology, num_parts, method, seed))
    if max_nodes is None or num_parts is not None:
        raise ConfigError("give either num_parts or max_nodes.")
    require_at_least("max_nodes", max_nodes, 1)
    waiting = members(partition(halos.topology, -(-halos.num_nodes // max_nodes), method, seed))
    fitting = []
    while waiting:
        core = waiting.pop()
        size = halos.nodes_within(core, depth).numel()
        if size <= max_nodes:
            fitting.append(core)
        elif core.numel() > 1:
            halves = partition(halos.around(core, 0).data, 2, "bfs")
            waiting += [core[nodes] for nodes in members(halves)]
        else:
            raise ConfigError(
                f"node {int(core)} alone needs the {size} nodes within {depth} hops, more than "
                f"max_nodes={max_nodes}; raise it, use layerwise=True, or give a smaller depth (approximate)."
            )
    return fitting
