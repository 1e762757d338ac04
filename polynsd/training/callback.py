"""`Callback`: the events of a training over splits, or of a search over trials.

A callback is a context manager; it overrides the methods it needs. The order of calls:

    begin(plan), resume(…)*, epoch(split, epoch)*, done(split, result)*, finish(result)
    begin_search(plan), trial(trial)*, finish(result)

`Callback.epoch` has the signature of `on_epoch` of `polynsd.training`. Splits may take turns, go in
lockstep or finish in any order; after a resume their epochs do not begin with the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from polynsd.config import SELECTIONS
from polynsd.errors import require_at_least, require_choice

if TYPE_CHECKING:
    from typing_extensions import Self

    from polynsd.training import Epoch, FitResult

TRIAL_STATES = ("complete", "pruned", "failed", "running")


@dataclass(frozen=True)
class ProtocolPlan:
    """What is going to be trained."""

    splits: tuple[str, ...]
    """Their names; events speak of them by position."""
    epochs: int | None
    """At most so many in each; None where nobody knows."""
    metric: str
    """accuracy, roc_auc, r2."""
    select: str = "metric"
    """What chooses the epoch, on validation: metric, loss, acc or auc."""
    patience: int | None = None
    """A split ends so many epochs after its best; None if only `done` tells."""
    title: str = ""
    """The graph and the model, say."""

    def __post_init__(self) -> None:
        require_choice("selection", self.select, SELECTIONS)
        if self.epochs is not None:
            require_at_least("epochs", self.epochs, 0)


@dataclass(frozen=True)
class TrialStatus:
    """One configuration of a search, when it starts (`running`) and when it ends."""

    number: int
    state: str
    """complete, pruned, failed or running."""
    value: float | None = None
    """Its validation score, where it has one."""
    params: Mapping[str, Any] = field(default_factory=dict)
    is_best: bool = False
    """Complete, and better than every trial before it."""

    def __post_init__(self) -> None:
        require_choice("state of a trial", self.state, TRIAL_STATES)


@dataclass(frozen=True)
class SearchPlan:
    """What is going to be searched."""

    trials: int | None
    """How many there will be in the end, the earlier ones included; None where nobody knows."""
    metric: str
    """accuracy, roc_auc, r2, or loss where the search is for the lowest loss."""
    earlier: tuple[TrialStatus, ...] = ()
    """Trials that the study has already, in their order."""
    title: str = ""
    """The graph and the space, say."""


class Callback:
    """Does nothing on every event; the base of all callbacks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def begin(self, plan: ProtocolPlan) -> None:
        """A protocol starts, or goes on."""

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        """The split goes on after epoch `last`; its best one so far was `best`."""

    def epoch(self, split: int, epoch: Epoch) -> None:
        """An epoch of a split is over. Called thousands of times per second."""

    def done(self, split: int, result: FitResult) -> None:
        """A split is over."""

    def begin_search(self, plan: SearchPlan) -> None:
        """A search starts, or goes on."""

    def trial(self, trial: TrialStatus) -> None:
        """A trial has started or ended."""

    def finish(self, result: Mapping[str, Any]) -> None:
        """All is over, and this came out."""


class CallbackList(Callback):
    """Passes every event on to several callbacks, in their order."""

    def __init__(self, *callbacks: Callback) -> None:
        self._all, self._stack = callbacks, ExitStack()
        # an epoch costs nothing for callbacks that do not override `epoch`
        self._epoch = [c.epoch for c in callbacks if type(c).epoch is not Callback.epoch]

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            for callback in self._all:
                entered.enter_context(callback)
            self._stack = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def begin(self, plan: ProtocolPlan) -> None:
        for callback in self._all:
            callback.begin(plan)

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        for callback in self._all:
            callback.resume(split, last, best)

    def epoch(self, split: int, epoch: Epoch) -> None:
        for tell in self._epoch:
            tell(split, epoch)

    def done(self, split: int, result: FitResult) -> None:
        for callback in self._all:
            callback.done(split, result)

    def begin_search(self, plan: SearchPlan) -> None:
        for callback in self._all:
            callback.begin_search(plan)

    def trial(self, trial: TrialStatus) -> None:
        for callback in self._all:
            callback.trial(trial)

    def finish(self, result: Mapping[str, Any]) -> None:
        for callback in self._all:
            callback.finish(result)
