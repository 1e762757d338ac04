"""The rounds of a federated training: scores, traffic, and the clients that took part."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polynsd.diagnostics import OpenedRun
from polynsd.report.html.blocks import Block, Chart, Table, Text, Trace
from polynsd.report.html.traces import line, points, titled_axes
from polynsd.report.output import axis_name, percent_scale, score_text

Log = Sequence[dict[str, Any]]

MAX_SEEDS = 6  # whose lines are drawn
MAX_FAULTS = 30
DASHES = {"local": "solid", "global": "dash"}


def describe_rounds(run: OpenedRun, records: Log) -> list[Block]:
    """What the training tab of a federated run shows; nothing where the run has kept no rounds."""
    seeds: dict[int, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
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
    traces = _draw_lines(
        rounds,
        {
            "to clients": lambda record: record["sent"] / 1e6,
            "from clients": lambda record: record["received"] / 1e6,
        },
    )
    total = sum(record["sent"] + record["received"] for log in rounds.values() for record in log) / 1e6
    return Chart(
        "Traffic",
        f"What is sent in every round, all clients together; {total:,.1f} MB in all rounds.",
        traces,
        titled_axes("round", "MB", from_zero=True),
    )


def _draw_clients(rounds: Mapping[int, Log]) -> Chart:
    traces = _draw_lines(
        rounds, {"took part": lambda record: record["clients"], "asked": lambda record: record["invited"]}
    )
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
    return Chart("Clients", sentence, traces, axes)


def _draw_lines(
    rounds: Mapping[int, Log], values: dict[str, Callable[[dict[str, Any]], float]]
) -> list[Trace]:
    """A line per value and seed; seeds have the same colour, and one entry in the legend."""
    traces = []
    for number, (name, read) in enumerate(values.items()):
        for place, log in enumerate(rounds.values()):
            x, y = [record["round"] for record in log], [read(record) for record in log]
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
