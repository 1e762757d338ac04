"""Generalised linear models of many folds at once, by Newton's method with conjugate gradients.

    minimise over W_r, b_r:   Σ_i m_ri ℓ(z_iᵀ W_r + b_r, y_i) + λ/2 ‖W_r‖²   for every fold r,

with ℓ the cross-entropy of classes or half the squared error of numbers, and weights m that sum to 1 over
the training nodes of a fold. Folds share the products with the design matrix. A step D costs one product,
after which outputs are linear in its length, so that the line search is free. Where Z is dense and not too
wide, conjugate gradients are preconditioned by h ZᵀZ / n + λ, with h the mean of ℓ'' over nodes and outputs:
that is H but for the spread of ℓ'', and half as many steps suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from polynsd.estimator.design import Design

TINY = 1e-30
INTERCEPT_PENALTY = 1e-4  # bounds the intercept of a class that a fold does not have
TOLERANCE = 3e-3  # of the gradient, against that of the model without weights
NEWTON_STEPS, CG_STEPS, HALVINGS = 30, 50, 12
WIDEST = 3072  # columns of a dense design whose ZᵀZ is formed
LARGEST_FORCING = 0.25  # Newton's equation is solved to this share of its right side, or better


class Loss(NamedTuple):
    """Derivatives of ℓ by the outputs `[n, R, O]`."""

    gradient: Callable[[Tensor], Tensor]
    hessian: Callable[[Tensor], Callable[[Tensor], Tensor]]  # as a map of directions
    hessian_diagonal: Callable[[Tensor], Tensor]


def cross_entropy(y: Tensor, num_classes: int) -> Loss:
    """−log softmax(z)_y for classes `[n]`."""
    one_hot = torch.nn.functional.one_hot(y, num_classes)[:, None].float()

    def hessian(z: Tensor) -> Callable[[Tensor], Tensor]:
        p = z.softmax(-1)
        return lambda d: p * (d - (p * d).sum(-1, keepdim=True))

    def hessian_diagonal(z: Tensor) -> Tensor:
        p = z.softmax(-1)
        return p - p**2

    return Loss(lambda z: z.softmax(-1) - one_hot, hessian, hessian_diagonal)


def squared_error(y: Tensor) -> Loss:
    """½ (z − y)² for numbers `[n]`."""
    return Loss(lambda z: z - y.float()[:, None, None], lambda z: lambda d: d, torch.ones_like)


class Models(NamedTuple):
    """Linear models of R folds."""

    theta: Tensor  # [width + 1, R, O], the intercepts in the last row
    outputs: Tensor  # [n, R, O]


def zero_models(design: Design, num_rows: int, num_folds: int, num_outputs: int) -> Models:
    """Models that say nothing."""
    device = design.scale.device
    return Models(
        torch.zeros(design.width + 1, num_folds, num_outputs, device=device),
        torch.zeros(num_rows, num_folds, num_outputs, device=device),
    )


def scale_models(weights: Tensor, intercepts: Tensor, design: Design) -> Models:
    """Models of columns as they are, `[R, width, O]` and `[R, O]`, as models of the design's columns."""
    scale, mean = design.scale[:, None, None], design.mean
    scaled = torch.where(scale > 0, weights.transpose(0, 1).float() / scale, 0.0)
    shifted = intercepts.float() + torch.einsum("f,fro->ro", mean, scaled)
    theta = torch.cat([scaled, shifted[None]])
    return Models(theta, _push(design, theta))


def unscale_models(models: Models, design: Design) -> tuple[Tensor, Tensor]:
    """Weights `[R, width, O]` and intercepts `[R, O]` for columns that are neither centred nor scaled."""
    theta = models.theta.double()
    weights, intercepts = theta[:-1], theta[-1]
    shift = torch.einsum("f,fro->ro", design.mean.double(), weights)
    scaled = design.scale.double()[:, None, None] * weights
    return scaled.transpose(0, 1).contiguous().cpu(), (intercepts - shift).cpu()


class Axes(NamedTuple):
    """ZᵀZ / n = Q diag(sizes) Qᵀ."""

    Q: Tensor
    sizes: Tensor


def principal_axes(design: Design) -> Axes | None:
    """Those of a dense design; None where finding them would cost more than it saves."""
    if design.hops or design.x.layout != torch.strided or design.width > min(WIDEST, len(design.rows)):
        return None
    z = design.scale * design.x[design.rows] - design.mean
    sizes, Q = torch.linalg.eigh(z.T @ z / len(z))
    return Axes(Q, sizes.clamp(min=0.0))


