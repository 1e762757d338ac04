"""The classics drop the features that they see, multiply sparse ones as such, and count them."""

import pytest
import torch
from classic_formulas import DROPPING, RING, SIZES, build_zoo, built, graph
from torch.nn import functional


@pytest.mark.parametrize("name", DROPPING)
def test_dropped_features_are_those_that_the_model_sees(name):
    """With all other dropout off, training on x is evaluating on dropout(x): every map sees the same mask."""
    x, edge_index, *_ = graph(RING)
    model = built(name, input_dropout=0.5, **({"drop_edge": 0.0} if name == "dropedge" else {}))
    torch.manual_seed(6)
    dropped = functional.dropout(x, 0.5)
    torch.manual_seed(6)
    torch.testing.assert_close(model.train()(x, edge_index), model.eval()(dropped, edge_index))


@pytest.mark.parametrize("name", DROPPING)
def test_sparse_features_are_multiplied_as_such(name, monkeypatch):
    _, edge_index, *_ = graph(RING)
    x = torch.zeros(7, 40, dtype=torch.float64)
    x.view(-1)[::37] = torch.randn(8, dtype=torch.float64)
    model = built(name, (40, 8, 3, 4), input_dropout=0.5)
    dense = model(x, edge_index)
    monkeypatch.setattr("polynsd.nn.features.SIZE", 1)
    sizes = []
    drop = functional.dropout
    monkeypatch.setattr(functional, "dropout", lambda z, *a, **b: sizes.append(z.numel()) or drop(z, *a, **b))
    torch.testing.assert_close(model(x.clone(), edge_index), dense)
    assert 8 in sizes  # entries that are not zero, instead of all


@pytest.mark.parametrize("name", DROPPING)
def test_the_number_of_features_may_be_seen_at_the_first_call(name):
    x, edge_index, *_ = graph(RING)
    model = build_zoo(name, (-1, *SIZES[1:]), 0.0, {}).double()
    assert model(x, edge_index).shape == (len(x), SIZES[-1])
