"""The command line: `polynsd demo | train | predict | search | runs | reproduce | bench | data …`.

Exit codes: 0 done, 1 some cells of an experiment failed, 2 a mistake in the arguments, the data or a path
(the message says which), 130 interrupted (Ctrl-C), 143 told to end (SIGTERM).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from polynsd.errors import PolyNSDError, unknown_name


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command that the arguments name."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["--version"]:
        from polynsd import __version__

        print(f"polynsd {__version__}")
        return
    from polynsd.cli.ending import Terminated, terminable

    try:
        with terminable():
            _parse(arguments).run()
    except (PolyNSDError, OSError) as error:
        print(f"polynsd: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as end:
        print("polynsd: interrupted; a run folder goes on where it was left", file=sys.stderr)
        sys.exit(143 if isinstance(end, Terminated) else 130)


def _parse(arguments: Sequence[str]) -> Any:
    """The command as a frozen dataclass with a `run` method; its fields are the options."""
    import tyro

    from polynsd.cli.commands import find_commands, variant
    from polynsd.cli.pairs import pairs_registry

    commands = find_commands()
    words = 2 if " ".join(arguments[:2]) in commands else 1
    name = " ".join(arguments[:words]) or "--help"
    if name in ("-h", "--help"):
        print(_overview(commands))
        sys.exit(0)
    if name not in commands:
        is_group = any(known.startswith(f"{name} ") for known in commands)
        raise unknown_name("command", " ".join(arguments[:2]) if is_group else name, commands)
    rest = list(arguments[words:])
    command = variant(name, rest, commands)
    given = {"default": command.default_for(rest)} if hasattr(command, "default_for") else {}
    prog = f"polynsd {name}" if command is commands[name] else f"polynsd {name} --edges EDGES"
    with pairs_registry():
        return tyro.cli(command, args=rest, prog=prog, config=(tyro.conf.OmitArgPrefixes,), **given)


def _overview(commands: dict[str, Any]) -> str:
    lines = [f"  polynsd {name:<13} {command.__doc__}" for name, command in commands.items()]
    return "\n".join(
        [
            "Sheaf neural networks with polynomial spectral filters.",
            "",
            *lines,
            "",
            "Options of a command: polynsd COMMAND --help",
        ]
    )
