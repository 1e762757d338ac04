"""Inference in parts with exact halos is inference on the whole graph; anything else says so."""

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from published_block import published
from scale_graphs import awkward_graph, path_graph, shaken
from torch_geometric.data import Data

from polynsd import NSD, IdentitySheaf, PolyNSD, PolySpectralGNN
from polynsd.errors import ConfigError, GraphError
from polynsd.scale import Halos, partition, predict_in_parts, receptive_field
from polynsd.testing.strategies import edge_lists
from polynsd.zoo import GCN, MLP

MAPS = ("identity", "diagonal", "orthogonal", "orthogonal(cayley)", "general")
SIZES = (5, 3, 2, 2)


def whole(model, data):
    extra = {} if data.edge_weight is None else {"edge_weight": data.edge_weight}
    if data.edge_attr is not None:
        extra["edge_attr"] = data.edge_attr
    with torch.no_grad():
        return model.eval()(data.x, data.edge_index, **extra)


def distance(a, b):
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(
    ("normalization", "degree", "num_layers"),
    [("sheaf", 1, 2), ("sheaf", 3, 1), ("sheaf-augmented", 3, 2)],
)
@pytest.mark.parametrize("maps", MAPS)
def test_exact_halos_give_what_the_whole_graph_gives(maps, normalization, degree, num_layers):
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        data = awkward_graph(degree, dtype=dtype)
        model = published(
            5, 3, num_layers, 2, maps=maps, degree=degree, stalk_dim=2, normalization=normalization
        )
        model = shaken(model, dtype=dtype, size=0.2)
        expected = whole(model, data)
        assert expected.dtype == dtype
        for layerwise in (False, True):
            found = predict_in_parts(model, data, 5, method="bfs", layerwise=layerwise)
            assert distance(found, expected) < tolerance


@settings(max_examples=30)
@given(edge_lists(10), st.sampled_from(MAPS), st.integers(0, 2), st.data())
def test_on_any_graph(edges, maps, degree, data):
    edge_index, n = edges
    x = torch.randn(n, 5, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    graph = Data(x=x, edge_index=edge_index)
    model = shaken(published(*SIZES, maps=maps, degree=degree, stalk_dim=2), size=0.2)
    num_parts = data.draw(st.integers(1, n))
    assert distance(predict_in_parts(model, graph, num_parts, method="bfs"), whole(model, graph)) < 1e-12


@pytest.mark.parametrize(
    "model",
    [
        NSD(*SIZES, stalk_dim=2),
        NSD(*SIZES, stalk_dim=2, normalization="degree"),
        IdentitySheaf(*SIZES, degree=2, stalk_dim=2),
        PolySpectralGNN(*SIZES, degree=2),
        published(*SIZES, stalk_dim=2, degree=2, shared_maps=True, shared_filter=True, second_linear=True),
        published(*SIZES, stalk_dim=2, degree=2, edge_weights=True, fixed_channels=("laplacian", "signless")),
        published(*SIZES, stalk_dim=2, degree=2, edge_dim=2),
        GCN(*SIZES),
        MLP(*SIZES),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_model_with_edge_weights(model):
    data = awkward_graph(4, weighted=True)
    if not (isinstance(model, PolyNSD) and model.config.edge_dim):
        del data.edge_attr
    model = shaken(model, size=0.2)
    expected = whole(model, data)
    assert distance(predict_in_parts(model, data, 6), expected) < 1e-12
    if isinstance(model, PolyNSD):
        assert distance(predict_in_parts(model, data, 6, layerwise=True), expected) < 1e-12


def test_sparse_features():
    """Large bags of words take another way through the encoder, in the whole graph and in its parts."""
    g = torch.Generator().manual_seed(0)
    x = (torch.rand(600, 700, generator=g) < 0.01).double()
    data = Data(x=x, edge_index=torch.randint(0, 600, (2, 900), generator=g))
    model = published(700, 3, 1, 2, degree=1, stalk_dim=2).double()
    assert distance(predict_in_parts(model, data, 3), whole(model, data)) < 1e-12


@pytest.mark.parametrize("layerwise", [False, True])
def test_max_nodes_is_kept(layerwise, monkeypatch):
    data, sizes, around = path_graph(60), [], Halos.around

    def watched(self, core, depth):
        halo = around(self, core, depth)
        sizes.append(len(halo.nodes))
        return halo

    monkeypatch.setattr(Halos, "around", watched)
    model = shaken(published(*SIZES, degree=2, stalk_dim=2))
    found = predict_in_parts(model, data, max_nodes=20, layerwise=layerwise)
    assert max(sizes) <= 20
    assert distance(found, whole(model, data)) < 1e-12


def test_max_nodes_below_one_halo_is_refused():
    model = published(*SIZES, degree=2).double()
    with pytest.raises(ConfigError, match=r"node \d+ alone needs the \d+ nodes within 6 hops"):
        predict_in_parts(model, path_graph(60), max_nodes=5)


def test_shallow_halos_are_approximate_and_say_so(caplog):
    data, model = path_graph(40), shaken(published(*SIZES, degree=2, stalk_dim=2))
    expected = whole(model, data)
    with caplog.at_level(logging.WARNING, "polynsd"):
        shallow = predict_in_parts(model, data, 8, depth=1)
    assert "depth 1 are approximate; the exact depth is 6" in caplog.text
    assert distance(shallow, expected) > 1e-6
    caplog.clear()
    deep = predict_in_parts(model, data, 8, depth=receptive_field(model) + 1)
    assert not caplog.text
    assert distance(deep, expected) < 1e-12


def test_a_global_model_needs_a_depth(caplog):
    data, model = path_graph(), published(*SIZES, lambda_max="lanczos").double()
    with pytest.raises(ConfigError, match="lambda_max='analytic'"):
        predict_in_parts(model, data, 4)
    assert predict_in_parts(model, data, 4, depth=8).shape == (16, 2)
    assert "exact depth is unknown" in caplog.text


def test_the_model_is_left_in_its_mode():
    model = published(*SIZES, degree=1, dropout=0.5).double().train()
    first, again = (predict_in_parts(model, path_graph(), 4) for _ in range(2))
    assert model.training
    assert torch.equal(first, again)
    assert not first.requires_grad


def test_lazy_models_learn_their_size():
    assert predict_in_parts(published(-1, 3, 1, 2).double(), path_graph(), 2).shape == (16, 2)


def test_bf16_is_near():
    data, model = awkward_graph(dtype=torch.float32), shaken(published(*SIZES, degree=2), 0, torch.float32)
    found = predict_in_parts(model, data, 4, precision="bf16")
    assert 0 < distance(found.float(), whole(model, data)) < 2e-2


def test_refusals():
    data, model = path_graph(), published(*SIZES).double()
    for sizes in ({}, {"num_parts": 2, "max_nodes": 9}):
        with pytest.raises(ConfigError, match="either num_parts or max_nodes"):
            predict_in_parts(model, data, **sizes)
    with pytest.raises(ConfigError, match="depth"):
        predict_in_parts(model, data, 2, depth="all")
    with pytest.raises(ConfigError, match="always exact"):
        predict_in_parts(model, data, 2, depth=2, layerwise=True)
    with pytest.raises(ConfigError, match="sheaf models only"):
        predict_in_parts(GCN(*SIZES).double(), data, 2, layerwise=True)
    with pytest.raises(ConfigError, match="choose from: bf16, float32, fp16"):
        predict_in_parts(model, data, 2, precision="half")
    with pytest.raises(GraphError, match="no nodes"):
        Halos(data).assemble([], lambda core: core)
    assert partition(data, 2).shape == (16,)
