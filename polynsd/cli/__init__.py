"""The command line: `polynsd fit | predict | diagnose | train | search | runs | data | reproduce …`.

Exit codes: 0 done, 1 some cells of an experiment failed, 2 a mistake in the arguments, the data or a path
(the message says which), 130 interrupted (Ctrl-C), 141 nobody reads the output any more, 143 terminated
(SIGTERM).

As little as possible is imported before `main` handles signals.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from polynsd.errors import PolyNSDError, unknown_name

HELP, HELP_ALL = ("-h", "--help"), "--help-all"
WAIT_SECONDS = 0.05  # until an interrupt within an import is tried again
BROKEN_PIPE = 141  # what a shell reports for a process that SIGPIPE has ended


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command that the arguments name."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["--version"]:
        from polynsd import __version__

        print(f"polynsd {__version__}")
        return
    command, signals = None, list[int]()
    try:
        with handle_signals(signals):
            from polynsd.memory import limit_memory

            command = parse_command(arguments)
            with limit_memory(getattr(command, "memory", None)):
                command.run()
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough: `polynsd runs list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        sys.exit(BROKEN_PIPE)
    except (Exception, KeyboardInterrupt) as error:
        # a library that is interrupted while it is imported may fail in ways of its own
        if signals or isinstance(error, KeyboardInterrupt):
            what_stays = getattr(command, "after_interrupt", str)()
            print(f"polynsd: interrupted{what_stays and '; '}{what_stays}", file=sys.stderr)
            # an interrupt within code that a library made of text (as dataclasses do) is remembered until the
            # next such code; Python would end by the signal instead of this exit code
            exec("")
            sys.exit(128 + (signals[0] if signals else signal.SIGINT))
        if not isinstance(error, PolyNSDError | OSError | MemoryError):
            raise
        from polynsd.cli.help import explain_error

        kind = "out of memory. " if isinstance(error, MemoryError) else ""
        text = str(error) if command is None else explain_error(type(command), error)
        print(f"polynsd: {kind}{text}".rstrip(), file=sys.stderr)
        sys.exit(2)


def parse_command(arguments: Sequence[str]) -> Any:
    """The command as an instance of its dataclass, with a `run` method; prints help where it is asked for."""
    from polynsd.cli.commands import describe_commands, find_commands, find_group, load_command
    from polynsd.cli.help import format_help

    commands = find_commands()
    words = 2 if " ".join(arguments[:2]) in commands else 1
    name = " ".join(arguments[:words]) or "--help"
    group = find_group(name, commands)
    asks = (*HELP, HELP_ALL)
    if name in asks or (group and (len(arguments) == 1 or arguments[1] in asks)):
        print(describe_commands(commands, name if group else ""))
        sys.exit(0)
    if name not in commands:
        raise unknown_name("command", " ".join(arguments[:2]) if group else name, group or commands)
    options = list(arguments[words:])
    if name == "train" and any(option.split("=")[0] == "--edges" for option in options):
        name = "fit"  # its older form
    command, prog = load_command(name, commands), f"polynsd {name}"
    if options and all(option in asks for option in options):
        print(format_help(prog, command, None, HELP_ALL in options))
        sys.exit(0)
    if hasattr(command, "rewrite"):
        options = command.rewrite(options)
    return _parse_options(command, options, prog)


def _parse_options(command: Any, options: Sequence[str], prog: str) -> Any:
    from polynsd.cli.help import check_option_names, format_help

    defaults = command.default_for(options) if hasattr(command, "default_for") else None
    if any(option in (*HELP, HELP_ALL) for option in options):
        print(format_help(prog, command, defaults, HELP_ALL in options))
        sys.exit(0)
    check_option_names(prog, command, options)
    import tyro

    from polynsd.cli.options import mapping_registry

    with mapping_registry():
        return tyro.cli(
            command,
            args=options,
            prog=prog,
            config=(tyro.conf.OmitArgPrefixes,),
            **({} if defaults is None else {"default": defaults}),
        )


@contextmanager
def handle_signals(received: list[int] | None = None) -> Iterator[None]:
    """Notes SIGINT (Ctrl-C) and SIGTERM in a list, and lets both end the block in order.

    By default SIGTERM, as schedulers and `timeout` send it, ends a process at once, in the middle of whatever
    it does. Where processes share a GPU under NVIDIA's multi-process service, that can be a fault for all
    others, too. An import is waited for: libraries in C++ abort if they are interrupted in it, or fail later.
    Only the main thread can do this; in other threads nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    waiting: list[threading.Timer] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _is_importing(frame):
            waiting.append(threading.Timer(WAIT_SECONDS, interrupt_main, [number]))
            waiting[-1].daemon = True
            waiting[-1].start()
            return
        if received is not None:
            received.append(number)
        raise KeyboardInterrupt

    handled = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, interrupt) for number in handled]
    try:
        yield
    finally:
        for timer in waiting:
            timer.cancel()
        for number, handler in zip(handled, previous, strict=True):
            signal.signal(number, handler)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported in this frame or in one that called it."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None
