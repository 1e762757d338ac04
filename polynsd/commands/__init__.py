"""What the command line runs: every command is a frozen dataclass, its fields are the options."""

from typing import Any

from polynsd.commands.bench import Bench
from polynsd.commands.data import DataCheck, DataConvert, DataFetch, DataList, DataMake, DataShow
from polynsd.commands.demo import Demo
from polynsd.commands.train import Train

COMMANDS: dict[str, Any] = {
    "demo": Demo,
    "train": Train,
    "bench": Bench,
    "data list": DataList,
    "data show": DataShow,
    "data check": DataCheck,
    "data convert": DataConvert,
    "data fetch": DataFetch,
    "data make": DataMake,
}

__all__ = [
    "COMMANDS",
    "Bench",
    "DataCheck",
    "DataConvert",
    "DataFetch",
    "DataList",
    "DataMake",
    "DataShow",
    "Demo",
    "Train",
]
