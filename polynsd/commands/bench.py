"""`polynsd bench`: the constant-memory filter against plain autograd, in one run.

The graph is generated (mean degree 8). Times are medians of a forward and backward pass through one
filter; memory is what autograd keeps for the backward pass. Ratios are over `autograd`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from polynsd.config import LayerConfig
from polynsd.data import heterophilous_graph
from polynsd.errors import require_at_least
from polynsd.kernels import reference
from polynsd.nn import SheafLayer
from polynsd.report import print_table, require_file_name, write_json
from polynsd.topology import Topology

METHODS = {
    "autograd": reference.chebyshev_filter_autograd,
    "constant memory": reference.chebyshev_filter,
}


@dataclass(frozen=True)
class Row:
    """One measurement."""

    method: str
    maps: str
    degree: int
    milliseconds: float
    saved_mib: float


@dataclass(frozen=True)
class Bench:
    """Time the polynomial filter, forward and backward, against plain autograd."""

    nodes: int = 2000
    """Size of the graph; it has four times as many edges."""
    degrees: tuple[int, ...] = (4, 16)
    """K."""
    maps: tuple[str, ...] = ("diagonal", "general")
    """Families."""
    stalk_dim: int = 4
    """d."""
    channels: int = 16
    """C."""
    repeats: int = 5
    """Timed passes per row; the median counts."""
    json: Path | None = None
    """A file for the rows."""

    def run(self) -> list[Row]:
        """Measures, prints, and writes the rows where asked for."""
        require_at_least("repeats", self.repeats, 1)
        require_file_name(self.json)
        data = heterophilous_graph(self.nodes, degree=8)
        topology = Topology.from_data(data)
        rows = [
            row for maps in self.maps for degree in self.degrees for row in self._pair(topology, maps, degree)
        ]
        print_table(f"{topology}, d={self.stalk_dim}, C={self.channels}", HEADER, _cells(rows))
        if self.json is not None:
            write_json(self.json, [asdict(row) for row in rows])
        return rows

    def _pair(self, topology: Topology, maps: str, degree: int) -> list[Row]:
        torch.manual_seed(0)
        layer = SheafLayer(self.channels, LayerConfig(maps=maps, degree=degree, stalk_dim=self.stalk_dim))
        x = torch.randn(topology.num_nodes, self.stalk_dim, self.channels, requires_grad=True)
        blocks = layer.laplacian(x, topology).blocks
        blocks = blocks._replace(diag=_leaf(blocks.diag), off=_leaf(blocks.off))
        phi = _leaf(layer.filter.chebyshev_coefficients())  # type: ignore[operator]
        rows = []
        for name, method in METHODS.items():
            run = partial(method, blocks, phi, x, 1.0)
            rows.append(Row(name, maps, degree, _milliseconds(run, self.repeats), _saved_mib(run)))
        return rows


HEADER = ("method", "maps", "K", "ms", "speed-up", "saved MiB", "of autograd")


def _cells(rows: list[Row]) -> list[tuple[str, ...]]:
    base = {(row.maps, row.degree): row for row in rows if row.method == "autograd"}
    return [
        (
            row.method,
            row.maps,
            str(row.degree),
            f"{row.milliseconds:.1f}",
            f"{base[row.maps, row.degree].milliseconds / row.milliseconds:.2f}x",
            f"{row.saved_mib:.1f}",
            f"{100 * row.saved_mib / base[row.maps, row.degree].saved_mib:.0f} %",
        )
        for row in rows
    ]


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_()


def _milliseconds(run: Callable[[], Tensor], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):  # the first one warms up
        start = time.perf_counter()
        run().sum().backward()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times[1:])


def _saved_mib(run: Callable[[], Tensor]) -> float:
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        kept = run()
    del kept
    return sum(saved.values()) / 2**20
