"""How close two tensors have to be, said once.

Errors are relative to the largest entry of the truth, which is always held in float64: a float32
result is thus measured against the right answer, not against another rounding of it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def relative_error(value: Tensor, truth: Tensor) -> float:
    """Max |value − truth| / max |truth|, or the absolute error where the truth is zero."""
    if not truth.numel():
        return 0.0
    truth = truth.detach().double()
    largest = float(truth.abs().max())
    return float((value.detach().double() - truth).abs().max()) / (largest or 1.0)


def assert_close(value: Tensor, truth: Tensor, what: str, tolerance: float | None = None) -> None:
    """Raises unless shapes agree and the relative error is within the tolerance of the dtype."""
    assert value.shape == truth.shape, f"{what}: shape {list(value.shape)}, expected {list(truth.shape)}"
    limit = TOLERANCE[value.dtype] if tolerance is None else tolerance
    error = relative_error(value, truth)
    assert error <= limit, f"{what}: relative error {error:.2e} is above {limit:.0e}"  # also for NaN


def gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], create_graph: bool = False
) -> list[Tensor]:
    """Gradients of ⟨w, function(*inputs)⟩ for a fixed random w; zero where an input plays no part."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    y = function(*leaves)
    w = torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    result = torch.autograd.grad(
        y, leaves, w.to(y), create_graph=create_graph, allow_unused=True, materialize_grads=True
    )
    return list(result)


def assert_same_gradients(
    function: Callable[..., Tensor],
    truth: Callable[..., Tensor],
    inputs: dict[str, Tensor],
    tolerance: float | None = None,
) -> None:
    """Compares the gradients of two functions of the same named inputs.

    The truth is evaluated in float64, whatever the dtype of the inputs.
    """
    actual = gradients(function, list(inputs.values()))
    expected = gradients(truth, [t.double() for t in inputs.values()])
    for name, value, true_value in zip(inputs, actual, expected, strict=True):
        assert_close(value, true_value, f"gradient of {name}", tolerance)
