"""The examples of the README run as they stand."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_there_are_examples():
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("number", [0, 1])
def test_examples_run(number, capsys):
    exec(compile(EXAMPLES[number], f"README example {number}", "exec"), {})


def test_the_example_of_ones_own_graph_runs(tmp_path, monkeypatch):
    (tmp_path / "edges.csv").write_text("from,to\nann,bob\nbob,cy\ncy,ann\n")
    (tmp_path / "nodes.csv").write_text("id,age,kind\nann,30,x\nbob,41,y\ncy,25,x\n")
    monkeypatch.chdir(tmp_path)
    lines = [line for line in EXAMPLES[2].splitlines() if "load(" not in line and "get_splits(" not in line]
    scope = {}
    exec("\n".join(lines), scope)
    assert scope["graph"].class_names == ("x", "y")
    assert scope["data"].num_nodes == 3
