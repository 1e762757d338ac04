"""The connection of conn-nsd: transports between local frames of the features."""

import pytest
import torch
from sheaf_formulas import FEATURES, example, half_edges

from polynsd import ConfigError
from polynsd.testing.samples import example_graph, random_tensor
from polynsd.zoo.connection import alignment, connection_laplacian, connection_maps

WITH_EDGES = ("one edge", "path", "star", "complete", "isolated nodes", "multigraph")


@pytest.mark.parametrize("graph", WITH_EDGES)
@pytest.mark.parametrize("d", [1, 2, 4])
def test_transports_are_orthogonal_and_each_others_inverse(graph, d):
    x, topology = example(graph)
    maps = connection_maps(x, topology, d)
    transport = maps.mT @ maps[topology.twin]
    eye = torch.eye(d, dtype=x.dtype).expand_as(transport)
    torch.testing.assert_close(transport @ transport.mT, eye)
    torch.testing.assert_close(transport[topology.twin], transport.mT)


def test_another_local_basis_conjugates_the_transports():
    frames = torch.linalg.qr(random_tensor(4, FEATURES, 2))[0]
    turn = torch.linalg.qr(random_tensor(4, 2, 2, seed=1))[0]
    v, u = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 3, 3])
    turned = alignment(frames @ turn, v, u)
    torch.testing.assert_close(turned, turn[v].mT @ alignment(frames, v, u) @ turn[u])


def test_a_rotation_of_the_features_changes_signs_at_most():
    x, topology = example("complete")
    Q = torch.linalg.qr(random_tensor(FEATURES, FEATURES, seed=5))[0]
    plain, turned = (connection_maps(z, topology, 2) for z in (x, x @ Q))
    torch.testing.assert_close(plain.abs(), turned.abs())


def test_a_flat_cloud_has_a_flat_connection():
    plane = torch.linalg.qr(random_tensor(FEATURES, 2))[0]
    x, topology = random_tensor(5, 2, seed=1) @ plane.mT, example_graph("complete")
    maps = connection_maps(x, topology, 2)
    around = maps.mT @ maps[topology.twin]
    at = {(v, u): around[h] for h, v, u, _ in half_edges(topology)}
    torch.testing.assert_close(at[0, 1] @ at[1, 2] @ at[2, 0], torch.eye(2, dtype=x.dtype))


def test_a_connection_is_found_once_and_again_when_the_features_change():
    x, topology = example("star")
    first = connection_laplacian(x, topology, 2)
    connection_laplacian(x, topology, 3)  # a search goes back and forth
    assert connection_laplacian(x, topology, 2) is first
    x += random_tensor(*x.shape, seed=3)
    assert connection_laplacian(x, topology, 2) is not first


def test_batches_of_decompositions_do_not_matter(monkeypatch):
    x, topology = example("isolated nodes")
    whole = connection_maps(x, topology, 3)
    monkeypatch.setattr("polynsd.zoo.connection.BATCH_SIZE", 1)
    torch.testing.assert_close(connection_maps(x, topology, 3), whole)


def test_frames_need_as_many_features():
    x, topology = example("path")
    with pytest.raises(ConfigError, match="smaller stalk_dim"):
        connection_laplacian(x, topology, FEATURES + 1)