def minimise(
    design: Design,
    loss: Loss,
    weights: Tensor,
    penalty: float,
    start: Models,
    reference: Tensor,
    axes: Axes | None = None,
) -> Models:
    """The models with the smallest penalised loss.

    Args:
        design: Z.
        loss: ℓ.
        weights: m `[n, R]`.
        penalty: λ.
        start: where to begin, e.g. at the models of a larger penalty.
        reference: `[R]` the size of gradients below which, times the tolerance, a model is done.
        axes: see `principal_axes`.
    """
    theta, outputs = start
    for _ in range(NEWTON_STEPS):
        gradient = _pull_back(design, weights, loss.gradient(outputs), penalty, theta)
        size = _norm(gradient)
        if bool((size <= TOLERANCE * reference).all()):
            break
        forcing = (size / reference.clamp(min=TINY)).sqrt().clamp(max=LARGEST_FORCING) * size
        solve = _preconditioner(axes, loss, weights, outputs, penalty)
        step, change = _newton_step(design, loss, weights, penalty, outputs, gradient, forcing, solve)
        length = _line_search(loss, weights, penalty, theta, outputs, step, change)[:, None]
        theta, outputs = theta + length * step, outputs + length * change
    return Models(theta, outputs)


def gradient_size(design: Design, loss: Loss, weights: Tensor, models: Models) -> Tensor:
    """`[R]`, the norm of the gradient without a penalty."""
    return _norm(_pull_back(design, weights, loss.gradient(models.outputs), 0.0, models.theta))


def _newton_step(
    design: Design,
    loss: Loss,
    weights: Tensor,
    penalty: float,
    outputs: Tensor,
    gradient: Tensor,
    forcing: Tensor,
    solve: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """The solution of H D = −gradient and Z D, by conjugate gradients until residuals are below `forcing`."""
    step, change = torch.zeros_like(gradient), torch.zeros_like(outputs)
    residual, hessian = -gradient, loss.hessian(outputs)
    direction = solve(residual)
    size, is_open = _dot(residual, direction), _norm(residual) > forcing
    for _ in range(CG_STEPS):
        moved = _push(design, direction)
        curved = _pull_back(design, weights, hessian(moved), penalty, direction)
        length = torch.where(is_open, size / _dot(direction, curved).clamp(min=TINY), 0.0)[:, None]
        step, change = step + length * direction, change + length * moved
        residual = residual - length * curved
        is_open = _norm(residual) > forcing
        if not bool(is_open.any()):
            break
        solved = solve(residual)
        new_size = _dot(residual, solved)
        direction, size = solved + (new_size / size.clamp(min=TINY))[:, None] * direction, new_size
    return step, change


def _preconditioner(
    axes: Axes | None, loss: Loss, weights: Tensor, outputs: Tensor, penalty: float
) -> Callable[[Tensor], Tensor]:
    """θ → (h ZᵀZ / n + λ)⁻¹ θ, intercepts by themselves; θ itself where there are no axes."""
    if axes is None:
        return lambda theta: theta
    diagonal = loss.hessian_diagonal(outputs).mean(-1)
    h = float((weights * diagonal).sum() / weights.shape[1])
    scale = 1 / (h * axes.sizes[:, None] + penalty)

    def solve(theta: Tensor) -> Tensor:
        weights = axes.Q @ (scale * (axes.Q.T @ theta[:-1].flatten(1)))
        return torch.cat([weights.reshape(theta[:-1].shape), theta[-1:] / (h + INTERCEPT_PENALTY)])

    return solve


def _line_search(
    loss: Loss, weights: Tensor, penalty: float, theta: Tensor, outputs: Tensor, step: Tensor, change: Tensor
) -> Tensor:
    """`[R]` lengths of the step, halved until the slope there is at most half of what it was."""
    penalised = torch.cat([penalty * step[:-1], INTERCEPT_PENALTY * step[-1:]])
    of_penalty, growth = _dot(theta, penalised), _dot(step, penalised)

    def slope(length: Tensor) -> Tensor:
        moved = loss.gradient(outputs + length[:, None] * change)
        return (weights * (moved * change).sum(-1)).sum(0) + of_penalty + length * growth

    length = torch.ones(theta.shape[1], device=theta.device)
    steepest = slope(0 * length).abs()
    for _ in range(HALVINGS):
        is_too_long = slope(length) > steepest / 2
        if not bool(is_too_long.any()):
            break
        length = torch.where(is_too_long, length / 2, length)
    return length


def _push(design: Design, theta: Tensor) -> Tensor:
    """Z W + b, `[n, R, O]`."""
    return design.multiply(theta[:-1].flatten(1)).reshape(-1, *theta.shape[1:]) + theta[-1]


def _pull_back(design: Design, weights: Tensor, slopes: Tensor, penalty: float, theta: Tensor) -> Tensor:
    """The gradient by `theta`, from that by the outputs."""
    weighted = weights[..., None] * slopes
    by_weights = design.multiply_transposed(weighted.flatten(1)).reshape(-1, *theta.shape[1:])
    by_intercepts = weighted.sum(0) + INTERCEPT_PENALTY * theta[-1]
    return torch.cat([by_weights + penalty * theta[:-1], by_intercepts[None]])


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """`[R]`."""
    return (a * b).sum((0, 2))


def _norm(a: Tensor) -> Tensor:
    return _dot(a, a).sqrt()
