"""What the results of all kinds of runs say about scores, as rows of a table.

protocol    splits: [{split, seed, fingerprint, val, test, best_epoch, epochs}, …]
search      val, test, best_epoch: lists with a value per split; seed: the first one's
model       val, test; or values: {val_score_, metric_, best_epoch_} of an estimator
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polynsd.runs.plain import compact

SCORES: dict[str, type] = {
    "split": int,
    "seed": int,
    "fingerprint": str,
    "val": float,
    "test": float,
    "best_epoch": int,
    "epochs": int,
}


def scores(result: Mapping[str, Any], fingerprints: Any = None) -> list[dict[str, Any]]:
    """One row per split; one row in all where there are no splits.

    Args:
        result: of a run.
        fingerprints: of the splits by number, for results that do not name them.
    """
    rows = [{key: typed(split.get(key), kind) for key, kind in SCORES.items()} for split in _splits(result)]
    if isinstance(fingerprints, list):
        known = dict(enumerate(fingerprints))
        for row in rows:
            row["fingerprint"] = row["fingerprint"] or typed(known.get(row["split"]), str)
    return rows


def common(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with the names that estimators use translated."""
    values = mapping(result.get("values"))
    own = {"val": "val_score_", "metric": "metric_", "best_epoch": "best_epoch_"}
    return {key: values[name] for key, name in own.items() if name in values} | dict(result)


def typed(value: Any, kind: type) -> Any:
    """The value if it is of its column's type, None otherwise: tables cannot hold surprises."""
    if kind is float and type(value) is int:
        return float(value) if abs(value) < 2**63 else None
    if type(value) is not kind or (isinstance(value, int) and abs(value) >= 2**63):
        return None
    return text(value) if kind is str else value


def text(value: Any) -> str | None:
    """Text that every table can hold: JSON and file names may contain halves of characters."""
    found = value if value is None or isinstance(value, str) else compact(value)
    return None if found is None else found.encode(errors="replace").decode()


def model_label(value: Any) -> str | None:
    """A label, or the name in a configuration."""
    return text(mapping(value).get("model", value))


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object."""
    return value if isinstance(value, dict) else {}


def _splits(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    splits, result = result.get("splits"), common(result)
    if isinstance(splits, list) and splits and all(isinstance(split, dict) for split in splits):
        return splits
    if not isinstance(result.get("test"), list) or not result["test"]:
        return [result]
    columns = {key: column for key, column in result.items() if isinstance(column, list) and key in SCORES}
    seed = typed(result.get("seed"), int)
    return [
        {key: column[i] for key, column in columns.items() if i < len(column)}
        | {"split": i, "seed": None if seed is None else seed + i}
        for i in range(len(result["test"]))
    ]
