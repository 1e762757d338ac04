"""What the published generator does, defects included."""

import numpy as np
import pytest
import torch

from polynsd.data import heterophilous_graph
from polynsd.data.generators.ellipsoids import draw_axes
from polynsd.data.generators.heterophily import component_streams
from polynsd.data.generators.legacy import legacy_ring
from polynsd.errors import DataError


def test_legacy_last_coordinate_betrays_the_class():
    data = heterophilous_graph(20_000, 3, 3, degree=2, edge_noise=1.0, legacy=True)
    assert (data.x[:-1, -1] >= 0).all()
    axes = draw_axes(3, 3, component_streams(0).axes)
    for label in range(3):
        mean = data.x[data.y == label].double().mean(dim=0).numpy()
        expected = [0.0, 0.0, axes[label, -1] * (2 / np.pi) ** 2]
        np.testing.assert_allclose(mean, expected, atol=0.02)


def test_legacy_labels_are_not_balanced():
    sizes = torch.bincount(heterophilous_graph(1000, legacy=True).y)
    assert int(sizes.max() - sizes.min()) > 1


@pytest.mark.parametrize("degree", [4, 5, 10])
def test_legacy_loses_some_edges(degree):
    data = heterophilous_graph(150, 3, 3, degree, heterophily=0.8, legacy=True)
    assert data.is_coalesced()
    assert data.is_undirected()
    assert not data.has_self_loops()
    mean_degree = data.edge_index.size(1) / 150
    intended = 2 * (degree // 2)
    assert 0.9 * intended < mean_degree < intended
    assert data.heterophily == pytest.approx(0.8, abs=0.09)
    assert data.name == "heterophilous-legacy"


def test_legacy_partners_are_far_by_plain_index():
    data = heterophilous_graph(60, 2, 2, degree=6, legacy=True)
    assert ((data.edge_index[0] - data.edge_index[1]).abs() > 3).all()


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
