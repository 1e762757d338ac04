"""What trained models do inside: energies, responses, influence, maps.

energy      the grid of the paper's diagnostics, d × L in {2, 3, 4}², three seeds on the first split, on two
            heterophilic graphs: NSD and PolyNSD with three families of maps, and identity maps as control.
            Every record holds energies and responses, whichever experiment it belongs to
response    the same grid for PolyNSD on two homophilic graphs. C56 to C61 compare the two experiments
influence   how far predictions listen: NSD with 10 layers and PolyNSD with 6 of degree 10, as printed, and
            controls of equal reach (one layer of degree 10; 32 layers of NSD) and of equal cost (60 layers of
            NSD have as many products)
maps        five layers of diagonal maps, beside the same model untrained and one trained on shuffled labels

Grid: K = 3, one filter for all layers, C = 20, dropout 0.7, learning rate 0.02 (0.005 for the maps), decay
5e−3, 200 epochs, the epoch of least validation loss: the published settings of the responses. The published
energies have others (K = 5, C = 32, 400 epochs) and are taken inside a layer, at different places for NSD and
PolyNSD; `probe_…` is taken there, `own_…` after the layer for all models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from polynsd.diagnostics import (
    Trace,
    measure_energy,
    measure_influence,
    measure_maps,
    measure_response,
    trace_layers,
)
from polynsd.diagnostics.energy import quotient
from polynsd.published import published_model, published_training
from polynsd.spectral import PolynomialFilter
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Problem
from polynsd.training.protocol import fit_splits
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.experiments.models import FAMILIES

SIZES = (2, 3, 4)
GRID_SEEDS, INFLUENCE_SEEDS, MAPS_SEEDS = 3, 5, 5
HETEROPHILIC, HOMOPHILIC = ("chameleon", "squirrel"), ("citeseer", "pubmed")
IDENTITY = "identity-sheaf"
DISTANCES, TARGETS = 10, 64
DIGITS = 6

Measured = dict[str, list[float]]


# The grid


def _grid_cell(dataset: str, model: str, d: int, L: int) -> Cell:
    kind, _, maps = (model, "", "identity") if model == IDENTITY else model.partition("-")
    layer: dict[str, Any] = {"stalk_dim": d, "maps": maps, "dropout": 0.7}
    if kind != "nsd":
        layer["degree"] = 3
    config = published_model(kind, hidden_channels=20, num_layers=L, shared_filter=True, layer=layer)
    training = published_training(
        epochs=200, patience=200, learning_rate=0.02, sheaf_rate=0.005, weight_decay=5e-3, select="loss"
    )
    sources = (Source(dataset, protocol="geom-gcn", splits=1),)
    options = {"model": model, "d": d, "L": L}
    return Cell(dataset, options, Configuration(config, training), sources=sources, measure=measure_grid)


def measure_grid(problem: Problem, models: Sequence[nn.Module]) -> Measured:
    """Energies of all states and statistics of the response, by name, a number per model."""
    return _collect(_grid_numbers(model, problem.data) for model in models)


def _grid_numbers(model: nn.Module, data: Any) -> dict[str, float]:
    trace = trace_layers(model, data)
    energy, response = measure_energy(model, data, trace=trace), measure_response(model, data, trace=trace)
    first = response.rows[0]  # the filter is shared, the sheaf is that of the first layer
    numbers = {
        f"{operator}_{layer}": value
        for operator in ("own", "first", "graph")
        for layer, value in enumerate(energy.values(operator))
    }
    numbers |= {f"norm_{layer}": value for layer, value in enumerate(energy.values("own", "norm"))}
    numbers |= {f"probe_{layer + 1}": value for layer, value in enumerate(published_probes(trace))}
    names = ("low", "high", "difference", "alpha", "from_uniform", "entropy", "weighted_low", "weighted_high")
    numbers |= {name: getattr(first, name) for name in names}
    learned = trace.layers[0].filter
    if isinstance(learned, PolynomialFilter):
        numbers |= {f"theta_{k}": value for k, value in enumerate(learned.weights().tolist())}
    return {**numbers, "changes": float(first.sign_changes), "stack_changes": response.stack_changes}


@torch.no_grad()
def published_probes(trace: Trace) -> list[float]:
    """The quotient inside every layer, of what the polynomial gave, before correction, φ and residual."""
    found = []
    for layer, x, L in zip(trace.layers, trace.states, trace.laplacians, strict=False):
        h, lam_max = layer.mixed(x), L.lambda_max(layer.config.lambda_max)
        z = layer.filter(L, h, lam_max)
        if isinstance(layer.filter.alpha, torch.Tensor):
            z = z - layer.filter.alpha * (h - (L @ h) / lam_max)
        found.append(quotient(L, z))
    return found


GRID_ROWS = tuple(f"{kind}-{maps}" for kind in ("nsd", "polynsd") for maps in FAMILIES)
ENERGY = Experiment(
    "energy",
    "Dirichlet energy and responses on two heterophilic graphs",
    "geom-gcn",
    HETEROPHILIC,
    {"model": (*GRID_ROWS, IDENTITY), "d": SIZES, "L": SIZES},
    _grid_cell,
    seeds=GRID_SEEDS,
    minutes="8 to 30 s per cell with twelve processes on an H200",
    paper="the energy trajectories",
    report="polynsd_paper.reports.inside:report_energy",
)
RESPONSE = Experiment(
    "response",
    "Dirichlet energy and responses on two homophilic graphs",
    "geom-gcn",
    HOMOPHILIC,
    {"model": tuple(f"polynsd-{maps}" for maps in FAMILIES), "d": SIZES, "L": SIZES},
    _grid_cell,
    seeds=GRID_SEEDS,
    minutes="8 to 30 s per cell with twelve processes on an H200",
    paper="the spectral responses",
    report="polynsd_paper.reports.inside:report_response",
)


# Influence

INFLUENCE_ROWS: dict[str, dict[str, Any]] = {  # layers of each; K = 10 for PolyNSD
    **{f"nsd-{maps}": {"num_layers": 10} for maps in FAMILIES},
    **{f"polynsd-{maps}": {"num_layers": 6} for maps in FAMILIES},
    "polynsd-diagonal 1 layer": {"num_layers": 1},
    "nsd-diagonal 32 layers": {"num_layers": 32},
    "nsd-diagonal 60 layers": {"num_layers": 60},
}


def _influence_cell(dataset: str, model: str) -> Cell:
    kind, _, maps = model.partition(" ")[0].partition("-")
    layer: dict[str, Any] = {"stalk_dim": 4, "maps": maps, "dropout": 0.3}
    if kind == "polynsd":
        layer["degree"] = 10
    config = published_model(kind, hidden_channels=32, **INFLUENCE_ROWS[model], layer=layer)
    plan = Configuration(config, published_training(epochs=300, patience=50))
    return Cell(dataset, {"model": model}, plan, sources=(Source(dataset, splits=1),), measure=measure_reach)


def measure_reach(problem: Problem, models: Sequence[nn.Module]) -> Measured:
    """I(d)/I(0) and T(d)/T(0) by distance, in full and with frozen maps; R; the share of silent targets."""
    among = torch.as_tensor(problem.splits[0].test)
    return _collect(_reach_numbers(model, problem.data, among) for model in models)


def _reach_numbers(model: nn.Module, data: Any, among: torch.Tensor) -> dict[str, float]:
    found = measure_influence(model, data, among=among, targets=TARGETS, max_distance=DISTANCES)
    numbers = {"range": found.range(), "range_frozen": found.range("frozen"), "silent": found.silent}
    for path, prefix in (("full", ""), ("frozen", "frozen_")):
        total = found.totals[path].mean(0)
        for d, value in enumerate(found.relative(path)):
            numbers[f"{prefix}mean_{d}"] = float(value)
            numbers[f"{prefix}total_{d}"] = float(total[d] / total[0]) if total[0] > 0 else math.nan
    return numbers


INFLUENCE = Experiment(
    "influence",
    "how far predictions listen, with controls of equal reach and of equal cost",
    "own",
    ("minesweeper", "roman_empire_glovesub", "huangpu"),
    {"model": tuple(INFLUENCE_ROWS)},
    _influence_cell,
    seeds=INFLUENCE_SEEDS,
    minutes="80 to 230 s per cell with twelve processes on an H200, less on huangpu",
    paper="the gradient influence",
    report="polynsd_paper.reports.inside:report_influence",
)


# Maps

MAP_NUMBERS = ("norm", "separation", "kurtosis", "spread", "effective_rank", "norm_auc", "agreement_auc")
SHUFFLED = 20  # seed of the permutation of the labels


def _maps_cell(dataset: str, model: str) -> Cell:
    kind, _, maps = model.partition("-")
    layer: dict[str, Any] = {"stalk_dim": 4, "maps": maps, "dropout": 0.3}
    if kind == "polynsd":
        layer["degree"] = 4
    config = published_model(kind, hidden_channels=32, num_layers=5, layer=layer)
    plan = Configuration(config, published_training(epochs=300, patience=50))
    source = Source(dataset, splits=1)
    measure = partial(measure_specialisation, plan)
    return Cell(dataset, {"model": model}, plan, sources=(source,), measure=measure)


def measure_specialisation(plan: Configuration, problem: Problem, models: Sequence[nn.Module]) -> Measured:
    """Statistics of the maps by layer: trained, `untrained_…`, and trained on `shuffled_…` labels."""
    y = problem.data.y
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(SHUFFLED)).to(y.device)
    shuffled = problem.data.clone()
    shuffled.y = y[order]
    others = fit_splits(replace(problem, data=shuffled), plan, seeds=len(models)).models
    rows = []
    for seed, (model, other) in enumerate(zip(models, others, strict=True)):
        found, control = (measure_maps(each, problem.data, seed=seed) for each in (model, other))
        numbers = {}
        for prefix, maps, kind in (
            ("", found, "trained"),
            ("untrained_", found, "untrained"),
            ("shuffled_", control, "trained"),
        ):
            for name in MAP_NUMBERS:
                for layer, value in enumerate(maps.values(name, kind)):
                    numbers[f"{prefix}{name}_{layer + 1}"] = value
        rows.append(numbers)
    return _collect(rows)


MAPS = Experiment(
    "maps",
    "what becomes of restriction maps from layer to layer",
    "own",
    ("chameleon", "roman_empire_glovesub"),
    {"model": ("polynsd-diagonal", "nsd-diagonal")},
    _maps_cell,
    seeds=MAPS_SEEDS,
    minutes="80 to 100 s per cell with twelve processes on an H200",
    paper="the geometry of restriction maps",
    report="polynsd_paper.reports.inside:report_maps",
)


def _collect(rows: Iterable[dict[str, float]]) -> Measured:
    """A list per name, a number per model; what some model has no number for is left out."""
    table = list(rows)
    lists = {name: [float(f"{row[name]:.{DIGITS}g}") for row in table] for name in table[0]}
    return {name: values for name, values in lists.items() if all(map(math.isfinite, values))}
