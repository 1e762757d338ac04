"""Partitions: who gets which nodes, and the archives of clients."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from polynsd.cli import main
from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.generators import make_graph
from polynsd.errors import ConfigError, DataError
from polynsd.federated.communities import METHODS, divide_nodes, find_communities, pack_communities
from polynsd.federated.partition import Partition, load_client, partition_graph

DIGESTS = {  # of the partition of seed 3, on every machine
    "louvain": "2dbae5a9630bc2af89991c5a6a36ce54404e0a3856bf50ea927b5808ff0f741c",
    "metis": "ec3199904212ed9262f840b4d7e2fe8d906f8bf086327b8ef526112be040e94d",
    "labels": "dc0e85df7f4894d86ae2cab4cd643fed4e391467060b398d9bd264107700aaf2",
    "overlapping": "f5e0a0dafcfaac118c7a681510c62ca2c70ede3569914f99621e909cf0850424",
}


@pytest.fixture(scope="module")
def graph():
    return make_graph("minesweeper", rows=20, cols=20)


def test_the_communities_of_louvain_are_those_of_greatest_modularity():
    rings = nx.ring_of_cliques(8, 5)
    found = find_communities(np.array(list(rings.edges)).T, 40, seed=1)
    assert sorted(map(len, found)) == [5] * 8
    karate = nx.karate_club_graph()
    found = find_communities(np.array(list(karate.edges)).T, 34)
    assert nx.community.modularity(karate, [set(c.tolist()) for c in found], weight=None) > 0.39


def test_packing_follows_the_published_steps():
    """N = 100, K = 4: target 25, cap 20, so 45 → 20 + 20 + 5. Three clients take 20 each, the last 15 and 10;
    it is full, and 10 more would bring any other to 30: the smallest gets them. The 5 go to the next.
    """
    ends = np.cumsum([0, 45, 20, 15, 10, 10])
    communities = [np.arange(a, b) for a, b in pairwise(ends)]
    packed = pack_communities(communities, 4, delta=5)
    assert [len(nodes) for nodes in packed] == [30, 25, 20, 25]
    assert np.array_equal(packed[1], [*range(20, 45)])
    assert np.array_equal(np.sort(np.concatenate(packed)), np.arange(100))


@pytest.mark.parametrize("method", METHODS)
def test_the_partition_of_a_seed_is_the_same_everywhere(graph, method):
    partition = partition_graph(graph, 5, method, seed=3)
    assert partition.digest == DIGESTS[method]
    assert partition_graph(graph, 5, method, seed=4).digest != partition.digest


@pytest.mark.parametrize("method", ["louvain", "metis", "labels"])
def test_every_node_has_one_client_and_every_edge_is_inside_or_cut_twice(graph, method):
    partition = partition_graph(graph, 6, method)
    assert np.array_equal(np.sort(np.concatenate(partition.nodes)), np.arange(graph.num_nodes))
    inside = sum(client.num_edges for client in partition.graphs)
    assert inside + sum(partition.cut_edges) // 2 == graph.num_edges
    for client, nodes in zip(partition.graphs, partition.nodes, strict=True):
        assert np.array_equal(client.x, graph.x[nodes])
        assert np.array_equal(client.y, graph.y[nodes])
        u, v = nodes[client.edge_index]
        assert all(map(set(map(tuple, graph.edge_index.T)).__contains__, zip(u, v, strict=True)))


def test_a_class_of_a_client_is_cut_at_its_fractions_and_rounding_goes_to_the_test(graph):
    partition = partition_graph(graph, 5, fractions=(0.5, 0.2, 0.3))
    for client in partition.graphs:
        masks = client.masks["default"]
        for label in range(2):
            of_class = client.y == label
            n = int(of_class.sum())
            sizes = [int((getattr(masks, part)[0] & of_class).sum()) for part in ("train", "val", "test")]
            assert sizes == [n // 2, n // 5, n - n // 2 - n // 5]


def test_shared_nodes_are_in_the_same_part_everywhere(graph):
    partition = partition_graph(graph, 5, "overlapping")
    part = np.full(graph.num_nodes, -1)
    for client, nodes in zip(partition.graphs, partition.nodes, strict=True):
        masks = client.masks["default"]
        own = masks.val[0] + 2 * masks.test[0]
        assert np.isin(part[nodes], [-1, *own]).all()
        assert ((part[nodes] == -1) | (part[nodes] == own)).all()
        part[nodes] = own


def test_saved_clients_are_archives_and_what_was_changed_is_refused(graph, tmp_path):
    partition = partition_graph(graph, 3, "metis")
    folder = partition.save(tmp_path / "clients")
    again = Partition.load(folder)
    assert again.digest == partition.digest
    assert again.statistics() == partition.statistics()
    assert again.to_frame().shape == (3, 10)
    assert load_graph(folder / "client-1.npz").num_nodes == load_client(folder, 1).num_nodes
    left = again.plot(tmp_path / "picture.png").axes[0]
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["0", "1"]
    with pytest.raises(ConfigError, match="holds a partition already"):
        partition.save(folder)
    with pytest.raises(ConfigError, match="numbered from 0; got 3"):
        load_client(folder, 3)
    (folder / "client-1.npz").write_bytes((folder / "client-0.npz").read_bytes())
    with pytest.raises(DataError, match=r"client-1.npz is damaged"):
        Partition.load(folder)
    with pytest.raises(DataError, match="holds no partition"):
        Partition.load(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 401}, "cannot have 401 clients"),
        ({"clients": 0}, "clients must be an integer of at least 1"),
        ({"method": "lovain"}, "Did you mean 'louvain'"),
        ({"clients": 20}, "delta must be smaller than the 20 nodes"),
        ({"method": "labels", "alpha": 0.0}, "alpha"),
        ({"method": "overlapping", "clients": 4}, "multiple of 5"),
        ({"fractions": (0.5, 0.5, 0.5)}, "of sum 1"),
        ({"clients": 60, "method": "metis"}, "would have no"),
    ],
)
def test_mistakes_are_named(graph, arguments, message):
    with pytest.raises((ConfigError, DataError), match=message):
        partition_graph(graph, **arguments)


def test_a_skewed_partition_is_more_skewed_with_a_smaller_alpha(graph):
    def skew(alpha):
        shares = [graph.y[nodes].mean() for nodes in divide_nodes(graph, 5, "labels", alpha=alpha)]
        return np.std(shares)

    assert skew(0.1) > 2 * skew(100.0)


def test_the_command_divides_a_file_and_says_what_clients_have(graph, tmp_path, capsys):
    archive, out = save_graph(tmp_path / "board.npz", graph), tmp_path / "clients"
    main(["federated", "partition", "--dataset", str(archive), "--clients", "3", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "board, 3 clients by louvain" in printed
    assert f"partition {Partition.load(out).digest[:12]}" in printed
