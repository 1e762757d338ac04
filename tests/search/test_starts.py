"""What a study begins with, and that searches of different models have draws of their own."""

import json

import pytest
from toys import toy_search, toy_space

from polynsd.search import begin_with, work
from polynsd.search.heartbeat import requeue_trial
from polynsd.search.worker import ask_batch

SPACE = toy_space(model__num_layers=[1, 2, 3], model__hidden_channels=list(range(2, 12)))
NARROW, DEEP = {"model.hidden_channels": 2}, {"model.num_layers": 3, "model.layer.dropout": 0.25}


def asked(search, count):
    """The first trials of a study; none is trained."""
    trials = []
    while len(trials) < count:
        trials += ask_batch(search)
    return trials


def shapes(search, trials):
    return {json.dumps(search.space.shape(trial.params), sort_keys=True) for trial in trials}


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_starts_take_a_quarter_and_one_shape_each(sampler):
    """24 trials: four of the first start, two of the second, none of the third; then batches as ever."""
    search = toy_search(space=SPACE, trials=24, batch=16, sampler=sampler)
    begin_with(search, [NARROW, DEEP, {"model.hidden_channels": 3}])
    trials = asked(search, 24)
    for first, last, start in ((0, 4, NARROW), (4, 6, DEEP), (6, 16, {}), (16, 24, {})):
        group = trials[first:last]
        assert len(shapes(search, group)) == 1  # also in what a start does not name
        assert all(trial.params[name] == value for trial in group for name, value in start.items())
        assert len({trial.params["training.learning_rate"] for trial in group}) == len(group)
    assert len(shapes(search, trials)) == 4
    begin_with(search, [DEEP])
    assert len(search.study.trials) == 24  # one that is under way does not begin again


def test_a_start_that_names_everything_is_tried_once():
    search = toy_search(space=SPACE, trials=16)
    whole = {**NARROW, **DEEP, "training.learning_rate": 0.01}
    begin_with(search, [whole])
    first, *others = asked(search, 4)
    assert first.params == search.space.stored(whole)
    assert shapes(search, others) == shapes(search, [first])
    assert len({trial.params["training.learning_rate"] for trial in (first, *others)}) == 4


def test_starts_may_take_whole_batches_and_all_trials():
    search = toy_search(space=SPACE, trials=5, batch=2)
    begin_with(search, [NARROW, DEEP, NARROW], each=2, share=1.0)
    work(search)
    named = [trial.user_attrs["start"] for trial in search.study.trials]
    assert named == [0, 0, 1, 1, 2]
    assert len(search.study.trials) == 5


def test_a_start_that_is_lost_does_not_lead_another_batch():
    search = toy_search(space=SPACE, trials=16, batch=4)
    begin_with(search, [NARROW], each=1)
    (start, *_) = asked(search, 4)
    requeue_trial(search, start.number)
    again, *others = asked(search, 4)
    assert again.params == start.params
    assert not shapes(search, others) & shapes(search, [again])
    assert len(shapes(search, others)) == 1


def draws(model, maps=None, **options):
    changes = {"model__model": model} | ({} if maps is None else {"model__layer__maps": maps})
    search = toy_search(space=toy_space(**changes), trials=8, **options)
    return [trial.params for trial in asked(search, 8)]


def test_models_and_maps_have_draws_of_their_own():
    searches = [draws("gcn"), draws("mlp"), draws("polynsd", "diagonal"), draws("polynsd", "general")]
    rates = {params["training.learning_rate"] for search in searches for params in search}
    assert len(rates) == 4 * 8
    assert draws("gcn", study="another name") == searches[0]
