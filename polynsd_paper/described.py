"""What experiments there are: what each shows, how far it is, how long it takes, which graphs it needs."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from polynsd.data.datasets.catalogue import locate
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.experiments import EXPERIMENTS
from polynsd_paper.records import is_current

WIDTH = 80
INDENT = " " * 13


def describe_all(out: Path) -> str:
    """All experiments, with the state of their records in a folder."""
    parts = [_describe(experiment, out / "records" / experiment.name) for experiment in EXPERIMENTS.values()]
    head = f"experiments; results in {out}"
    return "\n\n".join([head, *parts, "run one: polynsd reproduce NAME"])


def _describe(experiment: Experiment, folder: Path) -> str:
    cells = experiment.cells()
    there = [cell for cell in cells if (folder / cell.path).exists()]
    done = sum(is_current(folder / cell.path, experiment, cell) for cell in there)
    stale = f", {len(there) - done} of an older plan" if done < len(there) else ""
    lines = [
        f"{experiment.name:<{len(INDENT)}}{experiment.title}",
        f"{INDENT}state: {done} of {len(cells)} cells done{stale}",
        f"{INDENT}takes: {experiment.minutes}",
        *(_wrapped(line) for line in _needs(experiment, cells)),
    ]
    return "\n".join(lines)


def _needs(experiment: Experiment, cells: list[Cell]) -> list[str]:
    """The graphs, and those of them that are not here."""
    generated = {cell.dataset for cell in cells if any(source.dataset is None for source in cell.sources)}
    if generated:
        return [f"needs: nothing; makes its graphs itself ({', '.join(experiment.datasets)})"]
    missing = [name for name in experiment.datasets if locate(name) is None]
    if len(missing) == len(experiment.datasets):
        return [f"needs: {', '.join(missing)} (none is here yet)"]
    return [
        f"needs: {', '.join(experiment.datasets)}",
        *([f"not here yet: {', '.join(missing)}"] * bool(missing)),
    ]


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, break_on_hyphens=False, initial_indent=INDENT, subsequent_indent=INDENT + "  ")
