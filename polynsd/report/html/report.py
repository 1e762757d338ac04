"""`write_report`: runs to one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polynsd.diagnostics import OpenedRun, diagnose, open_run
from polynsd.errors import ConfigError, PolyNSDError
from polynsd.report.html.blocks import Section, Text
from polynsd.report.html.comparison_section import comparison_section
from polynsd.report.html.explorer import DRAWN, Nodes, explorer_section, gather_nodes
from polynsd.report.html.graph_section import graph_section
from polynsd.report.html.inside_sections import inside_sections
from polynsd.report.html.page import load_plotly, make_page
from polynsd.report.html.predicted import try_predict
from polynsd.report.html.quality_section import quality_section
from polynsd.report.html.result_section import result_section
from polynsd.report.html.scores import RunScore, find_references, find_score
from polynsd.report.html.training_section import training_section
from polynsd.runs.files import make_folder, require_file_name, write_durably

LOOKED_INTO = 3_000  # nodes of the region that is diagnosed
TARGETS = 8  # nodes that influence is looked at from
OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Sources:
    """Where graphs are, if not where they were: `dataset` of a training, `edges` and `nodes` of a fit."""

    dataset: str | None = None
    edges: Path | None = None
    nodes: Path | None = None


def write_report(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    sources: Sources | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Writes one self-contained HTML file about finished runs; what cannot be shown is said there.

    Args:
        folders: of `polynsd train` and `polynsd fit`; with several, runs can be compared.
        out: the file.
        sources: where graphs are, if not where they were.
        on_step: is called with what begins.

    Raises:
        ConfigError: Plotly is not installed, or none of the runs can be reported.
    """
    out = Path(out)
    require_file_name(out)
    if not folders:
        raise ConfigError("name at least one run folder to report.")
    plotly = load_plotly()
    step = on_step or (lambda name: None)
    runs, refused = _open_all(folders, sources or Sources(), step)
    scores = [find_score(run, *find_references(run, runs, step)) for run in runs]
    drawn = max(500, DRAWN // len(runs))
    described = [_describe(run, score, drawn, step) for run, score in zip(runs, scores, strict=True)]
    sections, nodes = zip(*described, strict=True)
    comparison = comparison_section(runs, scores) if len(runs) > 1 else None
    step("page")
    page = make_page([run.name for run in runs], sections, comparison, nodes, refused, plotly)
    make_folder(out.parent)
    write_durably(out, page.encode())
    return out


def _open_all(
    folders: Sequence[str | Path], sources: Sources, step: OnStep
) -> tuple[list[OpenedRun], list[Text]]:
    """The runs, and why others are not among them; an error where there is none."""
    runs, errors = [], []
    for folder, name in zip(folders, _names(folders), strict=True):
        step(f"{name}: graph and models")
        try:
            run = open_run(
                folder, dataset=sources.dataset, edges=sources.edges, nodes=sources.nodes, strict=False
            )
            runs.append(replace(run, name=name))
        except PolyNSDError as error:
            errors.append(error)
    if not runs:
        raise errors[0]
    return runs, [Text(str(error), "problem") for error in errors]


def _names(folders: Sequence[str | Path]) -> list[str]:
    """The last part of each path, or the path itself where that is not enough."""
    short = [Path(folder).resolve().name for folder in folders]
    return [
        name if short.count(name) == 1 else str(folder) for name, folder in zip(short, folders, strict=True)
    ]


def _describe(
    run: OpenedRun, score: RunScore, drawn: int, step: OnStep
) -> tuple[list[Section], dict[str, Any] | None]:
    """All tabs of a run, and what is embedded of its nodes."""
    why = " ".join(map(str, run.problems))
    step(f"{run.name}: predictions")
    predicted, problem = try_predict(run)
    step(f"{run.name}: a look inside")
    diagnosis = None
    if run.models and run.data is not None:
        diagnosis = diagnose(
            run.models[0],
            run.data,
            train=run.mask(0, "train"),
            test=run.mask(0, "test"),
            targets=TARGETS,
            max_nodes=LOOKED_INTO,
        )
    step(f"{run.name}: nodes")
    nodes: Nodes | None = None
    drawing_note = ""
    if run.graph is not None:
        try:
            nodes = gather_nodes(run, predicted, drawn)
            drawing_note = nodes.drawing_note
        except PolyNSDError as error:
            drawing_note = str(error)
    sections = [
        result_section(run, score),
        graph_section(run.graph, why, drawing_note, nodes is not None),
        training_section(run),
        quality_section(run.graph, predicted, why or problem),
        *inside_sections(diagnosis, run.labels[0] if run.labels else "", why or problem),
        explorer_section(nodes, "" if predicted is not None else why or problem),
    ]
    return sections, None if nodes is None else nodes.data
