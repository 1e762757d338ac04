"""Influence against full Jacobians; maps against planted transports."""

import math

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian
from traced_models import KINDS, make_data, make_model

from polynsd import NSD, IdentitySheaf, PolyNSD, as_topology
from polynsd.diagnostics import measure_influence, measure_maps, sample_region
from polynsd.diagnostics.geometry import auc, embed, separation
from polynsd.diagnostics.holonomy import find_cycles, find_half_edges, measure_holonomy
from polynsd.diagnostics.influence import Gradients
from polynsd.errors import ConfigError
from polynsd.published import PUBLISHED_LAYER
from polynsd.testing import random_tensor
from polynsd.training.replica import eval_mode
from polynsd.zoo import GCN

HOPS = [0, 1, 1, 1, 2, 3, None]  # of node 0 in the small graph


def by_hop(norms):
    return np.array([sum(n for n, hop in zip(norms, HOPS, strict=True) if hop == d) for d in range(4)])


@pytest.mark.parametrize("kind", KINDS)
def test_influence_is_the_norm_of_the_jacobian(kind):
    model, data = make_model(**KINDS[kind]), make_data()
    first = torch.arange(7) == 0
    J = jacobian(lambda x: model(x, data.edge_index)[0], data.x)  # [O, N, F]
    f = model(data.x, data.edge_index)[0].detach()
    other = 1 + int(f[1:].argmax())  # the class of node 0 is 0
    p = f.softmax(0)
    wanted = {
        "logit": J[0].norm(dim=-1),
        "margin": (J[0] - J[other]).norm(dim=-1),
        "log-prob": (J[0] - (p[:, None, None] * J).sum(0)).norm(dim=-1),
        "jacobian": J.abs().sum((0, 2)),
    }
    for of, norms in wanted.items():
        found = measure_influence(model, data, among=first, of=of, max_distance=3)
        assert found.totals["full"][0] == pytest.approx(by_hop(norms.tolist()))
        assert found.shell_sizes[0].tolist() == [1, 3, 1, 1]
        totals = by_hop(norms.tolist())
        assert found.range() == pytest.approx(totals @ np.arange(4) / totals.sum())
        assert found.relative()[1] == pytest.approx(totals[1] / 3 / totals[0])
    assert found.silent == 0
    with eval_mode(model), torch.no_grad():
        gradients = Gradients(model, data, "jacobian", is_frozen=True)
        one_by_one = gradients(np.array([0, 3]))
        gradients.is_batched = True  # as on a GPU
        assert gradients(np.array([0, 3])) == pytest.approx(one_by_one)


def test_frozen_maps_have_no_part_in_it():
    """Without filter nothing but the maps' own path is left, and one layer of NSD reaches one hop."""
    model, data = make_model(layers=1, cls=NSD), make_data()
    found = measure_influence(model, data, among=torch.arange(7) == 5, max_distance=3)
    assert found.totals["frozen"][0, 2:].tolist() == [0, 0]
    assert found.totals["full"][0, 2] > 0  # the normaliser of the neighbour sees its neighbours
    assert not np.allclose(found.totals["full"][0, :2], found.totals["frozen"][0, :2])
    identity = measure_influence(make_model(cls=IdentitySheaf, stalk_dim=2), data)
    assert list(identity.totals) == ["full"]


def test_influence_of_a_model_without_sheaves():
    torch.manual_seed(0)
    found = measure_influence(GCN(5, 8, 2, 3).double(), make_data(), of="logit", targets=3)
    assert (found.totals["full"][:, 3:] == 0).all()
    assert len(found.to_frame()) == 11


