"""What the command line runs: every command is a frozen dataclass, its fields are the options."""

from collections.abc import Sequence
from typing import Any

from polynsd.commands.bench import Bench
from polynsd.commands.claims import Claims
from polynsd.commands.data import DataCheck, DataConvert, DataFetch, DataList, DataMake, DataShow
from polynsd.commands.demo import Demo
from polynsd.commands.own_graph import OwnGraph
from polynsd.commands.predict import Predict
from polynsd.commands.reproduce import Reproduce
from polynsd.commands.runs import RunsCompare, RunsList, RunsShow
from polynsd.commands.search import Search
from polynsd.commands.train import Train

COMMANDS: dict[str, Any] = {
    "demo": Demo,
    "train": Train,
    "predict": Predict,
    "search": Search,
    "reproduce": Reproduce,
    "claims": Claims,
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


def variant(name: str, arguments: Sequence[str]) -> Any:
    """The command of that name, given its arguments."""
    words = {argument.split("=")[0] for argument in arguments}
    return next((c for (n, option), c in VARIANTS.items() if n == name and option in words), COMMANDS[name])


__all__ = [
    "COMMANDS",
    "Bench",
    "Claims",
    "DataCheck",
    "DataConvert",
    "DataFetch",
    "DataList",
    "DataMake",
    "DataShow",
    "Demo",
    "OwnGraph",
    "Predict",
    "Reproduce",
    "RunsCompare",
    "RunsList",
    "RunsShow",
    "Search",
    "Train",
    "variant",
]
