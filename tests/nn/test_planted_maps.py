"""Where transport is real: learned maps find the planted ones, and pay against identity maps."""

import pytest
import torch
from torch.nn import functional

from polynsd import IdentitySheaf, PolyNSD, Topology
from polynsd.data import planted_sheaf
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf import transport_alignment, transports

GRAPH = planted_sheaf(seed=1)
TOPOLOGY = Topology.from_edge_index(torch.from_numpy(GRAPH.edge_index), GRAPH.num_nodes)
X, Y = torch.from_numpy(GRAPH.x), torch.from_numpy(GRAPH.y)
TRAIN, TEST = (
    torch.from_numpy(part[0]) for part in (GRAPH.masks["default"].train, GRAPH.masks["default"].test)
)
BLOCK = PUBLISHED_LAYER | {
    "stalk_dim": 2, "degree": 1, "gate": "shortcut", "coefficients": "free", "correction": "none",
    "norm": "layer", "norm_position": "after", "mixing": "channel", "shared_maps": True, "maps": "identity",
}  # fmt: skip
MAPS = {
    "maps": "orthogonal(matrix_exp)", "maps_on": "nodes", "map_start": "identity",
    "map_activation": "identity", "learner": "mlp", "learner_hops": 2, "learner_width": 32,
}  # fmt: skip


def train(kind, **options):
    torch.manual_seed(0)
    model = kind(GRAPH.num_features, 8, 2, GRAPH.num_classes, **(BLOCK | options))
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(60):
        optimizer.zero_grad()
        functional.cross_entropy(model(X, TOPOLOGY)[TRAIN], Y[TRAIN]).backward()
        optimizer.step()
    return model.eval().requires_grad_(False)


def accuracy(model):
    return float((model(X, TOPOLOGY).argmax(1) == Y)[TEST].double().mean())


@pytest.mark.usefixtures("no_tracer")
def test_maps_on_nodes_recover_the_planted_transport_and_beat_identity_maps():
    model, control = train(PolyNSD, **MAPS), train(IdentitySheaf)
    sheaf = model.layers[0].laplacian(model.encode(X), TOPOLOGY)
    learned = transports(TOPOLOGY, sheaf.P, "nodes")
    planted = transports(TOPOLOGY, torch.from_numpy(GRAPH.extras["frame"]), "nodes")
    identity = torch.eye(2).expand_as(planted)
    assert transport_alignment(learned, planted) > 0.8
    assert transport_alignment(identity, planted) < 0.25
    assert accuracy(model) > accuracy(control) + 0.1
