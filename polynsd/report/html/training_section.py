"""Training curves of every split, the candidates of a fit one after another, or the rounds of clients."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from polynsd.diagnostics import OpenedRun
from polynsd.errors import PolyNSDError
from polynsd.estimator.members import FAMILIES
from polynsd.report.html.blocks import (
    Block,
    Chart,
    Section,
    Table,
    Text,
    Trace,
    line,
    log_axis,
    plot_text,
    points,
    titled_axes,
)
from polynsd.report.output import axis_name, percent_scale, score_text

MAX_CURVES = 12
POINTS = 150  # of a curve
MAX_SEEDS = 6  # of a federated run, whose lines are drawn
MAX_FAULTS = 30
DASHES = {"local": "solid", "global": "dash"}

Log = list[dict[str, Any]]


def training_section(run: OpenedRun) -> Section:
    """Training curves of all models of a run, the candidates of a fit, or the rounds of a federated run."""
    try:
        records = run.record.metrics()
    except PolyNSDError as error:
        return Section("training", "Training", [Text(str(error), "problem")])
    describe = _candidates if run.is_fit else _rounds if run.is_federated else _curves
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
    loss_axis = log_axis("loss", *(trace["y"] for trace in losses))
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
            {"xaxis": {"title": {"text": "epoch"}}, "yaxis": loss_axis},
            is_wide=True,
            height=380,
        ),
    ]
    if len(by_model) > MAX_CURVES:
        blocks.append(Text(f"The first {MAX_CURVES} of {len(by_model)} models are shown."))
    return blocks


def _column(log: Log, name: str, scale: float = 1.0) -> list[float]:
    return [math.nan if record[name] is None else scale * record[name] for record in log]


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


def _rounds(run: OpenedRun, records: Log) -> list[Block]:
    """Scores, traffic and clients of the rounds of a federated run; nothing where it has kept no rounds."""
    seeds: dict[int, dict[str, Log]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        seeds[record["seed"]][record["event"]].append(record)
    drawn = list(seeds)[:MAX_SEEDS]
    if not any(seeds[seed]["round"] for seed in drawn):
        return []
    rounds = {seed: seeds[seed]["round"] for seed in drawn}
    blocks: list[Block] = [
        _draw_scores(run, {seed: seeds[seed]["scores"] for seed in drawn}),
        _list_choices(run),
        _draw_traffic(rounds),
        _draw_clients(rounds),
        *_list_faults(run),
    ]
    if len(seeds) > len(drawn):
        blocks.append(Text(f"Lines of the first {len(drawn)} of {len(seeds)} seeds are drawn."))
    return blocks


def _draw_scores(run: OpenedRun, logs: Mapping[int, Log]) -> Chart:
    scale, traces = percent_scale(run.metric), list[Trace]()
    for place, (seed, log) in enumerate(logs.items()):
        facts = run.result["federation"]["seeds"][place]
        for kind, dash in DASHES.items():
            key, choice = f"{kind}_val", facts["choices"][kind]
            if not choice["round"]:  # a method that shares no weights has no global model
                continue
            name = f"{kind} model{'s' * (kind == 'local')}" + (f", seed {seed}" if len(logs) > 1 else "")
            # one seed: a colour for each kind; several: one for each seed
            colour, group = f"${place if len(logs) > 1 else len(traces) // 2}", {"legendgroup": name}
            x, y = [record["round"] for record in log], [scale * record.get(key, math.nan) for record in log]
            traces.append(line(x, y, name, colour, dash=dash) | group)
            hover = "chosen round %{x}: %{y:.4g}"
            star = points(
                [choice["round"]], [scale * choice["val"]], name, colour, size=11, hover=hover, symbol="star"
            )
            traces.append({**star, **group, "showlegend": False})
    return Chart(
        "Score on validation nodes",
        "Means over clients, weighted by their nodes. Local models are those of the clients after their own "
        "epochs, the global model is their average; where the local line stays above, clients gain from "
        "their own data. Where clients are missing, it is a mean over the others. The star is the round that "
        "validation chose, compared over the same clients.",
        traces,
        titled_axes("round", axis_name(run.metric)),
        is_wide=True,
        height=380,
    )


def _list_choices(run: OpenedRun) -> Table:
    rows = []
    for place, facts in enumerate(run.result["federation"]["seeds"]):
        seed = str(run.protocol_result.rows[place].seed)
        for kind in DASHES:
            choice = facts["choices"][kind]
            if choice["round"]:
                scores = [score_text(run.metric, choice[part]) for part in ("val", "test")]
                clients = f"{choice['clients']} of {len(facts['names'])}"
                rows.append((seed, kind, str(choice["round"]), *scores, clients))
    header = ("seed", "models", "round", "validation", "test", "clients")
    return Table("The rounds that validation chose", header, rows, is_wide=True)


def _draw_traffic(rounds: Mapping[int, Log]) -> Chart:
    total = sum(record["sent"] + record["received"] for log in rounds.values() for record in log) / 1e6
    return Chart(
        "Traffic",
        f"What is sent in every round, all clients together; {total:,.1f} MB in all rounds.",
        _draw_lines(rounds, {"to clients": "sent", "from clients": "received"}, unit=1e6),
        titled_axes("round", "MB", from_zero=True),
    )


def _draw_clients(rounds: Mapping[int, Log]) -> Chart:
    least = min(record["clients"] for log in rounds.values() for record in log)
    most = max(record["invited"] for log in rounds.values() for record in log)
    sentence = (
        f"All {most} clients took part in every round."
        if least == most
        else f"Between {least} and {most} clients took part; a client that was asked and is missing failed, "
        "came too late or was left out, one that was not asked had left."
    )
    axes = titled_axes("round", "clients", from_zero=True)
    axes["yaxis"]["dtick"] = 1 if most <= 10 else None
    return Chart("Clients", sentence, _draw_lines(rounds, {"took part": "clients", "asked": "invited"}), axes)


def _draw_lines(rounds: Mapping[int, Log], keys: Mapping[str, str], unit: float = 1.0) -> list[Trace]:
    """A line for each key of the records and each seed; seeds share a colour and an entry of the legend."""
    traces = []
    for number, (name, key) in enumerate(keys.items()):
        for place, log in enumerate(rounds.values()):
            x, y = [record["round"] for record in log], [record[key] / unit for record in log]
            trace = line(x, y, name, f"${number}", dash="dot" if number else "solid")
            traces.append({**trace, "legendgroup": name, "showlegend": place == 0})
    return traces


def _list_faults(run: OpenedRun) -> list[Block]:
    """Which clients were left out of a round, and why."""
    faults = [event for event in run.record.events() if event.get("event") == "fault"]
    if not faults:
        return []
    rows = [(str(f["seed"]), str(f["round"]), str(f["client"]), str(f["reason"])) for f in faults]
    title = f"What went wrong ({len(faults)})"
    title += f", the first {MAX_FAULTS}" if len(faults) > MAX_FAULTS else ""
    return [Table(title, ("seed", "round", "client", "reason"), rows[:MAX_FAULTS], is_wide=True)]
