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

After `pip install` of that package `polynsd hello --name you` works, and `polynsd --help` lists it with the
first line of its docstring.

- A command is imported when it is called. One that cannot be imported says so and leaves the others alone.
- The commands below cannot be replaced. A name that two packages add is refused when it is called.
- A mistake of the user is raised as a `polynsd.errors.PolyNSDError`: its message is printed, exit code 2.
- The class may have class methods `default_for(arguments)`: the instance whose values are the defaults; and
  `rewrite(arguments)`: the arguments as they are written now, where an older form is accepted too.
- It may have a method `after_interrupt()`: what is true of the work so far when Ctrl-C has ended it.
- It may have `main_options`, the options that `--help` shows; `--help-all` shows the rest (`cli/help.py`).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from polynsd.cli.help import line_width
from polynsd.errors import ConfigError

Targets = tuple[str, ...]  # the classes of a command; several where several packages add its name

GROUP = "polynsd.commands"
COMMANDS = {
    "fit": "polynsd.cli.fit:Fit",
    "predict": "polynsd.cli.predict:Predict",
    "explain": "polynsd.cli.explain:Explain",
    "diagnose": "polynsd.cli.diagnose:Diagnose",
    "report": "polynsd.cli.report:Report",
    "demo": "polynsd.cli.demo:Demo",
    "train": "polynsd.cli.train:Train",
    "search": "polynsd.cli.search:SearchCommand",
    "runs list": "polynsd.cli.runs:RunsList",
    "runs show": "polynsd.cli.runs:RunsShow",
    "runs compare": "polynsd.cli.runs_compare:RunsCompare",
    "bench kernels": "polynsd.cli.bench:BenchKernels",
    "bench layer": "polynsd.cli.bench:BenchLayer",
    "bench step": "polynsd.cli.bench:BenchStep",
    "bench protocol": "polynsd.cli.bench:BenchProtocol",
    "bench search": "polynsd.cli.bench:BenchSearch",
    "bench estimator": "polynsd.cli.bench_estimator:BenchEstimator",
    "data list": "polynsd.cli.data:DataList",
    "data show": "polynsd.cli.data:DataShow",
    "data check": "polynsd.cli.data:DataCheck",
    "data convert": "polynsd.cli.data:DataConvert",
    "data fetch": "polynsd.cli.data:DataFetch",
    "data make": "polynsd.cli.data:DataMake",
    "federated partition": "polynsd.cli.federated:FederatedPartition",
    "federated run": "polynsd.cli.federated_run:FederatedRun",
    "federated serve": "polynsd.cli.federated_deploy:FederatedServe",
    "federated join": "polynsd.cli.federated_deploy:FederatedJoin",
}


def find_commands() -> dict[str, Targets]:
    """The library's commands, then those of installed packages, which cannot replace them."""
    added: dict[str, list[str]] = {}
    for point in entry_points(group=GROUP):
        if point.name not in COMMANDS and point.value not in added.setdefault(point.name, []):
            added[point.name].append(point.value)
    own = {name: (target,) for name, target in COMMANDS.items()}
    return own | {name: tuple(targets) for name, targets in added.items()}


def load_command(name: str, commands: Mapping[str, Targets]) -> Any:
    """The class of a command; one that cannot be loaded raises a `ConfigError` that says why."""
    target, *others = commands[name]
    if others:
        raise ConfigError(
            f"several packages add the command '{name}': {', '.join((target, *others))}. "
            "Uninstall all but one of them."
        )
    try:
        return resolve_name(target)
    except Exception as error:  # whatever another package does when it is imported
        raise ConfigError(
            f"the command '{name}' cannot be loaded from {target}: {type(error).__name__}: {error}. "
            "Install the package that provides it again, or what it needs."
        ) from error


def find_group(name: str, commands: Mapping[str, Targets]) -> dict[str, Targets]:
    """The commands whose first word this is: `list`, `show` and `compare` of `runs`."""
    return {full: targets for full, targets in commands.items() if full.startswith(f"{name} ")}


def describe_commands(commands: Mapping[str, Targets], group: str = "") -> str:
    """The help of all commands, with a line for the commands that share their first word; or of a group."""
    shared = Counter(name.split()[0] for name in commands)
    summaries: dict[str, str] = {}
    for name in commands:
        first, _, second = name.partition(" ")
        if not group and shared[first] > 1:
            summaries[first] = f"{summaries[first]}, {second}" if first in summaries else second
        elif not group or first == group:
            summaries[name] = _summarize(name, commands)
    left = max(map(len, summaries)) + 2
    lines = [
        line
        for name, summary in summaries.items()
        for line in textwrap.wrap(
            summary,
            line_width(),
            initial_indent=f"  polynsd {name:<{left}}",
            subsequent_indent=" " * (left + len("  polynsd ")),
        )
    ]
    example = f"polynsd {group or 'COMMAND'} {'COMMAND ' if group else ''}--help"
    head = "Sheaf neural networks with polynomial spectral filters."
    return "\n".join([head, "", *lines, "", f"Options of a command: {example}"])


def _summarize(name: str, commands: Mapping[str, Targets]) -> str:
    """The first line of a command's docstring.

    It is read from the source: importing the modules of all commands, those of other packages too, may take
    seconds. A command whose source cannot be read is loaded for it.
    """
    text = _read_docstring(commands[name][0]) if len(commands[name]) == 1 else None
    try:
        text = text or inspect.getdoc(load_command(name, commands)) or ""
    except ConfigError as error:
        return f"not available: {error}"
    return text.partition("\n")[0]


def _read_docstring(target: str) -> str | None:
    """The docstring of a class `module:Class`, from the source; None where it is not there."""
    module, _, name = target.partition(":")
    try:
        spec = find_spec(module)
        tree = ast.parse(Path((spec and spec.origin) or "").read_text(encoding="utf-8"))
    except Exception:  # no such module, a compiled one, a package that cannot be imported
        return None
    found = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return next(map(ast.get_docstring, found), None)
