"""What a cell asks, as its record repeats it: a record counts only as long as the cell asks the same.

Other budgets, spaces, splits or rules are other questions. A record of one is stale: it is trained anew, and
no table shows it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from polynsd.config import ModelConfig, TrainConfig, from_options
from polynsd.data.datasets.entries import ENTRIES
from polynsd.errors import DataError, PolyNSDError
from polynsd.search.space import Space
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Source
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.record import FIRST, Record, read_record

DIGITS = 12
EVERYWHERE = Source()


def digest(content: Any) -> str:
    """A short name for plain data: equal for equal content."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def sources_of(experiment: Experiment, cell: Cell) -> tuple[Source, ...]:
    """The graphs of a cell: its own, or the dataset under the experiment's protocol."""
    return cell.sources or (Source(cell.dataset, protocol=experiment.protocol),)


def question(experiment: Experiment, cell: Cell) -> dict[str, Any]:
    """All that decides what is trained, but for a fixed configuration, which a record holds anyway."""
    sources = sources_of(experiment, cell)
    asked = {
        "graphs": digest([_given(source) for source in sources]),
        "protocol": sources[0].protocol or "own",
        "features": sources[0].features or _own_features(sources[0]),
        "rules": cell.rules,
        "splits": sources[0].splits or "all",
        "seeds": experiment.seeds,
    }
    if isinstance(cell.plan, Configuration):
        return asked
    space = digest([cell.plan.to_dict(), [dict(start) for start in cell.starts]])
    return {**asked, "space": space, "budget": asdict(experiment.budget(cell.dataset))}


def differences(record: Record, experiment: Experiment, cell: Cell) -> list[str]:
    """What the record answers otherwise than the cell asks; empty where it is the answer."""
    asked = question(experiment, cell)
    known = {name: value for name, value in record.question.items() if name != FIRST}
    names = [name for name in {**asked, **known} if asked.get(name) != known.get(name)]
    is_same = isinstance(cell.plan, Space) or _is_same(record.configuration, cell.plan)
    return names if is_same else [*names, "configuration"]


def current_records(experiment: Experiment, folder: Path) -> tuple[list[Record], int]:
    """The records that answer what the experiment asks now, and how many others lie in its folder."""
    paths = [(cell, folder / cell.path) for cell in experiment.cells()]
    found = [(cell, read_record(path)) for cell, path in paths if path.exists()]
    current = [record for cell, record in found if not differences(record, experiment, cell)]
    return current, sum(1 for _ in folder.glob("*/*.yaml")) - len(current)


def is_current(experiment: Experiment, cell: Cell, path: Path) -> bool:
    """Whether the file holds the answer; one that cannot be read does not."""
    try:
        return not differences(read_record(path), experiment, cell)
    except DataError:
        return False


def configuration_of(plain: Mapping[str, Any]) -> Configuration:
    """The configuration that a record holds; options younger than the record have their defaults."""
    return Configuration(
        from_options(ModelConfig, plain["model"]), from_options(TrainConfig, plain["training"])
    )


def _is_same(plain: Mapping[str, Any], plan: Configuration) -> bool:
    try:
        return configuration_of(plain) == plan
    except (PolyNSDError, KeyError, TypeError):  # options that there were once
        return False


def _given(source: Source) -> dict[str, Any]:
    """What distinguishes a graph: not where it is trained, nor how many splits of it."""
    plain = asdict(source)
    return {
        name: value
        for name, value in plain.items()
        if name not in ("device", "splits") and value != getattr(EVERYWHERE, name)
    }


def _own_features(source: Source) -> str:
    entry = ENTRIES.get(str(source.dataset))
    return "own" if entry is None else entry.preprocessing
