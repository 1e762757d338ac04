"""Replicas of the classics train together as they do alone, with the masks that they always had."""

import copy
from functools import partial

import pytest
import torch
from classic_formulas import DROPPING, NAMES, WITHOUT_WEIGHTS, build_zoo
from torch_geometric.data import Data

from polynsd import TrainConfig
from polynsd.data import stratified_split
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.training import replicas as engine
from polynsd.training.dropout import DropoutRates


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(30, (2, 60), generator=generator)
    x, y = torch.randn(30, 5, generator=generator), torch.arange(30) % 3
    return Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], 1), y=y)


def state(result):
    return torch.cat([t.flatten().double() for t in result.model.state_dict().values()])


WEIGHTED = [name for name in NAMES if name not in WITHOUT_WEIGHTS]
TRAINED = [*[(name, {}, False) for name in NAMES], ("gin", {"norm": "batch"}, False)]
TRAINED += [(name, {}, True) for name in WEIGHTED]


@pytest.mark.parametrize(("name", "options", "has_weights"), TRAINED)
def test_replicas_train_together_as_they_do_alone(name, options, has_weights, data, monkeypatch):
    data = copy.copy(data)
    if has_weights:
        data.edge_weight = torch.rand(60).repeat(2)
    verdicts, ask = [], engine.is_vectorisable
    monkeypatch.setattr(engine, "is_vectorisable", lambda run: verdicts.append(ask(run)) or verdicts[-1])
    build = partial(build_zoo, name, (5, 8, 2, 3), 0.4, options)
    config, task = TrainConfig(epochs=3, patience=3), get_task("accuracy")
    replicas = [Replica(build, stratified_split(data.y, seed=seed), seed, config) for seed in (0, 1)]
    together = fit_replicas(replicas, data, task)
    for replica, result in zip(replicas, together, strict=True):
        (alone,) = fit_replicas([replica], data, task)
        torch.testing.assert_close(state(result), state(alone), rtol=1e-4, atol=1e-4)
        assert result.val_loss == pytest.approx(alone.val_loss, rel=1e-4)
    assert not torch.allclose(state(together[0]), state(together[1]))
    assert all(verdicts)  # by torch.vmap, not in turns


RATES = [("dropedge", "drop_edge"), *[(name, "input_dropout") for name in DROPPING]]


@pytest.mark.parametrize(("name", "option"), RATES)
def test_replicas_may_differ_in_rates(name, option, data):
    split, config, task = stratified_split(data.y), TrainConfig(epochs=3, patience=3), get_task("accuracy")
    builds = [partial(build_zoo, name, (5, 8, 2, 3), 0.4, {option: p}) for p in (0.0, 0.2, 0.7)]
    replicas = [Replica(build, split, 0, config) for build in builds]
    for replica, result in zip(replicas, fit_replicas(replicas, data, task), strict=True):
        (alone,) = fit_replicas([replica], data, task)
        said = [one.model.eval()(data.x, data.edge_index) for one in (result, alone)]
        torch.testing.assert_close(*said, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["gcn", "mlp", "pairnorm", "dropedge"])
def test_hidden_masks_do_not_depend_on_what_happens_to_the_features(name, data):
    """A training without input dropout is what it was before there was one: the masks keep their numbers."""
    seen = []

    class Masks(DropoutRates):
        def dropout(self, input, p=0.5, training=True, inplace=False):  # noqa: A002
            seen.append((tuple(input.shape), p))
            return input

    with Masks():
        build_zoo(name, (5, 8, 3, 3), 0.4, {"input_dropout": 0.7}).train()(data.x, data.edge_index)
    hidden = [((30, 8), 0.4)] * 2
    assert seen[-3:] == [*hidden, ((30, 5), 0.7)]
