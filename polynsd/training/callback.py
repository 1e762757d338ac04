"""`Callback`: the events of a training over splits, or of a search over trials.

A callback is a context manager; it overrides the methods it needs. The order of calls:

    begin(plan), resume(…)*, epoch(split, epoch)*, done(split, result)*, finish(result)
    begin_search(plan), trial(trial)*, finish(result)

`Callback.epoch` has the signature of `on_epoch` of `polynsd.training`. Splits may take turns, go in
lockstep or finish in any order; after a resume their epochs do not begin with the first.

`EventLog` turns events into JSON objects whose first key is `event`; a number that is not finite becomes
null.

| event | further keys |
|---|---|
| `begin` | `splits` (names), `epochs`, `metric`, `select`, `patience`, `title` |
| `resume` | `split`, `epoch`, `best_epoch`, `val_metric` (of the best) |
| `epoch` | `split`, `epoch`, `train_loss`, `val_loss`, `val_metric`, `is_best` |
| `done` | `split`, `epochs`, `best_epoch`, `val_metric`, `test_metric` |
| `search` | `trials`, `metric`, `earlier` (how many trials the study has already), `title` |
| `trial` | `number`, `state`, `value`, `params`, `best_number`, `best_so_far` |
| `result` | `result` (an object, its keys are those of the work's own result) |
| `failed` | `error` (its type, e.g. KeyboardInterrupt), `message` |

`split` is the position in `splits`, from 0 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from polynsd.config import SELECTIONS
from polynsd.errors import require_at_least, require_choice

if TYPE_CHECKING:
    from typing_extensions import Self

    from polynsd.training import Epoch, FitResult

Record = dict[str, Any]

EPOCH_KEYS = ("epoch", "train_loss", "val_loss", "val_metric", "is_best")
DONE_KEYS = ("epochs", "best_epoch", "val_metric", "test_metric")
TRIAL_KEYS = ("number", "state", "value", "params")
TRIAL_STATES = ("complete", "pruned", "failed", "running")


@dataclass(frozen=True)
class ProtocolPlan:
    """The splits and rules of a training that begins."""

    splits: tuple[str, ...]
    """Their names; events speak of them by position."""
    epochs: int | None
    """The most epochs of a split; None where it is not known."""
    metric: str
    """accuracy, roc_auc, r2."""
    select: str = "metric"
    """What chooses the epoch, on validation: metric, loss, acc or auc."""
    patience: int | None = None
    """A split ends so many epochs after its best; None where it is not known."""
    title: str = ""
    """For people: the graph and the model."""

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
    """The size and metric of a search that begins."""

    trials: int | None
    """How many there will be in the end, the earlier ones included; None where it is not known."""
    metric: str
    """accuracy, roc_auc, r2, or loss where the search is for the lowest loss."""
    earlier: tuple[TrialStatus, ...] = ()
    """Trials that the study has already, in their order."""
    title: str = ""
    """For people: the graph and the space."""


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
        """An epoch of a split has ended. Called thousands of times per second."""

    def done(self, split: int, result: FitResult) -> None:
        """A split has ended."""

    def begin_search(self, plan: SearchPlan) -> None:
        """A search starts, or goes on."""

    def trial(self, trial: TrialStatus) -> None:
        """A trial has started or ended."""

    def finish(self, result: Mapping[str, Any]) -> None:
        """The training or search has ended with this result."""


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
        for on_epoch in self._epoch:
            on_epoch(split, epoch)

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


class EventLog(Callback):
    """Passes every event as a JSON object to `write`, e.g. to the log of a run.

    Args:
        write: takes one object.
        every: only improvements and every so many epochs are passed on.
    """

    def __init__(self, write: Callable[[Record], object], every: int = 10) -> None:
        require_at_least("every", every, 1)
        self._write, self.every = write, every
        self._best: TrialStatus | None = None

    def _record(self, event: str, **content: Any) -> None:
        self._write({"event": event, **{key: _to_json(value) for key, value in content.items()}})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._record("failed", error=kind.__name__, message=str(error))

    def begin(self, plan: ProtocolPlan) -> None:
        self._record("begin", **asdict(plan))

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        self._record(
            "resume", split=split, epoch=last.epoch, best_epoch=best.epoch, val_metric=best.val_metric
        )

    def epoch(self, split: int, epoch: Epoch) -> None:
        if epoch.is_best or epoch.epoch % self.every == 0:
            self._record("epoch", split=split, **_select(epoch, EPOCH_KEYS))

    def done(self, split: int, result: FitResult) -> None:
        self._record("done", split=split, **_select(result, DONE_KEYS))

    def begin_search(self, plan: SearchPlan) -> None:
        best = [trial for trial in plan.earlier if trial.is_best]
        self._best = best[-1] if best else None
        earlier = len(plan.earlier)
        self._record("search", trials=plan.trials, metric=plan.metric, earlier=earlier, title=plan.title)

    def trial(self, trial: TrialStatus) -> None:
        self._best = trial if trial.is_best else self._best
        number, value = (None, None) if self._best is None else (self._best.number, self._best.value)
        self._record("trial", **_select(trial, TRIAL_KEYS), best_number=number, best_so_far=value)

    def finish(self, result: Mapping[str, Any]) -> None:
        self._record("result", result=result)


def _select(source: object, keys: tuple[str, ...]) -> Record:
    return {key: getattr(source, key) for key in keys}


def _to_json(value: Any) -> Any:
    """The value as JSON can hold it: lists for tuples, null for NaN and infinity, text for anything else."""
    if isinstance(value, Mapping):
        return {str(key): _to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(entry) for entry in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
