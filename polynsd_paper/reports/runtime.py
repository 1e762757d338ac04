"""The runtime table: times relative to PolyNSD with diagonal maps, beside what the paper prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polynsd.report.panels import COLOURS, Panels, handle
from polynsd_paper.claims.comparisons import select
from polynsd_paper.experiments.runtime import ROWS
from polynsd_paper.measured import pool
from polynsd_paper.reports.section import figure_path, link_figure, make_section
from polynsd_paper.tables.formatting import markdown_table

if TYPE_CHECKING:
    from pandas import DataFrame

UNIT = "polynsd-diagonal"
PRINTED = {  # of training and inference
    UNIT: (1.0, 1.0), "nsd-diagonal": (1.60, 1.45), "poly-spectral": (0.85, 0.82), "chebnet": (0.83, 0.80),
    "chebnetii": (0.90, 0.87), "bernnet": (0.92, 0.89),
}  # fmt: skip
TIMES = {"train_ms": "training", "infer_ms": "inference"}
PARTS = {"maps_ms": "maps", "assembly_ms": "assembly", "filter_ms": "filter", "rest_ms": "rest"}


def report_runtime(cells: DataFrame, results: Path) -> str:
    """Relative and absolute times, memory, and the parts of a forward pass."""
    text = (
        "Times are medians of a training step and of inference, with L = 2, 64 numbers per node and K = 10."
    )
    blocks = [text]
    machines = [machine for machine in ("cpu", "gpu") if len(select(cells, machine=machine))]
    for machine in machines:
        chosen = select(cells, machine=machine)
        devices = ", ".join(dict.fromkeys(chosen["device"]))
        title = f"## {machine.upper()}" + (f" ({devices})" if machine == "cpu" else "")
        blocks += [title, *_tables(chosen, machine)]
        blocks.append(link_figure(_draw_parts(chosen, figure_path(cells, results, f"parts-{machine}"))))
    return make_section(*blocks)


def _tables(cells: DataFrame, machine: str) -> list[str]:
    graphs = list(dict.fromkeys(cells["dataset"]))
    kinds = {
        **TIMES,
        **({f"replayed_{n}": f"{w}, replayed" for n, w in TIMES.items()} if machine == "gpu" else {}),
    }
    found = []
    for name, words in kinds.items():
        lines = []
        for model in ROWS:
            times = [_number(cells, dataset, model, name) for dataset in graphs]
            units = [_number(cells, dataset, UNIT, name) for dataset in graphs]
            if np.isnan(times).all():
                continue
            ratios = np.array(times) / np.array(units)
            middle = float(np.exp(np.nanmean(np.log(ratios))))
            printed = PRINTED.get(model)
            position = 0 if "train" in name else 1
            lines.append((
                model, f"{middle:.2f}", "–" if printed is None else f"{printed[position]:.2f}",
                *("–" if np.isnan(ms) else f"{ms:.3g}" for ms in times),
            ))  # fmt: skip
        if lines:
            head = (f"{words}", "relative", "printed", *(f"{dataset}, ms" for dataset in graphs))
            found.append(markdown_table(head, lines, left=1))
    lines = []
    for model in filter(lambda model: len(select(cells, model=model)), ROWS):
        sizes = [[_number(cells, d, model, name) for name in ("train_mib", "infer_mib")] for d in graphs]
        lines.append((model, *("–" if np.isnan(a) else f"{a:.0f} / {b:.0f}" for a, b in sizes)))
    head = ("peak MiB, training / inference", *graphs)
    return [*found, markdown_table(head, lines, left=1)]


def _number(cells: DataFrame, dataset: str, model: str, name: str) -> float:
    values = pool(select(cells, dataset=dataset, model=model), name)
    return float(values[0]) if len(values) else np.nan


def _draw_parts(cells: DataFrame, path: Path) -> Path:
    """Stacked bars: a forward pass of every sheaf model taken apart, a panel per graph."""
    models = [model for model in ROWS if len(pool(select(cells, model=model), "filter_ms"))]
    graphs = list(dict.fromkeys(cells["dataset"]))
    panels = Panels(graphs, (3.6, 1.0 + 0.3 * len(models)))
    for axis, dataset in zip(panels.axes, graphs, strict=True):
        for row, model in enumerate(models[::-1]):
            left = 0.0
            for colour, name in zip(COLOURS, PARTS, strict=False):
                value = np.nan_to_num(_number(cells, dataset, model, name))
                axis.barh(row, value, left=left, color=colour, height=0.7)
                left += value
        axis.set_yticks(range(len(models)), models[::-1])
        axis.set_xlabel("ms of a forward pass")
    handles = [
        handle(words, color=colour, linewidth=6)
        for colour, words in zip(COLOURS, PARTS.values(), strict=False)
    ]
    return panels.finish(path, "What a forward pass spends its time on", handles)
