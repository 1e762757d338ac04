"""Predictions under the owner's ids and class names."""

import numpy as np
import pytest
import torch

from polynsd.data.graph import Graph
from polynsd.data.tables import predictions_table
from polynsd.errors import DataError, ShapeError


def graph(**parts):
    return Graph("g", np.zeros((2, 0), dtype=np.int64), 2, node_ids=np.array(["a", "007"]), **parts)


def test_classes():
    known = graph(y=np.array([0, 1]), class_names=("cat", "dog"))
    table = predictions_table(known, torch.tensor([[0.25, 0.75], [0.5, 0.5]], requires_grad=True))
    assert table.to_dict("list") == {
        "id": ["a", "007"],
        "prediction": ["dog", "cat"],
        "cat": [0.25, 0.5],
        "dog": [0.75, 0.5],
    }


def test_class_names_that_are_taken_or_missing():
    named = graph(y=np.array([0, 1]), class_names=("id", "prediction"))
    expected = ["id", "prediction", "class id", "class prediction"]
    assert list(predictions_table(named, np.eye(2))) == expected
    assert list(predictions_table(graph(), np.eye(2))) == ["id", "prediction", "0", "1"]


def test_values():
    targets = graph(y=np.array([0.5, np.nan], dtype=np.float32))
    expected = {"id": ["a", "007"], "prediction": [1.5, 2.5]}
    for values in ([1.5, 2.5], [[1.5], [2.5]]):
        assert predictions_table(targets, values).to_dict("list") == expected
    assert predictions_table(graph(), [1.5, 2.5]).to_dict("list") == expected


@pytest.mark.parametrize(
    "values", [np.ones((3, 2)), np.ones((2, 1)), np.ones((2, 3)), np.ones(2), np.ones((2, 0))]
)
def test_wrong_shapes(values):
    with pytest.raises(ShapeError, match=r"must have shape \[2, 2\]"):
        predictions_table(graph(y=np.array([0, 1]), class_names=("a", "b")), values)


def test_numbers_must_be_finite():
    with pytest.raises(DataError, match="must be finite"):
        predictions_table(graph(), [[np.nan, 1], [0, 1]])
