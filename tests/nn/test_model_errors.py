"""Mistakes get one clear error that says what was expected, what came, and what to do."""

import pytest
import torch
from published_block import published
from small_graphs import EDGE_INDEX, NUM_FEATURES, NUM_NODES, features
from torch_geometric.data import Batch, Data

from polynsd import (
    NSD,
    ConfigError,
    DataError,
    GraphError,
    IdentitySheaf,
    LayerConfig,
    ModelConfig,
    PolyNSD,
    PolySheafConv,
    PolySpectralGNN,
    ShapeError,
    SheafODE,
    Topology,
)  # fmt: skip
from polynsd.zoo import build_model

SIZES = (NUM_FEATURES, 4, 2, 3)
X = features(dtype=torch.float32)

BAD_OPTIONS = [
    ({"stalk_dim": 0}, r"stalk_dim must be an integer of at least 1; got 0"),
    ({"stalk_dim": 2.0}, r"stalk_dim must be an integer; got 2.0"),
    ({"degree": -1}, r"degree must be an integer of at least 0; got -1"),
    ({"dropout": 1}, r"dropout must lie in \[0, 1\); got 1"),
    ({"dropout": -0.1}, r"dropout must lie in \[0, 1\)"),
    ({"map_dropout": 1.0}, r"map_dropout must lie in \[0, 1\)"),
    ({"edge_dim": -2}, r"edge_dim must be an integer of at least 0"),
    ({"stalk_dimension": 3}, r"unknown option 'stalk_dimension'.*Did you mean 'stalk_dim'\?"),
    ({"maps": "diagnal"}, r"unknown maps 'diagnal'.*Did you mean 'diagonal'\?"),
    ({"maps": "orthogonal(caley)"}, r"unknown orthogonal method 'caley'.*Did you mean 'cayley'\?"),
    ({"maps": "general(3)"}, r"maps 'general' does not take the arguments"),
    ({"basis": "chebychev1"}, r"unknown basis 'chebychev1'.*Did you mean 'chebyshev1'\?"),
    ({"basis": "gegenbauer(-1)"}, r"gegenbauer needs lambda > 0; got -1"),
    ({"basis": "jacobi(0.5, -1.2)"}, r"jacobi needs alpha > -1 and beta > -1"),
    (
        {"normalization": "symmetric"},
        r"unknown normalization 'symmetric'; choose from: degree, none, random-walk",
    ),
    ({"coefficients": "convx"}, r"Did you mean 'convex'\?"),
    ({"correction": "highpass"}, r"Did you mean 'high-pass'\?"),
    ({"fixed_channels": ("lowpass",)}, r"unknown fixed channel 'lowpass'; choose from: laplacian, signless"),
    ({"activation": "gelu"}, r"unknown activation 'gelu'.*elu"),
    ({"maps": "orthogonal", "stalk_dim": 1}, r"at least 2.*'diagonal' or maps='identity'"),
    (
        {"maps": "orthogonal(euler)", "stalk_dim": 4},
        r"orthogonal\(euler\) needs stalk_dim from 2 to 3; got 4",
    ),
    (
        {"maps": "orthogonal(matrix_exp)", "stalk_dim": 65},
        r"orthogonal\(matrix_exp\) needs stalk_dim from 2 to 64; got 65. Use maps='diagonal' or ",
    ),
    ({"maps": "identity", "edge_weights": True}, r"maps='identity' learns nothing from edges"),
    ({"correction_state": "residual", "correction": "none"}, r"correction_state='residual' needs"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
@pytest.mark.parametrize("build", [lambda **o: PolyNSD(*SIZES, **o), lambda **o: PolySheafConv(5, 3, **o)])
def test_bad_options(build, options, message):
    with pytest.raises(ConfigError, match=message):
        build(**options)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 4, 2, 3), r"in_channels \(or -1 to infer it\) must be an integer of at least 1"),
        ((5, 0, 2, 3), r"hidden_channels must be an integer of at least 1; got 0"),
        ((5, 4, 0, 3), r"num_layers must be an integer of at least 1; got 0"),
        ((5, 4, 2, 0), r"channels must be an integer of at least 1"),
        ((5, 4, 2.5, 3), r"num_layers must be an integer"),
    ],
)
def test_bad_sizes(sizes, message):
    with pytest.raises(ConfigError, match=message):
        PolyNSD(*sizes)


