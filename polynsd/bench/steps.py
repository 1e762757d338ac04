"""One row of `bench step`: a full training step of `PolyNSD`, and inference.

A step is zero_grad, forward, cross-entropy on the training nodes, backward and Adam, without dropout.
On a GPU the trainer replays its step as a CUDA graph where it can, so there the `gpu` row is that of
the replayed step; all other rows, and `eager_ms`, launch every kernel anew.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from polynsd.bench.measures import peak_memory, replayed, times_of
from polynsd.bench.results import CASE_COLUMNS, MEASURED_COLUMNS, Columns, number_cell
from polynsd.bench.samples import Case, Row, Sample
from polynsd.config import to_dict
from polynsd.nn import PolyNSD

FIELDS = ("layers", "step_ms", "fastest_step_ms", "infer_ms", "peak_mib")
COLUMNS: Columns = {
    **CASE_COLUMNS,
    "step ms": number_cell("step_ms", 2),
    "infer ms": number_cell("infer_ms", 2),
    **MEASURED_COLUMNS,
}
GPU_COLUMNS: Columns = {
    **COLUMNS,
    "eager ms": number_cell("eager_ms", 2),
    "captured": lambda row: "yes" if row.get("captured") else "no",
}


def measure_step(sample: Sample, case: Case, *, layers: int, device: str, repeats: int) -> Row:
    """Times, and the peak memory of two eager steps.

    `peak_mib` is above the level before the model existed: parameters, their gradients, Adam's
    state, activations and temporaries; features, labels and graph are not in it.
    """
    make_training(sample, case, layers).step()  # compiles
    with peak_memory(device) as peak:
        training = make_training(sample, case, layers)
        training.step()
        training.step()  # from here on Adam has a state
    eager = times_of(training.step, repeats, device)
    infer = times_of(training.infer, repeats, device, warm_up=1)
    row: Row = dict(zip(FIELDS, (layers, *eager, infer.median, peak.mib), strict=True))
    if device == "cuda":
        row |= {"eager_ms": eager.median, "captured": False}
    if device == "cuda" and case.backend == "gpu":
        row |= _time_captured(training, repeats)
    return row


def make_training(sample: Sample, case: Case, layers: int) -> TimedTraining:
    """A PolyNSD without dropout on a graph."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = PolyNSD(
            sample.x.size(-1),
            case.C,
            layers,
            sample.num_classes,
            **to_dict(case.layer),
        )
    return TimedTraining(model.to(sample.x.device), (sample.x, sample.topology), sample.y, sample.train)


class TimedTraining:
    """A training loop as anyone would write it: the step and the inference that are timed.

    Args:
        model: on the device of its inputs.
        inputs: features, and the graph.
        y: the classes of all nodes.
        train: mask of the training nodes.
        weight_decay: of Adam.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: tuple[Tensor, Any],
        y: Tensor,
        train: Tensor,
        weight_decay: float = 0.0,
    ) -> None:
        self.model, self.inputs = model, inputs
        # node numbers in place of a mask, whose size a GPU would have to tell the host
        self.nodes = train.nonzero().squeeze(-1)
        self.targets = y[self.nodes]
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=0.01, weight_decay=weight_decay, capturable=y.is_cuda
        )

    def step(self) -> Tensor:
        """One step of training; returns the loss before it."""
        self.model.train()
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(*self.inputs).index_select(0, self.nodes), self.targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def infer(self) -> Tensor:
        """The logits of all nodes."""
        self.model.eval()
        return self.model(*self.inputs)


def _time_captured(training: TimedTraining, repeats: int) -> Row:
    """The times as CUDA graphs; nothing where the step cannot be captured."""
    step, infer = replayed(training.step), replayed(training.infer)
    if step is None or infer is None:
        return {}
    names = ("step_ms", "fastest_step_ms", "infer_ms", "captured")
    times = [times_of(run, repeats, "cuda") for run in (step, infer)]
    return dict(zip(names, (*times[0], times[1].median, True), strict=True))
