"""Laws of planted sheaves: a section of the planted maps, classes that only transport makes readable."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from polynsd.data import heterophily, planted_sheaf
from polynsd.data.generators.planted import random_frames
from polynsd.errors import PolyNSDError


@pytest.fixture(scope="module")
def graph():
    return planted_sheaf()


@pytest.mark.parametrize("d", [2, 3, 4])
def test_noiseless_measurements_are_a_global_section_of_closed_communities(d):
    """F_v x_v = F_u x_u for F_v = O_v on edges that stay in their community; the compass is the frame."""
    graph = planted_sheaf(200, d, num_communities=8, homophily=1.0, feature_noise=0.0, frame_noise=0.0)
    frame, measured = graph.extras["frame"], graph.x[:, -d:]
    at_edges = np.einsum("nij,nj->ni", frame, measured)[graph.edge_index]
    assert_allclose(at_edges[0], at_edges[1], atol=1e-6)
    assert_allclose(np.linalg.norm(measured, axis=1), 1.0, atol=1e-6)
    assert_allclose(graph.x[:, :-d], frame[:, :-1].reshape(200, -1), atol=1e-6)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_frames_are_rotations_within_their_spread(d):
    frames = random_frames(300, d, 0.5, np.random.default_rng(0))
    assert_allclose(frames @ frames.transpose(0, 2, 1), np.broadcast_to(np.eye(d), frames.shape), atol=1e-12)
    assert_allclose(np.linalg.det(frames), 1.0)
    angles = np.abs(np.angle(np.linalg.eigvals(frames)))
    assert 0.8 * np.pi / 2 < angles.max() <= np.pi / 2 + 1e-6


def test_classes_are_the_axes_that_sections_point_along(graph):
    section = graph.extras["section"]
    largest = np.abs(section).argmax(axis=1)
    signs = np.take_along_axis(section, largest[:, None], axis=1)[:, 0] < 0
    assert_array_equal(graph.y, largest + 2 * signs)


def test_edges_stay_in_their_community_but_not_in_their_class(graph):
    community = graph.extras["community"][graph.edge_index]
    assert np.mean(community[0] == community[1]) == pytest.approx(0.9, abs=0.03)
    assert heterophily(graph) > 0.65  # of independent classes: 3/4
    assert graph.num_edges == 5000


def test_transported_means_tell_the_class_and_plain_means_do_not(graph):
    """Nearest axis of the neighbours' mean measurement, the node itself left out."""
    frame, measured = graph.extras["frame"], graph.x[:, -2:]
    v, u = np.hstack([graph.edge_index, graph.edge_index[::-1]])
    common = np.einsum("nij,nj->ni", frame, measured)
    means = np.zeros((2, graph.num_nodes, 2))
    np.add.at(means[0], v, np.einsum("nji,nj->ni", frame[v], common[u]))
    np.add.at(means[1], v, measured[u])
    accuracy = [np.mean(np.hstack([mean, -mean]).argmax(axis=1) == graph.y) for mean in means]
    assert accuracy[0] > 0.6
    assert accuracy[1] < 0.35


def test_graphs_are_determined_by_their_arguments(graph):
    again, loud, other = planted_sheaf(), planted_sheaf(feature_noise=9.0), planted_sheaf(seed=1)
    assert_array_equal(graph.x, again.x)
    assert_array_equal(graph.y, loud.y)
    assert_array_equal(graph.edge_index, loud.edge_index)
    assert_array_equal(graph.extras["frame"], loud.extras["frame"])
    assert not np.array_equal(graph.y, other.y)
    assert [len(graph.masks["default"]), *graph.masks["default"].train.shape] == [10, 10, 1000]


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"stalk_dim": 1}, "stalk_dim must be an integer of at least 2"),
        ({"num_communities": 1}, "num_communities must be an integer of at least 2"),
        ({"degree": 5}, "even degree"),
        ({"degree": 26}, "communities need more than degree=26 nodes"),
        ({"homophily": 1.2}, r"homophily must lie in \[0, 1\]"),
        ({"feature_noise": -1.0}, "feature_noise is a standard deviation"),
        ({"frame_noise": float("nan")}, "frame_noise is a standard deviation"),
        ({"frame_spread": 0.0}, "frame_spread must lie above 0"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_arguments_raise_one_clear_error(arguments, fragment):
    with pytest.raises(PolyNSDError, match=fragment):
        planted_sheaf(**arguments)
