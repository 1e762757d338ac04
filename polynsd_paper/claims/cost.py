"""What is measured about cost: products with the Laplacian, milliseconds of the processor, peak memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from polynsd import kernels
from polynsd.bench.cases import Case
from polynsd.bench.filters import FilterProblem
from polynsd.bench.measures import peak_memory
from polynsd.bench.samples import Sample
from polynsd.kernels.ops import reference
from polynsd.topology import Topology

WARM_UP, REPEATS = 2, 7


@contextmanager
def counted_products() -> Iterator[list[int]]:
    """A list that grows by one with every product of the Laplacian and a signal."""
    products: list[int] = []
    product: Callable[..., Tensor] = reference.block_product  # type: ignore[attr-defined]

    def counted(*operands: Any) -> Tensor:
        products.append(1)
        return product(*operands)

    with kernels.use("reference"), patch.object(reference, "block_product", counted):
        yield products


def products_of(model: nn.Module, x: Tensor, graph: Topology) -> int:
    """Products in one forward pass."""
    with counted_products() as products, torch.no_grad():
        model(x, graph)
    return len(products)


def step_ms(model: nn.Module, x: Tensor, graph: Topology) -> float:
    """Milliseconds of the processor for forward and backward."""

    def step() -> None:
        model.zero_grad()
        model(x, graph).square().mean().backward()

    return fastest(step)


def fastest(run: Callable[[], object]) -> float:
    """Milliseconds of the processor, the fewest of a few: other work on the machine does not count."""
    with one_thread():  # several would wait for each other, which counts as work
        for _ in range(WARM_UP):
            run()
        return min(_processor_ms(run) for _ in range(REPEATS))


@contextmanager
def one_thread() -> Iterator[None]:
    """All that matrices this small can use."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _processor_ms(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return 1e3 * (time.process_time() - start)


def training_mib(sample: Sample, case: Case, filtered: Callable[..., Tensor]) -> float:
    """Peak memory of a filter's forward and backward pass above its inputs."""
    problem = FilterProblem.create(sample, case)
    inputs = (problem.A.diag, problem.A.off, problem.phi, problem.x)

    def step() -> None:
        torch.autograd.grad(filtered(problem.A, problem.phi, problem.x, 1.0), inputs, problem.g)

    step()  # compiles
    with peak_memory("cpu") as peak:
        step()
    return peak.mib
