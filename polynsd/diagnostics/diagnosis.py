"""`diagnose`: all measures of a model on a graph; what cannot be measured says why, and the rest is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from polynsd.diagnostics.energy import measure_energy
from polynsd.diagnostics.influence import measure_influence
from polynsd.diagnostics.maps import Maps, measure_maps
from polynsd.diagnostics.region import sample_region
from polynsd.diagnostics.response import measure_response
from polynsd.diagnostics.result import Result
from polynsd.diagnostics.smoothness import measure_smoothness
from polynsd.diagnostics.trace import Trace, as_data, trace_layers
from polynsd.errors import PolyNSDError, require_choice

MEASURES = ("energy", "influence", "response", "maps", "smoothness")
MAX_NODES = 50_000
EDGES = 2000  # whose transports are looked at
FEWEST, MOST, WORK = 8, 64, 2**21  # targets of influence; nodes and edges that all of them may pass
OnStep = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was measured, and why the rest was not.

    Attributes:
        results: by name of the measure.
        problems: by name of the measure, the message of what could not be measured.
        note: which part of a large graph was looked at; empty where it is the whole.
        nodes: `[n]` the nodes of that part, as numbers of the graph.
    """

    results: Mapping[str, Result]
    problems: Mapping[str, str]
    note: str
    nodes: Tensor

    @property
    def maps(self) -> Maps | None:
        return self.results.get("maps")  # type: ignore[return-value]

    def write(self, folder: str | Path) -> list[Path]:
        """A table (.csv) and a picture (.png) per measure; two more pictures of the maps."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for name, result in self.results.items():
            table, picture = folder / f"{name}.csv", folder / f"{name}.png"
            result.to_frame().to_csv(table, index=False)
            result.plot(picture)
            written += [table, picture]
        if self.maps is not None:
            for kind, draw in (("heatmaps", self.maps.plot_heatmaps), ("clouds", self.maps.plot_clouds)):
                written.append(folder / f"maps-{kind}.png")
                draw(written[-1])
        return written


def diagnose(
    model: nn.Module,
    graph: Any,
    *,
    measures: Sequence[str] = MEASURES,
    train: Tensor | None = None,
    test: Tensor | None = None,
    targets: int | None = None,
    max_nodes: int = MAX_NODES,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> Diagnosis:
    """All measures of a model on a graph.

    Args:
        model: trained. One without sheaf layers has its influence measured, and says of the rest that it has
            none.
        graph: PyG's `Data`, or a `polynsd.data.Graph`.
        measures: which; all unless given.
        train: `[N]` mask of the nodes whose loss has gradients; all with a label unless given.
        test: `[N]` mask of the nodes that influence is looked at from; all unless given.
        targets: how many of these; 8 to 64 by the size of the graph unless given.
        max_nodes: of a larger graph a region of so many nodes is looked at, and the note says so.
        seed: of everything random.
        on_step: is called with the name of every measure when it begins.
    """
    for name in measures:
        require_choice("measure", name, MEASURES)
    whole = graph.to_pyg() if hasattr(graph, "to_pyg") else graph
    data, nodes = sample_region(whole, max_nodes, seed)
    data = as_data(data, model)
    note = ""
    if len(nodes) < whole.num_nodes:
        note = (
            f"a region of {len(nodes):,} of {whole.num_nodes:,} nodes, the surroundings of random ones; at "
            "its border edges are missing"
        )
    masks = [None if mask is None else mask.cpu()[nodes].to(data.edge_index.device) for mask in (train, test)]
    size = data.num_nodes + data.num_edges
    count = max(FEWEST, min(MOST, WORK // max(size, 1))) if targets is None else targets
    trace, problem = _try_trace(model, data)

    def need(function: Callable[..., Result], **options: Any) -> Result:
        if problem is not None:
            raise problem
        return function(model, data, trace=trace, **options)

    steps: dict[str, Callable[[], Result]] = {
        "energy": lambda: need(measure_energy),
        "influence": lambda: measure_influence(model, data, among=masks[1], targets=count, seed=seed),
        "response": lambda: need(measure_response, seed=seed),
        "maps": lambda: need(measure_maps, sample=EDGES, seed=seed),
        "smoothness": lambda: need(measure_smoothness, mask=masks[0], seed=seed),
    }
    results: dict[str, Result] = {}
    problems: dict[str, str] = {}
    for name in measures:
        if on_step is not None:
            on_step(name)
        try:
            results[name] = steps[name]()
        except PolyNSDError as error:
            problems[name] = str(error)
    return Diagnosis(results, problems, note, nodes)


def _try_trace(model: nn.Module, data: Any) -> tuple[Trace | None, PolyNSDError | None]:
    """The trace, with gradients, or why there is none."""
    try:
        with torch.enable_grad():
            return trace_layers(model, data), None
    except PolyNSDError as error:
        return None, error
