"""What was asked, and what was found: the score with its interval, beside simpler answers."""

from __future__ import annotations

import math

from polynsd.diagnostics import OpenedRun
from polynsd.estimator.members import FAMILIES
from polynsd.report.html.blocks import (
    Block,
    Chart,
    Section,
    Table,
    Text,
    Trace,
    hover_text,
    number,
    percent,
    points,
    reach,
)
from polynsd.report.html.scores import RunScore
from polynsd.report.output import (
    PERCENT,
    axis_name,
    difference_text,
    metric_name,
    percent_scale,
    score_text,
    score_with_unit,
)


def result_section(run: OpenedRun, found: RunScore) -> Section:
    """The score of a run beside simpler answers, and what was done."""
    blocks: list[Block] = [Text(_headline(run, found), "lead"), _rivals_chart(run, found)]
    if not run.is_fit and len(run.result["splits"]) > 1:
        blocks.append(_splits_chart(run))
    blocks.append(_facts(run))
    if run.is_fit:
        blocks.append(_ensemble(run))
    if found.note:
        blocks.append(Text(found.note))
    missing = [name for name in ("features alone", "plain GCN") if found.rivals.get(name) is None]
    if missing:
        how = (
            "no such model was tried in this fit"
            if run.is_fit
            else "train --model mlp and --model gcn on the same splits, and name those runs as well"
        )
        blocks.append(Text(f"To compare with {' and '.join(missing)}: {how}."))
    blocks += [Text(str(problem), "problem") for problem in run.problems]
    return Section("result", "Result", blocks)


def _headline(run: OpenedRun, found: RunScore) -> str:
    metric = run.metric
    text = f"{metric_name(metric)} {score_with_unit(metric, found.score)}"
    if found.interval is not None:
        low, high = (score_text(metric, end) for end in found.interval)
        text += f" (95 % interval {low} to {high})"
    text += f" on {found.scored_on}"
    better = [(name, found.score - score) for name, score in found.rivals.items() if score is not None]
    if better:
        unit = " points" if metric in PERCENT else ""
        gains = [
            f"{difference_text(metric, gain)}{unit} against {name}".replace("-", "−") for name, gain in better
        ]
        text += "; " + ", ".join(gains)
    return text[0].upper() + text[1:] + "."


def _rivals_chart(run: OpenedRun, found: RunScore) -> Chart:
    scale = percent_scale(run.metric)
    scores = {name: score for name, score in found.rivals.items() if score is not None}
    scores["this model"] = found.score
    names, values = list(scores), [scale * value for value in scores.values()]
    trace: Trace = {
        "type": "bar",
        "orientation": "h",
        "x": values,
        "y": names,
        "text": [f"{value:.1f}" if scale == 100 else f"{value:.3f}" for value in values],
        "textposition": "inside",
        "insidetextanchor": "start",
        "marker": {"color": ["$muted"] * (len(values) - 1) + ["$0"]},
        **hover_text("%{y}: %{x:.4g}"),
    }
    traces = [trace]
    if found.interval is not None:
        low, high = found.interval
        ends = reach([scale * (high - found.score)], [scale * (found.score - low)])
        interval = points(values[-1:], [0.0], "interval", "$ink", size=1)
        traces.append({**interval, "y": names[-1:], "error_x": ends, "showlegend": False})
    rivals = [value for name, value in scores.items() if name != "this model"]
    best = max(rivals, default=-math.inf)
    sentence = "The longer the bar, the better"
    sentence += "; the line at its end is the 95 % interval." if found.interval else "."
    if rivals:
        sentence += (
            " This model is above all simpler answers."
            if found.score > best + 1e-9
            else " A simpler answer, which sees the whole graph, is as good."
            if run.is_federated
            else " A simpler answer is as good: the graph, or the sheaf, adds nothing here."
        )
    axis = {"title": {"text": axis_name(run.metric)}, "rangemode": "tozero"}
    layout = {"xaxis": axis, "yaxis": {"autorange": "reversed"}, "showlegend": False}
    return Chart("Against simpler answers", sentence, traces, layout, height=110 + 42 * len(values))


