"""The commands by name. A command is a frozen dataclass: its fields are the options, `run()` does the work.

Other packages add commands through the entry-point group `polynsd.commands`, name → dataclass, in their
pyproject.toml:

    [project.entry-points."polynsd.commands"]
    mycommand = "mypackage.commands:MyCommand"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from polynsd.cli.bench import Bench
from polynsd.cli.data import DataCheck, DataConvert, DataFetch, DataList, DataMake, DataShow
from polynsd.cli.demo import Demo
from polynsd.cli.own_graph import OwnGraph
from polynsd.cli.predict import Predict
from polynsd.cli.runs import RunsCompare, RunsList, RunsShow
from polynsd.cli.search import Search
from polynsd.cli.train import Train

GROUP = "polynsd.commands"
COMMANDS: dict[str, Any] = {
    "demo": Demo,
    "train": Train,
    "predict": Predict,
    "search": Search,
    "runs list": RunsList,
    "runs show": RunsShow,
    "runs compare": RunsCompare,
    "bench": Bench,
    "data list": DataList,
    "data show": DataShow,
    "data check": DataCheck,
    "data convert": DataConvert,
    "data fetch": DataFetch,
    "data make": DataMake,
}
VARIANTS = {("train", "--edges"): OwnGraph}  # an option that makes another command of it


def find_commands() -> dict[str, Any]:
    """The library's commands, then those of installed packages, which cannot replace them."""
    others = {point.name: point.load() for point in entry_points(group=GROUP)}
    return COMMANDS | {name: command for name, command in others.items() if name not in COMMANDS}


def variant(name: str, arguments: Sequence[str], commands: Mapping[str, Any]) -> Any:
    """The command of that name, given its arguments."""
    words = {argument.split("=")[0] for argument in arguments}
    return next((c for (n, option), c in VARIANTS.items() if n == name and option in words), commands[name])
