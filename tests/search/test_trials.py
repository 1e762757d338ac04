"""A trial is worth the same alone and in a batch, and a batch shares its shape."""

import json
import math
from statistics import fmean

import pytest
import torch
from toys import toy_problem, toy_search, toy_space

from polynsd.errors import ConfigError
from polynsd.search import Trial, group_by_shape, rank_trials, train_together, trials, work
from polynsd.search.worker import ask_batch, run_batch
from polynsd.training.configuration import FREE, configure
from polynsd.training.replicas import _Training
from polynsd.zoo import ZOO, model_options

SMALL = {
    "model.hidden_channels": 3,
    "model.layer.stalk_dim": 2,
    "model.layer.degree": 2,
    "training.epochs": 6,
}


def vals(fits):
    return [fit.val_metric for fit in fits]


def test_a_configuration_scores_the_same_in_a_batch_as_alone():
    """Dropout rates, learning rates, decays, patience and degrees differ within the batch."""
    batch = [
        configure({**SMALL, "model.layer.dropout": 0.5, "training.learning_rate": 0.1}),
        configure(
            {**SMALL, "model.input_dropout": 0.3, "training.weight_decay": 0.1, "training.patience": 2}
        ),
        configure({**SMALL, "model.layer.map_dropout": 0.2, "training.sheaf_decay": 0.3}),
        *(configure({**SMALL, "model.layer.degree": degree}) for degree in (0, 1, 7)),
    ]
    toy = toy_problem()
    together = train_together(toy, batch, range(2))
    for one, fits in zip(batch, together, strict=True):
        alone = train_together(toy, [one], range(2))[0]
        assert vals(fits) == pytest.approx(vals(alone), abs=1e-5)
        assert [(f.best_epoch, f.epochs) for f in fits] == [(f.best_epoch, f.epochs) for f in alone]
        assert all(math.isnan(fit.test_metric) for fit in fits)  # the test set is not scored


def test_the_value_of_every_trial_is_that_of_its_configuration_alone():
    search = toy_search(trials=6)
    work(search)
    for trial in search.study.trials:
        alone = vals(train_together(search.problem, [search.space.configuration(trial.params)], range(2))[0])
        assert trial.value == pytest.approx(fmean(alone), abs=1e-5)
        assert trial.user_attrs["val"] == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_batch_differs_only_in_what_replicas_may_differ_in(sampler, monkeypatch):
    calls = []
    fit_replicas = trials.fit_replicas

    def counting(replicas, *arguments, **options):
        calls.append(len(replicas))
        return fit_replicas(replicas, *arguments, **options)

    monkeypatch.setattr(trials, "fit_replicas", counting)
    search = toy_search(trials=10, sampler=sampler, startup=4)
    work(search)
    assert calls == [8, 8, 4]  # trials × splits
    for first in range(0, 10, 4):
        batch = search.study.trials[first : first + 4]
        assert len({json.dumps(search.space.shape(trial.params)) for trial in batch}) == 1
        assert len({trial.params["training.learning_rate"] for trial in batch}) == len(batch)
    assert len({trial.params["model.hidden_channels"] for trial in search.study.trials}) > 1


def test_batches_of_one_have_shapes_of_their_own():
    search = toy_search(trials=8, batch=1)
    work(search)
    assert len({trial.params["model.hidden_channels"] for trial in search.study.trials}) > 1


def test_a_trial_that_diverges_fails_with_its_reason_and_spoils_no_other():
    space = toy_space(training__learning_rate=[1e38, 0.01])
    search = toy_search(trials=6, space=space)
    work(search)
    failed = [t for t in search.study.trials if t.params["training.learning_rate"] > 1]
    others = [t for t in search.study.trials if t not in failed]
    assert failed
    assert others
    assert all("not finite" in t.user_attrs["reason"] for t in failed)
    assert {t.state.name for t in failed} == {"FAIL"}
    assert {t.state.name for t in others} == {"COMPLETE"}
    assert len(search.study.trials) == 6  # failures count: they were tried


