"""Learned maps and their controls on generated graphs; not in the paper.

planted     graphs whose transport is known (`planted_sheaf`): frames that differ (spread 0.65) under three
            levels of noise, and frames that nearly agree (0.1). Records of learned maps also hold the
            alignment of their transport with the planted one
panels      the generator of `synthetic`, from mostly equal to only unequal neighbours. At heterophily 0.75
            neighbours of four classes tell nothing

`same reach` and `identity maps` are the controls of `transport`. Planted maps are learned by a perceptron,
which sees a node alone; `wider reach` has identity maps and adds what a graph network of three hops computes,
and `graph network` reads maps from such a network too. In the panels, `maps alone` has a perceptron that
is read as maps and not added, so its control is `identity maps`. Nothing is searched: all variants have the
sizes, rates and dropout that are written here. Those of `planted`, and the defaults of its generator, come
from a few tries that looked for a clear gain. A cell has five graphs and one split of each, so its scores are
independent; splits of one graph share nodes, and tell less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from polynsd.data import planted_sheaf
from polynsd.nn import PolyNSD
from polynsd.sheaf import transport_alignment, transports
from polynsd.topology import as_topology
from polynsd.training.problem import Problem
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.experiments.block import (
    IDENTITY,
    IDENTITY_MAPS,
    LEARNED,
    NO_TRUNK,
    SAME_REACH,
    VARIANTS,
    changed_plan,
)

SMALL: dict[str, Any] = {
    "hidden_channels": 16, "num_layers": 2, "learner_width": 32, "dropout": 0.2, "input_dropout": 0.0,
    "learning_rate": 0.01, "weight_decay": 5e-4,
}  # fmt: skip
PLANTED_BLOCK: dict[str, Any] = {
    **SMALL, "degree": 1, "learner": "mlp", "learner_inputs": ("state",), "trunk": "maps",
    "map_activation": "identity", "shared_maps": True, "epochs": 200, "patience": 200,
}  # fmt: skip
NETWORK: dict[str, Any] = {"learner": "gnn", "learner_hops": 3, "trunk": "both", "shared_maps": False}
WIDER_REACH, GRAPH_NETWORK, MAPS_ALONE = "wider reach", "graph network", "maps alone"
PLANTED_VARIANTS: dict[str, dict[str, Any]] = {
    LEARNED: {},
    SAME_REACH: {**IDENTITY, "trunk": "state"},
    WIDER_REACH: {**IDENTITY, **NETWORK},
    IDENTITY_MAPS: {**IDENTITY, **NO_TRUNK},
    GRAPH_NETWORK: NETWORK,
}
USUAL = {"frame_spread": 0.65, "feature_noise": 1.5}  # where maps of a graph network are trained too
PLANTED_SETTINGS = {
    f"spread={spread} noise={noise}": {"frame_spread": spread, "feature_noise": noise}
    for spread, noise in ((0.65, 0.5), (0.65, 1.5), (0.65, 2.5), (0.1, 1.5))
}
PLANTED_SPLITS, PANELS_SPLITS = "stored", "stratified(0.6, 0.2, 0.2)"
SEEDS = range(5)
ALIGNMENT = "alignment"


def measure_alignment(problem: Problem, models: Sequence[nn.Module]) -> dict[str, list[float]]:
    """How well the transport of every model's first layer agrees with the planted one."""
    graph = planted_sheaf(**{name: problem.about[name] for name in (*USUAL, "seed")})
    topology = as_topology(torch.from_numpy(graph.edge_index), graph.num_nodes)
    planted = transports(topology, torch.from_numpy(graph.extras["frame"]), "nodes")
    x = problem.data.x.cpu()
    alignments = []
    with torch.no_grad():
        for model in models:
            assert isinstance(model, PolyNSD)
            model = model.cpu().eval()
            state = model.encode(x)
            sheaf = model.layers[0].laplacian(state, topology)  # type: ignore[operator]
            learned = transports(topology, sheaf.P, "nodes")
            alignments.append(round(transport_alignment(learned, planted).item(), 4))
    return {ALIGNMENT: alignments}


def _sources(generate: str, arguments: Mapping[str, Any], protocol: str) -> tuple[Source, ...]:
    """The first split of five graphs."""
    return tuple(
        Source(
            generate=generate,
            data=tuple(f"{name}={value}" for name, value in {**arguments, "seed": seed}.items()),
            protocol=protocol,
            splits=1,
        )
        for seed in SEEDS
    )


def _planted_cell(dataset: str, variant: str, setting: str) -> Cell | None:
    arguments = PLANTED_SETTINGS[setting]
    if variant == GRAPH_NETWORK and arguments != USUAL:
        return None
    plan = changed_plan({**PLANTED_BLOCK, **PLANTED_VARIANTS[variant]})
    return Cell(
        dataset,
        {"variant": variant, "setting": setting},
        plan,
        sources=_sources("planted", arguments, PLANTED_SPLITS),
        measure=measure_alignment if variant == LEARNED else None,
    )


PLANTED = Experiment(
    "planted",
    "learned maps where the transport is known",
    PLANTED_SPLITS,
    ("planted",),
    {"variant": tuple(PLANTED_VARIANTS), "setting": tuple(PLANTED_SETTINGS)},
    _planted_cell,
    seeds=1,
    minutes="10 to 40 s of a CPU core per cell",
)

PANELS_BLOCK: dict[str, Any] = {**SMALL, "degree": 4, "epochs": 300, "patience": 60}
PANELS_VARIANTS: dict[str, dict[str, Any]] = {
    **VARIANTS,
    MAPS_ALONE: {"learner": "mlp", "learner_inputs": ("state",), "trunk": "maps"},
}
PANELS_GRAPH = {"num_nodes": 800, "num_classes": 4, "num_features": 4, "degree": 4}


def _panels_cell(dataset: str, variant: str, heterophily: float) -> Cell:
    sources = _sources("heterophily", {**PANELS_GRAPH, dataset: heterophily}, PANELS_SPLITS)
    plan = changed_plan({**PANELS_BLOCK, **PANELS_VARIANTS[variant]})
    return Cell(dataset, {"variant": variant, "heterophily": heterophily}, plan, sources=sources)


PANELS = Experiment(
    "panels",
    "learned maps against their controls from equal to unequal neighbours",
    PANELS_SPLITS,
    ("heterophily",),
    {"variant": tuple(PANELS_VARIANTS), "heterophily": (0.25, 0.75, 1.0)},
    _panels_cell,
    seeds=1,
    minutes="10 to 45 s of a CPU core per cell",
)
