"""Explanations of one model: gradients against finite differences, planted causes, the learned transport."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from polynsd import IdentitySheaf, PolyNSD, kernels
from polynsd.errors import GraphError
from polynsd.estimator.explain import explain_node
from polynsd.estimator.gradients import ForwardPass, find_transports, network_model
from polynsd.topology import as_topology

N, F = 12, 5
MODELS = {
    "diagonal": {"maps": "diagonal", "map_start": "random"},
    "orthogonal": {"maps": "orthogonal", "map_start": "random", "fixed_channels": ("laplacian",)},
    "mean": {"maps": "identity", "stalk_dim": 1, "normalization": "random-walk"},
    "flat": {"maps": "orthogonal", "map_start": "random", "maps_on": "nodes", "normalization": "random-walk"},
    "trunk": {"maps": "general", "map_start": "random", "learner_hops": 1},
}


@pytest.fixture(autouse=True)
def _plain_pytorch():
    with kernels.use("reference"):  # nothing to compile
        yield


def make_data(seed=0, weighted=False):
    generator = torch.Generator().manual_seed(seed)
    ring = torch.stack([torch.arange(N), (torch.arange(N) + 1) % N])
    chords = torch.tensor([[0, 2, 5, 3], [4, 7, 9, 8]])
    once = torch.cat([ring, chords], 1)
    data = Data(
        x=torch.randn(N, F, generator=generator, dtype=torch.double),
        edge_index=torch.cat([once, once.flip(0)], 1),
    )
    if weighted:
        weight = torch.rand(once.size(1), generator=generator, dtype=torch.double) + 0.5
        data.edge_weight = weight.repeat(2)
    return data


def make_model(out=2, **options):
    torch.manual_seed(1)
    return PolyNSD(F, 4, 2, out, **{"degree": 2, "stalk_dim": 2, **options}).double().eval()


def effects_of(model, data, node):
    topology = as_topology(data.edge_index, N)
    part = network_model(model, topology, data.x.numpy(), data)
    slope = torch.tensor([-1.0, 1.0], dtype=torch.double)
    return ForwardPass(part, topology).find_effects(node, slope, F)


def margin(model, data, node, x=None, weight=None):
    weight = getattr(data, "edge_weight", None) if weight is None else weight
    with torch.no_grad():
        low, high = model(data.x if x is None else x, data.edge_index, weight)[node]
    return float(high - low)


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_are_those_of_finite_differences(name):
    model, data, node, step = make_model(**MODELS[name]), make_data(weighted=name == "flat"), 3, 1e-5
    effects = effects_of(model, data, node)
    weight = data.edge_weight if name == "flat" else torch.ones(data.num_edges, dtype=torch.double)
    topology = as_topology(data.edge_index, N)
    for edge in (0, 5, topology.num_edges - 1):
        half = int(topology.first_half[edge])
        is_edge = (data.edge_index.sort(0).values == topology_ends(topology, half)).all(0)
        scaled = [torch.where(is_edge, weight * t, weight) for t in (1 - step, 1 + step)]
        low, high = (margin(model, data, node, weight=w) for w in scaled)
        assert effects.edges[edge] == pytest.approx((high - low) / (2 * step), rel=1e-5, abs=1e-8)
    change = torch.zeros_like(data.x)
    change[:, 2] = step * data.x[:, 2]
    low, high = (margin(model, data, node, data.x + sign * change) for sign in (-1, 1))
    assert effects.all[2] == pytest.approx((high - low) / (2 * step), rel=1e-5)
    assert effects.nodes.sum() == pytest.approx(effects.all.sum())
    assert effects.own.sum() == pytest.approx(effects.nodes[node])


def topology_ends(topology, half):
    return torch.stack([topology.row[half], topology.col[half]])[:, None]


def test_contributions_to_a_linear_model_add_up():
    model = make_model(maps="identity", activation="identity", norm="none", learner="concat")
    data = make_data()
    effects = effects_of(model, data, 0)
    change = margin(model, data, 0) - margin(model, data, 0, torch.zeros_like(data.x))
    assert effects.nodes.sum() == pytest.approx(change)


def test_what_alone_decides_is_ranked_first():
    """Of all nodes only a neighbour has a feature that is not 0."""
    torch.manual_seed(0)
    model = IdentitySheaf(F, 4, 1, 3, stalk_dim=1, degree=1)
    torch.nn.init.zeros_(model.encoder.bias)
    data = make_data()
    data.x = torch.zeros(N, F)
    data.x[4, 2] = 1.0
    found = explain_node(model, data, 0, top=3, feature_names=list("abcde"))
    assert found.features["feature"].tolist() == ["c"]
    assert found.neighbours["node"].tolist() == [4]
    assert set(found.edges.loc[0, ["source", "target"]]) == {0, 4}
    assert found.own == 0
    assert found.others == pytest.approx(found.features.loc[0, "contribution"])
    is_other = (data.edge_index.sort(0).values != torch.tensor([[0], [4]])).any(0)
    rest = data.edge_index[:, is_other]
    double = model.double().eval()
    with torch.no_grad():
        before, after = (
            double(data.x.double(), index)[0].log_softmax(-1)[found.target].exp()
            for index in (data.edge_index, rest)
        )
    assert found.edges.loc[0, "exact"] == pytest.approx(float(before.logit() - after.logit()))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_sparse_features_are_explained_as_dense_ones(layout):
    model, data = make_model(3, maps="identity", stalk_dim=1), make_data()
    data.x = data.x * (data.x > 0.3)
    dense = explain_node(model, data, 7)
    data.x = data.x.to_sparse(layout=layout)
    found = explain_node(model, data, 7)
    assert found.score == pytest.approx(dense.score)
    for name in ("features", "neighbours", "edges"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(dense, name))


def test_the_order_of_nodes_does_not_matter():
    model, data = make_model(3, maps="orthogonal", map_start="random"), make_data()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    place = order.argsort()  # the new number of every node
    other = Data(x=data.x[order], edge_index=place[data.edge_index])
    first, second = explain_node(model, data, 7, top=99), explain_node(model, other, int(place[7]), top=99)
    assert first.score == pytest.approx(second.score)
    old = {
        int(order[node]): contribution
        for node, contribution in zip(
            second.neighbours["node"], second.neighbours["contribution"], strict=True
        )
    }
    for node, contribution in zip(first.neighbours["node"], first.neighbours["contribution"], strict=True):
        assert old[node] == pytest.approx(contribution)
    assert np.allclose(first.edges["contribution"], second.edges["contribution"])
    assert np.allclose(first.edges["exact"][:3], second.edges["exact"][:3])


@pytest.mark.parametrize("name", MODELS)
def test_transport_is_the_block_of_the_laplacian(name):
    model, data, node = make_model(**MODELS[name]), make_data(), 4
    part = network_model(model, as_topology(data.edge_index, N), data.x.numpy(), data)
    first, _ = find_transports(part, node)
    with torch.no_grad():
        state = model.encode(data.x)
        L = model.layers[0].laplacian(state, *part.graph, state.flatten(-2)).to_dense()
    D = model.config.total_stalk_dim
    L = L.reshape(N, D, N, D)
    for neighbour, T in zip(first.neighbours, first.matrix, strict=True):
        assert np.allclose(T, -L[node, :, neighbour])
    assert np.allclose(first.after, first.matrix @ first.before)
    assert (np.abs(first.agreement(first.after)) <= 1 + 1e-9).all()


def test_text_table_and_picture(tmp_path):
    found = explain_node(make_model(3), make_data(), 5, top=4)
    assert "node 5" in str(found)
    frame = found.to_frame()
    assert set(frame["kind"]) == {"feature", "neighbour", "edge"}
    assert frame["contribution"].abs().is_monotonic_decreasing
    found.plot(tmp_path / "node.png")
    assert (tmp_path / "node.png").stat().st_size > 10_000
    number = explain_node(make_model(1), make_data(), 5, top=4, exact=0)
    assert number.target is None
    assert "exact" not in number.edges
    with pytest.raises(GraphError, match="0 to 11"):
        explain_node(make_model(), make_data(), 12)
