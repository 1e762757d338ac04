"""Commands are found by name; other packages add theirs, and none of them can break the rest."""

import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from polynsd.cli import commands, main, parse_command
from polynsd.cli.commands import COMMANDS, find_commands, load_command
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
    assert callable(load_command(name, COMMANDS).run)


def test_a_package_adds_a_command(install, capsys):
    install(("hello", HELLO), ("say hello", HELLO))
    main(["hello", "--name", "you"])
    main(["say", "hello"])
    assert capsys.readouterr().out == "hello you\nhello world\n"
    lines = overview(capsys).splitlines()
    assert "  polynsd hello         Say hello." in lines
    assert any(line.startswith("  polynsd train ") for line in lines)


def test_the_librarys_commands_cannot_be_replaced(install):
    install(("train", HELLO))
    assert find_commands() == COMMANDS
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
    assert "polynsd broken        not available: the command 'broken' cannot be loaded" in shown
    assert "Say hello." in shown


def test_a_name_that_two_packages_add_is_refused(install, capsys):
    install(("hello", HELLO), ("hello", "other:Hello"), ("twice", HELLO), ("twice", HELLO))
    with pytest.raises(ConfigError, match=r"several packages add the command 'hello': .*other:Hello"):
        parse_command(["hello"])
    main(["twice"])  # the same class twice is one command
    assert capsys.readouterr().out == "hello world\n"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_torch(option):
    code = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); "
        f"from polynsd.cli import main; main(['{option}'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("False\n")


def test_a_command_imports_only_what_it_needs():
    """`runs list` on an empty folder touches neither PyTorch Geometric nor a search."""
    code = (
        "import sys; from polynsd.cli import parse_command; parse_command(['runs', 'list']); "
        "print([name for name in ('torch_geometric', 'pandas', 'optuna') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
