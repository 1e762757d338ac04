"""What a fit to a user's tables came to, on one screen: 24 lines of 100 columns.

The summary is plain data, as `result.json` keeps it and `--json` prints it:

    dataset, label, task, metric           what was to be predicted, and how it is scored
    positive  the one of two classes that F1, PR-AUC, precision=… and recall=… are of; otherwise None
    rows      {nodes, labelled, fitted, scored, predicted}
    estimate  {score, low, high, source, guess, features, convolution}: on rows that the choice has not seen
    classes   [{name, rows, precision, recall}], None for numbers
    confusion [[rows of class i that were predicted as class j]]
    decision  rule, and the threshold of the positive class
    ensemble  [{name, family, weight, val_score}], and `tried`, the number of candidates
    files     {name: what is in it}
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from polynsd.report.output import difference_text, metric_name, score_text, score_with_unit

NARROWEST, WIDEST = 60, 100
MAX_CLASSES = 6  # in the table of classes; the largest
MAX_MEMBERS = 3
NAME = 16  # characters of the name of a class
OF_POSITIVE = ("f1", "pr_auc")  # metrics of the positive one of two classes


def format_fit(summary: Mapping[str, Any], folder: str, seconds: float | None = None) -> str:
    """The whole summary as text."""
    parts = [
        [*_headline(summary), *_worth(summary)],
        [*_classes(summary), *_decision(summary)] if summary.get("classes") else [],
        _choice(summary),
        _files(summary, folder, seconds),
    ]
    return "\n".join(line for part in parts if part for line in ("", *part))[1:]


def _wrap(line: str) -> list[str]:
    return textwrap.wrap(line, _width(), break_on_hyphens=False)


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)


def _headline(summary: Mapping[str, Any]) -> list[str]:
    estimate, metric = summary["estimate"], summary["metric"]
    rows = summary["rows"]["scored"]
    value = score_with_unit(metric, estimate["score"])
    is_apart = estimate["source"] == "test"
    unseen = "that were kept apart" if is_apart else "by models that were not trained on them"
    positive = summary.get("positive")
    of_class = f" of '{_shorten(positive)}'" if metric in OF_POSITIVE and positive is not None else ""
    line = f"{metric_name(metric)}{of_class} {value} on {rows:,} rows {unseen}"
    if estimate.get("low") is not None:
        line += f" (95 %: {score_text(metric, estimate['low'])} to {score_text(metric, estimate['high'])})"
    kept = summary["rows"]
    about = f"label '{summary['label']}': {kept['labelled']:,} of {kept['nodes']:,} rows have one"
    if not is_apart:
        about += "; --test 0.2 keeps rows apart that nothing is chosen by"
    errors = summary.get("errors")
    typical = (
        ""
        if errors is None
        else f"typical error {errors['rmse']:.4g} (root mean square), {errors['mae']:.4g} (mean absolute)"
    )
    return [*_wrap(line), *_wrap(typical), *_wrap(about)]


def _worth(summary: Mapping[str, Any]) -> list[str]:
    """What the graph and the sheaf were worth, in one line."""
    estimate, metric = summary["estimate"], summary["metric"]
    guess, features, plain = (estimate.get(name) for name in ("guess", "features", "convolution"))
    is_number = summary["task"] == "regression"
    words = [] if guess is None else [("the mean " if is_number else "majority ") + score_text(metric, guess)]
    if features is not None:
        words.append(f"features alone {score_text(metric, features)}")
    if plain is not None:
        gain = "" if features is None else f" (the graph {difference_text(metric, plain - features)})"
        words.append(f"plain GCN {score_text(metric, plain)}{gain}")
    known = [score for score in (guess, features, plain) if score is not None]
    if known:
        more = difference_text(metric, estimate["score"] - known[-1])
        less = ", less than the guess" if guess is not None and estimate["score"] < guess else ""
        words.append(f"this model {score_text(metric, estimate['score'])} ({more}{less})")
    return _wrap("on the same rows: " + " → ".join(words)) if words else []


def _classes(summary: Mapping[str, Any]) -> list[str]:
    """Precision and recall of the largest classes, and the confusion beside them where there is room."""
    classes: Sequence[Mapping[str, Any]] = summary["classes"]
    order = sorted(range(len(classes)), key=lambda number: -classes[number]["rows"])[:MAX_CLASSES]
    names = [_shorten(str(classes[number]["name"])) for number in order]
    width = max(map(len, ("class", *names)))
    left, right = [f"  {'class':<{width}}  precision  recall   rows"], [_cells(names, names)]
    for name, number in zip(names, order, strict=True):
        each = classes[number]
        shares = f"{_percent(each['precision']):>9}  {_percent(each['recall']):>6}"
        left.append(f"  {name:<{width}}  {shares}  {each['rows']:>5,}")
        right.append(_cells([f"{summary['confusion'][number][other]:,}" for other in order], names))
    if len(classes) > len(order):
        return [*left, f"  … and {len(classes) - len(order)} smaller classes: polynsd runs show RUN --json"]
    lines = [f"{row}   predicted: {cells}" for row, cells in zip(left[:1], right[:1], strict=True)]
    lines += [row + " " * 14 + cells for row, cells in zip(left[1:], right[1:], strict=True)]
    return lines if max(map(len, lines)) <= _width() else left


def _cells(texts: Sequence[str], names: Sequence[str]) -> str:
    return "  ".join(f"{text:>{max(len(name), 5)}}" for text, name in zip(texts, names, strict=True))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _shorten(name: str) -> str:
    """Begin and end of a long name."""
    return name if len(name) <= NAME else f"{name[: NAME // 2 - 1]}…{name[-NAME // 2 :]}"


def _decision(summary: Mapping[str, Any]) -> list[str]:
    """Which of two classes is the positive one, and where a rule has moved its threshold, to what."""
    name, decision = summary.get("positive"), summary.get("decision") or {}
    if name is None:
        return []
    line = f"positive class, of F1, precision and recall: '{_shorten(name)}'"
    if decision.get("threshold") is not None and decision["rule"] != "argmax":
        line += f", predicted from a probability of {decision['threshold']:.3g} on ({decision['rule']})"
    return _wrap(line)


def _choice(summary: Mapping[str, Any]) -> list[str]:
    from polynsd.estimator.members import FAMILIES  # takes a second, and runs of `polynsd train` need none

    members: Sequence[Mapping[str, Any]] = summary["ensemble"]
    metric = summary["metric"]
    count = f"{len(members)} models" if len(members) > 1 else "1 model"
    lines = [
        f"chosen by {metric_name(metric)} on rows held out from training: {count} of {summary['tried']} tried"
    ]
    for member in members[:MAX_MEMBERS]:
        family = FAMILIES.get(member["family"], member["family"])
        line = f"  {100 * member['weight']:3.0f} %  {member['name']} ({family})"
        score = f" {score_text(metric, member['val_score'])}"
        room = _width() - len(score) - 1
        lines.append(f"{line if len(line) <= room else line[: room - 1] + '…'}:{score}")
    if len(members) > MAX_MEMBERS:
        rest = sum(member["weight"] for member in members[MAX_MEMBERS:])
        lines.append(f"  {100 * rest:3.0f} %  {len(members) - MAX_MEMBERS} more")
    return lines


def _files(summary: Mapping[str, Any], folder: str, seconds: float | None) -> list[str]:
    took = "" if seconds is None else f" in {seconds:.0f} s" if seconds >= 10 else f" in {seconds:.1f} s"
    files = [f"{name} ({what})" for name, what in sorted(summary["files"].items(), reverse=True)]
    return _wrap(f"written to {folder}{took}: {', '.join(files)}")
