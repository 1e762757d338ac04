"""One row of `bench kernels`: the polynomial filter alone, on blocks that are the same for every backend.

A filter is bound by memory, so its time is compared with the bytes that it has to move.
With N nodes, H half-edges, rows of d·C numbers, blocks of b numbers (d², d or 1) and s bytes per
number, one step of the forward recurrence T_{k+1} = 2 A T_k − T_{k−1}, y += φ_{k+1} T_{k+1}, fused
into one pass, moves

    H (row + block + 4)          the neighbour's row of T_k, the block, its column number
    N (5 row + block + 4)        T_k, T_{k−1}, y read; T_{k+1}, y written; diagonal block; row pointer

and one step of the backward pass, which runs the recurrences of T and B and adds B_{k+1} T_kᵀ to ∂A,

    H (2 row + 3 block + 4)      the neighbour's rows of T_k and B_{k+1}; block; ∂block read, written
    N (7 row + 3 block + 4)      T_k, T_{k+1}, B_{k+1}, B_{k+2}, g read; T_{k−1}, B_k written; blocks

A filter of degree K takes K of either. The first and last steps need a few rows less, and a cache may
already hold a neighbour's row: measured against these bytes, a small graph can beat the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from polynsd import kernels
from polynsd.bench.measures import peak_memory, replayed, times_of
from polynsd.bench.results import CASE_COLUMNS, MEASURED_COLUMNS, Columns, number_cell
from polynsd.bench.samples import Case, Row, Sample
from polynsd.errors import ConfigError
from polynsd.kernels import BlockOperator
from polynsd.nn import SheafLayer
from polynsd.sheaf.laplacian import SheafLaplacian

INDEX_BYTES = 4
FIELDS = (
    "forward_ms",
    "step_ms",
    "fastest_step_ms",
    "peak_mib",
    "forward_bytes",
    "forward_gbs",
    "forward_fraction_of_copy",
    "bytes",
    "gbs",
    "fraction_of_copy",
)
COLUMNS: Columns = {
    **CASE_COLUMNS,
    "forward ms": number_cell("forward_ms", 2),
    "step ms": number_cell("step_ms", 2),
    **MEASURED_COLUMNS,
    "GB/s": number_cell("gbs", 1),
    "of copy": number_cell("fraction_of_copy", 0, " %", 100),
}


def measure_filter(
    sample: Sample, case: Case, *, device: str, repeats: int, copy_gbs: float, tune: bool = False
) -> Row:
    """Forward without gradients, forward and backward (`step_ms`), and how far both are from a copy.

    On a GPU the fast kernels are timed as CUDA graphs: launched one by one they would wait for the host.

    `peak_mib` is that of forward and backward above the inputs: results, gradients, what is kept
    between the two, and temporaries.
    """
    problem = FilterProblem.create(sample, case)
    on_gpu = device == "cuda" and case.backend == "gpu"
    if tune and on_gpu:
        kernels.tune(problem.A, problem.phi, problem.x)
    problem.step()  # compiles
    with peak_memory(device) as peak:
        problem.step()
    forward, step = (
        times_of((replayed(run) if on_gpu else None) or run, repeats, device, warm_up=1)
        for run in (problem.forward, problem.step)
    )
    sizes = problem.sizes
    forward_bytes = case.K * forward_step(sizes)
    step_bytes = forward_bytes + case.K * backward_step(sizes)
    forward_gbs, gbs = (
        gigabytes_per_second(*pair) for pair in ((forward_bytes, forward.median), (step_bytes, step.median))
    )
    values = (forward.median, *step, peak.mib, forward_bytes, forward_gbs, forward_gbs / copy_gbs)
    return dict(zip(FIELDS, (*values, step_bytes, gbs, gbs / copy_gbs), strict=True))


class FilterProblem(NamedTuple):
    """Σ_k φ_k T_k(L − I) x and its gradient for a given ∂y."""

    A: BlockOperator
    phi: Tensor  # [K + 1]
    x: Tensor  # [N, d, C]
    g: Tensor  # [N, d, C]

    @classmethod
    def create(cls, sample: Sample, case: Case) -> FilterProblem:
        """The Laplacian is that of an untrained layer on a random state."""
        with kernels.use("auto"), torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            layer = SheafLayer(case.C, case.layer)
            x, g = torch.randn(2, sample.topology.num_nodes, case.d, case.C).to(sample.x.device)
            L = layer.to(x.device).laplacian(x, sample.topology)
            if not isinstance(L, SheafLaplacian):
                raise ConfigError("maps on nodes have no blocks on edges; measure them with bench layer.")
            diag, off, phi = L.blocks.diag, L.blocks.off, layer.filter.chebyshev_coefficients()  # type: ignore[operator]
        for t in (diag, off, phi, x):
            t.requires_grad_()
        return cls(L.blocks._replace(diag=diag, off=off), phi, x, g)

    def forward(self) -> Tensor:
        with torch.no_grad():
            return kernels.chebyshev_filter(self.A, self.phi, self.x, 1.0)

    def step(self) -> tuple[Tensor, ...]:
        """The gradients of blocks, coefficients and signal."""
        y = kernels.chebyshev_filter(self.A, self.phi, self.x, 1.0)
        return torch.autograd.grad(y, (self.A.diag, self.A.off, self.phi, self.x), self.g)

    @property
    def sizes(self) -> Sizes:
        """Diagonal blocks are as large as the others: a product needs both of one kind."""
        block = torch.broadcast_shapes(self.A.diag.shape[-2:], self.A.off.shape[-2:]).numel()
        row = self.x.shape[-2:].numel()
        s = self.x.element_size()
        return Sizes(self.A.pattern.num_nodes, self.A.pattern.row.numel(), row * s, block * s)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a filter on which its bytes depend."""

    nodes: int
    half_edges: int
    row_bytes: int  # d · C numbers
    block_bytes: int  # d², d or 1 numbers


def forward_step(sizes: Sizes) -> int:
    """Bytes of one step of the forward recurrence."""
    per_half_edge = sizes.row_bytes + sizes.block_bytes + INDEX_BYTES
    per_node = 5 * sizes.row_bytes + sizes.block_bytes + INDEX_BYTES
    return sizes.half_edges * per_half_edge + sizes.nodes * per_node


def backward_step(sizes: Sizes, blocks_wanted: bool = True) -> int:
    """Bytes of one step of the backward recurrences, with the gradient of the blocks where it is wanted."""
    block_bytes = (3 if blocks_wanted else 1) * sizes.block_bytes
    per_half_edge = 2 * sizes.row_bytes + block_bytes + INDEX_BYTES
    per_node = 7 * sizes.row_bytes + block_bytes + INDEX_BYTES
    return sizes.half_edges * per_half_edge + sizes.nodes * per_node


def gigabytes_per_second(num_bytes: int, milliseconds: float) -> float:
    """10⁹ bytes per second, from bytes and milliseconds."""
    return num_bytes / milliseconds / 1e6