def test_where_a_batch_cannot_be_trained_its_trials_are_trained_alone(monkeypatch):
    """By halves, so that all others stay together."""
    fit_replicas, sizes = trials.fit_replicas, []

    def refuse(replicas, *arguments, **options):
        rates = [replica.config.learning_rate for replica in replicas]
        sizes.append(len(rates) // 2)  # splits
        if bad in rates:
            raise ConfigError("too fast")
        return fit_replicas(replicas, *arguments, **options)

    monkeypatch.setattr(trials, "fit_replicas", refuse)
    search = toy_search(trials=8, batch=8)
    handles = ask_batch(search)
    bad = handles[4].params["training.learning_rate"]
    run_batch(search, handles)
    assert sizes == [8, 4, 4, 2, 1, 1, 2]
    assert [trial.state.name for trial in search.study.trials] == [
        *4 * ["COMPLETE"],
        "FAIL",
        *3 * ["COMPLETE"],
    ]
    assert search.study.trials[4].user_attrs["reason"] == "too fast"


def test_a_configuration_that_cannot_be_built_fails_with_its_reason():
    space = toy_space(model__layer__dropout=[0.1, 1.5])
    search = toy_search(trials=6, space=space)
    work(search)
    bad = [t for t in search.study.trials if t.params["model.layer.dropout"] > 1]
    assert bad
    assert all("dropout must lie in" in t.user_attrs["reason"] for t in bad)
    assert sum(t.state.name == "COMPLETE" for t in search.study.trials) == 6 - len(bad)


def test_free_options_are_all_that_a_replica_may_change():
    """Each of them, changed alone, trains beside the unchanged configuration."""
    values = {"training.epochs": 3, "training.patience": 2, "training.learning_rate": 0.1}
    of_zoo = {name for name in FREE if name.startswith("model.options.")}
    plain = configure(SMALL)
    batch = [plain, *(configure({**SMALL, name: values.get(name, 0.2)}) for name in sorted(FREE - of_zoo))]
    assert len(train_together(toy_problem(1), batch, range(1))) == len(batch)


ZOO_SHAPE = {"model.hidden_channels": 8, "model.num_layers": 2, "training.epochs": 3}
FREE_OF_ZOO = [
    (model, name) for model in ZOO for name in model_options(model) if f"model.options.{name}" in FREE
]


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(("name", "model"), {name: model for model, name in FREE_OF_ZOO}.items())
def test_free_options_of_the_zoo_score_the_same_in_a_batch_as_alone(name, model):
    """Of one model each; tests of the zoo try all."""
    shape = {"model.model": model, **ZOO_SHAPE}
    batch = [configure({**shape, f"model.options.{name}": rate}) for rate in (0.1, 0.6)]
    toy = toy_problem(1)
    for one, fits in zip(batch, train_together(toy, batch, range(1)), strict=True):
        assert vals(fits) == pytest.approx(vals(train_together(toy, [one], range(1))[0]), abs=1e-5)


def test_free_options_of_the_zoo_belong_to_someone():
    assert {f"model.options.{name}" for _, name in FREE_OF_ZOO} == {n for n in FREE if ".options." in n}


def test_groups_differ_only_in_free_options_and_keep_the_order():
    options = [
        {},
        {"model.hidden_channels": 5},
        {"training.learning_rate": 0.5},
        {"model.layer.dropout": 0.5},
    ]
    batch = [Trial(number, configure({**SMALL, **changes})) for number, changes in enumerate(options)]
    assert [[trial.number for trial in group] for group in group_by_shape(batch)] == [[0, 2, 3], [1]]


@pytest.mark.parametrize("coefficients", ["convex", "free"])
def test_filters_of_all_degrees_train_together(coefficients):
    shape = {**SMALL, "model.layer.coefficients": coefficients, "model.layer.correction": "linear"}
    shape["training.epochs"] = 3
    batch = [configure({**shape, "model.layer.degree": degree}) for degree in (3, 0, 5)]
    (group,) = group_by_shape(Trial(number, one) for number, one in enumerate(batch))
    assert len(group) == 3
    toy = toy_problem(1)
    for one, fits in zip(batch, train_together(toy, batch, range(1)), strict=True):
        (alone,) = train_together(toy, [one], range(1))[0]
        assert (fits[0].val_loss, fits[0].best_epoch) == (pytest.approx(alone.val_loss), alone.best_epoch)


@pytest.mark.parametrize("coefficients", ["convex", "free"])
def test_every_trial_begins_with_the_numbers_that_its_seed_draws(coefficients, monkeypatch):
    """To the bit, though a batch draws them once; running means are as they were before the first pass."""
    shape = {**SMALL, "model.layer.coefficients": coefficients, "model.layer.norm": "batch"}
    changes = [{"model.layer.degree": 3}, {"model.layer.degree": 0}, {"model.layer.dropout": 0.5}]
    replicas = []
    monkeypatch.setattr(trials, "fit_replicas", lambda given, *_, **__: replicas.extend(given) or [])
    toy = toy_problem()
    train_together(toy, [configure({**shape, **each}) for each in changes], range(2))
    assert len(replicas) == 6
    for replica, model in zip(replicas, _Training(replicas, toy.data, toy.task, None).models, strict=True):
        torch.manual_seed(replica.seed)
        found, expected = (
            dict((*each.named_parameters(), *each.named_buffers())) for each in (model, replica.build())
        )
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_degrees_of_interpolation_have_shapes_of_their_own():
    options = {**SMALL, "model.layer.coefficients": "interpolation"}
    batch = [Trial(k, configure({**options, "model.layer.degree": k})) for k in (2, 3)]
    assert len(group_by_shape(batch)) == 2


def test_ranking_goes_by_state_metric_loss_and_order():
    outcomes = [(0.4, 0.1), (0.5, 0.3), (0.5, 0.2), (0.7, 0.9), (0.5, 0.2)]
    batch = [
        Trial(number, configure({}), val=[val], val_loss=[loss])
        for number, (val, loss) in enumerate(outcomes)
    ]
    batch[3].fail("diverged")
    assert [trial.number for trial in rank_trials(batch)] == [2, 4, 1, 0, 3]
