"""Integration in time: x(T) from ẋ = f(x), x(0) = x.

    k_i = f(x + Δt Σ_{j<i} a_ij k_j),    x⁺ = x + Δt Σ_i b_i k_i

A solver with fixed steps is its table (a, b); `FIXED` has them. What it does never depends on values, so it
runs under `torch.vmap` and in CUDA graphs. Adaptive solvers are torchdiffeq's (the extra `ode`): they look at
values to choose their steps, so models that use them train in turns.

| gradient     | keeps for the backward pass                     | costs                                    |
|--------------|-------------------------------------------------|------------------------------------------|
| `checkpoint` | the states between steps                        | every step is computed twice             |
| `direct`     | what every evaluation of f keeps                | memory that grows with the steps         |
| `adjoint`    | the last state; the ODE is solved back in time  | accurate to the tolerance of the solver  |

All of them need to know the tensors that f depends on: parameters of a module, and inputs by name. f is then
a function of tensors alone, and can be computed again after a transform of `torch.func` that held them ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from polynsd.config import ADAPTIVE_SOLVERS, ODEConfig
from polynsd.errors import DataError
from polynsd.kernels.ops.batching import is_transformed
from polynsd.memo import can_read_values
from polynsd.nn.checkpoint import CheckpointError, FunctionModes
from polynsd.optional import load_optional

MOST_ADAPTIVE_STEPS = 250
ABSOLUTE = 0.1  # the absolute tolerance, as a share of the relative one

Inputs = Mapping[str, Tensor]
Derivative = Callable[[Tensor, Inputs], Tensor]  # (x, inputs) → ẋ
Function = Callable[..., Tensor]  # of x and all other tensors


class Tableau(NamedTuple):
    """The coefficients of an explicit Runge–Kutta method; f does not depend on t, so neither do they."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]


FIXED = {
    "euler": Tableau(((),), (1.0,)),
    "midpoint": Tableau(((), (1 / 2,)), (0.0, 1.0)),
    "rk4": Tableau(((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8)),
}


class IntegrationError(DataError):
    """The state could not be integrated to the horizon."""


def integrate(
    module: nn.Module, derivative: Derivative, x: Tensor, inputs: Mapping[str, Tensor | None], ode: ODEConfig
) -> Tensor:
    """x(T) of ẋ = derivative(x, inputs).

    Args:
        module: whose parameters and buffers the derivative uses.
        derivative: (x, inputs) → ẋ; deterministic, and with no other tensors that need a gradient.
        x: the state at t = 0.
        inputs: further tensors by name; the derivative is given those that are not None.
        ode: solver, horizon, and the way to gradients.

    Raises:
        IntegrationError: the state is not finite in the end, or an adaptive solver did not reach its
            tolerance. Fixed steps are looked at where no gradient is wanted: a step of training does not
            wait for values. Inside `failures_as_nan` there is no error, and the result is NaN.
    """
    given = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    function, tensors = _as_function(module, derivative, given)
    if torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64:
        x = x.float()  # which autocast may have lowered
    if ode.solver in ADAPTIVE_SOLVERS:
        return _solve_adaptively(function, x, tensors, ode)
    end = _take_steps(function, x, tensors, ode)
    if _can_look() and not end.isfinite().all():
        raise IntegrationError(
            f"the state is not finite at t={ode.horizon:g} after {ode.steps} steps of {ode.solver}; use a "
            "shorter horizon, more steps, or smaller features."
        )
    return end


def _can_look() -> bool:
    is_evaluated = not torch.is_grad_enabled() and not is_transformed()
    return is_evaluated and _raises_failures.get() and can_read_values()


# Fixed steps


def _take_steps(function: Function, x: Tensor, tensors: Sequence[Tensor], ode: ODEConfig) -> Tensor:
    step = partial(_take_step, function, FIXED[ode.solver], ode.horizon / ode.steps)
    is_checkpointed = ode.gradient != "direct" and torch.is_grad_enabled()
    if is_checkpointed:
        step = partial(_Checkpoint.apply, _in_same_surroundings(step, x.device.type))
    for _ in range(ode.steps):
        x = step(x, *tensors)
    return x


def _take_step(function: Function, tableau: Tableau, dt: float, x: Tensor, *tensors: Tensor) -> Tensor:
    slopes: list[Tensor] = []
    for row in tableau.a:
        slopes.append(function(_add(x, dt, row, slopes), *tensors))
    return _add(x, dt, tableau.b, slopes)


def _add(x: Tensor, dt: float, weights: Sequence[float], slopes: Sequence[Tensor]) -> Tensor:
    for weight, slope in zip(weights, slopes, strict=True):
        x = torch.add(x, slope, alpha=dt * weight) if weight else x
    return x


class _Checkpoint(torch.autograd.Function):
    """step(*tensors), of which only the tensors are kept; it is computed again in the backward pass."""

    @staticmethod
    def forward(step: Function, *tensors: Tensor) -> Tensor:
        return step(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.step = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs = _leaves(ctx.saved_tensors, ctx.needs_input_grad[1:])
        with torch.enable_grad():
            output = ctx.step(*inputs)
        return None, *_gradients(output, inputs, gradient)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], step: Function, *tensors: Tensor) -> tuple[Tensor, int]:
        """All replicas as one step, so that the backward pass is one too."""
        return _Checkpoint.apply(torch.vmap(step, in_dims[1:]), *tensors), 0


