"""An experiment as data: cells, each of them one number of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from polynsd.errors import ConfigError, require_at_least
from polynsd.published import PUBLISHED_LAYER, PUBLISHED_MODEL, PUBLISHED_ODE, PUBLISHED_TRAINING
from polynsd.search.space import Fixed, Space
from polynsd.training.configuration import Configuration, dotted
from polynsd.training.problem import Problem
from polynsd.training.source import Source

Measure = Callable[[Problem, Sequence[nn.Module]], Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Budget:
    """What a search may spend on one cell; the same for all cells of a dataset, whatever the model."""

    trials: int = 64
    """The greatest number of configurations."""
    seconds: float = 60.0
    """No configuration is begun after so many seconds."""
    splits: int = 3
    """A trial's value is the mean validation over the first so many splits."""
    screen: int = 0
    """Train on so many of these first, and on the rest only what is not below the median there."""
    finalists: int = 3
    """The best so many are trained again on other splits with other seeds, where validation decides."""
    run_off: int = 0
    """The finalists are trained on so many other splits at most; 0: on all others."""
    batch: int = 16
    """Trials of one shape that train together; they differ in degree, dropout, rates and decays."""
    starts: float = 0.25
    """The share of trials that given starts may take, four trials each."""


@dataclass(frozen=True)
class Matched:
    """The configuration that another cell of the experiment chose, with identity maps: its control.

    Nothing else changes: the filter, the block, sizes, rates, dropout and epochs are the winner's.
    """

    winner: Cell

    @staticmethod
    def control_of(configuration: Configuration) -> Configuration:
        """The configuration with identity maps; edge weights belong to the learner of maps."""
        model, training = configuration
        layer = replace(model.layer, maps="identity", edge_weights=False)
        return Configuration(replace(model, layer=layer), training)


class Trained(NamedTuple):
    """What one training of a procedure came to."""

    val: float
    test: float
    best: int  # the epoch or round that validation chose
    steps: int  # epochs or rounds
    parameters: int
    seconds: float
    about: Mapping[str, str]  # metric, protocol, features
    sizes: Mapping[str, float]  # how many nodes it trains, validates and tests on
    measured: Mapping[str, float]


