"""Where a protocol stands: plain numbers, cheap to update, from which any view can be drawn."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from polynsd.report.pace import Clock, Pace
from polynsd.training.callback import ProtocolPlan

if TYPE_CHECKING:
    from polynsd.training import Epoch, FitResult

WAITING, TRAINING, STOPPED, DONE = "waiting", "training", "stopped early", "done"
PHASES = (WAITING, TRAINING, STOPPED, DONE)


@dataclass(slots=True)
class SplitState:
    """One split; `seen` counts the epochs reported here, fewer than `epoch` after a resume."""

    name: str
    seen: int = 0
    last: Epoch | None = None
    best: Epoch | None = None
    result: FitResult | None = None

    @property
    def epoch(self) -> int:
        """How many epochs it has behind it."""
        if self.result is not None:
            return self.result.epochs
        return 0 if self.last is None else self.last.epoch

    @property
    def last_metric(self) -> float | None:
        """The latest validation metric."""
        return None if self.last is None else self.last.val_metric

    @property
    def best_metric(self) -> float | None:
        """The validation metric of the selected epoch."""
        if self.result is not None:
            return self.result.val_metric
        return None if self.best is None else self.best.val_metric

    @property
    def best_epoch(self) -> int | None:
        """The selected epoch."""
        if self.result is not None:
            return self.result.best_epoch
        return None if self.best is None else self.best.epoch


class ProtocolState:
    """All splits of a protocol, and the time they take."""

    def __init__(self, plan: ProtocolPlan, clock: Clock = time.monotonic) -> None:
        self.plan, self.pace = plan, Pace(clock)
        self.splits = [SplitState(name) for name in plan.splits]

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        """The split goes on after `last`."""
        state = self.splits[split]
        state.last, state.best = last, best

    def epoch(self, split: int, epoch: Epoch) -> None:
        """One more epoch."""
        state = self.splits[split]
        state.seen += 1
        state.last = epoch
        if epoch.is_best:
            state.best = epoch

    def done(self, split: int, result: FitResult) -> None:
        """The split is over."""
        self.splits[split].result = result

    def phase(self, split: SplitState) -> str:
        """waiting, training, stopped early or done."""
        epochs, patience, best = self.plan.epochs, self.plan.patience, split.best_epoch
        if epochs is not None and split.epoch >= epochs:
            return DONE
        if split.result is not None:
            return DONE if epochs is None else STOPPED
        if split.last is None:
            return WAITING
        # the rule of the trainer itself: so it is known at once, though `done` comes for all at the end
        lost = patience is not None and best is not None and split.epoch - best >= patience
        return STOPPED if lost else TRAINING

    def is_over(self, split: SplitState) -> bool:
        """Whether there will be no more epochs of it."""
        return self.phase(split) in (STOPPED, DONE)

    @property
    def phases(self) -> Counter[str]:
        """How many splits are in each phase."""
        return Counter(self.phase(split) for split in self.splits)

    @property
    def num_over(self) -> int:
        """Splits without epochs to come."""
        phases = self.phases
        return phases[STOPPED] + phases[DONE]

    @property
    def seen(self) -> int:
        """Epochs reported here, over all splits."""
        return sum(split.seen for split in self.splits)

    @property
    def remaining(self) -> int | None:
        """At most so many epochs are to come, over all splits; None where nobody knows."""
        if self.plan.epochs is None:
            return None if self.num_over < len(self.splits) else 0
        return sum(self.plan.epochs - split.epoch for split in self.splits if not self.is_over(split))

    @property
    def share(self) -> float | None:
        """The part of the work that is behind us, in [0, 1]."""
        if self.plan.epochs is None or self.remaining is None:
            return None
        total = len(self.splits) * self.plan.epochs
        return 1 - self.remaining / total if total else 1.0

    @property
    def mean_best(self) -> float | None:
        """Mean of the validation metric at the selected epochs, over the splits that have one."""
        best = [split.best_metric for split in self.splits]
        known = [value for value in best if value is not None]
        return fmean(known) if known else None

    @property
    def rate(self) -> float | None:
        """Epochs per second over all splits: of late while it goes, on the whole when it is over."""
        seen = self.seen
        return self.pace.rate(seen) if self.remaining != 0 else self.pace.mean(seen)

    @property
    def seconds_left(self) -> float | None:
        """At most so many, since splits may stop early."""
        return self.pace.left(self.remaining, self.seen)
