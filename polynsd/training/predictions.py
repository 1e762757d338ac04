"""What the models of a protocol predict, as one table: a row per model and node."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from polynsd.data import Split
from polynsd.data.splits import PARTS
from polynsd.training.output import output_of
from polynsd.training.problem import Problem


def prediction_table(problem: Problem, models: Sequence[tuple[int, int, nn.Module]]) -> Any:
    """Split, seed, node, part and prediction of (split, seed, model)s; None without pandas and pyarrow."""
    if find_spec("pandas") is None or find_spec("pyarrow") is None:
        return None
    import pandas as pd

    tables = [_rows(problem, *one) for one in models]
    return pd.concat([pd.DataFrame(rows) for rows in tables], ignore_index=True)


@torch.no_grad()
def _rows(problem: Problem, split: int, seed: int, model: nn.Module) -> dict[str, Any]:
    output = output_of(model.eval(), problem.data)
    prediction = output.squeeze(-1) if problem.task.is_regression else output.argmax(-1)
    count = output.size(0)
    return {
        "split": [split] * count,
        "seed": [seed] * count,
        "node": range(count),
        "part": _parts(problem.splits[split]),
        "prediction": prediction.tolist(),
    }


def _parts(split: Split) -> list[str]:
    names = ["unused"] * split.train.numel()
    for part in PARTS:
        for node in getattr(split, part).nonzero().squeeze(-1).tolist():
            names[node] = part
    return names
