"""Every way a graph can be unusable has one clear error; every usable graph passes untouched."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from polynsd.data import check_graph, heterophilous_graph, minesweeper
from polynsd.data.validation import finite_float32
from polynsd.errors import DataError, GraphError


def triangle(**changes):
    parts = {
        "x": torch.ones(3, 2),
        "y": torch.tensor([0, 1, -1]),
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]]),
    }
    return Data(**(parts | changes))


@pytest.mark.parametrize(
    "data",
    [
        triangle(),
        triangle(y=None),
        triangle(x=torch.ones(3, 2, dtype=torch.float64)),
        triangle(y=torch.tensor([0, 1, 1], dtype=torch.int32)),
        triangle(edge_index=torch.empty(2, 0, dtype=torch.long)),
        heterophilous_graph(50).to_pyg(),
        heterophilous_graph(50, legacy=True).to_pyg(),
        minesweeper(3, 4).to_pyg(),
    ],
)
def test_usable_graphs_pass(data):
    check_graph(data)


def test_a_graph_is_told_to_be_converted():
    with pytest.raises(DataError, match=r"got a Graph. Convert it with graph.to_pyg\(\)"):
        check_graph(minesweeper(3, 4))


def test_checking_changes_nothing():
    data = triangle()
    before = data.clone()
    check_graph(data)
    for name, value in before:
        assert torch.equal(value, data[name])


BAD_FEATURES = torch.ones(3, 2)
BAD_FEATURES[1, 0], BAD_FEATURES[2, 1] = torch.nan, torch.inf


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"x": None}, "x must be a floating-point tensor.*got nothing"),
        ({"x": torch.ones(3, 2, dtype=torch.long)}, r"got torch.int64 of shape \[3, 2\]"),
        ({"x": torch.ones(3)}, r"got torch.float32 of shape \[3\]"),
        ({"x": [[1.0]] * 3}, "got a list"),
        ({"x": torch.ones(0, 2)}, "at least one node"),
        ({"x": BAD_FEATURES}, "2 entries are NaN or infinite, the first in row 1"),
        ({"y": torch.tensor([0, 1])}, "got 2 labels for 3 rows"),
        ({"y": torch.tensor([0.0, 1.0, 1.0])}, "y must be an integer tensor.*float32"),
        ({"y": torch.tensor([True, False, True])}, "y must be an integer tensor.*bool"),
        ({"y": torch.zeros(3, 1, dtype=torch.long)}, r"shape \[3, 1\]"),
        ({"y": torch.tensor([0, -2, 1])}, "at least -1 .* got -2"),
    ],
)
def test_features_and_labels_that_cannot_be_learned_from(changes, fragment):
    with pytest.raises(DataError, match=fragment):
        check_graph(triangle(**changes))


@pytest.mark.parametrize(
    ("edge_index", "fragment"),
    [
        (None, "got nothing"),
        (torch.tensor([[0, 1], [1, 2], [2, 0]]), r"shape \[3, 2\].*pairs"),
        (torch.tensor([0, 1]), r"shape \[2\]"),
        (torch.tensor([[0], [1]], dtype=torch.int32), "int64 tensor.*torch.int32"),
        (torch.tensor([[0.0], [1.0]]), "int64 tensor"),
        (torch.tensor([[0, -1], [1, 2]]), "from 0 to 2; got -1"),
        (torch.tensor([[0, 1], [1, 3]]), "from 0 to 2; got 3"),
    ],
)
def test_edges_that_describe_no_graph(edge_index, fragment):
    with pytest.raises(GraphError, match=fragment):
        check_graph(triangle(edge_index=edge_index))


def test_numbers_must_fit_into_float32():
    assert finite_float32(np.array([1, 2]), "c").dtype == np.float32
    with pytest.raises(DataError, match="2 do not, the first in row 2"):
        finite_float32(np.array([0, 1e39, np.inf]), "c")
    with pytest.raises(DataError, match="the first in row 1"):
        finite_float32(np.array([np.nan]), "c")
    assert np.isnan(finite_float32(np.array([np.nan]), "c", allow_nan=True)).all()
