"""A name finds a graph wherever it is: in the catalogue, in an archive, in tables."""

import numpy as np
import pytest

from polynsd.data import load_graph, save_graph
from polynsd.data.datasets import catalogue
from polynsd.data.datasets.reading import find_graph
from polynsd.data.generators.embedded import make_graph
from polynsd.errors import ConfigError, DataError


@pytest.fixture
def graph():
    return make_graph("heterophily", num_nodes=20, num_classes=2, num_features=3)


def test_a_benchmark_comes_with_its_entry(graph, monkeypatch):
    monkeypatch.setattr(catalogue, "load", lambda name: graph)
    assert find_graph("texas") == (graph, catalogue.ENTRIES["texas"], None)


def test_an_archive_has_neither_entry_nor_report(graph, tmp_path):
    save_graph(tmp_path / "mine.npz", graph)
    found, entry, report = find_graph(str(tmp_path / "mine.npz"))
    assert (entry, report) == (None, None)
    assert np.array_equal(found.edge_index, load_graph(tmp_path / "mine.npz").edge_index)
    assert not found.extras
    assert find_graph(str(tmp_path / "mine.npz"), extras=True)[0].extras.keys() == graph.extras.keys()


def test_tables_come_with_a_report(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,amount\n0,1,2.0\n1,2,3.0\n2,2,1.0\n")
    (tmp_path / "nodes.csv").write_text("id,size,kind\n0,1.5,a\n1,2.5,b\n2,3.5,a\n")
    tables = (str(tmp_path / "edges.csv"), tmp_path / "nodes.csv")
    graph, entry, report = find_graph(*tables, label="kind", weight="amount")
    assert entry is None
    assert "1" in str(report)  # a loop was dropped
    assert graph.edge_weight.tolist() == [2.0, 3.0]
    assert graph.y.tolist() == [0, 1, 0]
    assert graph.x.shape == (3, 1)
    assert find_graph(*tables)[0].x.shape[1] > 1  # then the kind is a feature


def test_a_name_of_nothing():
    with pytest.raises(ConfigError, match=r"Did you mean 'texas'"):
        find_graph("texsa")
    with pytest.raises((DataError, OSError), match=r"nothing\.npz"):
        find_graph("nothing.npz")
