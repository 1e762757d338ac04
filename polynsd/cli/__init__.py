"""The command line: `polynsd demo | train | predict | search | runs | bench | data | reproduce | claims …`.

Exit codes: 0 done, 1 some cells of an experiment failed, 2 a mistake in the arguments, the data or a path
(the message says which), 130 interrupted (Ctrl-C), 143 terminated (SIGTERM).
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pkgutil import resolve_name
from types import FrameType
from typing import Any

from polynsd.errors import PolyNSDError, unknown_name


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command that the arguments name."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["--version"]:
        from polynsd import __version__

        print(f"polynsd {__version__}")
        return
    try:
        with handle_sigterm():
            parse_command(arguments).run()
    except (PolyNSDError, OSError) as error:
        print(f"polynsd: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as error:
        print("polynsd: interrupted; a run folder goes on where it was left", file=sys.stderr)
        sys.exit(143 if isinstance(error, Terminated) else 130)


def parse_command(arguments: Sequence[str]) -> Any:
    """The command as an instance of its dataclass, with a `run` method; prints help where it is asked for."""
    from polynsd.cli.commands import TRAIN_TABLES, describe_commands, find_commands, load_command

    commands = find_commands()
    words = 2 if " ".join(arguments[:2]) in commands else 1
    name = " ".join(arguments[:words]) or "--help"
    if name in ("-h", "--help"):
        print(describe_commands())
        sys.exit(0)
    if name not in commands:
        is_group = any(command.startswith(f"{name} ") for command in commands)
        raise unknown_name("command", " ".join(arguments[:2]) if is_group else name, commands)
    options, prog = list(arguments[words:]), f"polynsd {name}"
    if name == "train" and any(option.split("=")[0] == "--edges" for option in options):
        command, prog = resolve_name(TRAIN_TABLES), f"{prog} --edges EDGES"
        summary = None
    else:
        command, summary = load_command(name, commands), commands[name].summary
    import tyro

    from polynsd.cli.options import mapping_registry

    defaults = {"default": command.default_for(options)} if hasattr(command, "default_for") else {}
    with mapping_registry():
        return tyro.cli(
            command,
            args=options,
            prog=prog,
            description=summary,
            config=(tyro.conf.OmitArgPrefixes,),
            **defaults,
        )


class Terminated(KeyboardInterrupt):
    """The process got SIGTERM."""


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Treats SIGTERM, as schedulers and `timeout` send it, like Ctrl-C: the block ends in order.

    By default it ends a process at once, in the middle of whatever it does. Where processes share a GPU under
    NVIDIA's multi-process service, that can be a fault for all others, too. Only the main thread can do this;
    in other threads nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
