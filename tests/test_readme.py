"""The examples of the README run as they stand, and the commands of the documents are understood."""

import re
import shlex
from pathlib import Path

import pytest

from polynsd import cli, heterophilous_graph

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
ESTIMATOR, MODEL, PARTS, REPLICAS, GRAPH = range(5)
DOCUMENTS = (
    "README.md",
    *(f"docs/{name}.md" for name in ("training", "runs", "search", "your-own-graph", "explain")),
)
COMMAND = re.compile(r"^(?: {4}|\$ )?polynsd ([a-z].*?)&?$", re.MULTILINE)


def commands():
    for name in DOCUMENTS:
        for found in COMMAND.findall((ROOT / name).read_text(encoding="utf-8")):
            yield pytest.param(shlex.split(found, comments=True), id=f"{name}: {found}")


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Tables of a graph with two kinds of nodes, a third of them unknown, in the current folder."""
    graph = heterophilous_graph(60, 2, 5, 6, heterophily=0.9, seed=3)
    edges, nodes = graph.to_pandas(label="kind")
    nodes["kind"] = nodes["kind"].map({0: "x", 1: "y"})
    nodes.loc[::3, "kind"] = None
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    monkeypatch.chdir(tmp_path)


def run(number, text=None):
    scope = {}
    exec(compile(text or EXAMPLES[number], f"README example {number}", "exec"), scope)
    return scope


def test_there_are_examples():
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("number", [MODEL, PARTS])
def test_examples_run(number, capsys):
    run(number)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.slow
def test_the_example_of_replicas_trains_all_of_them(capsys):
    results = run(REPLICAS)["results"]
    assert [result.seed for result in results] == [0, 1, 2, 3, 4] * 2
    assert len({result.val_loss for result in results}) == 10


def test_the_example_of_ones_own_graph_runs(tables):
    lines = [
        line for line in EXAMPLES[GRAPH].splitlines() if "load(" not in line and "get_splits(" not in line
    ]
    scope = run(GRAPH, "\n".join(lines))
    assert scope["graph"].class_names == ("x", "y")
    assert scope["data"].num_nodes == 60


def test_the_example_of_the_estimator_runs(tables, capsys):
    short = EXAMPLES[ESTIMATOR].replace("SheafClassifier()", "SheafClassifier(budget=None, epochs=5)")
    assert short != EXAMPLES[ESTIMATOR]
    assert set(run(ESTIMATOR, short)["model"].predict()) <= {"x", "y"}


@pytest.mark.parametrize("arguments", list(commands()))
def test_commands_are_understood(arguments):
    assert hasattr(cli.parse_command(arguments), "run")
