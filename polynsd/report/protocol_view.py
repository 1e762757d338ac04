"""`ProtocolView`: the splits of a protocol while they train."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from polynsd.report.output import score_name, score_text, score_with_unit
from polynsd.report.progress import LiveView, one_line
from polynsd.training.callback import ProtocolPlan

if TYPE_CHECKING:
    from polynsd.training import Epoch, FitResult

WAITING, TRAINING, STOPPED, DONE = "waiting", "training", "stopped early", "done"
STYLES = {WAITING: "dim", TRAINING: "cyan", STOPPED: "yellow", DONE: "green"}
MAX_ROWS = 20  # with more splits their least, median and greatest values are shown instead
FRAME_LINES = 6  # above and below the rows, and the cursor's
SUMMARIES: dict[str, Callable[[list[Any]], float]] = {"least": min, "median": median, "greatest": max}


@dataclass(slots=True)
class SplitState:
    """One split; `seen` counts the epochs reported here, fewer than `epoch` after a resume."""

    name: str
    seen: int = 0
    epoch: int = 0
    last_metric: float | None = None
    best_metric: float | None = None
    best_epoch: int | None = None
    has_result: bool = False


class ProtocolState:
    """Where all splits of a protocol are: numbers that are cheap to update."""

    def __init__(self, plan: ProtocolPlan) -> None:
        self.plan = plan
        self.splits = [SplitState(name) for name in plan.splits]

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        state = self.splits[split]
        state.epoch, state.last_metric = last.epoch, last.val_metric
        state.best_epoch, state.best_metric = best.epoch, best.val_metric

    def epoch(self, split: int, epoch: Epoch) -> None:
        state = self.splits[split]
        state.seen += 1
        state.epoch, state.last_metric = epoch.epoch, epoch.val_metric
        if epoch.is_best:
            state.best_epoch, state.best_metric = epoch.epoch, epoch.val_metric

    def done(self, split: int, result: FitResult) -> None:
        state = self.splits[split]
        state.has_result, state.epoch = True, result.epochs
        state.best_epoch, state.best_metric = result.best_epoch, result.val_metric

    def phase(self, split: SplitState) -> str:
        """waiting, training, stopped early or done."""
        epochs, patience = self.plan.epochs, self.plan.patience
        if epochs is not None and split.epoch >= epochs:
            return DONE
        if split.has_result:
            return DONE if epochs is None else STOPPED
        if split.last_metric is None:
            return WAITING
        # the trainer's rule of early stopping: replicas report `done` only when all of them have ended
        best = split.epoch if split.best_epoch is None else split.best_epoch
        return STOPPED if patience is not None and split.epoch - best >= patience else TRAINING

    def is_over(self, split: SplitState) -> bool:
        """Whether it has no more epochs to come."""
        return self.phase(split) in (STOPPED, DONE)

    @property
    def phases(self) -> Counter[str]:
        """How many splits are in each phase."""
        return Counter(self.phase(split) for split in self.splits)

    @property
    def num_over(self) -> int:
        return sum(self.is_over(split) for split in self.splits)

    @property
    def seen(self) -> int:
        """Epochs reported here, over all splits."""
        return sum(split.seen for split in self.splits)

    @property
    def remaining(self) -> int | None:
        """At most so many epochs are to come, over all splits; None where it is unknown."""
        if self.plan.epochs is None:
            return None if self.num_over < len(self.splits) else 0
        return sum(self.plan.epochs - split.epoch for split in self.splits if not self.is_over(split))

    @property
    def share(self) -> float | None:
        """The part of the work that is done, in [0, 1]."""
        if self.plan.epochs is None or self.remaining is None:
            return None
        total = len(self.splits) * self.plan.epochs
        return 1 - self.remaining / total if total else 1.0

    @property
    def mean_best(self) -> float | None:
        """Mean of the validation metric at the selected epochs, over the splits that have one."""
        values = [split.best_metric for split in self.splits if split.best_metric is not None]
        return fmean(values) if values else None


class _NameColumn(ProgressColumn):
    """The only column that is cut on a narrow screen."""

    def render(self, task: Task) -> Text:
        return one_line(task.description)


class ProtocolView(LiveView):
    """A bar per split with its epoch, its last and best validation score; below them rate and time left."""

    unit = "epochs"
    state: ProtocolState

    def begin(self, plan: ProtocolPlan) -> None:
        """Opens the view; one that is open already is closed first."""
        right = partial(Column, justify="right", no_wrap=True)
        display = self.make_display(
            _NameColumn(table_column=Column("split", max_width=24)),
            BarColumn(
                None,
                complete_style="cyan",
                finished_style="green",
                table_column=Column("", ratio=1, min_width=6),
            ),
            MofNCompleteColumn(table_column=right("epoch")),
            *(
                TextColumn(f"{{task.fields[{name}]}}", justify="right", table_column=right(name))
                for name in ("last", "best", "at")
            ),
            TextColumn("{task.fields[phase]}", table_column=Column("", min_width=len(STOPPED), no_wrap=True)),
        )
        self.state = ProtocolState(plan)
        is_short = len(plan.splits) <= min(MAX_ROWS, self.console.height - FRAME_LINES)
        for name in plan.splits if is_short else SUMMARIES:
            display.add_task(name, total=plan.epochs, last="", best="", at="", phase="")
        epochs = "epochs" if plan.epochs is None else f"at most {plan.epochs:,} epochs each"
        chosen = {"metric": plan.metric, "acc": "accuracy", "auc": "roc_auc"}.get(plan.select, plan.select)
        about = f"{plan.title}: " if plan.title else ""
        self.start(f"{about}{_count_splits(len(plan.splits))}, {epochs}, chosen by validation {chosen}")

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        self.state.resume(split, last, best)

    def epoch(self, split: int, epoch: Epoch) -> None:
        self.state.epoch(split, epoch)
        self.print_when_due()

    def done(self, split: int, result: FitResult) -> None:
        self.state.done(split, result)

    @property
    def seen(self) -> int:
        return self.state.seen

    @property
    def remaining(self) -> int | None:
        return self.state.remaining

    def draw(self) -> Iterable[RenderableType]:
        """Title, a row per split, and two lines below them."""
        assert self._display is not None
        self._update_bars(self._display)
        table = self._display.make_tasks_table(self._display.tasks)
        table.box, table.show_header, table.show_edge = SIMPLE_HEAD, True, False
        plan, phases = self.state.plan, self.state.phases
        chosen = "loss" if plan.select == "loss" else plan.metric
        title = f"validation {score_name(plan.metric)}, epoch chosen by {chosen}"
        counts = [f"{phases[phase]} {phase}" for phase in STYLES if phases[phase]]
        best = f"mean of best {score_with_unit(plan.metric, self.state.mean_best)}"
        return (
            one_line(f" {plan.title}: {title}" if plan.title else f" {title}", "bold"),
            table,
            one_line(f" {best} · {', '.join(counts)}" if counts else f" {best}", "dim"),
            one_line(f" {self.time_text('at most')}", "dim"),
        )

    def _update_bars(self, display: Progress) -> None:
        """Shows the splits, or three summaries of all of them where they would not fit."""
        splits, metric, tasks = self.state.splits, self.state.plan.metric, display.tasks[1:]
        if len(tasks) == len(splits):
            rows = [(s.epoch, s.last_metric, s.best_metric, s.best_epoch) for s in splits]
            names = [self.state.phase(split) for split in splits]
            phases = [f"[{STYLES[name]}]{name}[/]" for name in names]
        else:
            columns = [
                [value for split in splits if (value := getattr(split, name)) is not None]
                for name in ("epoch", "last_metric", "best_metric", "best_epoch")
            ]
            rows = [tuple(pick(c) if c else None for c in columns) for pick in SUMMARIES.values()]  # type: ignore[misc]
            phases = [f"[dim]of {len(splits)}[/]"] * len(SUMMARIES)
        for task, (epoch, last, best, at), phase in zip(tasks, rows, phases, strict=True):
            display.update(
                task.id,
                completed=int(epoch or 0),
                last=score_text(metric, last),
                best=score_text(metric, best),
                at="–" if at is None else f"{at:.0f}",
                phase=phase,
            )

    def line(self) -> str:
        """Splits done, mean of the best scores, rate and time left."""
        state, metric = self.state, self.state.plan.metric
        share = "" if state.share is None else f"{math.floor(100 * state.share):3d} %  "
        best = f"mean of best validation {metric} {score_with_unit(metric, state.mean_best)}"
        over = f"{state.num_over} of {_count_splits(len(state.splits))} done"
        return f"{share}{over}, {best} ({self.time_text('at most')})"


def _count_splits(count: int) -> str:
    return "1 split" if count == 1 else f"{count} splits"
