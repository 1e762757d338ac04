"""Training curves of every split, the candidates of a fit one after another, or the rounds of clients."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from polynsd.diagnostics import OpenedRun
from polynsd.errors import PolyNSDError
from polynsd.estimator.members import FAMILIES
from polynsd.report.html.blocks import Block, Chart, Section, Text, Trace, log_axis, plot_text
from polynsd.report.html.rounds import describe_rounds
from polynsd.report.html.traces import finite, line, points, titled_axes
from polynsd.report.output import axis_name, percent_scale

MAX_CURVES = 12
POINTS = 150  # of a curve

Log = list[dict[str, Any]]


def training_section(run: OpenedRun) -> Section:
    """Training curves of all models of a run, the candidates of a fit, or the rounds of a federated run."""
    try:
        records = run.record.metrics()
    except PolyNSDError as error:
        return Section("training", "Training", [Text(str(error), "problem")])
    describe = _candidates if run.is_fit else describe_rounds if run.is_federated else _curves
    blocks = describe(run, records)
    missing = Text("The run has kept no log of its training.", "problem")
    return Section("training", "Training", blocks or [missing])


def _curves(run: OpenedRun, records: Log) -> list[Block]:
    by_model: dict[int, Log] = defaultdict(list)
    for record in records:
        if record.get("event") == "epoch":
            by_model[record["split"]].append(record)
    if not by_model:
        return []
    scale = percent_scale(run.metric)
    rows, scores, losses = run.protocol_result.rows, list[Trace](), list[Trace]()
    for model in sorted(by_model)[:MAX_CURVES]:
        name, colour = f"split {rows[model].split}, seed {rows[model].seed}", f"${model % 10}"
        log, group = _thin(by_model[model]), {"legendgroup": name}
        epochs = [record["epoch"] for record in log]
        quiet = {**group, "showlegend": False}
        scores.append(line(epochs, _column(log, "val_metric", scale), name, colour, width=1.5) | group)
        best = [record for record in by_model[model] if record["epoch"] == rows[model].best_epoch]
        hover = "chosen epoch %{x}: %{y:.4g}"
        star = _column(best, "val_metric", scale)
        scores.append(
            points([r["epoch"] for r in best], star, name, colour, size=10, hover=hover, symbol="star")
            | quiet
        )
        losses.append(line(epochs, _column(log, "train_loss"), name, colour, width=1.5) | group)
        losses.append(line(epochs, _column(log, "val_loss"), name, colour, dash="dot", width=1.5) | quiet)
    layout = {"xaxis": {"title": {"text": "epoch"}}, "yaxis": log_axis("loss", *(_drawn(t) for t in losses))}
    blocks: list[Block] = [
        Chart(
            "Score on validation nodes",
            "Lines that rise and level off have learned; the star is the epoch that was kept.",
            scores,
            titled_axes("epoch", axis_name(run.metric)),
            is_wide=True,
            height=380,
        ),
        Chart(
            "Loss",
            "Solid lines are training nodes, dotted ones validation nodes: where the dotted line rises while "
            "the solid one falls, the model overfits.",
            losses,
            layout,
            is_wide=True,
            height=380,
        ),
    ]
    if len(by_model) > MAX_CURVES:
        blocks.append(Text(f"The first {MAX_CURVES} of {len(by_model)} models are shown."))
    return blocks


def _column(log: Log, name: str, scale: float = 1.0) -> list[float]:
    return [math.nan if record[name] is None else scale * record[name] for record in log]


def _drawn(trace: Trace) -> Any:
    return finite([math.nan if value is None else value for value in trace["y"]])


def _thin(log: Log) -> Log:
    step = max(1, len(log) // POINTS)
    return [*log[::step], log[-1]] if (len(log) - 1) % step else log[::step]


def _candidates(run: OpenedRun, records: Log) -> list[Block]:
    rows = [(n, record) for n, record in enumerate(records, 1) if record.get("val_score") is not None]
    if not rows:
        return []
    scale = percent_scale(run.metric)
    traces = []
    for index, family in enumerate(dict.fromkeys(record["family"] for _, record in rows)):
        own = [(n, record) for n, record in rows if record["family"] == family]
        scores = [scale * record["val_score"] for _, record in own]
        name, hover = plot_text(FAMILIES.get(family, family)), "%{text}<br>%{y:.4g}"
        trace = points([n for n, _ in own], scores, name, f"${index % 10}", size=10, hover=hover)
        traces.append({**trace, "text": [plot_text(record["name"], 60) for _, record in own]})
    best = max(rows, key=lambda row: row[1]["val_score"])[1]
    sentence = (
        "Every point is a model that was tried, the higher the better; the best single one is "
        f"'{best['name']}' ({FAMILIES.get(best['family'], best['family'])})."
    )
    axes = titled_axes("candidate, in the order of trying", f"{axis_name(run.metric)} on held-out rows")
    return [Chart("Models that were tried", sentence, traces, axes, is_wide=True, height=420)]
