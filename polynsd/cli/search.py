"""`polynsd search`: find the best configuration on validation, then test it once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polynsd.cli.options import MemoryOption
from polynsd.errors import ConfigError
from polynsd.optional import load_yaml
from polynsd.search.config import SearchConfig
from polynsd.training.callback import SearchPlan, TrialStatus
from polynsd.training.source import Source

if TYPE_CHECKING:
    from polynsd.training.callback import Callback


@dataclass(frozen=True)
class SearchCommand(MemoryOption):
    """Search for the best configuration on validation, with any number of workers, and test it once."""

    source: Source = field(default_factory=lambda: Source(splits=10))
    """The graph; a trial's value is the mean over its splits."""
    space: str = "default"
    """What is tried: default, paper, or a YAML file."""
    model: str | None = None
    """The model; polynsd, or what the file says, unless given."""
    maps: str | None = None
    """The family of maps; searched in the default space, diagonal in the paper's, unless given."""
    storage: str | None = None
    """sqlite:///FILE, postgresql://USER@HOST/NAME or journal:///FILE; study.db in --out unless given."""
    study: str | None = None
    """Name of the study in the storage; made of dataset, space, model and maps unless given."""
    out: Path | None = None
    """The folder of the search; runs/search/STUDY unless given."""
    final: bool = True
    """Wait for all trials, hold the run-off and test its winner; --no-final for workers that only help."""
    quiet: bool = False
    """Show no progress."""
    json: bool = False
    """One JSON object per trial and one for the result, for machines."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Options of the search."""

    main_options: ClassVar[tuple[str, ...]] = (
        *("dataset", "protocol", "splits", "space", "model", "maps", "trials", "device", "storage", "out"),
    )

    def after_interrupt(self) -> str:
        return "trials that have ended are kept, and the same command goes on"

    def run(self) -> dict[str, Any] | None:
        """Works until the trials are done; returns the result, or None with --no-final."""
        from polynsd.report import JsonLines, SearchView
        from polynsd.search import (
            begin_with,
            conclude,
            get_space,
            get_starts,
            open_study,
            trial_rows,
            work,
        )

        if self.storage is None and not self.final:
            raise ConfigError("a worker with --no-final needs the --storage that it shares with the others.")
        if self.final:
            load_yaml()  # a missing package is reported before the trials, not after them
        graph = self.source.dataset or self.source.generate
        parts = (Path(graph).stem, Path(self.space).stem, self.model or "polynsd", self.maps)
        name = self.study or "-".join(part for part in parts if part)
        out = self.out or Path("runs") / "search" / name
        storage = self.storage or f"sqlite:///{out / 'study.db'}"
        space = get_space(self.space, self.source.dataset, self.model, self.maps)
        problem = self.source.problem(self.search.seed)
        search = open_study(storage, name, space, problem, self.search)
        if self.space == "default":
            begin_with(search, get_starts(space))
        earlier = _earlier_trials(trial_rows(search.study))
        view: Callback = JsonLines() if self.json else SearchView(quiet=self.quiet)
        start = time.perf_counter()
        with view:
            view.begin_search(SearchPlan(self.search.trials, problem.task.metric, earlier, name))
            work(search, on_trial=view.trial, wait=self.final)
            if not self.final:
                return None
            result = conclude(out, search, time.perf_counter() - start)
            view.finish(result)
        if not self.json:
            _print_result(out, result)
        return result


def _earlier_trials(rows: list[dict[str, Any]]) -> tuple[TrialStatus, ...]:
    """The trials that the study has already ended, each marked if it was the best so far."""
    trials, best = [], None
    for row in rows:
        if row["state"] in ("complete", "pruned", "failed"):
            is_best = row["best_so_far"] != best
            best = row["best_so_far"]
            trials.append(TrialStatus(row["trial"], row["state"], row["value"], {}, is_best))
    return tuple(trials)


def _print_result(out: Path, result: dict[str, Any]) -> None:
    from polynsd.report.output import print_table, score_name, score_text

    chosen, final, finalists = result["chosen"], result["final"], result["finalists"]
    metric, text = score_name(result["metric"]), partial(score_text, result["metric"])
    numbers = ", ".join(str(each["trial"]) for each in finalists)
    vals = ", ".join(text(each["val"]) for each in finalists)
    run_off = [("finalists", f"trials {numbers}"), (f"their val {metric}, run-off", vals)]
    rows = [
        ("trials (pruned, failed)", f"{result['trials']} ({result['pruned']}, {result['failed']})"),
        *(run_off if len(finalists) > 1 else []),
        ("chosen", f"trial {chosen['trial']}"),
        (f"its val {metric}", text(chosen["val_mean"])),
        (f"val {metric}, new seeds", text(final["val_mean"])),
        (f"test {metric}, new seeds", f"{text(final['mean'])} ± {text(final['std'])}"),
        ("written to", str(out)),
    ]
    print_table(result["study"], ("", ""), rows)
