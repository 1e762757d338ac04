"""What a user reads of a command: the help, and the library's messages in the words of its options.

The help has the main options (`--help`) or all (`--help-all`). It is made from the dataclass of the command,
as `tyro` makes the parser: a field is an option, the string below it the help. A command with many options
names the main ones in a class variable:

    main_options: ClassVar[tuple[str, ...]] = ("label", "out")
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import shutil
import textwrap
import types
from collections.abc import Collection, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from polynsd.errors import ConfigError, guess_name

METAVARS: dict[Any, str] = {Path: "PATH", str: "TEXT", int: "N", float: "NUMBER", dict: "NAME VALUE …"}
LEFT, WIDEST = 26, 110  # columns of the names of options; of a line

# of messages
PLACEHOLDERS = {
    "nodes": "FILE",
    "features": "OTHER_COLUMNS …",
    "exclude": "COLUMN …",
    "categorical": "COLUMN …",
}
PYTHON_NAMES = {"test_fraction": "test", "random_state": "seed"}  # whose option is called otherwise
ARGUMENT = re.compile(r"\b([a-z_]+)=(?:'([^']+)'|([\d.]+)|\[\.\.\.\]|…)")
ORIGIN = re.compile(r"column '([^']+)'")  # the column that a message is about
SUBJECT = re.compile(r"^([a-z_]+)(?= must\b| needs\b)", re.MULTILINE)
DIFFERENCE = re.compile(r"^  (?:config|inputs)\.(?:\w+\.)*(\w+)(?=: )", re.MULTILINE)  # of two runs
NONE = re.compile(r",? or (be )?None\b")  # what an option is that is not given


def line_width() -> int:
    """That of the terminal, but no more than is easy to read."""
    return min(shutil.get_terminal_size().columns, WIDEST)


@dataclass(frozen=True)
class Option:
    """An option or a positional argument of a command.

    Attributes:
        name: of the field.
        metavar: what its value is called; empty for a flag.
        text: its help.
        default: its value unless given; MISSING where it has to be given.
        section: the help of the group it belongs to; empty for the command itself.
    """

    name: str
    metavar: str
    text: str
    default: Any
    is_positional: bool
    section: str
    aliases: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """All spellings; what is on or off has one for each."""
        opposite = () if self.metavar else (f"--no-{self.flag[2:]}",)
        return (self.flag, *opposite, *self.aliases)

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


def list_options(command: type, defaults: Any = None, section: str = "") -> Iterator[Option]:
    """The options of a dataclass and of the dataclasses among its fields, `defaults` an instance of it."""
    from tyro.conf import Positional

    types_of, texts = get_type_hints(command, include_extras=True), _read_docstrings(command)
    for field in fields(command):
        kind, *notes = (
            get_args(types_of[field.name])
            if hasattr(types_of[field.name], "__metadata__")
            else (types_of[field.name],)
        )
        default = _get_default(field) if defaults is None else getattr(defaults, field.name)
        text = texts.get(field.name, "")
        if is_dataclass(kind) and isinstance(kind, type):
            yield from list_options(kind, None if default is MISSING else default, text)
            continue
        metavar = next((note.metavar for note in notes if getattr(note, "metavar", None)), None)
        aliases = tuple(alias for note in notes for alias in getattr(note, "aliases", None) or ())
        is_positional = any(note in get_args(Positional[int])[1:] for note in notes)
        metavar = (metavar or _metavar(kind)).strip("[]")
        yield Option(field.name, metavar, text, default, is_positional, section, aliases)


def check_option_names(prog: str, command: type, arguments: Sequence[str]) -> None:
    """Raises if an option does not exist, with a guess at the one that was meant."""
    known = [flag for option in list_options(command) if not option.is_positional for flag in option.flags]
    for word in arguments:
        name = word.partition("=")[0]
        if name == "--":
            return
        if name.startswith("--") and name.replace("_", "-") not in known:
            raise ConfigError(
                f"unknown option {name}.{guess_name(name, known)} All options: {prog} --help-all"
            )


def wrap_text(text: str) -> str:
    """The text in lines as wide as the terminal at most."""
    return textwrap.fill(text, line_width(), break_on_hyphens=False)


def format_help(prog: str, command: type, defaults: Any, everything: bool) -> str:
    """The help of a command, as wide as the terminal at most."""
    width = line_width()
    options = list(list_options(command, defaults))
    main = getattr(command, "main_options", None)
    shown = [option for option in options if everything or not main or option.name in main]
    if main and not everything:
        shown.sort(key=lambda option: (not option.is_positional, main.index(option.name)))
    else:
        shown.sort(key=lambda option: not option.is_positional)
    lines = textwrap.wrap(_usage(prog, options), width, subsequent_indent="    ", break_on_hyphens=False)
    lines += ["", *textwrap.wrap(inspect.getdoc(command) or "", width)]
    sections = dict.fromkeys(option.section if everything else "" for option in shown)
    for section in sorted(sections, key=bool):  # the command's own options first
        lines += ["", *textwrap.wrap(section, width)]
        for option in shown:
            if not everything or option.section == section:
                lines += _format_option(option, width)
    if len(shown) < len(options):
        lines += ["", f"{len(options) - len(shown)} more options: {prog} --help-all"]
    return "\n".join(lines)


def _usage(prog: str, options: Sequence[Option]) -> str:
    words = [f"usage: {prog}"]
    for option in sorted(options, key=lambda option: not option.is_positional):
        name = option.metavar if option.is_positional else f"{option.flag} {option.metavar}"
        if option.is_required:
            words.append(name)
        elif option.is_positional:
            words.append(f"[{name}]")
    return " ".join([*words, "[OPTIONS]"])


def _format_option(option: Option, width: int) -> list[str]:
    name = option.metavar if option.is_positional else f"{option.flag} {option.metavar}".rstrip()
    text = textwrap.wrap(f"{option.text} {_format_default(option)}".strip(), max(width - LEFT, 20)) or [""]
    if len(name) + 4 > LEFT:
        return [f"  {name}", *(" " * LEFT + line for line in text)]
    return [f"  {name:<{LEFT - 2}}{text[0]}".rstrip(), *(" " * LEFT + line for line in text[1:])]


def _format_default(option: Option) -> str:
    """`(required)`, `(default 5)`, or nothing where the text says what happens unless it is given."""
    default = option.default
    if option.is_required:
        return "" if option.is_positional else "(required)"
    if default is True:
        return f"(done by default; --no-{option.flag[2:]} turns it off)"
    if default is None or default is False:
        return ""
    items = [word for pair in default.items() for word in pair] if isinstance(default, dict) else default
    value = " ".join(map(str, items)) if isinstance(items, tuple | list) else str(default)
    return f"(default {value})" if value else ""


def _get_default(field: Field[Any]) -> Any:
    """The default of a field; MISSING for a dataclass of options that begins with its own defaults."""
    factory: Any = field.default_factory
    if isinstance(factory, type) and is_dataclass(factory):
        return MISSING  # an instance would check its values, and may need torch for it
    return field.default if factory is MISSING else factory()


def _metavar(kind: Any) -> str:
    """`PATH` for `Path | None`, `TEXT …` for a tuple, nothing for a flag."""
    if hasattr(kind, "__metadata__"):  # `Annotated` within a union
        return next((note.metavar for note in kind.__metadata__ if getattr(note, "metavar", None)), "VALUE")
    if get_origin(kind) in (Union, types.UnionType):
        return _metavar(next(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) is tuple:
        return f"{_metavar(get_args(kind)[0])} …"
    if kind is bool:
        return ""
    return METAVARS.get(get_origin(kind) or kind, "VALUE")


@cache
def _read_docstrings(command: type) -> dict[str, str]:
    """The string below each field, also of the base classes."""
    texts: dict[str, str] = {}
    for base in reversed(command.__mro__):
        if not is_dataclass(base):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):  # no source at hand: options without help
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, below in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                if is_text:
                    texts[field.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
    return texts


def explain_error(command: type, error: Exception) -> str:
    """The message, which speaks of options where the library speaks of arguments."""
    options = list(list_options(command))
    positionals = {option.name for option in options if option.is_positional}
    return name_options(str(error), {option.name for option in options} - positionals, positionals)


def name_options(text: str, options: Collection[str], positionals: Collection[str] = ()) -> str:
    """A message of the library in the words of a command: `--missing mean` instead of `missing='mean'`.

    Args:
        text: the message.
        options: the names of the command's options; others stay as they are.
        positionals: those that are given without a name.
    """

    def flag(name: str) -> str | None:
        name = PYTHON_NAMES.get(name, name)
        return f"--{name.replace('_', '-')}" if name in options else None

    def name_argument(match: re.Match[str]) -> str:
        value = match[2] or match[3] or PLACEHOLDERS.get(match[1], "COLUMN")
        spoken_of = ORIGIN.findall(text[: match.start()].rpartition("\n")[2])  # of several problems, this one
        if value == "COLUMN …" and len(set(spoken_of)) == 1:
            value = shlex.quote(spoken_of[0])
        value = value if re.fullmatch(r"[\w.-]+", value) or not match[2] else f"'{value}'"
        if match[1] in positionals:
            return match[1].upper()
        return f"{option} {value}" if (option := flag(match[1])) else match[0]

    def name_difference(match: re.Match[str]) -> str:
        name = match[1].upper() if match[1] in positionals else flag(match[1])
        return f"  {name}" if name else match[0]

    text = DIFFERENCE.sub(name_difference, ARGUMENT.sub(name_argument, text))
    named = SUBJECT.sub(lambda match: flag(match[1]) or match[0], text)
    return NONE.sub("", named) if named != text else named
