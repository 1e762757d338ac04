"""Generators by name: graphs that remember their arguments."""

import json

import pytest

from polynsd.data import Graph, load_graph, save_graph
from polynsd.data.generators import GENERATORS, make_graph
from polynsd.errors import ConfigError


def test_arguments_are_recorded(tmp_path):
    graph = make_graph("minesweeper", rows=6, cols=6)
    arguments = json.loads(graph.extras["arguments"].item())
    assert arguments["rows"] == 6
    assert "seed" in arguments
    save_graph(tmp_path / "a.npz", graph)
    assert load_graph(tmp_path / "a.npz", extras=True).extras["arguments"] == graph.extras["arguments"]


def test_names_tell_graphs_apart():
    names = [make_graph("streets", num_nodes=n, labels=False).name for n in (30, 31, 30)]
    assert names[0] == names[2] != names[1]
    assert names[0].startswith("streets-")
    assert len(names[0]) == len("streets-1a2b3c4d")


def test_defaults_count_as_arguments():
    default = make_graph("streets", num_nodes=30, labels=False)
    assert make_graph("streets", num_nodes=30, labels=False, seed=0).name == default.name


def test_every_generator_makes_a_graph():
    for name, arguments in {
        "heterophily": {},
        "minesweeper": {},
        "streets": {"num_nodes": 50},
        "chain": {},
        "planted": {},
    }.items():
        assert isinstance(GENERATORS[name].function(**arguments), Graph)


def test_what_does_not_exist():
    with pytest.raises(ConfigError, match="unknown generator 'mines'"):
        make_graph("mines")
    for name in GENERATORS:
        with pytest.raises(ConfigError, match=f"unknown {name} argument 'size'"):
            make_graph(name, size=3)
