"""Generated graphs behave as they should: a sheaf model draws a U over heterophily, an MLP is near chance.

At het = (C−1)/C neighbours are a random sample of all nodes and tell nothing; at 0 and at 1 they tell
everything. Noise hides the shape of the classes in a single node, so features alone do not decide.
"""

import pytest

from polynsd import PolyNSD, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.training import Configuration, Problem, fit_splits, get_task
from polynsd.zoo import MLP

CONFIG = TrainConfig(epochs=40, patience=40, learning_rate=0.03)


def accuracy(build, heterophily):
    data = heterophilous_graph(400, 2, 5, 8, heterophily, feature_noise=0.5, scaled_noise=False, seed=0)
    splits = tuple(stratified_split(data.y, seed=i) for i in range(2))
    problem = Problem(data, splits, get_task("accuracy"))
    return fit_splits(problem, Configuration(training=CONFIG), build=build).mean


def sheaf_model():
    return PolyNSD(5, 8, 2, 2, stalk_dim=2, degree=4, dropout=0.1, coefficients="free")


@pytest.fixture(scope="module")
def curve():
    return {heterophily: accuracy(sheaf_model, heterophily) for heterophily in (0.0, 0.5, 1.0)}


def test_a_sheaf_model_draws_a_u(curve):
    assert min(curve[0.0], curve[1.0]) > 0.85
    assert curve[0.5] < 0.65


@pytest.mark.parametrize("heterophily", [0.0, 1.0])
def test_features_alone_are_near_chance(heterophily):
    assert accuracy(lambda: MLP(5, 32, 2, 2), heterophily) < 0.65
