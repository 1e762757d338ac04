"""Tables of cells that nobody has trained, with the columns of `polynsd_paper.records.summarize`."""

from zlib import crc32

import numpy as np
import pandas as pd
from scipy.stats import t as student

from polynsd.stats import compare_independent
from polynsd_paper.claims import CLAIMS
from polynsd_paper.records import records_table, summarize

BY_ID = {claim.id: claim for claim in CLAIMS}
NOTHING = summarize(records_table([]))


def invent_cell(
    experiment="leaderboard",
    dataset="cora",
    test=0.8,
    *,
    val=None,
    spread=0.01,
    own=1e-3,
    shape=(10, 1),
    **more,
):
    """Scores [splits, seeds] around a mean: the same noise in every cell, and a little of its own.

    The options of the cell come under `cell`, other columns by name.
    """
    options = more.pop("cell", {})
    noise = np.random.default_rng(crc32(repr((dataset, options)).encode())).normal(size=shape)
    scores = test + spread * np.random.default_rng(0).normal(size=shape) + own * noise
    means = scores.mean(1)
    return {
        "experiment": experiment,
        "dataset": dataset,
        "cell": str(options),
        **options,
        "val": test if val is None else val,
        "mean": scores.mean(),
        "std": means.std() if len(means) > 1 else scores.std(),
        "scores": scores,
        "split_numbers": tuple(range(len(scores))),
        "parameters": 100,
        "seconds": 1.0,
        "measured": {},
        "device": "cpu",
        "train_share": 0.48,
        "test_share": 0.2,
        "is_searched": True,
        "is_partial": False,
        "configuration": {},
        **more,
    }


def invent_comparison(low, high, graphs=10):
    """A comparison over independent graphs whose 95 % interval has these ends."""
    noise = np.linspace(-1, 1, graphs)
    reach = student.ppf(0.975, graphs - 1) * noise.std(ddof=1) / graphs**0.5
    return compare_independent((low + high) / 2 + (high - low) / 2 / reach * noise, np.zeros(graphs))


def raise_scores(row, amount):
    """The cell with other scores, of validation too."""
    return {
        **row,
        "scores": row["scores"] + amount,
        "mean": row["mean"] + amount,
        "val": row["val"] + amount,
    }


def as_table(rows):
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in columns})


def examine(claim_id, rows):
    """What a claim's check finds in these cells."""
    rows = list(rows)
    return BY_ID[claim_id].examine(as_table(rows) if rows else NOTHING)
