"""Figures and tables of what was measured inside trained models: a function per experiment.

Figures like the paper's come first, better ones beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial.chebyshev import chebval

from polynsd.report.panels import COLOURS, OTHERS, Panels, handle, style
from polynsd_paper.claims.comparisons import select
from polynsd_paper.experiments.inside import DISTANCES, IDENTITY, INFLUENCE_ROWS, SIZES
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.measured import Mean, pool, series
from polynsd_paper.reports.section import figure_path, link_figure, make_section
from polynsd_paper.tables.formatting import markdown_table

if TYPE_CHECKING:
    from pandas import DataFrame

TITLE = "## What was measured"
METHODS = {"nsd": COLOURS[1], "polynsd": COLOURS[0]}
PLACES = {
    "own": "after the layer, by the sheaf that acts next",
    "graph": "after the layer, on the plain graph",
    "probe": "inside the layer, as published",
}
RESPONSES = {
    "difference": "ΔG", "low": "G_low", "high": "G_high", "alpha": "α", "changes": "changes",
    "weighted_low": "G_low, by eigenvalues", "weighted_high": "G_high, by eigenvalues",
    "from_uniform": "‖θ − uniform‖₁",
}  # fmt: skip
MAP_ROWS = {
    "norm": "mean ‖T‖", "separation": "separation", "kurtosis": "kurtosis", "spread": "contrast",
    "agreement_auc": "AUC of agreement",
}  # fmt: skip
SHOWN = (  # the printed panels
    ("pubmed", "polynsd-orthogonal", 4, 2), ("citeseer", "polynsd-orthogonal", 2, 4),
    ("chameleon", "polynsd-diagonal", 4, 4), ("squirrel", "polynsd-orthogonal", 2, 3),
)  # fmt: skip
KINDS = {"": "trained", "shuffled_": "shuffled labels", "untrained_": "untrained"}


def report_energy(cells: DataFrame, results: Path) -> str:
    """Quotients by layer: all depths together as printed, and depth by depth."""
    paths = [figure_path(cells, results, kind) for kind in ("trajectories", "by-depth")]
    for path, depths in zip(paths, ((None,), SIZES), strict=True):
        _draw_energy(cells, path, depths)
    lines = []
    for dataset in dict.fromkeys(cells["dataset"]):
        for model in dict.fromkeys(cells["model"]):
            chosen = select(cells, dataset=dataset, model=model)
            for place, words in PLACES.items():
                values = series(chosen, place, first=1 if place == "probe" else 0)
                numbers = [f"{Mean.of(each)}" for each in values] + [""] * 5
                shown = ["", *numbers] if place == "probe" else numbers
                lines.append((dataset, model, words, *shown[:5]))
    head = ("dataset", "model", "where", *(f"X_{layer}" for layer in range(5)))
    return make_section(
        TITLE,
        "Quotients ⟨X, LX⟩ / ⟨X, X⟩, mean ± std over d, L and seeds; deeper states have fewer runs.",
        markdown_table(head, lines, left=3),
        *map(link_figure, paths),
    )


def _draw_energy(cells: DataFrame, path: Path, depths: Sequence[int | None]) -> None:
    """Panels by dataset and family; a line per method and depth, all depths together for None."""
    pairs = [(d, m) for d in dict.fromkeys(cells["dataset"]) for m in FAMILIES]
    panels = Panels([f"{dataset}, {maps}" for dataset, maps in pairs], (3.4, 2.6), count=3)
    handles = {}
    for axis, (dataset, maps) in zip(panels.axes, pairs, strict=True):
        rows = {**{kind: f"{kind}-{maps}" for kind in METHODS}, "identity maps": IDENTITY}
        for kind, model in rows.items():
            for depth in depths:
                chosen = select(cells, dataset=dataset, model=model)
                chosen = chosen if depth is None else select(chosen, L=depth)
                means = [Mean.of(values) for values in series(chosen, "own")]
                look = {
                    "color": METHODS.get(kind, OTHERS),
                    "linestyle": {3: "--", 2: ":"}.get(depth or 0, "-"),
                }
                label = kind if depth is None else f"{kind}, L = {depth}"
                handles[label] = handle(label, **look)
                if means:
                    x, y = np.arange(len(means)), np.array([mean.mean for mean in means])
                    axis.plot(x, y, "o", markersize=3, **look)
                    axis.plot(x, y, **look)
                    if depth is None:
                        spread = np.array([mean.std for mean in means])
                        axis.fill_between(
                            x, y - spread, y + spread, alpha=0.15, color=look["color"], linewidth=0
                        )
        axis.set(xlabel="layer", ylabel="energy per unit", xticks=range(5), ylim=(0, None))
    panels.finish(path, "Dirichlet energy of states, by the sheaf that acts on them", list(handles.values()))


def report_response(cells: DataFrame, results: Path) -> str:
    """Statistics of the learned filter on all four graphs, by depth and by stalk dimension."""
    import pandas

    from polynsd_paper.claims.ledger import load_cells
    from polynsd_paper.claims.responses import REGIMES, grid_cells

    others = load_cells(results, ["energy"])
    every = grid_cells(pandas.concat([cells, others]) if len(others) else cells)
    graphs = [name for datasets in REGIMES.values() for name in datasets if name in set(every["dataset"])]
    lines = [
        (dataset, *(str(Mean.of(pool(select(every, dataset=dataset), name))) for name in RESPONSES))
        for dataset in graphs
    ]
    panels = Panels(list(RESPONSES.values())[:5], (3.4, 2.6), count=3)
    for axis, name in zip(panels.axes, RESPONSES, strict=False):
        for number, dataset in enumerate(graphs):
            for shift, option in ((0, "L"), (4, "d")):
                means = [Mean.of(pool(select(every, dataset=dataset, **{option: n}), name)) for n in SIZES]
                x = np.array(SIZES) + shift + 0.05 * number
                axis.errorbar(
                    x, [m.mean for m in means], [m.half for m in means], **style(number), markersize=4
                )
        axis.set_xticks([*SIZES, *(n + 4 for n in SIZES)], [f"{o}={n}" for o in ("L", "d") for n in SIZES])
    handles = [handle(dataset, **style(number)) for number, dataset in enumerate(graphs)]
    path = panels.finish(figure_path(cells, results, "statistics"), "The learned filter m(λ), K = 3", handles)
    drawn = _draw_printed_panels(every, figure_path(cells, results, "curves"))
    return make_section(
        TITLE,
        "Statistics of m(λ), mean ± std over families, d, L and seeds.",
        markdown_table(("dataset", *RESPONSES.values()), lines, left=1),
        link_figure(drawn),
        link_figure(path),
    )


def _draw_printed_panels(cells: DataFrame, path: Path) -> Path:
    """m(λ) of every seed in the four cells that the paper shows, and of the filter before training."""
    panels = Panels([f"{dataset}, {model}, d = {d}, L = {L}" for dataset, model, d, L in SHOWN], (4.0, 2.6))
    lam = np.linspace(0, 2, 200)
    for axis, (dataset, model, d, L) in zip(panels.axes, SHOWN, strict=True):
        chosen = select(cells, dataset=dataset, model=model, d=d, L=L)
        thetas, alphas = series(chosen, "theta"), pool(chosen, "alpha")
        axis.plot(lam, chebval(lam - 1, [0.25] * 4), "--", color=OTHERS)
        for number, alpha in enumerate(alphas):
            coefficients = [theta[number] for theta in thetas]
            axis.plot(lam, chebval(lam - 1, coefficients) + alpha * (1 - lam / 2), color=COLOURS[number])
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set(xlabel="λ", ylabel="m(λ)")
    handles = [handle(f"seed {number}", color=COLOURS[number]) for number in range(3)]
    untrained = handle("before training", color=OTHERS, linestyle="--")
    return panels.finish(path, "Learned filters of the cells that the paper shows", [*handles, untrained])


def report_influence(cells: DataFrame, results: Path) -> str:
    """Relative influence by distance, and the range it comes from."""
    graphs = list(dict.fromkeys(cells["dataset"]))
    panels = Panels(graphs, (4.0, 3.2))
    for axis, dataset in zip(panels.axes, graphs, strict=True):
        for number, model in enumerate(INFLUENCE_ROWS):
            values = series(select(cells, dataset=dataset, model=model), "mean", 0, DISTANCES)
            logs = [np.log10(each[each > 0]) for each in values]
            y = [10 ** float(each.mean()) if len(each) else np.nan for each in logs]
            axis.plot(range(len(y)), y, markersize=4, **style(number))
        axis.set(xlabel="distance in hops", ylabel="I(d) / I(0)", yscale="log")
    handles = [handle(model, **style(number)) for number, model in enumerate(INFLUENCE_ROWS)]
    path = panels.finish(figure_path(cells, results, "by-distance"), "Influence by distance", handles)
    lines = []
    for dataset in graphs:
        for model in INFLUENCE_ROWS:
            chosen = select(cells, dataset=dataset, model=model)
            numbers = [Mean.of(pool(chosen, name)) for name in ("range", "range_frozen", "silent")]
            far = [Mean.of(pool(chosen, f"mean_{d}")) for d in (1, 5, 10)]
            if numbers[0].runs:
                lines.append((dataset, model, *map(str, numbers), *(f"{each.mean:.1e}" for each in far)))
    head = ("dataset", "model", "R", "R, maps frozen", "silent", "I(1)/I(0)", "I(5)/I(0)", "I(10)/I(0)")
    text = (
        "R is the mean distance that influence comes from; silent the share of targets without any gradient."
    )
    return make_section(TITLE, text, markdown_table(head, lines, left=2), link_figure(path))


def report_maps(cells: DataFrame, results: Path) -> str:
    """Statistics of the maps by layer, trained, on shuffled labels and untrained."""
    pairs = [(d, m) for d in dict.fromkeys(cells["dataset"]) for m in dict.fromkeys(cells["model"])]
    pairs = [pair for pair in pairs if len(select(cells, dataset=pair[0], model=pair[1]))]
    names = [
        f"{dataset}\n{model}: {words}" for dataset, model in pairs for words in list(MAP_ROWS.values())[:3]
    ]
    panels = Panels(names, (3.4, 2.2), count=3)
    axes, lines = iter(panels.axes), []
    for dataset, model in pairs:
        chosen = select(cells, dataset=dataset, model=model)
        for row, (name, words) in enumerate(MAP_ROWS.items()):
            axis: Any = next(axes) if row < 3 else None
            for number, (prefix, kind) in enumerate(KINDS.items()):
                means = [Mean.of(values) for values in series(chosen, f"{prefix}{name}", first=1)]
                lines.append((dataset, model, words, kind, *(str(mean) for mean in means)))
                if axis is not None and means:
                    x = range(1, len(means) + 1)
                    axis.errorbar(
                        x, [m.mean for m in means], [m.std for m in means], **style(number), markersize=4
                    )
            if axis is not None:
                axis.set(xlabel="layer", xticks=range(1, 6))
    handles = [handle(kind, **style(number)) for number, kind in enumerate(KINDS.values())]
    path = panels.finish(figure_path(cells, results, "by-layer"), "Restriction maps by layer", handles)
    head = ("dataset", "model", "", "", *(f"layer {layer}" for layer in range(1, 6)))
    lines = [(*line, *[""] * (len(head) - len(line))) for line in lines]
    table = markdown_table(head, lines, left=4)
    return make_section(TITLE, "Mean ± std over seeds.", table, link_figure(path))
