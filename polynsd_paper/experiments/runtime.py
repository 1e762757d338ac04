"""What models cost: time and memory of a training step and of inference, at equal depth and width.

All models have L = 2 layers and D·C = 64 numbers per node, polynomials have degree K = 10; NSD is there with
two layers and with ten, because the paper does not say which it has. Times are medians after a warm-up, from
an idle device to an idle device. On a GPU `replayed_…` is the step as one CUDA graph, as the trainer of this
library runs it; the others launch every kernel anew, as a training loop in plain PyTorch does.

A forward pass of a sheaf model is also taken apart, in inference: predicting maps, assembling the Laplacian,
filtering, and the rest (encoder, mixing, residual, decoder). Scores of these records are those after one
epoch, and mean nothing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from polynsd.bench.measures import peak_memory, replayed, require_device, times_of
from polynsd.bench.steps import TimedTraining
from polynsd.diagnostics import trace_layers
from polynsd.nn import PolyNSD
from polynsd.published import published_model, published_training
from polynsd.topology import as_topology
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Problem
from polynsd.training.replica import eval_mode
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.experiments.models import FAMILIES

DEVICES = {"cpu": "cpu", "gpu": "cuda"}
STREETS = ("huangpu", "pasadena", "citylike_aleppo", "citylike_bucaramanga", "citylike_douala",
           "citylike_liege", "citylike_wuhan")  # fmt: skip
LARGE = {"random-100000": 100_000, "random-400000": 400_000}  # nodes, of degree 10
WIDTH, DEGREE, STALK = 64, 10, 4
ROWS: dict[str, dict[str, Any]] = {
    **{f"polynsd-{maps}": {"model": "polynsd", "maps": maps, "degree": DEGREE} for maps in FAMILIES},
    "nsd-diagonal": {"model": "nsd", "maps": "diagonal"},
    "nsd-diagonal 10 layers": {"model": "nsd", "maps": "diagonal", "num_layers": 10},
    "poly-spectral": {"model": "poly-spectral", "degree": DEGREE},
    **{name: {"model": name, "options": {"degree": DEGREE}} for name in ("chebnet", "chebnetii", "bernnet")},
    **{name: {"model": name} for name in ("gcn", "sage")},
}
WARM_UP, REPEATS = 10, 50
SECONDS = 20.0  # of one measurement; a slower step is repeated less often, three times at least


def _cell(dataset: str, machine: str, model: str) -> Cell:
    options = dict(ROWS[model])
    kind = options.pop("model")
    sizes = {"num_layers": options.pop("num_layers", 2), "options": options.pop("options", {})}
    has_stalks = kind in ("polynsd", "nsd")
    layer = {**options, "stalk_dim": STALK} if has_stalks else options
    config = published_model(
        kind, hidden_channels=WIDTH // STALK if has_stalks else WIDTH, **sizes, layer=layer
    )
    plan = Configuration(config, published_training(epochs=1, patience=1))
    measure = partial(measure_cost, DEVICES[machine])
    return Cell(
        dataset, {"machine": machine, "model": model}, plan, sources=(_source(dataset),), measure=measure
    )


def _source(dataset: str) -> Source:
    if dataset not in LARGE:
        return Source(dataset, splits=1)
    data = (f"num_nodes={LARGE[dataset]}", "degree=10")
    return Source(generate="heterophily", data=data, protocol="stratified(0.6, 0.2, 0.2)", splits=1)


def measure_cost(device: str, problem: Problem, models: Sequence[nn.Module]) -> dict[str, list[float]]:
    """Milliseconds and MiB of a training step and of inference; of sheaf models by part."""
    require_device(device)
    data = copy.copy(problem.data).to(device)  # the problem stays where it is
    split = problem.splits[0]
    found: dict[str, list[float]] = {}
    for model in models:
        for name, value in _costs(model.to(device), data, torch.as_tensor(split.train).to(device)).items():
            found.setdefault(name, []).append(round(value, 4))
    return found


def _costs(model: nn.Module, data: Any, train: torch.Tensor) -> dict[str, float]:
    device = data.x.device.type
    graph = as_topology(data.edge_index, data.num_nodes)
    inputs = (data.x, graph if isinstance(model, PolyNSD) else data.edge_index)
    training = TimedTraining(model, inputs, data.y, train)
    measure = partial(_median_ms, device=device)
    training.step()  # Adam has its state from here on, and kernels are compiled
    training.infer()
    with peak_memory(device) as step_peak:
        training.step()
    with peak_memory(device) as infer_peak:
        training.infer()
    costs = {
        "train_ms": measure(training.step),
        "infer_ms": measure(training.infer),
        "train_mib": step_peak.mib,
        "infer_mib": infer_peak.mib,
        "edges": float(graph.num_edges),
        "nodes": float(graph.num_nodes),
    }
    if device == "cuda":
        for name, run in (("train", training.step), ("infer", training.infer)):
            captured = replayed(run)
            if captured is not None:
                costs[f"replayed_{name}_ms"] = measure(captured)
    if isinstance(model, PolyNSD):
        costs |= _parts(model, data, measure, costs["infer_ms"])
    return costs


@torch.no_grad()
def _parts(
    model: PolyNSD, data: Any, measure: Callable[[Callable[[], object]], float], total: float
) -> dict[str, float]:
    """A forward pass taken apart: maps, assembly, filter, and the rest."""
    trace = trace_layers(model, data)
    graph = trace.laplacians[0].topology
    parts = {"maps_ms": 0.0, "assembly_ms": 0.0, "filter_ms": 0.0}
    with eval_mode(model):
        for layer, x, L in zip(trace.layers, trace.states, trace.laplacians, strict=False):
            learn = measure(partial(layer.learn, x, graph))
            learner = layer.learner
            maps = 0.0 if learner is None else measure(partial(learner, x, graph))
            parts["maps_ms"] += maps
            parts["assembly_ms"] += max(learn - maps, 0.0)
            parts["filter_ms"] += measure(partial(layer.filter, L, layer.mixed(x)))
    return {**parts, "rest_ms": max(total - sum(parts.values()), 0.0)}


def _median_ms(run: Callable[[], object], device: str) -> float:
    """The median of many runs after a warm-up, or of as many as fit into `SECONDS`."""
    start = time.perf_counter()
    for _ in range(WARM_UP):
        run()
        if time.perf_counter() - start > SECONDS / 4:
            break
    one = times_of(run, 1, device).median / 1e3
    repeats = max(3, min(REPEATS, int(SECONDS / max(one, 1e-6))))
    return times_of(run, repeats, device).median


RUNTIME = Experiment(
    "runtime",
    "time and memory of training and inference, at equal depth and width",
    "own",
    (*STREETS, *LARGE),
    {"machine": tuple(DEVICES), "model": tuple(ROWS)},
    _cell,
    seeds=1,
    minutes="1 to 16 s per cell of an H200 of its own, 10 s of a CPU core on huangpu",
    paper="the runtime table",
    report="polynsd_paper.reports.runtime:report_runtime",
    is_scored=False,
)
