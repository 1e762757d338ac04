"""docs/reproducing.md: its commands are understood, its examples run, and what it says of resuming holds."""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from invented_records import scores_of
from small_experiment import SMALL, cell, runner

from polynsd import cli, heterophilous_graph
from polynsd.cli import main
from polynsd.data import save_graph
from polynsd.search.space import Space
from polynsd.training.configuration import option_hints, option_types
from polynsd.zoo import registry
from polynsd_paper.experiment import fast, with_budget
from polynsd_paper.experiments.models import ModelRow
from polynsd_paper.records import read_record

PAGE = (Path(__file__).parents[2] / "docs" / "reproducing.md").read_text(encoding="utf-8")
MODEL, GRAPH = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^polynsd (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command):
    assert hasattr(cli.parse_command(shlex.split(command, comments=True)), "run")


def budgets(trials):
    return with_budget(SMALL, trials, None)


def short(space):
    return Space.from_dict({**space.to_dict(), "training.epochs": 5, "training.patience": 5})


@pytest.fixture
def mine(monkeypatch):
    """The page's model, as if its file and its line were there."""
    module = ModuleType("polynsd.zoo.mine")
    exec(compile(MODEL, "mine.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry.ZOO, "mine", registry.Entry("mine", "Mine"))
    cached = (registry.all_model_options, registry.model_options, option_types, option_hints)
    for function in cached:
        function.cache_clear()
    yield "mine"
    for function in cached:
        function.cache_clear()


def test_the_example_of_ones_own_model_is_searched(mine, tmp_path):
    entrant = ModelRow(mine)
    assert "model.options.weight" in entrant.space().to_dict()
    record = runner(tmp_path, budgets(2)).record(cell(model=mine, plan=short(entrant.space())))
    assert -1 <= record.configuration["model"]["options"]["weight"] <= 1
    assert scores_of(record).mean() > 0


@pytest.mark.usefixtures("no_tracer")
def test_the_example_of_ones_own_graph_makes_its_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_graph("graph.npz", heterophilous_graph(60, 2, 5, 6, heterophily=0.9, seed=3))
    code = GRAPH.replace("runner = ", "mine = fast(mine)\nrunner = ")
    code = re.sub(r"MODELS = .*", 'MODELS = ("gcn", "mlp")', code)
    exec(compile(code, "reproducing.md", "exec"), {"fast": fast})
    folder = tmp_path / "results" / "records" / "mine-fast" / "graph"
    assert sorted(path.name for path in folder.iterdir()) == ["gcn.yaml", "mlp.yaml"]
    assert scores_of(read_record(folder / "gcn.yaml")).shape == (10, 1)
    assert "mine-fast: test accuracy in %" in capsys.readouterr().out


@pytest.mark.usefixtures("no_tracer")
def test_another_budget_is_another_search(tmp_path):
    assert runner(tmp_path).record(cell()).search["trials"] == 4
    assert runner(tmp_path, budgets(6)).record(cell()).search["trials"] == 6
    assert runner(tmp_path).record(cell()).search["trials"] == 4


def test_claims_from_the_command_line(capsys, tmp_path):
    main(["claims", "C31", "--results", str(tmp_path)])
    assert "## C31\n\nAll experiments ran on one kind of hardware. **Refuted**" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["claims", "C99"])
    assert "unknown claim 'C99'" in capsys.readouterr().err
