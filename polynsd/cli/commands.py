"""The commands by name, and how other packages add theirs.

A command is a frozen dataclass. Its fields are the options, the docstrings below them the help, and `run()`
does the work:

    @dataclass(frozen=True)
    class Hello:
        \"\"\"Say hello.\"\"\"

        name: str = "world"
        \"\"\"Who is greeted.\"\"\"

        def run(self) -> None:
            print(f"hello {self.name}")

A package adds commands through the entry-point group `polynsd.commands` in its pyproject.toml; the name may
consist of two words, `runs list`:

    [project.entry-points."polynsd.commands"]
    hello = "mypackage.commands:Hello"

After `pip install` of that package `polynsd hello --name you` works and `polynsd --help` lists it.

- A command is imported when it is called. One that cannot be imported says so and leaves the others alone.
- The commands below cannot be replaced. A name that two packages add is refused when it is called.
- A mistake of the user is raised as a `polynsd.errors.PolyNSDError`: its message is printed, exit code 2.
- The class may have class methods `default_for(arguments)`: the instance whose values are the defaults; and
  `rewrite(arguments)`: the arguments as they are written now, where an older form is accepted too.
- It may have a method `after_interrupt()`: what is true of the work so far when Ctrl-C has ended it.
- It may have `main_options`, the options that `--help` shows; `--help-all` shows the rest (`cli/help.py`).
"""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any

from polynsd.errors import ConfigError

GROUP = "polynsd.commands"
WIDEST = 110  # characters of a line


@dataclass(frozen=True)
class Command:
    """A command that is imported when it is called.

    Attributes:
        target: its class, `package.module:Class`.
        summary: its help in one line; the first line of the docstring of the class unless given.
        others: further classes that installed packages add under the same name.
    """

    target: str
    summary: str | None = None
    others: tuple[str, ...] = ()


COMMANDS = {
    "fit": Command(
        "polynsd.cli.fit:Fit", "Fit a model to your own tables; rows without a label are predicted."
    ),
    "predict": Command(
        "polynsd.cli.predict:Predict", "Predict the nodes of a graph with a model fitted to your own tables."
    ),
    "explain": Command(
        "polynsd.cli.explain:Explain", "Explain a prediction: which features, neighbours and edges moved it."
    ),
    "diagnose": Command(
        "polynsd.cli.diagnose:Diagnose",
        "Look inside the model of a finished run: energy, influence, responses, maps, smoothness.",
    ),
    "report": Command(
        "polynsd.cli.report:Report",
        "Write a report about finished runs that opens in any browser, without a network.",
    ),
    "demo": Command(
        "polynsd.cli.demo:Demo",
        "Train PolyNSD, NSD, the identity sheaf, GCN and MLP on an embedded heterophilous graph.",
    ),
    "train": Command(
        "polynsd.cli.train:Train",
        "Train one model on all splits of a benchmark graph.",
    ),
    "search": Command(
        "polynsd.cli.search:SearchCommand",
        "Search for the best configuration on validation, with any number of workers, and test it once.",
    ),
    "runs list": Command(
        "polynsd.cli.runs:RunsList",
        "List the runs below a folder: state, dataset, model and result of each.",
    ),
    "runs show": Command(
        "polynsd.cli.runs:RunsShow",
        "Show one run: what it does, its state, its result and where it was made.",
    ),
    "runs compare": Command(
        "polynsd.cli.runs:RunsCompare",
        "Compare runs: mean ± std per group, and paired differences over the splits they share.",
    ),
    "bench kernels": Command(
        "polynsd.cli.bench:BenchKernels",
        "Time the polynomial filter alone: forward, and forward with backward.",
    ),
    "bench layer": Command(
        "polynsd.cli.bench:BenchLayer",
        "Time one layer, its filter and its learner: maps on nodes and on edges against identity maps.",
    ),
    "bench step": Command(
        "polynsd.cli.bench:BenchStep", "Time a whole training step of PolyNSD, and inference."
    ),
    "bench protocol": Command(
        "polynsd.cli.bench:BenchProtocol", "Time all splits of a graph as replicas, and one after another."
    ),
    "bench search": Command(
        "polynsd.cli.bench:BenchSearch", "Time a small search, from the first trial to the tested winner."
    ),
    "bench estimator": Command(
        "polynsd.cli.bench_estimator:BenchEstimator",
        "Compare the default estimator with nine rivals on the same nodes, each with as much time to search.",
    ),
    "data list": Command(
        "polynsd.cli.data:DataList",
        "List the benchmark graphs: sizes, metric, protocols and whether each is on this machine.",
    ),
    "data show": Command(
        "polynsd.cli.data:DataShow",
        "Show what a graph is like: counts, degrees, components, homophily, splits.",
    ),
    "data check": Command(
        "polynsd.cli.data:DataCheck",
        "Check that a file holds a valid graph; ends with exit code 2 and the reason where it does not.",
    ),
    "data convert": Command(
        "polynsd.cli.data:DataConvert", "Convert a graph between .npz, .csv, .tsv, .parquet and .graphml."
    ),
    "data fetch": Command(
        "polynsd.cli.data:DataFetch",
        "Download a graph of the catalogue into the cache, unless it is on this machine.",
    ),
    "data make": Command(
        "polynsd.cli.data:DataMake", "Generate a synthetic graph: heterophily, minesweeper, streets, chain."
    ),
    "federated partition": Command(
        "polynsd.cli.federated:FederatedPartition",
        "Divide a graph among clients: an archive for each, and a manifest.",
    ),
    "federated run": Command(
        "polynsd.cli.federated_run:FederatedRun",
        "Divide a graph among clients and train over them on this machine.",
    ),
    "federated serve": Command(
        "polynsd.cli.federated_deploy:FederatedServe",
        "Wait for clients, train over them, and write a run folder.",
    ),
    "federated join": Command(
        "polynsd.cli.federated_deploy:FederatedJoin",
        "Take part in a federated training with a graph of your own, which stays here.",
    ),
}


