"""Laws of all sheaf models of the zoo."""

import gc
import inspect
import weakref
from functools import partial

import pytest
import torch
from sheaf_formulas import CHANNELS, FEATURES, NAMES, build, example

from polynsd import ConfigError, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.nn.precision import autocast
from polynsd.training import Replica, fit, fit_replicas, get_task
from polynsd.training import replicas as engine
from polynsd.zoo import ZOO, model_class, model_options

WITH_LEARNERS = ("san", "ansd", "risnn", "risnn-not", "jdsnn", "jdsnn-now")


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_is_not_kept_alive(name):
    model, (x, topology) = build(name), example("path")
    model(x, topology)
    grave = weakref.ref(topology)
    del x, topology
    gc.collect()
    assert grave() is None


@pytest.mark.parametrize("name", NAMES)
def test_renaming_the_nodes_renames_the_output(name):
    model, (x, topology) = build(name), example("isolated nodes")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    edge_index = torch.stack([topology.row, topology.col])
    torch.testing.assert_close(model(x[order], order.argsort()[edge_index]), model(x, edge_index)[order])


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter(name):
    model, (x, topology) = build(name).train(), example("complete")
    model(x, topology).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


OPTIONS = {
    "stalk_dim": {"stalk_dim": 2},
    "input_dropout": {"input_dropout": 0.5},
    "maps": {"maps": "diagonal"},
    "dual_norm": {"dual_norm": "degree"},
    "map_activation": {"map_activation": "tanh"},
    "normalization": {"normalization": "none"},
}


@pytest.mark.parametrize(("name", "option"), [(name, o) for name in NAMES for o in model_options(name)])
def test_every_option_changes_something(name, option):
    x, topology = example("complete")
    outputs = []
    for options in ({}, OPTIONS[option]):
        model = build(name, **options).train()
        torch.manual_seed(1)
        outputs.append(model(x, topology))
    assert not torch.allclose(*outputs)


@pytest.mark.parametrize(
    ("first", "second"), [("san", "ansd"), ("risnn", "risnn-not"), ("jdsnn", "jdsnn-now")]
)
def test_presets_are_different_models(first, second):
    x, topology = example("complete")
    assert not torch.allclose(build(first)(x, topology), build(second)(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_dropout_acts_in_training_only(name):
    model, (x, topology) = build(name, dropout=0.5), example("complete")
    assert torch.equal(model(x, topology), model(x, topology))
    model.train()
    assert not torch.allclose(model(x, topology), model(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_edge_weights_are_refused(name):
    x, topology = example("path")
    with pytest.raises(ConfigError, match="edge_weight"):
        build(name)(x, topology, torch.ones(topology.num_half_edges))


@pytest.mark.parametrize("name", NAMES)
def test_options_are_keyword_only_and_plain(name):
    assert set(model_options(name).values()) <= {int, float, bool, str}
    kind = model_class(name)
    assert all(inspect.signature(kind).parameters[o].kind.name == "KEYWORD_ONLY" for o in model_options(name))
    assert set(kind.space) <= {"num_layers", "hidden_channels", *model_options(name)}


@pytest.mark.parametrize("name", WITH_LEARNERS)
def test_sheaf_parameters_are_some_of_the_models(name):
    model = build(name)
    mine, all_ = {id(p) for p in model.sheaf_parameters()}, {id(p) for p in model.parameters()}
    assert mine
    assert mine < all_


@pytest.mark.parametrize("name", NAMES)
def test_a_reset_draws_everything_anew(name):
    model = build(name)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(7.0)
    model.reset_parameters()
    assert not any((p == 7).any() for p in model.parameters())


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


@pytest.mark.parametrize("name", NAMES)
def test_a_replica_in_company_is_the_one_it_is_alone(name, monkeypatch):
    data = heterophilous_graph(30, 2, FEATURES, 4, seed=3).to_pyg()
    kind = partial(model_class(name), FEATURES, CHANNELS, 2, 2, dropout=0.4, input_dropout=0.2, stalk_dim=2)
    make, verdicts, ask = partial(kind, **ZOO[name].preset), [], engine.is_vectorisable
    monkeypatch.setattr(engine, "is_vectorisable", lambda run: verdicts.append(ask(run)) or verdicts[-1])
    rules, task = TrainConfig(epochs=3, patience=3), get_task("accuracy")
    replicas = [Replica(make, stratified_split(data.y, seed=seed), seed, rules) for seed in (0, 7)]
    for result, replica in zip(fit_replicas(replicas, data, task), replicas, strict=True):
        alone = fit(make, data, replica.split, task, rules, replica.seed)
        assert (result.best_epoch, result.test_metric) == (alone.best_epoch, alone.test_metric)
        assert result.val_loss == pytest.approx(alone.val_loss, rel=1e-4)
        for p, q in zip(result.model.parameters(), alone.model.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-4)
    assert verdicts
    assert all(verdicts)
