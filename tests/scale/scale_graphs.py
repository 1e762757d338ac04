"""Graphs with every awkwardness, and models whose parameters all matter."""

import torch
from torch_geometric.data import Data

from polynsd.data import Split


def awkward_graph(seed=0, num_nodes=40, num_edges=45, dtype=torch.float64, weighted=False):
    """Sparse, with one-way and parallel edges, self-loops, a long tail and isolated nodes."""
    g = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, num_nodes - 14, (2, num_edges), generator=g)
    tail = torch.arange(num_nodes - 15, num_nodes - 4)
    edge_index = torch.cat([edges, edges[:, :3], torch.stack([tail, tail + 1])], 1)
    data = Data(
        x=torch.randn(num_nodes, 5, generator=g, dtype=dtype),
        edge_index=edge_index,
        y=torch.randint(0, 3, (num_nodes,), generator=g),
    )
    if weighted:
        low, high = edge_index.min(0).values, edge_index.max(0).values
        data.edge_weight = 0.5 + ((7 * low + 3 * high) % 5).to(dtype)  # equal in both directions
        data.edge_attr = torch.randn(edge_index.size(1), 2, generator=g, dtype=dtype)
    return data


def path_graph(num_nodes=16, dtype=torch.float64):
    """0 – 1 – 2 – …"""
    nodes = torch.arange(num_nodes - 1)
    x = torch.randn(num_nodes, 5, generator=torch.Generator().manual_seed(3), dtype=dtype)
    edge_index = torch.stack([torch.cat([nodes, nodes + 1]), torch.cat([nodes + 1, nodes])])
    return Data(x=x, edge_index=edge_index, y=torch.arange(num_nodes) % 3)


def shaken(module, seed=0, dtype=torch.float64, size=0.4):
    """The module with noise on every parameter, so that none sits at a special value such as α = 0."""
    module, generator = module.to(dtype).eval(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(size * noise.to(dtype))
    return module


def thirds(num_nodes, seed=0):
    """A split into three parts of equal size."""
    which = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed)) % 3
    return Split(which == 0, which == 1, which == 2)