def test_holonomy_of_planted_transports():
    topology = as_topology(make_data().edge_index, 7)
    cycles = find_cycles(topology, 100)
    assert sorted(len(each[0]) for each in cycles) in ([3], [3, 4])
    frames = torch.linalg.qr(random_tensor(7, 3, 3, seed=2))[0]
    flat = frames[topology.row]
    assert measure_holonomy(topology, flat, cycles) == pytest.approx(
        np.zeros(sum(map(len, cycles))), abs=1e-12
    )
    angle = 0.7
    turn = torch.eye(3).double()
    c, s = math.cos(angle), math.sin(angle)
    turn[:2, :2] = torch.tensor([[c, -s], [s, c]], dtype=torch.double)
    maps = torch.eye(3).double().repeat(topology.num_half_edges, 1, 1)
    maps[find_half_edges(topology, torch.tensor([1]), torch.tensor([2]))] = turn
    found = measure_holonomy(topology, maps, [np.array([[0, 1, 2], [0, 2, 3]])])
    distance = (torch.eye(3) - turn).norm().item() / 6**0.5
    assert found == pytest.approx([distance, 0.0], abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_maps_are_those_of_the_learner(kind):
    model, data = make_model(**KINDS[kind]), make_data()
    found = measure_maps(model, data)
    assert found.note == "all 7 edges, 5 cycles of three or four nodes"
    if "flat" in kind:
        assert max(found.values("holonomy")) < 1e-6
    topology = as_topology(data.edge_index, 7)
    layer = model.layers[0]
    context = model.encode(data.x)
    seen = context.flatten(1) if model.config.trunk_sees("features") else None
    degree = [(topology.degree.double() + 1).log()[:, None]] if model.config.trunk_sees("degree") else []
    t = layer.learner.read(context, topology, context=[*([] if seen is None else [seen]), *degree])
    maps = layer.learner.maps_on_edges(t, topology)
    maps = torch.diag_embed(maps.squeeze(-1)) if maps.size(-1) == 1 else maps
    first = topology.first_half
    T = (maps[first].mT @ maps[topology.twin[first]]).detach().numpy()
    # of a flat sheaf frames are known up to the transpose in which rotations are held
    assert found.transports[0] == pytest.approx(T)
    assert found.values("norm")[0] == pytest.approx(np.linalg.norm(T, axis=(1, 2)).mean())


def test_untrained_control_and_plain_numbers():
    data = make_data()
    model = PolyNSD(5, 3, 2, 3, stalk_dim=2).double()  # starts as the identity
    found = measure_maps(model, data)
    assert found.values("from_identity") == found.values("from_identity", "untrained") == [0, 0]
    assert np.isnan(found.values("separation")).all()
    assert found.same_class.tolist() == [0, 0, 1, 0, 0, 0, 0]
    some = data.clone()
    some.y[0] = -1  # a node without a label
    partly = measure_maps(model, some).same_class
    assert ((partly == -1) == (found.edges == 0).any(1)).all()
    assert (partly[partly >= 0] == found.same_class[partly >= 0]).all()
    diagonal = make_model(layers=3, **{**PUBLISHED_LAYER, "stalk_dim": 2})
    again = [measure_maps(diagonal, data, seed=1).to_frame() for _ in range(2)]
    assert again[0].equals(again[1])
    assert list(again[0]["model"]) == ["trained"] * 3 + ["untrained"] * 3


def test_clusters_and_ranks():
    cloud = np.random.default_rng(0).normal(size=(60, 3))
    apart = np.concatenate([cloud, cloud + 20])
    assert separation(apart) > 0.85 > 0.6 > separation(cloud)
    assert np.ptp(embed(apart)[:, 0]) > 4 * np.ptp(embed(apart)[:, 1])
    assert auc(np.array([1.0, 2.0, 2.0, 3.0]), np.array([False, False, True, True])) == 7 / 8
    if __import__("importlib.util").util.find_spec("umap") is None:
        with pytest.raises(ConfigError, match=r"polynsd\[geometry\]"):
            embed(cloud, "umap")


def test_region_keeps_what_is_inside():
    data = make_data()
    data.edge_weight = torch.arange(data.num_edges).double()
    region, nodes = sample_region(data, 4, seed=1)
    assert len(nodes) == region.num_nodes == len(region.x) == 4
    assert torch.equal(region.x, data.x[nodes])
    ends = nodes[region.edge_index]
    for (v, u), weight in zip(ends.t().tolist(), region.edge_weight, strict=True):
        assert data.edge_index[:, int(weight)].tolist() == [v, u]
    assert sample_region(data, 7)[0] is data
