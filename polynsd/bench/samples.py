"""What is measured: `Case`, a combination of options, and `Sample`, its graph.

A graph is the real one if its archive is in the folder named by POLYNSD_DATA or in the cache; nothing is
downloaded. Otherwise it is a generated stand-in. Every row says which it was.

A stand-in has the size of the real graph and degrees as skewed: speed depends on nothing else of a graph.
Endpoints are drawn with probability proportional to weights (Chung and Lu) that are quantiles of a log-normal
distribution,

    w_i ∝ exp(σ Φ⁻¹((i + ½) / N)),

until there are exactly E distinct edges; the largest node is given its neighbours directly, because so large
a share of all nodes cannot be drawn with repetition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.config import LayerConfig
from polynsd.data import get_entry, get_split, load, minesweeper, random_split
from polynsd.data.datasets.catalogue import locate
from polynsd.data.transforms import apply
from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.kernels.registry import NAMES as BACKENDS
from polynsd.published import PUBLISHED_LAYER
from polynsd.topology import Topology

IntArray = NDArray[np.int64]
Row = dict[str, Any]  # columns that describe the case and its graph, and what was measured

NAMES = ("texas", "chameleon", "squirrel", "tolokers", "minesweeper")
TRAIN = (0.5, 0.25, 0.25)
MEAN_DEGREE, SPREAD = 20, 1.0  # of graphs of any size


@dataclass(frozen=True)
class Case:
    """One combination; a value that no layer admits raises."""

    graph: str
    d: int
    C: int
    maps: str  # a family; of maps on nodes with "@nodes" behind it
    K: int
    backend: str

    def __post_init__(self) -> None:
        require_choice("backend", self.backend, BACKENDS)
        require_at_least("channels", self.C, 1)
        _ = self.layer

    @property
    def layer(self) -> LayerConfig:
        """The published layer with these maps and this degree."""
        maps, _, place = self.maps.partition("@")
        own = {"stalk_dim": self.d, "maps": maps, "maps_on": place or "edges", "degree": self.K}
        return LayerConfig(**PUBLISHED_LAYER | own)

    @property
    def facts(self) -> Row:
        """The columns of a row that describe the case."""
        return {"backend": self.backend, "maps": self.maps, "K": self.K, "d": self.d, "C": self.C}

    def __str__(self) -> str:
        return f"{self.graph}, {self.maps}, K={self.K}, {self.backend}"


@dataclass(frozen=True)
class Shape:
    """What is imitated of a graph."""

    nodes: int
    edges: int
    hub: int  # the largest degree; 0: whatever the weights give
    spread: float  # σ, of the logarithm of the degrees
    features: int
    classes: int


SHAPES = {
    "texas": Shape(183, 279, 104, 0.7, 1703, 5),
    "chameleon": Shape(2_277, 31_371, 732, 1.4, 2_325, 5),
    "squirrel": Shape(5_201, 198_353, 1_903, 1.4, 2_089, 5),
    "tolokers": Shape(11_758, 519_000, 2_138, 1.0, 10, 2),
}


@dataclass(frozen=True)
class Sample:
    """A graph with features, labels and training nodes."""

    name: str
    source: str  # data or generated
    topology: Topology
    x: Tensor  # [N, F]
    y: Tensor  # [N]
    train: Tensor  # [N]

    @property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def facts(self) -> Row:
        """The columns of a row that describe the graph."""
        topology = self.topology
        return {
            "graph": self.name,
            "source": self.source,
            "nodes": topology.num_nodes,
            "edges": topology.num_edges,
        }

    def to(self, device: str) -> Sample:
        topology = self.topology.to(device)
        x, y, train = (t.to(device) for t in (self.x, self.y, self.train))
        return replace(self, topology=topology, x=x, y=y, train=train)


def load_sample(name: str) -> Sample:
    """A benchmark by name, or a generated graph of so many nodes: `texas`, `random-5000`."""
    if name.startswith("random-"):
        return _generate(name, shape_of_size(int(name.removeprefix("random-"))))
    require_choice("graph", name, NAMES)
    if locate(name) is not None:
        entry, graph = get_entry(name), load(name, download=False)
        train = get_split(graph, entry.protocols[0], 0).train
        data = apply(entry.preprocessing, graph).to_pyg()
        return Sample(name, "data", Topology.from_data(data), data.x, data.y, train)
    if name == "minesweeper":
        data = minesweeper().to_pyg()
        train = random_split(data.num_nodes, TRAIN).train
        return Sample(name, "generated", Topology.from_data(data), data.x, data.y, train)
    return _generate(name, SHAPES[name])


def shape_of_size(nodes: int) -> Shape:
    """The shape of a generated graph of any size: mean degree 20, skewed, 16 features, two classes."""
    require_at_least("sizes", nodes, 2 * MEAN_DEGREE + 1)
    return Shape(nodes, nodes * MEAN_DEGREE // 2, 0, SPREAD, features=16, classes=2)


def _generate(name: str, shape: Shape) -> Sample:
    rng = torch.Generator().manual_seed(0)
    edge_index = torch.from_numpy(skewed_edges(shape))
    x = torch.randn(shape.nodes, shape.features, generator=rng)
    y = torch.arange(shape.nodes) % shape.classes
    topology = Topology.from_edge_index(edge_index, shape.nodes)
    return Sample(name, "generated", topology, x, y, random_split(shape.nodes, TRAIN).train)


def skewed_edges(shape: Shape, seed: int = 0) -> IntArray:
    """`[2, E]` every edge once, u < v; the same for the same shape and seed."""
    from scipy.special import ndtri  # slow to import

    N, E = shape.nodes, shape.edges
    if 4 * E > N * (N - 1):
        raise ConfigError(
            f"{E:,} edges are more than half of all pairs of {N:,} nodes. Give a larger number of nodes."
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(N)  # hubs have any number, as in real graphs
    first = 1 if shape.hub else 0
    weights = np.exp(-shape.spread * ndtri((np.arange(N) + 0.5) / N))  # largest first
    cumulative = np.cumsum(weights[first:])
    keys = _pair_keys(np.zeros(shape.hub, dtype=np.int64), 1 + rng.permutation(N - 1)[: shape.hub], N)
    while keys.size < E:
        draws = rng.random((2, 2 * (E - keys.size))) * cumulative[-1]
        source, target = first + np.searchsorted(cumulative, draws)
        keys = np.concatenate([keys, _pair_keys(source, target, N)])
        first_seen = np.sort(np.unique(keys, return_index=True)[1])
        keys = keys[first_seen][:E]
    ends = order[np.stack(np.divmod(keys, N))]
    return np.sort(ends, axis=0)


def _pair_keys(source: IntArray, target: IntArray, num_nodes: int) -> IntArray:
    """One number u N + v per pair u < v, loops left out."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    return (low * num_nodes + high)[low < high]
