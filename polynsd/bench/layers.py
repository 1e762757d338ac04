"""One row of `bench layer`: a layer and its parts, forward and backward, against identity maps.

| time         | of what                                                                         |
|--------------|---------------------------------------------------------------------------------|
| `filter_ms`  | the polynomial filter by a Laplacian that is given, with all its gradients      |
| `diffuse_ms` | the whole layer by that Laplacian: mixing, filter, activation, residual         |
| `step_ms`    | the whole layer with the learner of the maps, which identity maps do not have    |

Maps on nodes (`orthogonal@nodes`) turn the stalks, filter on the plain graph and turn back. With rows of r
bytes and blocks of b bytes the two turns move 2 N (2 r + b) bytes forward and twice as many backward, where
∂x and ∂O each read two rows or write one, and that is all that they add to the filter of identity maps.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from polynsd.bench.filters import Sizes, backward_step, forward_step, gigabytes_per_second
from polynsd.bench.measures import paired_times, replayed
from polynsd.bench.results import CASE_COLUMNS, Columns, number_cell
from polynsd.bench.samples import Case, Row, Sample
from polynsd.nn import SheafLayer
from polynsd.nn.assembly import Laplacian
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sheaf.similar import SimilarLaplacian

PARTS = ("filter", "diffuse", "step")
FIELDS = (
    *(f"{part}_{column}" for part in PARTS for column in ("ms", "ratio")),
    "fastest_step_ms",
    "bytes",
    "gbs",
    "fraction_of_copy",
)
COLUMNS: Columns = {
    **CASE_COLUMNS,
    **{
        column: cell
        for part, name in zip(PARTS, ("filter", "without learner", "layer"), strict=True)
        for column, cell in (
            (f"{name} ms", number_cell(f"{part}_ms", 2)),
            (f"{name}, ratio", number_cell(f"{part}_ratio", 2, "x")),
        )
    },
    "filter GB/s": number_cell("gbs", 1),
    "of copy": number_cell("fraction_of_copy", 0, " %", 100),
}
CONTROL = "identity"


def measure_layer(sample: Sample, case: Case, *, device: str, repeats: int, copy_gbs: float) -> Row:
    """Times of the parts, their ratios to identity maps, and how far the filter is from a copy.

    Layer and control take turns, so that a busy machine slows down both. On a GPU they are CUDA graphs.
    """
    problem, control = (LayerProblem(sample, c) for c in (case, replace(case, maps=CONTROL)))
    on_gpu = device == "cuda" and case.backend == "gpu"
    row: Row = {}
    for part in PARTS:
        runs = [getattr(side, part) for side in (problem, control)]
        run, other = [replayed(run) or run for run in runs] if on_gpu else runs
        times, ratio = paired_times(run, other, repeats, device)
        row |= {f"{part}_ms": times.median, f"fastest_{part}_ms": times.fastest, f"{part}_ratio": ratio}
    gbs = gigabytes_per_second(problem.filter_bytes, row["filter_ms"])
    return row | {"bytes": problem.filter_bytes, "gbs": gbs, "fraction_of_copy": gbs / copy_gbs}


class LayerProblem:
    """A layer on a random state, and the Laplacian that it sees there with its tensors as leaves."""

    def __init__(self, sample: Sample, case: Case) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = SheafLayer(case.C, case.layer).to(sample.x.device)
            x, self.g = torch.randn(2, sample.topology.num_nodes, case.d, case.C).to(sample.x.device)
        self.x, self.topology, self.K = x.requires_grad_(), sample.topology, case.K
        learned = [p for p in self.layer.parameters() if p.requires_grad]
        # of a copy: what this pass leaves behind would tie the layer's own leaves to its stream, and no CUDA
        # graph could capture their gradients
        self.laplacian, given = separate(copy.deepcopy(self.layer).laplacian(x.detach(), self.topology))
        self._filter_inputs = (self.x, *self.layer.filter.parameters(), *given)
        self._diffuse_inputs = (self.x, *learned, *given)
        self._step_inputs = (self.x, *learned)

    def filter(self) -> tuple[Tensor, ...]:
        """The gradients of signal, coefficients and operator."""
        return self._gradients(self.layer.filter(self.laplacian, self.x), self._filter_inputs)

    def diffuse(self) -> tuple[Tensor, ...]:
        """The gradients of a layer by a Laplacian that is given."""
        return self._gradients(self.layer.diffuse(self.x, self.laplacian), self._diffuse_inputs)

    def step(self) -> tuple[Tensor, ...]:
        """The gradients of a layer that learns its maps."""
        return self._gradients(self.layer(self.x, self.topology), self._step_inputs)

    def _gradients(self, y: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(y, inputs, self.g, allow_unused=True)

    @property
    def filter_bytes(self) -> int:
        """What the filter has to move, with its turns where stalks are turned."""
        L, s = self.laplacian, self.x.element_size()
        base = L.base if isinstance(L, SimilarLaplacian) else L
        assert isinstance(base, SheafLaplacian)  # there are no fixed channels
        N, row = self.topology.num_nodes, self.x.shape[-2:].numel() * s
        block = torch.broadcast_shapes(base.blocks.diag.shape[-2:], base.blocks.off.shape[-2:]).numel() * s
        sizes = Sizes(N, self.topology.num_half_edges, row, block)
        blocks_wanted = base.blocks.off.requires_grad
        turns = 6 * N * (2 * row + L.P.shape[-2:].numel() * s) if isinstance(L, SimilarLaplacian) else 0
        return turns + self.K * (forward_step(sizes) + backward_step(sizes, blocks_wanted))


def separate(L: Laplacian) -> tuple[SheafLaplacian | SimilarLaplacian, list[Tensor]]:
    """The Laplacian without its history, and those of its tensors that are learned."""
    given: list[Tensor] = []

    def leaf(t: Tensor) -> Tensor:
        if t.requires_grad:
            given.append(t.detach().requires_grad_())
        return given[-1] if t.requires_grad else t

    if isinstance(L, SimilarLaplacian):
        base, others = separate(L.base)
        assert isinstance(base, SheafLaplacian)
        return SimilarLaplacian(base, leaf(L.P)), [*others, *given]
    assert isinstance(L, SheafLaplacian)  # there are no fixed channels
    own = copy.copy(L)
    own.blocks = L.blocks._replace(diag=leaf(L.blocks.diag), off=leaf(L.blocks.off))
    return own, given
