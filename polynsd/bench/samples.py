"""The graphs that are measured on: real ones where they are at hand, otherwise stand-ins.

A graph is at hand if its archive is in the folder named by POLYNSD_DATA or in the cache; nothing is
downloaded. Every row says which it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from polynsd.bench.standins import SHAPES, Shape, skewed_edges
from polynsd.data import get_entry, get_split, load, minesweeper, random_split
from polynsd.data.datasets.catalogue import locate
from polynsd.data.transforms import apply
from polynsd.errors import require_at_least, require_choice
from polynsd.topology import Topology

NAMES = ("texas", "chameleon", "squirrel", "tolokers", "minesweeper")
TRAIN = (0.5, 0.25, 0.25)
MEAN_DEGREE, SPREAD = 20, 1.0  # of graphs of any size


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
        """Of the labels."""
        return int(self.y.max()) + 1

    @property
    def facts(self) -> dict[str, Any]:
        """What a row says of its graph."""
        topology = self.topology
        return {
            "graph": self.name,
            "source": self.source,
            "nodes": topology.num_nodes,
            "edges": topology.num_edges,
        }

    def to(self, device: str) -> Sample:
        """The same graph on another device."""
        topology = self.topology.to(device)
        x, y, train = (t.to(device) for t in (self.x, self.y, self.train))
        return replace(self, topology=topology, x=x, y=y, train=train)


def load_sample(name: str) -> Sample:
    """A benchmark by name, or a generated graph of so many nodes: `texas`, `random-5000`."""
    if name.startswith("random-"):
        return _standin(name, sized(int(name.removeprefix("random-"))))
    require_choice("graph", name, NAMES)
    if locate(name) is not None:
        return _real(name)
    return _board() if name == "minesweeper" else _standin(name, SHAPES[name])


def sized(nodes: int) -> Shape:
    """The shape of a generated graph of any size: mean degree 20, skewed, 16 features, two classes."""
    require_at_least("sizes", nodes, 2 * MEAN_DEGREE + 1)
    return Shape(nodes, nodes * MEAN_DEGREE // 2, 0, SPREAD, features=16, classes=2)


def _real(name: str) -> Sample:
    entry, graph = get_entry(name), load(name, download=False)
    train = get_split(graph, entry.protocols[0], 0).train
    data = apply(entry.preprocessing, graph).to_pyg()
    return Sample(name, "data", Topology.from_data(data), data.x, data.y, train)


def _board() -> Sample:
    data = minesweeper().to_pyg()
    train = random_split(data.num_nodes, TRAIN).train
    return Sample("minesweeper", "generated", Topology.from_data(data), data.x, data.y, train)


def _standin(name: str, shape: Shape) -> Sample:
    rng = torch.Generator().manual_seed(0)
    edge_index = torch.from_numpy(skewed_edges(shape))
    x = torch.randn(shape.nodes, shape.features, generator=rng)
    y = torch.arange(shape.nodes) % shape.classes
    topology = Topology.from_edge_index(edge_index, shape.nodes)
    return Sample(name, "generated", topology, x, y, random_split(shape.nodes, TRAIN).train)
