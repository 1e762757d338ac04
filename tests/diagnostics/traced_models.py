"""Small models in double precision on a small graph, with noise on every parameter."""

import torch
from torch_geometric.data import Data

from polynsd import PolyNSD
from polynsd.published import PUBLISHED_LAYER
from polynsd.testing import random_tensor

# a square with a diagonal, a tail 3 – 4 – 5, and the isolated node 6
PAIRS = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 5))
EDGES = torch.tensor([*PAIRS, *(pair[::-1] for pair in PAIRS)]).t().contiguous()
KINDS = {  # every way in which a Laplacian is held
    "diagonal, a fixed channel": {**PUBLISHED_LAYER, "fixed_channels": ("laplacian",), "stalk_dim": 2},
    "general, a fixed channel": {
        **PUBLISHED_LAYER, "maps": "general", "fixed_channels": ("signless",), "stalk_dim": 2,
    },
    "flat": {"maps": "conformal", "stalk_dim": 2},
    "flat, random walk": {"stalk_dim": 2, "normalization": "random-walk", "fixed_channels": ("laplacian",)},
}  # fmt: skip


def make_data(num_nodes=7, edges=EDGES):
    y = torch.arange(num_nodes) % 3
    return Data(x=random_tensor(num_nodes, 5, seed=1), edge_index=edges, y=y, num_nodes=num_nodes)


def make_model(layers=2, cls=PolyNSD, noise=0.4, **options):
    torch.manual_seed(0)
    model = cls(5, 3, layers, 3, **options).double().eval()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter += noise * random_tensor(*parameter.shape, seed=number)
    return model
