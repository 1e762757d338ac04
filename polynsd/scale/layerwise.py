"""Exact inference one layer at a time: halos need the reach of a layer instead of the whole model's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from polynsd.nn import PolyNSD
from polynsd.nn.inputs import prepare_graph
from polynsd.scale.halo import Halo, Halos
from polynsd.scale.reach import layer_reach


def predict_by_layers(model: PolyNSD, halos: Halos, cores: Sequence[Tensor], device: torch.device) -> Tensor:
    """[N, out]; the states of all nodes are kept beside the graph."""
    x, reach = halos.data.x, layer_reach(model.config)
    state = first = halos.assemble(cores, lambda core: model.encode(x[core].to(device)))
    for layer in model.layers:
        learner, seen = (model.layers[0], first) if model.shared_maps else (layer, state)
        step = _Step(model, layer, learner, state, seen, device)
        state = halos.assemble(cores, lambda core, step=step: step(halos.around(core, reach)))  # type: ignore[misc]
    return halos.assemble(cores, lambda core: model.decoder(state[core].to(device).flatten(-2)))


class _Step:
    """One layer on one halo: its Laplacian from the state that `learner` sees, its update of `state`."""

    def __init__(
        self, model: PolyNSD, layer: Any, learner: Any, state: Tensor, seen: Tensor, device: torch.device
    ) -> None:
        self.has_attributes = bool(model.config.edge_dim)
        self.layer, self.learner, self.state, self.seen, self.device = layer, learner, state, seen, device

    def __call__(self, halo: Halo) -> Tensor:
        """[num_core, D, C]."""
        data = halo.to(self.device).data
        seen, state = (t[halo.nodes].to(self.device) for t in (self.seen, self.state))
        attributes = data.edge_attr if self.has_attributes else None
        graph = prepare_graph(seen.flatten(1), data.edge_index, data.edge_weight, attributes)
        updated: Tensor = self.layer.diffuse(state, self.learner.laplacian(seen, *graph))
        return updated[: halo.num_core]