def test_bad_input_dropout():
    with pytest.raises(ConfigError, match=r"input_dropout must lie in \[0, 1\)"):
        PolyNSD(*SIZES, input_dropout=1.0)


@pytest.mark.parametrize(
    ("x", "graph", "error", "message"),
    [
        (features(7, 4, dtype=torch.float32), EDGE_INDEX, ShapeError, r"\[N, 5\]; got \[7, 4\]"),
        (X[0], EDGE_INDEX, ShapeError, r"\[N, 5\]; got \[5\]"),
        (
            torch.ones(7, 5, dtype=torch.long),
            EDGE_INDEX,
            ShapeError,
            r"floating point; got torch.int64.*x\.float",
        ),
        (
            X.double(),
            EDGE_INDEX,
            ShapeError,
            r"dtype of the model, torch.float32; got torch.float64.*x\.to\(torch\.float32\)",
        ),
        (X.bfloat16(), EDGE_INDEX, ShapeError, r"torch.float32; got torch.bfloat16"),
        (X[:6], Topology.from_edge_index(EDGE_INDEX, NUM_NODES), ShapeError, "7 nodes.*features have 6 rows"),
        (X[:4], EDGE_INDEX, GraphError, r"names node 5, but there are only 4 nodes"),
        (X, EDGE_INDEX.t(), ShapeError, r"edge_index must have shape \[2, E\]"),
        (X, EDGE_INDEX.float(), ShapeError, "edge_index must hold integers"),
        (X, "edges.csv", GraphError, "a graph must be an edge_index tensor.*got str"),
    ],
)
@pytest.mark.parametrize("module", [PolyNSD(*SIZES), PolySheafConv(5, 3)], ids=["model", "conv"])
def test_bad_inputs(module, x, graph, error, message):
    with pytest.raises(error, match=message):
        module(x, graph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "maps on nodes do not read edge features.*maps_on='edges' and edge_dim=2"),
        ({"maps": "diagonal", "maps_on": "edges"}, "edge_dim=0 but got edge_attr with 2 features"),
        ({"maps": "identity"}, "no use for edge_attr"),
    ],
)
def test_edge_features_that_were_not_announced(options, message):
    with pytest.raises(ShapeError, match=message):
        PolyNSD(*SIZES, **options)(X, EDGE_INDEX, edge_attr=torch.ones(14, 2))


def test_edge_features_must_be_numbers():
    model = PolySheafConv(5, 3, maps="general", maps_on="edges", edge_dim=1)
    with pytest.raises(DataError, match="edge_attr must be finite"):
        model(X, EDGE_INDEX, edge_attr=torch.full((EDGE_INDEX.size(1), 1), torch.nan))


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr", "batch"])
def test_what_is_no_tensor_is_told(name):
    with pytest.raises(ShapeError, match=f"{name} must be a tensor; got list"):
        PolyNSD(*SIZES)(X, EDGE_INDEX, **{name: [1.0] * EDGE_INDEX.size(1)})


@pytest.mark.parametrize(("model", "wrong", "meant"), [
    (PolyNSD, "input_droput", "input_dropout"), (PolyNSD, "linear_encodr", "linear_encoder"),
    (SheafODE, "horison", "horizon"), (PolyNSD, "degre", "degree"),
])  # fmt: skip
def test_misspelt_options_are_guessed(model, wrong, meant):
    with pytest.raises(ConfigError, match=f"unknown option '{wrong}'.*Did you mean '{meant}'"):
        model(*SIZES, **{wrong: 1})


def test_a_batch_brings_the_numbers_of_its_graphs():
    graphs = [Data(x=X, edge_index=EDGE_INDEX), Data(x=2 * X[:3], edge_index=torch.tensor([[0, 1], [1, 2]]))]
    model, batch = PolyNSD(*SIZES, normalization="none").eval(), Batch.from_data_list(graphs)
    alone = torch.cat([model(graph.x, graph) for graph in graphs])
    torch.testing.assert_close(model(batch.x, batch), alone)


