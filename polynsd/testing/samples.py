"""Small graphs, maps and signals to test with; everything is a function of its arguments."""

import torch
from torch import Tensor

from polynsd.errors import ConfigError
from polynsd.sheaf.families import General, MapFamily, get_family
from polynsd.topology import Topology

FAMILIES = (
    "identity",
    "diagonal",
    "orthogonal(householder)",
    "orthogonal(cayley)",
    "orthogonal(matrix_exp)",
    "orthogonal(euler)",
    "general",
)

# name: (edges, number of nodes)
GRAPHS: dict[str, tuple[list[tuple[int, int]], int]] = {
    "one node": ([], 1),
    "no edges": ([], 3),
    "one edge": ([(0, 1)], 2),
    "path": ([(0, 1), (1, 2), (2, 3), (3, 4)], 5),
    "star": ([(2, 0), (2, 1), (2, 3), (2, 4), (2, 5)], 6),
    "complete": ([(i, j) for i in range(5) for j in range(i)], 5),
    "isolated nodes": ([(4, 1), (1, 2), (2, 4), (4, 5)], 8),
    "multigraph": ([(0, 1), (1, 0), (0, 1), (2, 2), (1, 3), (3, 0), (3, 0)], 4),
}


def stalk_dims(family: str | MapFamily, largest: int = 5) -> list[int]:
    """The d ≤ largest that a family admits."""
    admitted = []
    for d in range(1, largest + 1):
        try:
            get_family(family).num_params(d)
        except ConfigError:
            continue
        admitted.append(d)
    return admitted


def example_graph(name: str) -> Topology:
    """One of `GRAPHS`."""
    edges, num_nodes = GRAPHS[name]
    return Topology.from_edge_index(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes)


def batch_of(*names: str) -> tuple[Topology, Tensor]:
    """Several of `GRAPHS` side by side, and the number of the graph of every node, as in a PyG batch.

    Nodes and half-edges of a graph stay contiguous and in their order.
    """
    sizes = [GRAPHS[name][1] for name in names]
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    edges = [
        (a + offset, b + offset)
        for name, offset in zip(names, offsets, strict=True)
        for a, b in GRAPHS[name][0]
    ]
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Topology.from_edge_index(edge_index, sum(sizes)), batch


def random_edges(num_nodes: int, num_edges: int, seed: int = 0) -> Tensor:
    """[2, num_edges] uniform pairs: self-loops, parallel and one-way edges included."""
    return torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))


def random_tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers, drawn in float64 so that every dtype sees the same ones."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def random_maps(
    family: str | MapFamily,
    topology: Topology,
    d: int,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    lead: tuple[int, ...] = (),
) -> Tensor:
    """Maps of a family on every half-edge; general ones stay near I, so that D_v is well conditioned."""
    family = get_family(family)
    raw = random_tensor(*lead, topology.num_half_edges, family.num_params(d), seed=seed).tanh()
    if isinstance(family, General):
        raw = torch.eye(d, dtype=torch.float64).flatten() + 0.4 / d**0.5 * raw
    return family.build(raw.to(dtype), d)


def random_weights(
    topology: Topology, *, seed: int = 0, dtype: torch.dtype = torch.float64, lead: tuple[int, ...] = ()
) -> Tensor:
    """[..., H] weights in (0, 1), equal on twins."""
    per_edge = random_tensor(*lead, topology.num_edges, seed=seed).sigmoid()
    return per_edge.index_select(-1, topology.edge).to(dtype)
