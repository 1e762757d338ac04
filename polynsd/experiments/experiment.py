"""An experiment as data: cells, each of them one configuration over all splits of one dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polynsd.search.options import Configuration


@dataclass(frozen=True)
class Cell:
    """One number of a table."""

    dataset: str
    options: Mapping[str, Any]
    """What distinguishes it from the other cells of the dataset, e.g. maps and K."""
    configuration: Configuration
    rules: str
    """The training rules that it follows."""

    @property
    def folder(self) -> Path:
        """Its run, below that of the experiment."""
        return Path(self.dataset, "-".join(f"{name}={value}" for name, value in self.options.items()))

    def __str__(self) -> str:
        return ", ".join([self.dataset, *(f"{name} {value}" for name, value in self.options.items())])


@dataclass(frozen=True)
class Experiment:
    """A table of the paper."""

    name: str
    title: str
    protocol: str
    datasets: tuple[str, ...]
    axes: Mapping[str, tuple[Any, ...]]
    """What is varied, and its values."""
    configure: Callable[..., Cell]
    """(dataset, **axes) → cell."""

    def cells(self, datasets: tuple[str, ...], axes: Mapping[str, tuple[Any, ...]]) -> list[Cell]:
        """All combinations, the datasets outermost."""
        combinations: list[dict[str, Any]] = [{}]
        for name, values in axes.items():
            combinations = [{**one, name: value} for one in combinations for value in values]
        return [self.configure(dataset, **one) for dataset in datasets for one in combinations]
