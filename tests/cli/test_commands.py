"""Commands are found by name; other packages add theirs, and none of them can break the rest."""

import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from polynsd.cli import commands, main, parse_command
from polynsd.cli.commands import COMMANDS, find_commands, load_command
from polynsd.cli.help import name_options
from polynsd.errors import ConfigError


@dataclass(frozen=True)
class Hello:
    """Say hello.

    More of it.
    """

    name: str = "world"
    """Who is greeted."""

    def run(self):
        sys.stdout.write(f"hello {self.name}\n")


HELLO = "test_commands:Hello"


@pytest.fixture
def install(monkeypatch):
    """Installs entry points: pairs of name and target."""

    def installed(*points):
        found = [EntryPoint(name, target, commands.GROUP) for name, target in points]
        monkeypatch.setattr(commands, "entry_points", lambda group: found)

    return installed


def overview(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_loaded_and_runs(name):
    assert callable(load_command(name, find_commands()).run)


def test_a_package_adds_a_command(install, capsys):
    install(("hello", HELLO), ("say hello", HELLO))
    main(["hello", "--name", "you"])
    main(["say", "hello"])
    assert capsys.readouterr().out == "hello you\nhello world\n"
    lines = overview(capsys).splitlines()
    assert "  polynsd hello      Say hello." in lines
    assert any(line.startswith("  polynsd train ") for line in lines)


def test_the_librarys_commands_cannot_be_replaced(install):
    install(("train", HELLO))
    assert find_commands() == {name: (target,) for name, target in COMMANDS.items()}
    assert type(parse_command(["train"])).__name__ == "Train"


@pytest.mark.parametrize("target", ["no_such_package:Hello", "test_commands:Missing", "this is no target"])
def test_a_command_that_cannot_be_loaded_says_so_and_leaves_the_others_alone(install, capsys, target):
    install(("broken", target), ("hello", HELLO))
    with pytest.raises(SystemExit) as stop:
        main(["broken"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"polynsd: the command 'broken' cannot be loaded from {target}: ")
    assert "Install the package" in error
    main(["hello"])
    assert capsys.readouterr().out == "hello world\n"
    shown = overview(capsys)
    assert "polynsd broken     not available: the command 'broken' cannot be loaded" in shown
    assert "Say hello." in shown


def test_the_overview_reads_the_first_line_of_docstrings(capsys):
    shown = " ".join(overview(capsys).split())
    for name, targets in find_commands().items():
        if " " not in name:
            docstring = load_command(name, {name: targets}).__doc__.splitlines()[0]
            assert f"polynsd {name} {docstring}" in shown


def test_a_name_that_two_packages_add_is_refused(install, capsys):
    install(("hello", HELLO), ("hello", "other:Hello"), ("twice", HELLO), ("twice", HELLO))
    with pytest.raises(ConfigError, match=r"several packages add the command 'hello': .*other:Hello"):
        parse_command(["hello"])
    main(["twice"])  # the same class twice is one command
    assert capsys.readouterr().out == "hello world\n"


@pytest.mark.parametrize("arguments", [["runs"], ["runs", "--help"]])
def test_a_group_describes_its_commands(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert all(f"polynsd runs {name}" in out for name in ("list", "show", "compare"))
    assert "polynsd data" not in out


@dataclass(frozen=True)
class Many:
    """Do much."""

    main_options: ClassVar[tuple[str, ...]] = ("where",)

    where: str
    """The place."""
    rarely_used: float = 0.5
    """How much."""
    loud: bool = True
    """Say so."""

    def run(self):
        sys.stdout.write(f"{self}\n")


def test_help_shows_what_matters_and_help_all_the_rest(install, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    install(("many", "test_commands:Many"))
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main(["many", option])
        shown[option] = capsys.readouterr().out
    for text in shown.values():
        assert "usage: polynsd many --where TEXT [OPTIONS]" in text
        assert "  --where TEXT            The place. (required)" in text
        assert max(map(len, text.splitlines())) <= 80
    assert "2 more options: polynsd many --help-all" in shown["--help"]
    assert "rarely" not in shown["--help"]
    assert "  --rarely-used NUMBER    How much. (default 0.5)" in shown["--help-all"]
    assert (
        "  --loud                  Say so. (done by default; --no-loud turns it off)" in shown["--help-all"]
    )


def test_an_unknown_option_suggests_the_one_that_was_meant(install, capsys):
    install(("many", "test_commands:Many"))
    with pytest.raises(SystemExit) as stop:
        main(["many", "--were", "here"])
    assert stop.value.code == 2
    assert "unknown option --were. Did you mean '--where'?" in capsys.readouterr().err
    main(["many", "--where=here", "--rarely_used", "1", "--no-loud"])
    assert "where='here', rarely_used=1.0, loud=False" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("ask for missing='mean'", "ask for --missing mean"),
        ("say it: delimiter=';'.", "say it: --delimiter ';'."),
        ("leave it out with exclude=[...]", "leave it out with --exclude COLUMN …"),
        ("t.csv, column 'a': drop it with exclude=[...]", "t.csv, column 'a': drop it with --exclude a"),
        ("column 'a b': drop it with exclude=[...]", "column 'a b': drop it with --exclude 'a b'"),
        ("test_fraction must lie in (0, 1), or be None; got 2", "--test must lie in (0, 1); got 2"),
        ("label needs a table; pass nodes=….", "--label needs a table; pass NODES."),
        ("axis=1 is none of them, or None", "axis=1 is none of them, or None"),
    ],
)
def test_messages_speak_of_options(message, shown):
    options = ("missing", "delimiter", "exclude", "test", "label")
    assert name_options(message, options, ["nodes"]) == shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["fit", "e", "--label", "y", "--out", "r", "--seed", "x"], "expected a whole number; got 'x'"),
        (["fit", "e", "--label", "y", "--out", "r", "--budget", "3x"], "expected a number; got '3x'"),
        (["train", "--epochs", "2.5"], "expected a whole number; got '2.5'"),
    ],
)
def test_a_number_that_is_none_is_told_in_words(arguments, shown, capsys):
    with pytest.raises(SystemExit) as error:
        parse_command(arguments)
    assert error.value.code == 2
    text = capsys.readouterr()
    assert shown in " ".join((text.out + text.err).split())
    assert not any(word in text.out + text.err for word in ("literal", "NoneType", "<class"))