def find_commands() -> dict[str, Command]:
    """The library's commands, then those of installed packages, which cannot replace them."""
    targets: dict[str, list[str]] = {}
    for point in entry_points(group=GROUP):
        if point.name not in COMMANDS and point.value not in targets.setdefault(point.name, []):
            targets[point.name].append(point.value)
    return COMMANDS | {name: Command(first, None, tuple(rest)) for name, (first, *rest) in targets.items()}


def load_command(name: str, commands: Mapping[str, Command]) -> Any:
    """The class of a command; one that cannot be loaded raises a `ConfigError` that says why."""
    command = commands[name]
    if command.others:
        raise ConfigError(
            f"several packages add the command '{name}': {', '.join((command.target, *command.others))}. "
            "Uninstall all but one of them."
        )
    try:
        return resolve_name(command.target)
    except Exception as error:  # whatever another package does when it is imported
        raise ConfigError(
            f"the command '{name}' cannot be loaded from {command.target}: {type(error).__name__}: {error}. "
            "Install the package that provides it again, or what it needs."
        ) from error


def find_group(name: str, commands: Mapping[str, Command]) -> dict[str, Command]:
    """The commands whose first word this is: `list`, `show` and `compare` of `runs`."""
    return {full: command for full, command in commands.items() if full.startswith(f"{name} ")}


def describe_commands(commands: Mapping[str, Command], group: str = "") -> str:
    """The help of all commands, with a line for the commands that share their first word; or of a group."""
    shared = Counter(name.split()[0] for name in commands)
    summaries: dict[str, str] = {}
    for name, command in commands.items():
        first, _, second = name.partition(" ")
        if not group and shared[first] > 1:
            summaries[first] = f"{summaries[first]}, {second}" if first in summaries else second
        elif not group or first == group:
            summaries[name] = _summarize(name, command, commands)
    left = max(map(len, summaries)) + 2
    lines = [
        line
        for name, summary in summaries.items()
        for line in textwrap.wrap(
            summary,
            min(shutil.get_terminal_size().columns, WIDEST),
            initial_indent=f"  polynsd {name:<{left}}",
            subsequent_indent=" " * (left + len("  polynsd ")),
        )
    ]
    example = f"polynsd {group or 'COMMAND'} {'COMMAND ' if group else ''}--help"
    head = "Sheaf neural networks with polynomial spectral filters."
    return "\n".join([head, "", *lines, "", f"Options of a command: {example}"])


def _summarize(name: str, command: Command, commands: Mapping[str, Command]) -> str:
    """Its help in one line; a command of another package is loaded for it."""
    if command.summary is not None:
        return command.summary
    try:
        return (inspect.getdoc(load_command(name, commands)) or "").partition("\n")[0]
    except ConfigError as error:
        return f"not available: {error}"
