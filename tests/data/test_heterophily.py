"""Laws of the synthetic generator: exact counts, exact extremes, independent streams."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.data import heterophilous_graph
from polynsd.data.generators.ellipsoids import draw_axes, ellipsoid_points, unit_vectors
from polynsd.data.generators.heterophily import balanced_labels, component_streams
from polynsd.data.generators.legacy import class_mixture
from polynsd.data.generators.rewiring import draw_classes, rewired_ring, ring
from polynsd.errors import ConfigError, DataError

quick = settings(max_examples=40, deadline=None)


def edge_set(data):
    return set(map(tuple, data.edge_index.t().tolist()))


def assert_same(first, second, *names):
    for name in names:
        assert torch.equal(first[name], second[name]), name


def assert_simple(data):
    edges = edge_set(data)
    assert len(edges) == data.edge_index.size(1)
    assert all((v, u) in edges and u != v for u, v in edges)
    assert list(map(tuple, data.edge_index.t().tolist())) == sorted(edges)


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
    data = heterophilous_graph(**request_)
    num_nodes = request_["num_nodes"]
    assert data.x.shape == (num_nodes, request_["num_features"])
    assert data.x.dtype == torch.float32
    assert data.y.dtype == data.edge_index.dtype == torch.int64
    assert data.edge_index.size(1) == num_nodes * request_["degree"]
    assert_simple(data)
    sizes = torch.bincount(data.y, minlength=request_["num_classes"])
    assert int(sizes.max() - sizes.min()) <= 1


@quick
@given(sparse_requests())
def test_the_extremes_of_heterophily_are_exact(request_):
    request_ |= {"edge_noise": 0.0, "heterophily": round(request_["heterophily"])}
    assert heterophilous_graph(**request_).heterophily == request_["heterophily"]


@quick
@given(sparse_requests())
def test_equal_arguments_give_equal_graphs(request_):
    first, second = heterophilous_graph(**request_), heterophilous_graph(**request_)
    assert_same(first, second, "x", "y", "edge_index")


@quick
@given(
    num_nodes=st.integers(3, 14),
    num_classes=st.integers(2, 3),
    heterophily=st.sampled_from([0.3, 0.9]),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_dense_requests_are_met_up_to_the_complete_graph(num_nodes, num_classes, heterophily, seed, data):
    degree = 2 * data.draw(st.integers(1, (num_nodes - 1) // 2))
    graph = heterophilous_graph(num_nodes, num_classes, 2, degree, heterophily, seed=seed)
    assert graph.edge_index.size(1) == num_nodes * degree
    assert_simple(graph)


@pytest.mark.parametrize("heterophily", [0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_realised_heterophily_is_the_requested_one_up_to_sampling(heterophily):
    data = heterophilous_graph(10_000, heterophily=heterophily)
    source, target = data.edge_index
    assert data.heterophily == pytest.approx((data.y[source] != data.y[target]).double().mean())
    deviation = np.sqrt(heterophily * (1 - heterophily) / 20_000)
    assert abs(data.heterophily - heterophily) <= 4 * deviation


def test_other_classes_are_chosen_equally_often():
    own = np.full(60_000, 1)
    counts = np.bincount(draw_classes(own, 4, 0.9, np.random.default_rng(0)), minlength=4)
    np.testing.assert_allclose(counts / 60_000, class_mixture(4, 0.9)[1], atol=0.008)


def test_kept_edges_are_the_ring():
    data = heterophilous_graph(50, 3, 4, degree=6, edge_noise=1.0)
    source, target = data.edge_index
    distance = (source - target).abs()
    assert set(torch.minimum(distance, 50 - distance).tolist()) == {1, 2, 3}


def test_edge_noise_keeps_its_share_of_the_ring():
    data = heterophilous_graph(20_000, edge_noise=0.3)
    source, target = data.edge_index
    near = ((source - target) % 20_000 <= 2) | ((target - source) % 20_000 <= 2)
    assert near.double().mean() == pytest.approx(0.3, abs=0.02)


def test_every_node_owns_half_of_the_degree():
    source, _ = rewired_ring(np.arange(300) % 3, 3, 6, 0.8, 0.1, np.random.default_rng(0))
    assert np.all(np.bincount(source) == 3)


def test_a_class_without_partners_yields_to_the_others():
    data = heterophilous_graph(8, 8, 2, degree=4, heterophily=0.5)
    assert data.heterophily == 1.0  # a class of one node has no edge inside


def test_unit_vectors_follow_the_spherical_formula():
    phi, psi = 0.4, 5.0
    expected = [np.cos(phi), np.sin(phi) * np.cos(psi), np.sin(phi) * np.sin(psi)]
    np.testing.assert_allclose(unit_vectors(np.array([[phi, psi]])), [expected])


def test_noise_free_points_lie_on_centred_ellipsoids():
    data = heterophilous_graph(500, 3, 6, seed=7)
    streams = component_streams(7)
    labels = balanced_labels(500, 3, streams.labels)
    axes = draw_axes(3, 6, streams.axes)
    points = ellipsoid_points(labels, axes, streams.angles)
    np.testing.assert_array_equal(data.y.numpy(), labels)
    np.testing.assert_allclose(((points / axes[labels]) ** 2).sum(axis=1), 1.0)
    np.testing.assert_allclose(data.x.numpy(), points - points.mean(axis=0), atol=1e-6)


def test_noise_free_features_have_zero_mean():
    assert heterophilous_graph().x.mean(dim=0).abs().max() < 1e-6


def test_classes_share_their_mean():
    data = heterophilous_graph(40_000, 4, 3)
    for label in range(4):
        x = data.x[data.y == label].double()
        assert (x.mean(dim=0).abs() <= 5 * x.std(dim=0) / len(x) ** 0.5).all()


@pytest.mark.parametrize("scaled", [True, False])
def test_noise_has_the_requested_spread(scaled):
    quiet = heterophilous_graph(40_000, 2, 3, scaled_noise=scaled)
    noisy = heterophilous_graph(40_000, 2, 3, feature_noise=0.5, scaled_noise=scaled)
    axes = draw_axes(2, 3, component_streams(0).axes)
    for label in range(2):
        spread = (noisy.x - quiet.x)[quiet.y == label].std(dim=0).numpy()
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
    assert not any(torch.equal(first[name], second[name]) for name in ("x", "y", "edge_index"))


def test_large_graphs_have_exact_counts():
    data = heterophilous_graph(200_000, heterophily=1.0)
    assert data.edge_index.size(1) == 800_000
    assert data.heterophily == 1.0
    assert not (data.edge_index[0] == data.edge_index[1]).any()


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
        (
            {"num_nodes": 12, "num_classes": 12, "heterophily": 0.0, "edge_noise": 0.5},
            DataError,
            "edges found none",
        ),
    ],
)
def test_bad_arguments_raise_one_clear_error(arguments, error, fragment):
    with pytest.raises(error, match=fragment):
        heterophilous_graph(**arguments)