def _leaves(tensors: Sequence[Tensor], needed: Sequence[bool]) -> list[Tensor]:
    """The tensors without their history; those that need a gradient collect one."""
    return [t.detach().requires_grad_(needs) for t, needs in zip(tensors, needed, strict=True)]


def _gradients(output: Tensor, inputs: Sequence[Tensor], gradient: Tensor) -> list[Tensor | None]:
    """Of all inputs; None where none is wanted."""
    wanted = [t for t in inputs if t.requires_grad]
    found = iter(torch.autograd.grad(output, wanted, gradient, allow_unused=True))
    return [next(found) if t.requires_grad else None for t in inputs]


def _in_same_surroundings(step: Function, device: str) -> Function:
    """The step with the autocast and the function modes of now, whenever it is called."""
    modes, enabled = FunctionModes(), torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device)

    def run(*tensors: Tensor) -> Tensor:
        with modes, torch.autocast(device, dtype=dtype, enabled=enabled):
            return step(*tensors)

    return run


# Adaptive steps


def _solve_adaptively(function: Function, x: Tensor, tensors: Sequence[Tensor], ode: ODEConfig) -> Tensor:
    torchdiffeq = load_optional("torchdiffeq", f"solver='{ode.solver}' needs", "ode")
    if is_transformed():
        raise CheckpointError(
            f"solver='{ode.solver}' chooses its steps by values, which torch.func hides; use a solver with "
            "fixed steps, such as 'rk4'."
        )
    times = x.new_tensor([0.0, ode.horizon])
    settings: dict[str, Any] = {"rtol": ode.tolerance, "atol": ABSOLUTE * ode.tolerance, "method": ode.solver}
    settings["options"] = {"max_num_steps": MOST_ADAPTIVE_STEPS}

    def solve(x: Tensor, *tensors: Tensor) -> Tensor:
        field = lambda t, state: function(state, *tensors)  # noqa: E731
        if ode.gradient == "direct" or not torch.is_grad_enabled():
            return torchdiffeq.odeint(field, x, times, **settings)[-1]
        return torchdiffeq.odeint_adjoint(field, x, times, adjoint_params=tensors, **settings)[-1]

    try:
        return _Guarded.apply(solve, x, *tensors)
    except AssertionError as error:  # so torchdiffeq gives up
        if not _raises_failures.get():
            return x * torch.nan
        raise IntegrationError(
            f"{ode.solver} did not reach tolerance={ode.tolerance:g} up to t={ode.horizon:g} ({error}); "
            "raise the tolerance, shorten the horizon, or use solver='rk4' with more steps."
        ) from error


class _Guarded(torch.autograd.Function):
    """solve(*tensors); a solver that gives up on its way back is an error, or its gradient is NaN."""

    @staticmethod
    def forward(ctx: Any, solve: Function, *tensors: Tensor) -> Tensor:
        ctx.raises_failures = _raises_failures.get()
        inputs = _leaves(tensors, ctx.needs_input_grad[1:])
        with torch.set_grad_enabled(any(ctx.needs_input_grad)):
            ctx.output, ctx.inputs = solve(*inputs), inputs
        return ctx.output.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        try:
            return None, *_gradients(ctx.output, ctx.inputs, gradient)
        except AssertionError as error:
            if ctx.raises_failures:
                raise IntegrationError(
                    f"the adaptive solver did not reach its tolerance on its way back ({error}); raise the "
                    "tolerance, shorten the horizon, or use gradient='direct' or solver='rk4'."
                ) from error
            return None, *(torch.full_like(t, torch.nan) if t.requires_grad else None for t in ctx.inputs)


# What is integrated


class _Bound(nn.Module):
    """A derivative with the module whose parameters it uses, so that it can be called with others."""

    def __init__(self, module: nn.Module, derivative: Derivative) -> None:
        super().__init__()
        self.module, self._derivative = module, derivative

    def forward(self, x: Tensor, inputs: Inputs) -> Tensor:
        return self._derivative(x, inputs)


def _as_function(module: nn.Module, derivative: Derivative, inputs: Inputs) -> tuple[Function, list[Tensor]]:
    """ẋ as a function of x and a list of tensors, and these tensors."""
    bound = _Bound(module, derivative)
    state = {**dict(bound.named_parameters()), **dict(bound.named_buffers())}
    count = len(state)

    def function(x: Tensor, *tensors: Tensor) -> Tensor:
        for counter in _counters.get():
            counter.count += 1
        values, given = tensors[:count], dict(zip(inputs, tensors[count:], strict=True))
        return functional_call(bound, dict(zip(state, values, strict=True)), (x, given))

    return function, [*state.values(), *inputs.values()]


class Evaluations:
    """How often a derivative was evaluated."""

    count = 0


_counters: ContextVar[tuple[Evaluations, ...]] = ContextVar("polynsd_evaluations", default=())
_raises_failures: ContextVar[bool] = ContextVar("polynsd_raises_failures", default=True)


@contextmanager
def count_evaluations() -> Iterator[Evaluations]:
    """Counts evaluations of derivatives inside the `with` block."""
    counter = Evaluations()
    token = _counters.set((*_counters.get(), counter))
    try:
        yield counter
    finally:
        _counters.reset(token)


@contextmanager
def failures_as_nan() -> Iterator[None]:
    """Inside the `with` block a state that cannot be integrated is NaN, so that other replicas go on."""
    token = _raises_failures.set(False)
    try:
        yield
    finally:
        _raises_failures.reset(token)
