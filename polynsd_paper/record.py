"""What is known of a cell once it is trained: one YAML file, from which all tables and figures are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, pstdev, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import DataError
from polynsd.runs.files import make_folder, write_durably
from polynsd.search.optional import yaml

FIRST = "first"  # of the splits; in the question of a record that does not have them all


class Shares(NamedTuple):
    """Of the nodes of a split."""

    train: float
    test: float


class Score(NamedTuple):
    """One model: on which split, with which seed, and what it reached. Metrics are fractions."""

    split: int
    seed: int
    val: float
    test: float
    best_epoch: int
    epochs: int


@dataclass(frozen=True)
class Record:
    """A cell: the question, the configuration that answers it, and its scores.

    Args:
        experiment: its name.
        dataset: its name.
        cell: the options that name the cell, e.g. `{"model": "gcn"}` or `{"maps": "general", "K": 4}`.
        metric: accuracy, roc_auc or r2.
        protocol: the rule of the splits.
        features: the rule of the features.
        rules: the training rules.
        ddof: of the standard deviation: 0 the population's, 1 the sample's.
        configuration: `{model: …, training: …}`.
        parameters: number of them.
        scores: one per split and seed, from seeds that no search has seen.
        search: None where nothing was searched; else space, trials, seconds and the best validation
            after each trial.
        seconds: of the training of the scores.
        device: what it ran on.
        commit: of the code.
        sizes: nodes to train, validate and test on, in the mean over splits.
        question: what the cell asked when it was trained (`question.py`), and under `first` how many splits
            there are if not all.
    """

    experiment: str
    dataset: str
    cell: Mapping[str, Any]
    metric: str
    protocol: str
    features: str
    rules: str
    ddof: int
    configuration: Mapping[str, Any]
    parameters: int
    scores: tuple[Score, ...]
    search: Mapping[str, Any] | None
    seconds: float
    device: str
    commit: str
    sizes: Mapping[str, float] = field(default_factory=dict)
    question: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether it has some of the splits only, and is no match for one that has all."""
        return FIRST in self.question

    @property
    def shares(self) -> Shares | None:
        """How much of its nodes a split trains and tests on; None where the record does not say."""
        total = sum(self.sizes.values())
        return Shares(self.sizes["train"] / total, self.sizes["test"] / total) if total else None

    @property
    def mean(self) -> float:
        """Of the test metric over splits and seeds."""
        return fmean(score.test for score in self.scores)

    @property
    def validation(self) -> float:
        """The same of the validation metric. Unlike that of the search, whose greatest value is partly luck,
        it is from trainings that nothing was chosen by, so it may choose between records.
        """
        return fmean(score.val for score in self.scores)

    @property
    def std(self) -> float:
        """Over the splits, of the means over seeds: what the literature calls the standard deviation.

        Of a single split it is that over the seeds, and NaN where there is but one score.
        """
        scores = self.by_split()
        values = (scores.mean(axis=1) if len(scores) > 1 else scores[0]).tolist()
        if len(values) < 2:
            return math.nan
        return stdev(values) if self.ddof else pstdev(values)

    def by_split(self, what: str = "test") -> NDArray[np.float64]:
        """[splits, seeds] scores."""
        rows: dict[int, list[float]] = {}
        for score in sorted(self.scores):
            rows.setdefault(score.split, []).append(getattr(score, what))
        return np.array(list(rows.values()))

    def row(self) -> dict[str, Any]:
        """The tidy row of a table."""
        splits, seeds = self.by_split().shape
        search = self.search or {}
        return {
            "dataset": self.dataset,
            **self.cell,
            "metric": self.metric,
            "mean": round(self.mean, 6),
            "std": None if math.isnan(self.std) else round(self.std, 6),
            "val_mean": round(self.validation, 6),
            "splits": splits,
            "is_partial": self.is_partial,
            "seeds": seeds,
            "trials": search.get("trials", 0),
            "search_seconds": search.get("seconds", 0.0),
            "train_seconds": self.seconds,
            "parameters": self.parameters,
            "protocol": self.protocol,
            "features": self.features,
            "device": self.device,
            "commit": self.commit,
        }

    def save(self, path: Path) -> None:
        """Writes the file, all or nothing."""
        make_folder(path.parent)
        plain = asdict(self) | {"cell": dict(self.cell), "scores": [list(score) for score in self.scores]}
        text = yaml().safe_dump(
            plain, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
        )
        write_durably(path, text.encode())


def read_record(path: Path) -> Record:
    """Reads the file back."""
    try:
        plain = yaml().load(path.read_text(encoding="utf-8"), _loader())
        scores = tuple(Score(*score) for score in plain.pop("scores"))
        return Record(**plain, scores=scores)
    except (TypeError, AttributeError, KeyError, ValueError, yaml().YAMLError) as error:
        raise DataError(
            f"{path} is no record of an experiment ({error}); move it away to train it again."
        ) from error


def _loader() -> Any:
    """The safe one, compiled where there is one: it reads hundreds of records in a second."""
    return getattr(yaml(), "CSafeLoader", yaml().SafeLoader)


def read_records(folder: Path) -> list[Record]:
    """All records below a folder, in the order of their names."""
    return [read_record(path) for path in sorted(folder.glob("*/*.yaml"))]