class Procedure(ABC):
    """A training that `fit_splits` does not do, such as one over clients; its splits are numbered seeds."""

    splits: int
    """The number of splits."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that decides what is trained, as plain data; a record holds it as its configuration."""

    @abstractmethod
    def complete(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a record with the defaults of options that did not exist when it was made."""

    @abstractmethod
    def shortened(self) -> Procedure:
        """The same in a moment, for a look at times and shapes."""

    @abstractmethod
    def train(
        self, source: Source, splits: Sequence[int], on_step: Callable[[str], None]
    ) -> Iterator[Trained]:
        """The trainings of some splits on the source's device, in their order."""


Plan = Configuration | Space | Procedure | Matched


@dataclass(frozen=True)
class Cell:
    """One number of a table: a dataset, what distinguishes the cell there, and what is to be trained."""

    dataset: str
    options: Mapping[str, Any]
    plan: Plan
    """What is trained; a space is searched first, as `published_space` completes it."""
    rules: str = "default"
    """The name of the training rules."""
    sources: tuple[Source, ...] = ()
    """The graphs; the dataset under the experiment's protocol unless given."""
    starts: tuple[Mapping[str, Any], ...] = ()
    """Shapes that a search begins with."""
    measure: Measure | None = None
    """What else is told of the trained models: by name, a number per model."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return "-".join(_words(name, value) for name, value in self.options.items())

    @property
    def path(self) -> Path:
        """Its record, below the folder of the experiment."""
        return Path(self.dataset, f"{self.name}.yaml")

    def __str__(self) -> str:
        return ", ".join([self.dataset, *(_words(name, value) for name, value in self.options.items())])


def cell_text(options: Mapping[str, Any]) -> str:
    """`maps=diagonal;K=4`"""
    return ";".join(f"{name}={value}" for name, value in options.items())


def _words(name: str, value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{name}={value}"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    protocol: str
    datasets: tuple[str, ...]
    axes: Mapping[str, tuple[Any, ...]]
    """What is varied, and its values."""
    configure: Callable[..., Cell | None]
    """(dataset, **axes) → cell, or None where there is no such cell."""
    seeds: int = 3
    """Models per split."""
    ddof: int = 0
    """Of the standard deviation over splits: 0 for the population's, 1 for the sample's."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """What a search may spend, by dataset; `Budget()` for others."""
    minutes: str = ""
    """How long it takes, and on what; said by --list."""
    paper: str = ""
    """What the paper calls it; empty where the paper has no such table."""
    report: str = ""
    """`module:function` that makes figures and a section of the page from what its cells measured."""
    is_scored: bool = True
    """Whether the scores of its models are results; otherwise the page has what was measured alone."""
    fast_datasets: tuple[str, ...] = ()
    """The datasets of --fast; its own unless given."""
    fast_axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """What --fast varies; what the experiment does unless given."""

    def cells(
        self, datasets: tuple[str, ...] = (), axes: Mapping[str, tuple[Any, ...]] | None = None
    ) -> list[Cell]:
        """All combinations, the datasets outermost."""
        combinations: list[dict[str, Any]] = [{}]
        for name, values in {**self.axes, **(axes or {})}.items():
            combinations = [{**options, name: value} for options in combinations for value in values]
        cells = [
            self.configure(dataset, **options)
            for dataset in datasets or self.datasets
            for options in combinations
        ]
        return [cell for cell in cells if cell is not None]

    def sources(self, cell: Cell) -> tuple[Source, ...]:
        """The graphs of a cell: its own, or the dataset under the experiment's protocol."""
        return cell.sources or (Source(cell.dataset, protocol=self.protocol),)

    def budget(self, dataset: str) -> Budget:
        """What a search on this dataset may spend."""
        return self.budgets.get(dataset, Budget())


_PUBLISHED = {
    name: Fixed(value)
    for name, value in {
        **dotted("model", PUBLISHED_MODEL),
        **dotted("model.layer", PUBLISHED_LAYER),
        **dotted("model.ode", PUBLISHED_ODE),
        **dotted("training", PUBLISHED_TRAINING),
    }.items()
}


def published_space(space: Space) -> Space:
    """The space with the published value of every option that it does not name, whatever the default is."""
    return replace(space, rules={**_PUBLISHED, **space.rules})


FAST_EPOCHS = 30
FAST = Budget(trials=2, seconds=20.0, splits=1, finalists=1, batch=2)


def fast(experiment: Experiment) -> Experiment:
    """A few epochs and trials, one seed, files of its own: a look at times and shapes, not at results."""

    def configure(dataset: str, **axes: Any) -> Cell | None:
        cell = experiment.configure(dataset, **axes)
        return None if cell is None else replace(cell, plan=_shortened(cell.plan))

    return replace(
        experiment,
        name=f"{experiment.name}-fast",
        configure=configure,
        seeds=1,
        datasets=experiment.fast_datasets or experiment.datasets,
        axes=experiment.fast_axes or experiment.axes,
        budgets=dict.fromkeys(experiment.datasets, FAST),
    )


def with_budget(experiment: Experiment, trials: int | None, seconds: float | None) -> Experiment:
    """Searches may spend so much on every cell; what is None stays as it is."""
    changes: dict[str, Any] = {}
    if trials is not None:
        require_at_least("trials", trials, 1)
        changes["trials"] = trials
    if seconds is not None:
        if not seconds > 0:
            raise ConfigError(f"seconds must be greater than 0; got {seconds!r}.")
        changes["seconds"] = seconds
    budgets = {name: replace(experiment.budget(name), **changes) for name in experiment.datasets}
    return replace(experiment, budgets=budgets)


def _shortened(plan: Plan) -> Plan:
    if isinstance(plan, Procedure):
        return plan.shortened()
    if isinstance(plan, Matched):
        return Matched(replace(plan.winner, plan=_shortened(plan.winner.plan)))
    if isinstance(plan, Space):
        short = {"training.epochs": FAST_EPOCHS, "training.patience": FAST_EPOCHS}
        return replace(plan, rules={**plan.rules, **{name: Fixed(value) for name, value in short.items()}})
    epochs = min(FAST_EPOCHS, plan.training.epochs)
    return Configuration(plan.model, replace(plan.training, epochs=epochs, patience=epochs))
