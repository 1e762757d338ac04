"""Events as plain records: lines of JSON for machines, or the log of a run.

Every record is a JSON object whose first key is `event`; numbers that are not finite become null.

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

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from polynsd.errors import require_at_least
from polynsd.training.callback import Callback, ProtocolPlan, SearchPlan, TrialStatus

if TYPE_CHECKING:
    from polynsd.training import Epoch, FitResult

Record = dict[str, Any]

EPOCH_KEYS = ("epoch", "train_loss", "val_loss", "val_metric", "is_best")
DONE_KEYS = ("epochs", "best_epoch", "val_metric", "test_metric")
TRIAL_KEYS = ("number", "state", "value", "params")


class Records(Callback):
    """Passes every event as a record to `write`, e.g. to the log of a run.

    Args:
        write: takes one record.
        every: epochs are thinned: the improvements and every so manieth one.
    """

    def __init__(self, write: Callable[[Record], object], every: int = 10) -> None:
        require_at_least("every", every, 1)
        self._write, self.every = write, every
        self._best: TrialStatus | None = None

    def _tell(self, event: str, **content: Any) -> None:
        self._write({"event": event, **{key: plain(value) for key, value in content.items()}})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._tell("failed", error=kind.__name__, message=str(error))

    def begin(self, plan: ProtocolPlan) -> None:
        """`begin`"""
        self._tell("begin", **asdict(plan))

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        """`resume`"""
        self._tell("resume", split=split, epoch=last.epoch, best_epoch=best.epoch, val_metric=best.val_metric)

    def epoch(self, split: int, epoch: Epoch) -> None:
        """`epoch`, of those that are told"""
        if epoch.is_best or epoch.epoch % self.every == 0:
            self._tell("epoch", split=split, **_chosen(epoch, EPOCH_KEYS))

    def done(self, split: int, result: FitResult) -> None:
        """`done`"""
        self._tell("done", split=split, **_chosen(result, DONE_KEYS))

    def begin_search(self, plan: SearchPlan) -> None:
        """`search`"""
        best = [trial for trial in plan.earlier if trial.is_best]
        self._best = best[-1] if best else None
        earlier = len(plan.earlier)
        self._tell("search", trials=plan.trials, metric=plan.metric, earlier=earlier, title=plan.title)

    def trial(self, trial: TrialStatus) -> None:
        """`trial`"""
        self._best = trial if trial.is_best else self._best
        number, value = (None, None) if self._best is None else (self._best.number, self._best.value)
        self._tell("trial", **_chosen(trial, TRIAL_KEYS), best_number=number, best_so_far=value)

    def finish(self, result: Mapping[str, Any]) -> None:
        """`result`"""
        self._tell("result", result=result)


class JsonLines(Records):
    """One JSON object per event and line, on standard output unless told otherwise."""

    def __init__(self, stream: TextIO | None = None, every: int = 10) -> None:
        super().__init__(self._print, every)
        self._stream = stream

    def _print(self, record: Record) -> None:
        stream = sys.stdout if self._stream is None else self._stream
        stream.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
        stream.flush()  # whoever reads it wants it now


def _chosen(source: object, keys: tuple[str, ...]) -> Record:
    return {key: getattr(source, key) for key in keys}


def plain(value: Any) -> Any:
    """The value as JSON has it: no tuples, no infinities, and names for what it does not know."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
