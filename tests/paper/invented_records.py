"""Records that nobody has trained."""

from typing import Any
from zlib import crc32

import numpy as np

from polynsd_paper.records import Record, Score, records_table, summarize

DEFAULTS = {
    "metric": "accuracy",
    "protocol": "geom-gcn",
    "features": "row",
    "rules": "paper",
    "ddof": 0,
    "configuration": {},
    "parameters": 12_345,
    "search": None,
    "seconds": 60.0,
    "device": "a machine",
    "commit": "0123abc",
    "sizes": {"train": 48, "val": 32, "test": 20},
}


def invent(
    experiment: str,
    dataset: str,
    cell: dict[str, Any],
    mean: float,
    std: float = 0.02,
    val: float | None = None,
    **more,
) -> Record:
    """Scores on ten splits whose mean and population std are those given.

    Validation is a little better than test, unless it is given.
    """
    noise = np.random.default_rng(crc32(f"{dataset} {cell}".encode())).standard_normal(10)
    tests = (mean + std * (noise - noise.mean()) / noise.std()).tolist()
    vals = [test + 0.01 if val is None else val for test in tests]
    scores = tuple(Score(i, i, *pair, 50, 250) for i, pair in enumerate(zip(vals, tests, strict=True)))
    return Record(experiment, dataset, cell, scores=scores, **{**DEFAULTS, **more})


def invent_search(trials: int, best: float, seed: int = 0) -> dict[str, Any]:
    """A search whose best value grows to `best`."""
    drawn = best - np.random.default_rng(seed).exponential(0.03, trials)
    drawn[trials // 2] = best
    so_far = np.maximum.accumulate(drawn).tolist()
    return {"trials": trials, "seconds": 600.0, "space": {}, "best_so_far": so_far}


def summary(*records: Record) -> Any:
    """A row per record, as tables and figures take them."""
    return summarize(records_table(records))


def scores_of(record: Record) -> Any:
    """[splits, seeds] test scores."""
    return summary(record)["scores"].iloc[0]