def test_a_model_made_without_memory_is_the_model():
    options = {"maps": "general", "maps_on": "edges"}
    model = PolyNSD(*SIZES, **options).eval()
    with torch.device("meta"):
        other = PolyNSD(*SIZES, **options).eval()
    other = other.to_empty(device="cpu")
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(X, EDGE_INDEX), model(X, EDGE_INDEX))


def test_a_model_may_be_mapped_over_features():
    model, xs = PolyNSD(*SIZES).eval(), torch.stack([X, 2 * X])
    found = torch.vmap(lambda x: model(x, EDGE_INDEX))(xs)
    torch.testing.assert_close(found, torch.stack([model(x, EDGE_INDEX) for x in xs]))


def test_edge_features_that_were_announced_and_did_not_come():
    with pytest.raises(ShapeError, match="edge_dim=2"):
        published(*SIZES, edge_dim=2)(X, EDGE_INDEX)


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
def test_edge_values_of_the_wrong_length(name):
    with pytest.raises(ShapeError, match=r"one value per column of edge_index was expected \(14\); got 7"):
        published(*SIZES, edge_dim=1)(X, EDGE_INDEX, **{name: torch.ones(7)})


CONFLICTS = [
    (NSD, {"degree": 3}, "NSD means degree=1; got 3"),
    (NSD, {"filter": "polynomial"}, "NSD means filter='diffusion'"),
    (NSD, {"correction": "linear"}, "NSD means correction='none'"),
    (IdentitySheaf, {"maps": "general"}, "IdentitySheaf means maps='identity'; got 'general'. Use PolyNSD"),
    (PolySpectralGNN, {"stalk_dim": 2}, "PolySpectralGNN means stalk_dim=1; got 2"),
    (PolySpectralGNN, {"normalization": "none"}, "PolySpectralGNN means normalization='sheaf'"),
]  # fmt: skip


@pytest.mark.parametrize("build", ["__call__", "reference"])
@pytest.mark.parametrize(("kind", "options", "message"), CONFLICTS)
def test_options_that_contradict_the_model(kind, options, message, build):
    make = kind if build == "__call__" else kind.reference
    with pytest.raises(ConfigError, match=message):
        make(*SIZES, **options)


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (
            torch.zeros(NUM_NODES - 1, dtype=torch.long),
            ShapeError,
            r"graph number.*torch.int64 of shape \[6\]",
        ),
        (torch.zeros(NUM_NODES), ShapeError, "got torch.float32"),
        (torch.arange(NUM_NODES).flip(0), ShapeError, "ascending order; got numbers in another order"),
        (torch.arange(NUM_NODES) - 1, ShapeError, "from 0.*got -1"),
        (torch.arange(NUM_NODES), GraphError, "joins two graphs"),
    ],
)
def test_batches_that_are_none(batch, error, message):
    with pytest.raises(error, match=message):
        PolyNSD(*SIZES)(X, EDGE_INDEX, batch=batch)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_weights_that_are_none(value):
    weight = torch.full((EDGE_INDEX.size(1),), value)
    with pytest.raises(GraphError, match=r"finite|negative"):
        PolyNSD(*SIZES)(X, EDGE_INDEX, edge_weight=weight)


@pytest.mark.parametrize("maps", ["diagonal", "general"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_not_finite_even_after_a_look(maps, value):
    x = X.clone()
    model = PolyNSD(*SIZES, maps=maps)
    model(x, EDGE_INDEX)
    x[2, 1] = value
    with pytest.raises(DataError, match="features must be finite"):
        model(x, EDGE_INDEX)
    with pytest.raises(DataError, match="features must be finite"):
        PolySheafConv(NUM_FEATURES, 3, maps=maps)(x, EDGE_INDEX)


def test_a_layer_without_a_learner_says_so():
    model = PolyNSD(*SIZES, shared_maps=True)
    with pytest.raises(ConfigError, match="ask the first layer"):
        model.layers[1].laplacian(model.encode(X), Topology.from_edge_index(EDGE_INDEX, NUM_NODES))


@pytest.mark.parametrize(("name", "options"), [("gcn", {"degree": 7}), ("mlp", {"maps": "general"})])
def test_baselines_refuse_options_they_have_no_use_for(name, options):
    with pytest.raises(ConfigError, match=f"{name} has no use for {next(iter(options))}"):
        build_model(ModelConfig(name, layer=LayerConfig(**options)), NUM_FEATURES, 3)