def _splits_chart(run: OpenedRun) -> Chart:
    rows = run.protocol_result.rows
    scale = percent_scale(run.metric)
    splits = [row.split for row in rows]
    test, val = ([scale * getattr(row, part) for row in rows] for part in ("test", "val"))
    hover = "split %{x}: %{y:.4g}"
    traces = [
        points(splits, test, "test", "$0", size=9, hover=hover),
        points(splits, val, "validation", "$muted", size=9, hover=hover, symbol="circle-open"),
    ]
    tests = [row.test for row in rows]
    best, worst = max(tests), min(tests)
    sentence = (
        f"Every filled point is a model on its own split; they lie between "
        f"{score_with_unit(run.metric, worst)} and {score_with_unit(run.metric, best)}, which is how "
        "much the choice of nodes matters."
    )
    layout = {
        "xaxis": {"title": {"text": "split"}, "dtick": 1 if len(tests) < 16 else None},
        "yaxis": {"title": {"text": axis_name(run.metric)}},
    }
    return Chart("Split by split", sentence, traces, layout)


def _facts(run: OpenedRun) -> Table:
    record, result = run.record, run.result
    facts: list[tuple[str, str]] = []
    if run.is_fit:
        summary = result["summary"]
        facts += [
            ("predicted", f"the column '{summary['label']}' of {summary['dataset']}"),
            ("rows", f"{summary['rows']['labelled']:,} of {summary['rows']['nodes']:,} have a label"),
            ("scored by", metric_name(run.metric)),
            ("models", f"{len(summary['ensemble'])} of {summary['tried']} tried, averaged"),
        ]
    else:
        config = record.config["model"]
        facts += [
            ("graph", str(result["dataset"])),
            ("scored by", metric_name(run.metric)),
            ("splits", f"{result['protocol']}; features {result['features']}"),
            ("model", f"{result['model']}, {result['parameters']:,} parameters"),
        ]
        if run.is_federated:
            facts += _describe_federation(run)
        else:
            rules = f"{result['rules']}, epochs chosen by validation {result['select']}"
            facts.append(("training rules", rules))
        layer = config.get("layer", {})
        if "polynsd" in str(config.get("model")) and "degree" in layer:
            sizes = f"{config['num_layers']} layers of {config['hidden_channels']} channels"
            sizes += f", stalks of dimension {layer['stalk_dim']}, polynomials of degree {layer['degree']}"
            facts.append(("sizes", sizes))
    seconds = record.timings.get("seconds")
    facts.append(("time", "–" if seconds is None else f"{number(round(seconds, 1))} s of training"))
    facts.append(("finished", f"{str(record.timings.get('finished'))[:16].replace('T', ' ')} UTC"))
    facts.append(("run", run.name))
    return Table("What was done", ("", ""), facts, is_wide=not run.is_fit)


def _describe_federation(run: OpenedRun) -> list[tuple[str, str]]:
    """What was sent, and to how many clients."""
    federation, config = run.result["federation"], run.record.config["model"]
    sent = sum(facts["sent"] for facts in federation["seeds"]) / 1e6
    received = sum(facts["received"] for facts in federation["seeds"]) / 1e6
    facts = [
        ("clients", f"{len(federation['seeds'][0]['names'])}, method {config['method']}"),
        (
            "rounds",
            f"{config['rounds']} of {config['local_epochs']} local epochs; validation chose the round",
        ),
        ("sent", f"{sent:,.1f} MB to clients, {received:,.1f} MB from them"),
    ]
    if "epsilon" in federation:
        facts.append(("differential privacy", f"ε = {federation['epsilon']:.2f}"))
    return facts


def _ensemble(run: OpenedRun) -> Table:
    members = run.result["summary"]["ensemble"]
    rows = [
        (
            percent(member["weight"], 0),
            str(member["name"]),
            FAMILIES.get(member["family"], str(member["family"])),
            score_with_unit(run.metric, member["val_score"]),
        )
        for member in members
    ]
    return Table(
        "The models that are averaged",
        ("weight", "model", "kind", "score on held-out rows"),
        rows,
        is_wide=True,
    )
