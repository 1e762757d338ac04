"""`polynsd reproduce`: the experiments of the paper, cell by cell; trained cells are not trained again.

The options alone, so that `polynsd --help` is quick. The work is in `polynsd_paper/reproduction.py`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class Reproduce:
    """Run an experiment of the paper: train what is missing, resume what was interrupted, write its table."""

    name: Annotated[str | None, Positional, arg(metavar="[NAME]")] = None
    """The experiment; --list names them."""
    list: bool = False
    """Say what there is, what it needs, how long it takes and how far it is."""
    datasets: tuple[str, ...] = ()
    """Only these; all of the experiment unless given."""
    only: tuple[str, ...] = ()
    """Only some values of what is varied, e.g. --only maps=diagonal K=1,16."""
    splits: Annotated[int | None, arg(metavar="INT")] = None
    """Only the first so many splits: a partial result, marked as one until a run without this trains all."""
    trials: Annotated[int | None, arg(metavar="INT")] = None
    """At most so many trials in a search; the experiment's own budget unless given.
    Records of another budget are trained anew."""
    seconds: Annotated[float | None, arg(metavar="FLOAT")] = None
    """No trial of a search begins after so many; the experiment's own budget unless given."""
    fast: bool = False
    """Thirty epochs, two trials, one seed, in files of its own: a look at times and shapes, no result."""
    retrain: Annotated[bool, arg(aliases=["--again"])] = False
    """Train cells that have a record once more; what a search chose is kept."""
    rescore: bool = False
    """Train records once more that are of another kind of device or another precision; search nothing."""
    table: bool = False
    """Train nothing; write tables and figures of what is there."""
    device: str = "cpu"
    """Where to train: cpu, cuda, cuda:N, or auto."""
    tf32: bool = False
    """On a GPU: multiply matrices in TF32, which is faster. The record says so; filters stay in float32."""
    out: Path = Path("results")
    """Where records, tables and figures go."""
    work: Path = Path("runs/reproduce")
    """Where searches and trainings under way are kept."""
    quiet: bool = False
    """No progress."""

    def after_interrupt(self) -> str:
        """What has become of the work so far."""
        return "cells that are trained are kept, and the same command goes on"

    def run(self) -> Path | None:
        """Trains, prints the table and writes it; its path. Exits with 1 if a cell failed."""
        from polynsd_paper.reproduction import describe_experiments, reproduce

        if self.list or self.name is None:
            print(describe_experiments(self.out))  # noqa: T201
            return None
        path, failures = reproduce(self)
        if failures:
            sys.exit(1)
        return path
