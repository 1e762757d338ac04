"""The sheaf models of the zoo are their formulas, and keep the laws that these promise."""

import gc
import weakref

import pytest
import torch
from sheaf_formulas import (
    CHANNELS,
    EYE,
    NAMES,
    D,
    build,
    conn_nsd,
    example,
    jdsnn,
    risnn,
    san,
    truth,
    vanilla,
)

from polynsd import ConfigError
from polynsd.nn.precision import autocast
from polynsd.sheaf import get_family
from polynsd.testing.dense import inverse_root
from polynsd.testing.samples import GRAPHS, example_graph, random_maps, random_tensor
from polynsd.zoo import ZOO, model_class
from polynsd.zoo.sheaf_maps import RotationInvariantLearner

CASES = {
    "conn-nsd": ("conn-nsd", conn_nsd, {}),
    "conn-nsd of planes": ("conn-nsd", conn_nsd, {"stalk_dim": 2}),
    "san": ("san", san, {}),
    "ansd": ("ansd", san, {"stalk_dim": 2}),
    "risnn": ("risnn", risnn, {}),
    "risnn, diagonal": ("risnn", risnn, {"maps": "diagonal"}),
    "risnn, orthogonal": ("risnn", risnn, {"maps": "orthogonal(cayley)"}),
    "risnn-not": ("risnn-not", risnn, {"stalk_dim": 2}),
    "jdsnn": ("jdsnn", jdsnn, {"channels": D}),
    "jdsnn, learned first maps": ("jdsnn", jdsnn, {"channels": D, "maps": "diagonal"}),
    "jdsnn, tanh": ("jdsnn", jdsnn, {"channels": D, "map_activation": "tanh"}),
    "jdsnn-now": ("jdsnn-now", jdsnn, {"channels": D, "dual_norm": "degree"}),
    "vanilla-sheaf": ("vanilla-sheaf", vanilla, {}),
    "vanilla-sheaf, sheaf": ("vanilla-sheaf", vanilla, {"normalization": "sheaf"}),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", CASES)
def test_a_model_is_its_formula(case, graph):
    name, formula, options = CASES[case]
    model = build(name, layers=3, **options)
    x, topology = example(graph)
    torch.testing.assert_close(model(x, topology), truth(formula, model, x, topology), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("maps", [None, "diagonal", "general"])
def test_maps_do_not_see_a_rotation_of_the_channels(maps):
    topology = example_graph("complete")
    learner = RotationInvariantLearner(get_family("general"), D).double()
    X, Q = random_tensor(5, D, CHANNELS), torch.linalg.qr(random_tensor(CHANNELS, CHANNELS, seed=1))[0]
    before = None if maps is None else random_maps(maps, topology, D)
    torch.testing.assert_close(learner(X @ Q, before, topology), learner(X, before, topology))
    assert not torch.allclose(learner(2 * X, before, topology), learner(X, before, topology))


@pytest.mark.parametrize("graph", GRAPHS)
def test_attention_sums_to_one(graph):
    layer, topology = build("san").layers[0], example_graph(graph)
    others, own = layer.attention(random_tensor(topology.num_nodes, D, CHANNELS), topology)
    torch.testing.assert_close(own.index_add(0, topology.row, others), torch.ones_like(own))
    assert (own > 0).all()
    assert (others > 0).all()


def test_the_dual_normalisation_whitens_the_states():
    flow = build("jdsnn").flows[0]
    X = random_tensor(4, D, CHANNELS)
    truth = inverse_root(X @ X.mT + EYE[:D, :D]) @ X
    torch.testing.assert_close(flow.normalize(X), truth)


def test_joint_diffusion_of_one_layer_is_the_vanilla_sheaf():
    joint, plain = build("jdsnn", layers=1), build("vanilla-sheaf", layers=1)
    plain.load_state_dict(joint.state_dict())
    x, topology = example("complete")
    torch.testing.assert_close(joint(x, topology), plain(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_is_not_kept_alive(name):
    model, (x, topology) = build(name), example("path")
    model(x, topology)
    grave = weakref.ref(topology)
    del x, topology
    gc.collect()
    assert grave() is None


@pytest.mark.parametrize(
    ("first", "second"), [("san", "ansd"), ("risnn", "risnn-not"), ("jdsnn", "jdsnn-now")]
)
def test_presets_are_different_models(first, second):
    x, topology = example("complete")
    assert not torch.allclose(build(first)(x, topology), build(second)(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_reaches_linear_maps_only(name):
    model, (x, topology) = build(name).float(), example("complete")
    with torch.no_grad(), autocast("bf16", "cpu"):
        low = model(x.float(), topology)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), model(x.float(), topology), rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    "wrong", [{"stalk_dim": 0}, {"dropout": 1.0}, {"input_dropout": -0.1}, {"num_layers": 0}]
)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_values_are_named(name, wrong):
    sizes = {"in_channels": 5, "hidden_channels": 4, "num_layers": 2, "out_channels": 2}
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        model_class(name)(**{**sizes, **ZOO[name].preset, **wrong})


@pytest.mark.parametrize("name", NAMES)
def test_a_wide_state_is_mixed_the_same_way(name, monkeypatch):
    model, (x, topology) = build(name), example("complete")
    narrow = model(x, topology)
    monkeypatch.setattr("polynsd.nn.layer.NARROW", 0)
    torch.testing.assert_close(model(x, topology), narrow)
