"""Graphs, models by name and dense matrices that the tests of the zoo share."""

import torch

from polynsd import ModelConfig
from polynsd.config import LayerConfig
from polynsd.testing.samples import GRAPHS
from polynsd.zoo import build_model

IN, OUT = 5, 3


def graph(name):
    """Features in double precision, edges, and the dense adjacency matrix of a simple graph."""
    edges, N = GRAPHS[name]
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    A = torch.zeros(N, N, dtype=torch.float64)
    A[edge_index[0], edge_index[1]] = A[edge_index[1], edge_index[0]] = 1.0
    x = torch.randn(N, IN, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x, edge_index, A.fill_diagonal_(0.0)


def weighted_graph(name):
    """A graph with edges in both directions, their weights, and A with these weights."""
    x, edge_index, A = graph(name)
    edge_index = A.nonzero().t()
    weights = torch.rand(A.shape, generator=torch.Generator().manual_seed(1), dtype=A.dtype) + 0.5
    A = A * (weights + weights.T)
    return x, edge_index, A[edge_index[0], edge_index[1]], A


def build(name, num_layers=2, dropout=0.0, channels=8, in_channels=IN, **options):
    """A model by name, in double precision, evaluating."""
    torch.manual_seed(0)
    config = ModelConfig(name, channels, num_layers, layer=LayerConfig(dropout=dropout), options=options)
    return build_model(config, in_channels, OUT).double().eval()


def built(name, x, edge_index, *sizes, **options):
    """The same with all sizes known, and with noise on every parameter, so that none has a special value."""
    model = build(name, *sizes, **options)
    model(x, edge_index)
    return add_noise(model)


def add_noise(model, scale=0.5):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(scale * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return model


def smoothing(A):
    """D̃^{−1/2} (A + I) D̃^{−1/2}."""
    looped = A + torch.eye(len(A), dtype=A.dtype)
    scale = looped.sum(1).rsqrt()
    return scale[:, None] * looped * scale


def normalised(A):
    """D^{−1/2} A D^{−1/2}, with zero rows for isolated nodes."""
    scale = torch.where(A.sum(1) > 0, A.sum(1), 1.0).rsqrt()
    return scale[:, None] * A * scale


def mean(A):
    """D^{−1} A, with zero rows for isolated nodes."""
    return A / A.sum(1, keepdim=True).clamp(min=1)


def power(M, k):
    return torch.linalg.matrix_power(M, k)
