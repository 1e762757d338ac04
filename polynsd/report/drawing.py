"""The states of a protocol and of a search as Rich draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median
from typing import TYPE_CHECKING, Any

from polynsd.report.pace import clock_text, rate_text, score_name, score_text, score_with_unit
from polynsd.report.protocol_state import DONE, PHASES, STOPPED, TRAINING, WAITING, ProtocolState, SplitState
from polynsd.report.search_state import SearchState, sparkline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

MOST_ROWS = 20  # with more splits their least, median and greatest values are shown instead
FRAME_LINES = 6  # above and below the rows, and the cursor's
STYLES = {WAITING: "dim", TRAINING: "cyan", STOPPED: "yellow", DONE: "green"}


def draw_protocol(state: ProtocolState, height: int = MOST_ROWS + FRAME_LINES) -> RenderableType:
    """A row per split, or three for all of them where they would not fit into `height` lines."""
    from rich.console import Group

    table = _table(state)
    if len(state.splits) <= min(MOST_ROWS, height - FRAME_LINES):
        for split in state.splits:
            _add_split(table, state, split)
    else:
        for name, pick in (("least", min), ("median", median), ("greatest", max)):
            _add_summary(table, state, name, pick)
    return Group(table, *(_short(f" {line}", style="dim") for line in _footer(state)))


def _table(state: ProtocolState) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = _short(f" {_title(state)}", style="bold")
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", expand=True, show_edge=False)
    table.add_column("split", max_width=24)  # the only one that may be cut
    table.add_column("", ratio=1, min_width=6)
    for name in ("epoch", "last", "best", "at"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=len(STOPPED))
    return table


def _title(state: ProtocolState) -> str:
    plan = state.plan
    chosen = "loss" if plan.select == "loss" else plan.metric
    about = f"validation {score_name(plan.metric)}, epoch chosen by {chosen}"
    return f"{plan.title}: {about}" if plan.title else about


def _add_split(table: Table, state: ProtocolState, split: SplitState) -> None:
    phase, metric = state.phase(split), state.plan.metric
    table.add_row(
        _short(split.name),
        _bar(split.epoch, state.plan.epochs, over=state.is_over(split), style=STYLES[phase]),
        _of(split.epoch, state.plan.epochs),
        score_text(metric, split.last_metric),
        score_text(metric, split.best_metric),
        "–" if split.best_epoch is None else str(split.best_epoch),
        f"[{STYLES[phase]}]{phase}[/]",
    )


def _add_summary(table: Table, state: ProtocolState, name: str, pick: Callable[[list[Any]], float]) -> None:
    def over(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return pick(known) if known else None

    metric, splits = state.plan.metric, state.splits
    epoch, at = over(s.epoch for s in splits), over(s.best_epoch for s in splits)
    table.add_row(
        name,
        _bar(int(epoch or 0), state.plan.epochs, over=state.num_over == len(splits), style=STYLES[TRAINING]),
        _of(int(epoch or 0), state.plan.epochs),
        score_text(metric, over(s.last_metric for s in splits)),
        score_text(metric, over(s.best_metric for s in splits)),
        "–" if at is None else f"{at:.0f}",
        f"[dim]of {len(splits)}[/]",
    )


def _of(count: int, total: int | None) -> str:
    return f"{count:,}" if total is None else f"{count:,}/{total:,}"


def _bar(count: int, total: int | None, *, over: bool, style: str) -> RenderableType:
    """Full length is all epochs; where nobody knows how many, it is empty until the end."""
    from rich.progress_bar import ProgressBar

    if not total:
        count, total = int(over), 1
    return ProgressBar(
        total=total, completed=count, style="grey30", complete_style=style, finished_style=style
    )


def _footer(state: ProtocolState) -> list[str]:
    phases = state.phases
    counts = ", ".join(f"{phases[phase]} {phase}" for phase in PHASES if phases[phase])
    best = f"mean of best {score_with_unit(state.plan.metric, state.mean_best)}"
    return [f"{best} · {counts}" if counts else best, protocol_pace(state)]


def protocol_pace(state: ProtocolState) -> str:
    """`4,210 epochs/s · 0:00:12 · at most 0:01:03 left`"""
    words = [rate_text(state.rate, "epochs"), f"{clock_text(state.pace.elapsed)} elapsed"]
    left = state.seconds_left
    if left is not None and state.remaining:
        words.append(f"at most {clock_text(left)} left")
    return " · ".join(words)


def draw_search(state: SearchState, width: int = 80) -> RenderableType:
    """Trials so far, the best of them with its parameters, and how the best value grew."""
    from rich.console import Group
    from rich.table import Table

    plan = state.plan
    about = f"{plan.title}: " if plan.title else ""
    bar = Table.grid(expand=True)  # a line of its own for the bar, which does not end one
    bar.add_row(_bar(state.ended, plan.trials, over=False, style="cyan"))
    return Group(
        _short(f"{about}search by validation {plan.metric}", style="bold"),
        bar,
        _short(search_counts(state)),
        *_best(state, width),
        _short(search_pace(state), style="dim"),
    )


def _best(state: SearchState, width: int) -> list[RenderableType]:
    from rich.columns import Columns
    from rich.text import Text

    if state.best is None:
        return [_short("no trial is complete yet", style="dim")]
    value = score_with_unit(state.plan.metric, state.best.value)
    head = f"best {value}, trial {state.best.number}  "
    line = Text(head, style="bold green").append(sparkline(state.history, width - len(head)), style="green")
    pairs = [
        _short(f"{name} ", style="dim").append(parameter_text(v), style="not dim")
        for name, v in sorted(state.best.params.items())
    ]
    return [line, *([Columns(pairs, padding=(0, 3))] if pairs else [])]


def parameter_text(value: Any) -> str:
    """Four digits are enough for a number that a search has drawn."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def search_counts(state: SearchState) -> str:
    """`52 of 200 trials: 40 complete, 11 pruned, 1 failed, 4 running`"""
    counts = state.counts
    total = "" if state.plan.trials is None else f" of {state.plan.trials:,}"
    parts = [f"{counts[name]} {name}" for name in ("complete", "pruned", "failed", "running") if counts[name]]
    unit = "trial" if (state.plan.trials or state.ended) == 1 else "trials"
    return f"{state.ended:,}{total} {unit}" + (f": {', '.join(parts)}" if parts else "")


def search_pace(state: SearchState) -> str:
    """`12 trials/min · 0:00:12 elapsed · about 0:01:03 left`"""
    words = [rate_text(state.rate, "trials"), f"{clock_text(state.pace.elapsed)} elapsed"]
    if state.seconds_left is not None and state.remaining:
        words.append(f"about {clock_text(state.seconds_left)} left")
    return " · ".join(words)


def _short(text: str, style: str = "") -> Text:
    """Never more than a line, and never markup."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
