"""The receptive field is enough for every model, and not one hop too large."""

import pytest
import torch
from published_block import published
from scale_graphs import path_graph, shaken
from torch import nn

from polynsd import NSD, IdentitySheaf, PolySheafConv, PolySpectralGNN, SheafODE
from polynsd.errors import ConfigError
from polynsd.scale import Halos, receptive_field
from polynsd.scale.reach import layer_reach
from polynsd.zoo import GCN, MLP

SIZES = (5, 3, 2, 2)  # in, hidden, layers, out
torch.manual_seed(0)  # one in which no hidden unit of the GCN is dead
CASES = [
    (published(*SIZES, degree=2, stalk_dim=2), 6),
    (published(*SIZES, degree=3, stalk_dim=2, maps="general"), 8),
    (published(*SIZES, degree=2, stalk_dim=2, maps="orthogonal"), 5),
    (published(*SIZES, degree=2, stalk_dim=2, maps="orthogonal", edge_weights=True), 6),
    (published(*SIZES, degree=2, stalk_dim=2, normalization="sheaf", fixed_channels=("signless",)), 6),
    (published(*SIZES, degree=2, stalk_dim=2, shared_maps=True), 5),
    (published(*SIZES, degree=2, stalk_dim=2, norm="layer", mixing="full"), 6),
    (published(*SIZES, degree=0, stalk_dim=2), 4),  # the correction is of degree 1
    (published(*SIZES, degree=0, stalk_dim=2, correction="none"), 0),
    (published(*SIZES, stalk_dim=2, filter="diffusion", normalization="none"), 2),
    (published(*SIZES, stalk_dim=2, filter="diffusion", normalization="degree", lambda_max="lanczos"), 3),
    (NSD(*SIZES, stalk_dim=2), 4),
    (published(*SIZES, kind=IdentitySheaf, degree=3, stalk_dim=2), 7),
    (PolySpectralGNN(*SIZES, degree=3), 7),
    (SheafODE(5, 3, 1, 2, degree=2, stalk_dim=2, solver="midpoint", steps=1), 6),
    (SheafODE(5, 3, 1, 2, degree=1, stalk_dim=2, solver="rk4", steps=1, maps_at="start"), 5),
    (SheafODE(5, 3, 2, 2, degree=1, stalk_dim=2, solver="euler", steps=2, maps="identity"), 5),
    (SheafODE(5, 3, 2, 2, degree=1, stalk_dim=2, solver="euler", steps=2, maps_at="start"), 6),
    (GCN(*SIZES), 3),
    (MLP(*SIZES), 0),
]


@pytest.mark.parametrize(("model", "field"), CASES, ids=lambda value: type(value).__name__)
def test_field_is_exact_and_tight(model, field):
    assert receptive_field(model) == field
    data, model = path_graph(), shaken(model)
    core = torch.tensor([1, 0])
    whole = model(data.x, data.edge_index)[core]

    def error(depth):
        part = Halos(data).around(core, depth).data
        return float((model(part.x, part.edge_index)[:2] - whole).abs().max().detach())

    assert error(field) < 1e-13
    if field:
        assert error(field - 1) > 1e-11


def test_what_belongs_to_the_whole_graph_is_refused():
    with pytest.raises(ConfigError, match="lambda_max='analytic'"):
        receptive_field(published(*SIZES, lambda_max="lanczos"))
    for normalization in ("none", "degree"):
        with pytest.raises(ConfigError, match="normalization='sheaf-augmented'"):
            receptive_field(published(*SIZES, normalization=normalization))
    with pytest.raises(ConfigError, match=r"norm='batch' takes means over the whole graph.*norm='layer'"):
        receptive_field(published(*SIZES, norm="batch"))
    with pytest.raises(ConfigError, match="dopri5' chooses its steps by the whole graph"):
        receptive_field(SheafODE(*SIZES, solver="dopri5"))


def test_a_stranger_is_refused():
    with pytest.raises(ConfigError, match="receptive field of Linear is not known"):
        receptive_field(nn.Linear(2, 2))


def test_a_layer_reaches_one_hop_beyond_its_degree():
    assert receptive_field(PolySheafConv(5, 4)) == 4 + 1 + 2  # degree, normaliser, hops of the learner
    assert layer_reach(published(*SIZES, degree=3).config) == 4
    assert layer_reach(published(*SIZES, degree=0, correction="none").config) == 0
