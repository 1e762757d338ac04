"""The federated tables beside the printed one, backbones × masks, brackets, and curves over rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polynsd.report.panels import Panels, handle, style
from polynsd_paper.claims.comparisons import find_cell, select
from polynsd_paper.experiments.federated import (
    BACKBONES,
    BRACKETED,
    DEGREES,
    MASKS,
    PENALTIES,
    PRINTED,
    RATES,
    shown_rounds,
)
from polynsd_paper.measured import pool
from polynsd_paper.reports.section import figure_path, link_figure, make_section
from polynsd_paper.tables.formatting import NOT_RUN, cell_number, markdown_table
from polynsd_paper.tables.printed_numbers import read_printed

if TYPE_CHECKING:
    from pandas import DataFrame

BRACKETS = {"local": "each alone", "clients": "federated", "union": "one, without cut edges", "whole": "one"}
CURVES = (
    "fedavg", "gcn+fedath", "gcn+loaded", "nsd-general+current", "polynsd-general+current",
    "polynsd-general+loaded", "polynsd-general+none",
)  # fmt: skip
TEXT = """\
Mean ± deviation over seeds, each with a partition of its own. *Local*: the clients' own models in the round
of best weighted validation, weighted by their nodes, as FedATH scores. *Global*: the model on the server, in
the round that its own validation chooses, with every client's own mask; FedPUB sends every client a mean of
its own, so these are scored, and FedProto has no common model. *Printed*: single numbers on
Roman-Empire with its own features, from the last or the best round (the paper does not say) of models with
dropout active at test time, as the published code has it; they are no measure of the rows here.
MiB: of one round, from all clients."""
CHOSEN = """\
By the mean validation of the first three seeds, in the round that it chooses: the rate among {rates}, λ of
masks among {penalties}, both together at K = 4, then K of PolyNSD among {degrees}. Fixed are two layers, 60
channels (64 without a sheaf), stalks of dimension 3, dropout 0.5, decay 5e−4, 100 rounds of 3 epochs."""
SYMBOLS = {"rate": "", "penalty": "λ ", "degree": "K "}


def report_federated(cells: DataFrame, results: Path) -> str:
    """All sections of the page."""
    graphs = list(dict.fromkeys(cells["dataset"]))
    blocks = ["## The printed rows", TEXT, _printed_rows(cells, graphs)]
    blocks += ["## Backbones and masks", *(_grid(select(cells, dataset=name), name) for name in graphs)]
    brackets = _brackets(cells, graphs)
    blocks += ["## Brackets", brackets] if brackets else []
    settings = {"rates": RATES, "penalties": PENALTIES, "degrees": DEGREES}
    texts = {name: ", ".join(f"{value:g}" for value in values) for name, values in settings.items()}
    blocks += ["## Chosen settings", CHOSEN.format(**texts), _chosen_settings(cells, graphs)]
    blocks += ["## Over rounds", link_figure(_draw_rounds(cells, graphs, results))]
    return make_section(*blocks)


def row_name(backbone: str, masks: str) -> str:
    """The row of a backbone and a source of masks; GCN without masks is FedAvg."""
    return "fedavg" if (backbone, masks) == ("gcn", "none") else f"{backbone}+{masks}"


def _printed_rows(cells: DataFrame, graphs: list[str]) -> str:
    numbers = read_printed("federated")
    printed = dict(zip(numbers["cell"], numbers["mean"], strict=True))
    lines = []
    for model, name in PRINTED.items():
        found = [find_cell(cells, dataset=dataset, model=model) for dataset in graphs]
        if all(cell is None for cell in found):
            continue
        bytes_ = pool(select(cells, model=model, dataset=graphs[0]), "received_mib")
        common = [_share(cells, dataset, model, "global_test") for dataset in graphs]
        number = printed.get(f"model={model}", np.nan)
        lines.append((
            name, model, NOT_RUN if np.isnan(number) else f"{number:.2f}",
            *(text for pair in zip(map(cell_number, found), common, strict=True) for text in pair),
            f"{bytes_.mean():.2f}" if len(bytes_) else NOT_RUN,
        ))  # fmt: skip
    heads = [text for dataset in graphs for text in (f"{dataset}, local", "global")]
    return markdown_table(("row of the paper", "here", "printed", *heads, "MiB"), lines, left=2)


def _share(cells: DataFrame, dataset: str, model: str, name: str) -> str:
    values = 100 * pool(select(cells, dataset=dataset, model=model), name)
    return f"{values.mean():.2f} ± {values.std():.2f}" if len(values) else NOT_RUN


def _grid(cells: DataFrame, dataset: str) -> str:
    lines = []
    for backbone in BACKBONES:
        found = [find_cell(cells, model=row_name(backbone, masks)) for masks in MASKS]
        if any(cell is not None for cell in found):
            lines.append((backbone, *map(cell_number, found)))
    return markdown_table((f"{dataset}: masks", *MASKS), lines, left=1)


def _brackets(cells: DataFrame, graphs: list[str]) -> str:
    lines = []
    for dataset in graphs:
        for backbone in BRACKETED:
            rows = {name: f"{backbone} {name}" for name in BRACKETS} | {"clients": row_name(backbone, "none")}
            found = [find_cell(cells, dataset=dataset, model=row) for row in rows.values()]
            if sum(cell is not None for cell in found) > 1:
                lines.append((dataset, backbone, *map(cell_number, found)))
    return markdown_table(("dataset", "backbone", *BRACKETS.values()), lines, left=2) if lines else ""


def _chosen_settings(cells: DataFrame, graphs: list[str]) -> str:
    """`0.01, λ 1, K 4` of every row and graph."""
    lines = []
    for model in dict.fromkeys(cells["model"]):
        texts = []
        for dataset in graphs:
            found = select(cells, dataset=dataset, model=model)
            values = {name: pool(found, name) for name in SYMBOLS}
            known = [f"{SYMBOLS[name]}{chosen[0]:g}" for name, chosen in values.items() if len(chosen)]
            texts.append(", ".join(known) or NOT_RUN)
        lines.append((model, *texts))
    return markdown_table(("row", *graphs), lines, left=1 + len(graphs))


def _draw_rounds(cells: DataFrame, graphs: list[str], results: Path) -> Path:
    """Test scores of the clients' models over rounds, and of the global model as dashes."""
    panels = Panels(graphs, (3.8, 2.8))
    curves = [model for model in CURVES if (cells["model"] == model).any()]
    for axis, dataset in zip(panels.axes, graphs, strict=True):
        for number, model in enumerate(curves):
            chosen = select(cells, dataset=dataset, model=model)
            look = style(number)
            for name, line in (("local_test", "-"), ("global_test", "--")):
                rounds = [n for n in shown_rounds(1000) if len(pool(chosen, f"{name}_{n}"))]
                means = [100 * pool(chosen, f"{name}_{n}").mean() for n in rounds]
                axis.plot(rounds, means, line, color=look["color"], linewidth=1.2)
        axis.set(xlabel="round", ylabel="test score in %")
    handles = [handle(model, color=style(number)["color"]) for number, model in enumerate(curves)]
    handles.append(handle("global model", color="black", linestyle="--"))
    return panels.finish(figure_path(cells, results, "rounds"), "Over rounds", handles)
