"""`ProtocolResult`: the scores of one configuration on all splits.

    result = fit_splits(problem, configuration)
    result.mean, result.std, result.val_mean

`ProtocolResult.from_dict(read_run("runs/texas").result)` is the result in a run folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean, pstdev, stdev
from typing import Any

from torch import nn


@dataclass(frozen=True)
class SplitResult:
    """The scores of one model on its split, at the epoch that validation selected."""

    split: int
    seed: int
    fingerprint: str
    """SHA-256 of the split's masks."""
    val: float
    val_loss: float
    test: float
    best_epoch: int
    epochs: int
    """How many were trained."""
    diverged: bool = False
    """Whether training ended because the loss was not finite; the scores are those of its best epoch."""
    train: float = math.nan
    """The metric on the training nodes, in evaluation mode; NaN in results of earlier versions."""
    train_loss: float = math.nan

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> SplitResult:
        """Reads a row of `ProtocolResult.to_dict`; null, which stands for NaN in files, becomes NaN."""
        values = {entry.name: row[entry.name] for entry in fields(cls) if entry.name in row}
        for name in ("val", "val_loss", "test", "train", "train_loss"):
            values[name] = math.nan if row.get(name) is None else float(row[name])
        return cls(**values)


@dataclass(frozen=True)
class ProtocolResult:
    """One row per split and seed, their mean ± std, and what was trained.

    Args:
        metric: accuracy, roc_auc or r2.
        rows: first all splits with their first seed, then with their second, and so on.
        ddof: of the standard deviation: 0 for the population's, usual in papers on these graphs; 1 for
            the sample's.
        about: the problem: dataset, protocol, features.
        model: the label of the model.
        config: the model's configuration as it was built.
        parameters: how many are trained.
        rules: the name of the training rules.
        select: what selected the epoch on validation.
        models: the fitted models in the order of `rows`; empty for a result that was read from a file.
        seconds: the time of training, over all sessions of a resumed run; None where it is not known.
    """

    metric: str
    rows: tuple[SplitResult, ...]
    ddof: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    parameters: int = 0
    rules: str = "default"
    select: str = "metric"
    models: tuple[nn.Module, ...] = field(default=(), compare=False, repr=False)
    seconds: float | None = field(default=None, compare=False)

    @property
    def tests(self) -> list[float]:
        return [row.test for row in self.rows]

    @property
    def mean(self) -> float:
        """Mean of the test metric."""
        return fmean(self.tests)

    @property
    def std(self) -> float:
        """Standard deviation of the test metric."""
        return stdev(self.tests) if self.ddof and len(self.rows) > 1 else pstdev(self.tests)

    @property
    def std_kind(self) -> str:
        return "sample" if self.ddof else "population"

    @property
    def val_mean(self) -> float:
        """Mean of the validation metric at the selected epochs."""
        return fmean(row.val for row in self.rows)

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.std:.1f}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `result.json` of a run folder holds it."""
        return {
            **self.about,
            "model": self.model,
            "config": dict(self.config),
            "parameters": self.parameters,
            "rules": self.rules,
            "metric": self.metric,
            "select": self.select,
            "mean": self.mean,
            "std": self.std,
            "std_kind": self.std_kind,
            "val_mean": self.val_mean,
            "splits": [asdict(row) for row in self.rows],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ProtocolResult:
        """The inverse of `to_dict`, without the models."""
        fields = ("model", "config", "parameters", "rules", "metric", "select")
        derived = ("mean", "std", "std_kind", "val_mean", "splits")
        return cls(
            rows=tuple(map(SplitResult.from_dict, plain["splits"])),
            ddof=int(plain["std_kind"] == "sample"),
            about={name: value for name, value in plain.items() if name not in (*fields, *derived)},
            **{name: plain[name] for name in fields},
        )
