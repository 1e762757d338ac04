"""Laws of the synthetic generator and of the published one: exact counts, independent streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd import PolyNSD, TrainConfig
from polynsd.data import heterophilous_graph, heterophily, stratified_split
from polynsd.data.generators import rewiring
from polynsd.data.generators.common import random_streams
from polynsd.data.generators.heterophily import ellipsoid_points, unit_vectors
from polynsd.data.generators.rewiring import class_mixture, draw_classes, legacy_ring, rewired_ring, ring
from polynsd.data.validation import check_arrays
from polynsd.errors import ConfigError, DataError
from polynsd.training import Configuration, Problem, fit_splits, get_task
from polynsd.zoo import MLP

quick = settings(max_examples=40, deadline=None)


def assert_same(first, second, *names):
    for name in names:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def draw_axes(num_classes, num_features, seed=0):
    """The semi-axes that the generator draws for this seed."""
    return random_streams(seed, 5)[1].random((num_classes, num_features))


@st.composite
def sparse_requests(draw):
    """Arguments that leave every class far more room than the degree needs."""
    num_classes = draw(st.integers(2, 5))
    degree = 2 * draw(st.integers(1, 3))
    return {
        "num_nodes": draw(st.integers(num_classes * (degree + 2), 80)),
        "num_classes": num_classes,
        "num_features": draw(st.integers(2, 5)),
        "degree": degree,
        "heterophily": draw(st.sampled_from([0.0, 0.3, 0.75, 1.0])),
        "feature_noise": draw(st.sampled_from([0.0, 0.5])),
        "edge_noise": draw(st.sampled_from([0.0, 0.2, 1.0])),
        "scaled_noise": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


@quick
@given(sparse_requests())
def test_every_request_gives_a_simple_graph_with_exact_counts(request_):
    graph = heterophilous_graph(**request_)
    check_arrays(graph)
    assert graph.x.shape == (request_["num_nodes"], request_["num_features"])
    assert 2 * graph.num_edges == request_["num_nodes"] * request_["degree"]
    sizes = np.bincount(graph.y, minlength=request_["num_classes"])
    assert sizes.max() - sizes.min() <= 1


@quick
@given(sparse_requests())
def test_the_extremes_of_heterophily_are_exact(request_):
    request_ |= {"edge_noise": 0.0, "heterophily": round(request_["heterophily"])}
    assert heterophily(heterophilous_graph(**request_)) == request_["heterophily"]


@quick
@given(sparse_requests())
def test_equal_arguments_give_equal_graphs(request_):
    first, second = heterophilous_graph(**request_), heterophilous_graph(**request_)
    assert_same(first, second, "x", "y", "edge_index")


@quick
@given(
    num_nodes=st.integers(3, 14),
    num_classes=st.integers(2, 3),
    level=st.sampled_from([0.3, 0.9]),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_dense_requests_are_met_up_to_the_complete_graph(num_nodes, num_classes, level, seed, data):
    degree = 2 * data.draw(st.integers(1, (num_nodes - 1) // 2))
    graph = heterophilous_graph(num_nodes, num_classes, 2, degree, level, seed=seed)
    assert 2 * graph.num_edges == num_nodes * degree
    check_arrays(graph)


@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_realised_heterophily_is_the_requested_one_up_to_sampling(level):
    deviation = np.sqrt(level * (1 - level) / 20_000)
    assert abs(heterophily(heterophilous_graph(10_000, heterophily=level)) - level) <= 4 * deviation


def test_other_classes_are_chosen_equally_often():
    own = np.full(60_000, 1)
    counts = np.bincount(draw_classes(own, 4, 0.9, np.random.default_rng(0)), minlength=4)
    np.testing.assert_allclose(counts / 60_000, class_mixture(4, 0.9)[1], atol=0.008)


def test_kept_edges_are_the_ring():
    data = heterophilous_graph(50, 3, 4, degree=6, edge_noise=1.0)
    source, target = data.edge_index
    distance = np.abs(source - target)
    assert set(np.minimum(distance, 50 - distance).tolist()) == {1, 2, 3}


def test_edge_noise_keeps_its_share_of_the_ring():
    data = heterophilous_graph(20_000, edge_noise=0.3)
    source, target = data.edge_index
    near = ((source - target) % 20_000 <= 2) | ((target - source) % 20_000 <= 2)
    assert near.mean() == pytest.approx(0.3, abs=0.02)


def test_every_node_owns_half_of_the_degree():
    source, _ = rewired_ring(np.arange(300) % 3, 3, 6, 0.8, 0.1, np.random.default_rng(0))
    assert np.all(np.bincount(source) == 3)


def test_a_class_without_partners_yields_to_the_others():
    data = heterophilous_graph(8, 8, 2, degree=4, heterophily=0.5)
    assert heterophily(data) == 1.0  # a class of one node has no edge inside


def test_unit_vectors_follow_the_spherical_formula():
    phi, psi = 0.4, 5.0
    expected = [np.cos(phi), np.sin(phi) * np.cos(psi), np.sin(phi) * np.sin(psi)]
    np.testing.assert_allclose(unit_vectors(np.array([[phi, psi]])), [expected])


def test_noise_free_points_lie_on_centred_ellipsoids():
    graph, axes = heterophilous_graph(500, 3, 6, seed=7), draw_axes(3, 6, seed=7)
    points = ellipsoid_points(graph.y, axes, random_streams(7, 5)[2])
    np.testing.assert_allclose(((points / axes[graph.y]) ** 2).sum(axis=1), 1.0)
    np.testing.assert_allclose(graph.x, points - points.mean(axis=0), atol=1e-6)


def test_noise_free_features_have_zero_mean():
    assert np.abs(heterophilous_graph().x.mean(axis=0)).max() < 1e-6


def test_classes_share_their_mean():
    data = heterophilous_graph(40_000, 4, 3)
    for label in range(4):
        x = data.x[data.y == label].astype(np.float64)
        assert (np.abs(x.mean(axis=0)) <= 5 * x.std(axis=0) / len(x) ** 0.5).all()


@pytest.mark.parametrize("scaled", [True, False])
def test_noise_has_the_requested_spread(scaled):
    quiet = heterophilous_graph(40_000, 2, 3, scaled_noise=scaled)
    noisy = heterophilous_graph(40_000, 2, 3, feature_noise=0.5, scaled_noise=scaled)
    axes = draw_axes(2, 3)
    for label in range(2):
        spread = (noisy.x - quiet.x)[quiet.y == label].std(axis=0)
        np.testing.assert_allclose(spread, 0.5 * (axes[label] if scaled else 1), rtol=0.03)


@pytest.mark.parametrize(
    ("change", "unchanged"),
    [
        ({"feature_noise": 0.4}, ("y", "edge_index")),
        ({"num_features": 7}, ("y", "edge_index")),
        ({"heterophily": 0.2}, ("x", "y")),
        ({"degree": 8}, ("x", "y")),
        ({"edge_noise": 0.5}, ("x", "y")),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_components_draw_from_independent_streams(change, unchanged, legacy):
    arguments = {"num_nodes": 120, "legacy": legacy}
    assert_same(heterophilous_graph(**arguments), heterophilous_graph(**arguments, **change), *unchanged)


def test_seeds_change_everything():
    first, second = heterophilous_graph(seed=0), heterophilous_graph(seed=1)
    for name in ("x", "y", "edge_index"):
        assert not np.array_equal(getattr(first, name), getattr(second, name)), name


def test_large_graphs_have_exact_counts():
    data = heterophilous_graph(200_000, heterophily=1.0)
    assert data.num_edges == 400_000
    assert heterophily(data) == 1.0


def test_ring_of_odd_degree_rounds_down():
    source, target = ring(6, 5)
    assert np.all(np.isin((target - source) % 6, [1, 2]))
    assert source.size == 12


@pytest.mark.parametrize(
    ("arguments", "error", "fragment"),
    [
        ({"degree": 3}, ConfigError, "even degree; got degree=3"),
        ({"degree": 0}, ConfigError, "degree must be an integer of at least 2; got 0"),
        ({"num_nodes": 4, "degree": 4}, DataError, "at most 3; got degree=4"),
        ({"num_nodes": 3}, ConfigError, "num_nodes must be an integer of at least 4; got 3"),
        ({"num_nodes": 10.0}, ConfigError, "num_nodes must be an integer"),
        ({"num_classes": 1}, ConfigError, "num_classes must be an integer of at least 2; got 1"),
        ({"num_features": 1}, ConfigError, "num_features must be an integer of at least 2"),
        ({"heterophily": 1.1}, ConfigError, r"heterophily must lie in \[0, 1\]; got 1.1"),
        ({"heterophily": float("nan")}, ConfigError, "heterophily must lie in"),
        ({"edge_noise": -0.1}, ConfigError, "edge_noise must lie in"),
        ({"feature_noise": -1.0}, ConfigError, "standard deviation, finite and at least 0"),
        ({"feature_noise": float("inf")}, ConfigError, "standard deviation"),
        ({"seed": -1}, ConfigError, "seed must be an integer of at least 0; got -1"),
        ({"legacy": True, "scaled_noise": False}, ConfigError, "legacy=True with scaled_noise"),
        (
            {"num_nodes": 16, "heterophily": 0.0},
            DataError,
            "more than degree=4 nodes; the smallest has 4",
        ),
        (
            {"num_nodes": 9, "num_classes": 2, "degree": 6, "heterophily": 1.0},
            DataError,
            "needs 27 inter-class edges; only 20 pairs",
        ),
    ],
)
def test_bad_arguments_raise_one_clear_error(arguments, error, fragment):
    with pytest.raises(error, match=fragment):
        heterophilous_graph(**arguments)


def test_a_search_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(rewiring, "MAX_ROUNDS", 200)
    with pytest.raises(DataError, match="edges found none"):
        heterophilous_graph(num_nodes=12, num_classes=12, heterophily=0.0, edge_noise=0.5)


def test_legacy_last_coordinate_betrays_the_class():
    data = heterophilous_graph(20_000, 3, 3, degree=2, edge_noise=1.0, legacy=True)
    assert (data.x[:-1, -1] >= 0).all()
    axes = draw_axes(3, 3)
    for label in range(3):
        mean = data.x[data.y == label].astype(np.float64).mean(axis=0)
        expected = [0.0, 0.0, axes[label, -1] * (2 / np.pi) ** 2]
        np.testing.assert_allclose(mean, expected, atol=0.02)


def test_legacy_labels_are_not_balanced():
    sizes = np.bincount(heterophilous_graph(1000, legacy=True).y)
    assert sizes.max() - sizes.min() > 1


@pytest.mark.parametrize("degree", [4, 5, 10])
def test_legacy_loses_some_edges(degree):
    data = heterophilous_graph(150, 3, 3, degree, heterophily=0.8, legacy=True)
    check_arrays(data)
    mean_degree = 2 * data.num_edges / 150
    intended = 2 * (degree // 2)
    assert 0.9 * intended < mean_degree < intended
    assert heterophily(data) == pytest.approx(0.8, abs=0.09)
    assert data.name == "heterophilous-legacy"


def test_legacy_partners_are_far_by_plain_index():
    data = heterophilous_graph(60, 2, 2, degree=6, legacy=True)
    assert (np.abs(data.edge_index[0] - data.edge_index[1]) > 3).all()


def test_legacy_picks_of_a_node_are_distinct():
    labels = np.random.default_rng(0).integers(2, size=40)
    source, target = legacy_ring(labels, 2, 8, 0.7, 0.0, np.random.default_rng(1))
    assert len(set(zip(source.tolist(), target.tolist(), strict=True))) == source.size


def test_legacy_takes_the_next_class_when_one_is_exhausted():
    labels = np.array([0, 2] * 20)  # class 1 is empty: those who want it get class 2
    source, target = legacy_ring(labels, 3, 2, 1.0, 0.0, np.random.default_rng(0))
    assert np.all(labels[target[labels[source] == 0]] == 2)
    assert set(labels[target[labels[source] == 2]]) == {0, 2}


def test_legacy_without_candidates_is_an_error():
    with pytest.raises(DataError, match="node 2 has none left"):
        legacy_ring(np.zeros(5, dtype=np.int64), 2, 4, 0.0, 0.0, np.random.default_rng(0))


def accuracy(build, level):
    graph = heterophilous_graph(400, 2, 5, 8, level, feature_noise=0.5, scaled_noise=False, seed=0)
    data = graph.to_pyg()
    splits = tuple(stratified_split(data.y, seed=i) for i in range(2))
    training = TrainConfig(epochs=24, patience=24, learning_rate=0.03)
    problem = Problem(data, splits, get_task("accuracy"))
    return fit_splits(problem, Configuration(training=training), build=build).mean


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.slow
def test_a_sheaf_model_draws_a_u_over_heterophily():
    """At het = (C−1)/C neighbours are a random sample and tell nothing; at 0 and 1 they tell everything."""

    def build():
        return PolyNSD(5, 8, 2, 2, stalk_dim=2, norm="batch", dropout=0.1)

    low, middle, high = (accuracy(build, level) for level in (0.0, 0.5, 1.0))
    assert min(low, high) > 0.85
    assert middle < 0.65


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_features_alone_are_near_chance(level):
    """Noise hides the shape of the classes in a single node."""
    assert accuracy(lambda: MLP(5, 32, 2, 2), level) < 0.65
