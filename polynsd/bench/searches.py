"""One row of `bench search`: what a searched cell (one model on one graph) costs, and what takes the time.

The same search, from the first trial to the tested winner, runs three times in one process: for the first
time, again, and again with twice as many epochs. Nothing is pruned and nothing stops early, so what differs
is known:

| part        | seconds                                                                                  |
|-------------|------------------------------------------------------------------------------------------|
| `first_use` | the first search less the second: kernels compiled or loaded, and whatever else starts   |
| `training`  | the third search less the second: the epochs                                             |
| `rest`      | what is left of the second: models built and captured, trials sampled, results written   |

Kernels that an earlier process has left in Triton's or Numba's cache are not compiled again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from polynsd.bench.results import Columns, number_cell, print_rows
from polynsd.bench.samples import Row
from polynsd.search import SearchConfig, Space, conclude, open_study, work
from polynsd.search.space import Fixed
from polynsd.training.problem import Problem

COLUMNS: Columns = {
    "graph": lambda row: row["graph"],
    "s per cell": number_cell("seconds", 2),
    "again": number_cell("seconds_again", 2),
    "s per trial": number_cell("seconds_per_trial", 3),
    "first use": number_cell("first_use", 0, " %", 100),
    "training": number_cell("training", 0, " %", 100),
    "rest": number_cell("rest", 0, " %", 100),
}


@dataclass(frozen=True)
class TimedSearch:
    """A search of a space for a fixed number of epochs per trial."""

    problem: Problem
    space: Space
    config: SearchConfig
    epochs: int

    def run(self) -> float:
        """Seconds from the first trial to the tested winner; nothing is kept."""
        length = {name: Fixed(self.epochs) for name in ("training.epochs", "training.patience")}
        space = Space({**self.space.rules, **length})
        config = replace(self.config, pruner="none", startup=max(self.config.startup, self.config.trials))
        with TemporaryDirectory() as folder:
            start = time.perf_counter()
            search = open_study(f"sqlite:///{folder}/study.db", "bench", space, self.problem, config)
            work(search)
            conclude(Path(folder), search)
            return time.perf_counter() - start


def measure_search(search: TimedSearch) -> Row:
    """Seconds of the first search, per trial too, and the shares of its parts."""
    first, again = search.run(), search.run()
    training = replace(search, epochs=2 * search.epochs).run() - again
    parts = {"first_use": first - again, "training": training, "rest": again - training}
    return {
        "trials": search.config.trials,
        "batch": search.config.batch,
        "splits": len(search.problem.splits),
        "epochs": search.epochs,
        "seconds": first,
        "seconds_again": again,
        "seconds_per_trial": first / search.config.trials,
        **{name: seconds / first for name, seconds in parts.items()},
    }


def print_search(record: Row) -> None:
    """Prints the row of a search."""
    (row,), device = record["rows"], record["environment"]["device_name"]
    title = f"{row['trials']} trials of {row['epochs']} epochs on {row['splits']} splits; {device}"
    print_rows(title, COLUMNS, [row])