def test_numbers_are_read_as_their_options_say():
    command = parse_command(["fit", "e", "--label", "y", "--out", "r", "--seed", "3", "--budget", "1e1"])
    assert (command.seed, command.budget, command.test) == (3, 10.0, None)
    assert parse_command(["fit", "e", "--label", "y", "--out", "r", "--budget", "None"]).budget is None


def test_a_reader_that_has_seen_enough_ends_the_command_without_a_word():
    code = "from polynsd.cli import main; main(['data', 'list'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()


HELP_OF_ALL = """
import sys
from contextlib import suppress
from polynsd.cli import main
from polynsd.cli.commands import find_commands

commands = find_commands()
for name in ("", *commands, *{name.split()[0] for name in commands}):
    for option in ("--help", "--help-all"):
        with suppress(SystemExit):
            main([*name.split(), option])
main(["--version"])
slow = {"torch", "torch_geometric", "scipy", "sklearn", "pandas", "numba", "optuna", "matplotlib"}
print(len(commands), sorted(slow & set(sys.modules)))
"""


def test_help_and_version_load_no_torch():
    """Of any command, those of other packages too: importing torch takes seconds."""
    result = subprocess.run([sys.executable, "-c", HELP_OF_ALL], capture_output=True, text=True, check=True)
    assert result.stdout.endswith(f"{len(find_commands())} []\n")


def test_help_shows_the_defaults_that_a_command_begins_with(capsys):
    """Help is made without the instance that `default_for` builds; both have the same values."""
    with pytest.raises(SystemExit):
        main(["train", "--help-all"])
    plain = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["train", "--rules", "default", "--help-all"])
    assert capsys.readouterr().out == plain


def test_a_command_imports_only_what_it_needs():
    """`runs list` on an empty folder touches neither PyTorch Geometric nor a search."""
    code = (
        "import sys; from polynsd.cli import parse_command; parse_command(['runs', 'list']); "
        "print([name for name in ('torch_geometric', 'pandas', 'optuna') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
