"""docs/reproducing.md: its commands are understood, its examples run, and what it says of resuming holds."""

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from small_experiment import SMALL, cell, runner

from polynsd import cli, heterophilous_graph
from polynsd.cli import main
from polynsd.data import Graph, save_graph
from polynsd.experiments.catalogue import EXPERIMENTS
from polynsd.experiments.entrants import Entrant
from polynsd.experiments.record import read_records
from polynsd.nn.zoo import registry
from polynsd.search.options import option_types

PAGE = (Path(__file__).parents[2] / "docs" / "reproducing.md").read_text(encoding="utf-8")
MODEL, GRAPH = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^polynsd (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command):
    assert hasattr(cli._parse(shlex.split(command, comments=True)), "run")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_described(name):
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert line.endswith(f"| {EXPERIMENTS[name].minutes} |")


@pytest.fixture
def mine(monkeypatch):
    """The page's model, as if its file and its line were there."""
    module = ModuleType("polynsd.nn.zoo.mine")
    exec(compile(MODEL, "mine.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry.ZOO, "mine", registry.Entry("mine", "Mine"))
    known = (registry.option_kinds, registry.own_options, option_types)
    for remembered in known:
        remembered.cache_clear()
    yield "mine"
    for remembered in known:
        remembered.cache_clear()


def test_the_example_of_ones_own_model_is_searched(mine, tmp_path):
    entrant = Entrant(mine)
    assert "model.options.weight" in entrant.space().to_dict()
    record = runner(tmp_path, fast=True).record(cell(model=mine, plan=entrant.space()))
    assert -1 <= record.configuration["model"]["options"]["weight"] <= 1
    assert record.mean > 0


def test_the_example_of_ones_own_graph_makes_its_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = heterophilous_graph(60, 2, 5, 6, heterophily=0.9, seed=3)
    save_graph("graph.npz", Graph.from_pyg(data))
    short = GRAPH.replace("Runner(mine, ", "Runner(mine, fast=True, ")
    short = re.sub(r"MODELS = .*", 'MODELS = ("gcn", "mlp")', short)
    exec(compile(short, "reproducing.md", "exec"), {})
    records = read_records(tmp_path / "results" / "mine")
    assert [(one.dataset, one.cell["model"]) for one in records] == [("graph", "gcn"), ("graph", "mlp")]
    assert records[0].by_split().shape == (10, 1)
    assert "mine: test accuracy in %" in capsys.readouterr().out


def test_without_its_record_a_search_goes_on_to_the_new_total(tmp_path):
    first = runner(tmp_path).record(cell())
    runner(tmp_path).path(cell()).unlink()
    more = replace(SMALL.budget("left"), trials=8)
    second = runner(tmp_path, budget=more).record(cell())
    assert second.search["best_so_far"][:4] == first.search["best_so_far"]
    assert second.search["trials"] == 8


def test_claims_from_the_command_line(capsys, tmp_path):
    main(["claims", "C31", "--results", str(tmp_path)])
    assert "| C31 | All experiments ran on one kind of hardware. | refuted |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["claims", "C99"])
    assert "unknown claim 'C99'" in capsys.readouterr().err
