"""What is known of a cell once it is trained: one YAML file, from which all tables and figures are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, pstdev, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import DataError
from polynsd.runs.durable import make_folder, write_durably
from polynsd.search.optional import yaml


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

    @property
    def mean(self) -> float:
        """Of the test metric over splits and seeds."""
        return fmean(score.test for score in self.scores)

    @property
    def std(self) -> float:
        """Over the splits, of the means over seeds: what the literature calls the standard deviation."""
        means = self.by_split().mean(axis=1).tolist()
        if len(means) < 2:
            return 0.0
        return stdev(means) if self.ddof else pstdev(means)

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
            "std": round(self.std, 6),
            "val_mean": round(fmean(score.val for score in self.scores), 6),
            "splits": splits,
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
