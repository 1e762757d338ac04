"""All trials of a study as rows: what was tried, what came out, and the best so far."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from polynsd.search.batch import SURPLUS

COLUMNS = ("trial", "state", "value", "best_so_far", "seconds", "val", "best_epoch", "epochs", "reason")


def trial_rows(study: Any) -> list[dict[str, Any]]:
    """One row per trial, in the order they were asked for; lists stand as JSON.

    `best_so_far` is the best value of all complete trials up to that row.
    """
    rows, best = [], None
    for trial in study.get_trials(deepcopy=False):
        if trial.state.name == "COMPLETE":
            best = trial.value if best is None else max(best, trial.value)
        rows.append({**_outcome(trial), "best_so_far": best, **trial.params})
    return rows


def _outcome(trial: Any) -> dict[str, Any]:
    attributes = trial.user_attrs
    lists = {name: attributes.get(name) for name in ("val", "best_epoch", "epochs")}
    return {
        "trial": trial.number,
        "state": state_of(trial),
        "value": trial.value,
        "seconds": attributes.get("seconds"),
        "reason": attributes.get("reason"),
        **{name: None if content is None else json.dumps(content) for name, content in lists.items()},
    }


def state_of(trial: Any) -> str:
    """complete, pruned, failed, running, waiting; lost with its worker, or surplus."""
    if trial.state.name != "FAIL":
        return str(trial.state.name.lower())
    reason = trial.user_attrs.get("reason")
    return "lost" if reason is None else ("surplus" if reason == SURPLUS else "failed")


def write_trials(path: Path, study: Any) -> Path:
    """Writes the rows as CSV, all or nothing."""
    rows = trial_rows(study)
    params = sorted({name for row in rows for name in row} - set(COLUMNS))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *params], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.partial")
    unfinished.write_text(text.getvalue(), encoding="utf-8")
    return unfinished.replace(path)
