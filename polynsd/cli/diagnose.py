"""`polynsd diagnose`: a look inside the model of a finished run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from polynsd.cli.options import MemoryOption, Names
from polynsd.errors import ConfigError, require_at_least

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.diagnostics import Diagnosis, OpenedRun

# what is printed of each table
COLUMNS = {
    "energy": ("layer", "operator", "quotient", "energy", "norm"),
    "influence": ("path", "distance", "relative", "relative_total", "nodes"),
    "response": ("layer", "low", "high", "sign_changes", "weighted_low", "weighted_high", "alpha"),
    "maps": ("model", "layer", "norm", "effective_rank", "from_identity", "holonomy", "agreement_auc"),
    "smoothness": ("layer", "effective_rank", "distance", "edge_distance", "gradient"),
}


@dataclass(frozen=True)
class Diagnose(MemoryOption):
    """Look inside the model of a finished run: energy, influence, responses, maps, smoothness."""

    run_folder: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run folder that polynsd train or polynsd fit wrote."""
    measures: Names = ()
    """Which of energy, influence, response, maps and smoothness; all unless given."""
    model: int = 0
    """Which of its models, counted from 0: splits and seeds of a training, folds of a fit."""
    out: Path | None = None
    """A folder for tables and pictures; diagnostics in the run folder unless given."""
    targets: Annotated[int | None, arg(metavar="INT")] = None
    """Nodes that influence is looked at from; 8 to 64 by the size of the graph unless given."""
    max_nodes: int = 50_000
    """The most nodes to look at; of a larger graph, a region of so many."""
    seed: int = 0
    """Seed of everything that is drawn at random."""
    dataset: str | None = None
    """The file of the graph, if it was trained on one."""
    edges: Path | None = None
    """The edges of the fit, if they are not where they were."""
    nodes: Path | None = None
    """The node table of the fit, if it is not where it was."""
    quiet: bool = False
    """Print nothing."""
    json: bool = False
    """Print the tables as a JSON object."""

    def run(self) -> Diagnosis:
        """Measures, writes tables and pictures, prints the main numbers."""
        from polynsd.diagnostics import MEASURES, diagnose, open_run
        from polynsd.report import ProgressReporter

        require_at_least("max_nodes", self.max_nodes, 1)
        opened = open_run(self.run_folder, dataset=self.dataset, edges=self.edges, nodes=self.nodes)
        if not 0 <= self.model < len(opened.models):
            raise ConfigError(
                f"model must be a number from 0 to {len(opened.models) - 1}, as {self.run_folder} has "
                f"{len(opened.models)} models; got {self.model}."
            )
        measures = self.measures or MEASURES
        with ProgressReporter(len(measures), unit="measures", quiet=self.quiet or self.json) as progress:
            started: list[str] = []

            def on_step(name: str) -> None:
                progress.advance(1 if started else 0, name)
                started.append(name)

            found = diagnose(
                opened.models[self.model],
                opened.data,
                measures=measures,
                train=opened.mask(self.model, "train"),
                test=opened.mask(self.model, "test"),
                targets=self.targets,
                max_nodes=self.max_nodes,
                seed=self.seed,
                on_step=on_step,
            )
        folder = self.out or self.run_folder / "diagnostics"
        found.write(folder)
        if self.json:
            print(json.dumps(self._as_dict(opened, found, folder)))
        elif not self.quiet:
            self._print(opened, found, folder)
        return found

    def _as_dict(self, opened: OpenedRun, found: Diagnosis, folder: Path) -> dict[str, Any]:
        return {
            "run": str(self.run_folder),
            "model": opened.labels[self.model],
            "note": found.note,
            "problems": dict(found.problems),
            "folder": str(folder),
            **{n: json.loads(r.to_frame().to_json(orient="records")) for n, r in found.results.items()},
        }

    def _print(self, opened: OpenedRun, found: Diagnosis, folder: Path) -> None:
        from polynsd.report import print_table

        print(f"{self.run_folder}: {opened.labels[self.model]} of {len(opened.models)} models")
        if found.note:
            print(found.note)
        for name, result in found.results.items():
            table = result.to_frame()[list(COLUMNS[name])]
            title = f"{name} ({result.note})" if result.note else name
            print_table(title, tuple(table.columns), _rows(table))
        for name, message in found.problems.items():
            print(f"{name}: not measured: {message}")
        print(f"tables and pictures: {folder}")


def _rows(table: pd.DataFrame) -> list[tuple[str, ...]]:
    return [
        tuple(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row)
        for row in table.itertuples(index=False)
    ]
