"""Estimates of the largest eigenvalue of a symmetric positive semidefinite operator, from below.

A Rayleigh quotient never exceeds λ_1, so used as λ_max it would leave spectrum outside [−1, 1],
where T_k grows like cosh(k arcosh ξ): at ξ = 1.05 and K = 16 by a factor of 77.
`lanczos_lambda_max` therefore adds the residual of its Ritz vector and at least one per cent. That
is a probable bound, not a certified one (a residual only proves that *some* eigenvalue is near);
`SheafLaplacian.lambda_max` caps it by the analytic bound, which is certified.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from polynsd.devices import to_wide

INFLATION = 1.01


@torch.no_grad()
def lanczos_lambda_max(
    product: Callable[[Tensor], Tensor],
    like: Tensor,
    batch: Tensor | None = None,
    num_graphs: int = 1,
    steps: int = 24,
) -> Tensor:
    """Inflated Lanczos estimates of λ_1, one for every graph of a batch.

    Args:
        product: x ↦ A x on signals `[..., N, d, 1]`.
        like: any signal `[..., N, d, 1]`; gives shape, dtype and device.
        batch: `[N]` the graph of every node, sorted; inner products are taken graph by graph.
        num_graphs: B.
        steps: dimension of the Krylov space.

    Returns:
        `[..., B]`.
    """
    if batch is None:
        batch = torch.zeros(like.size(-3), dtype=torch.long, device=like.device)

    def inner(x: Tensor, y: Tensor) -> Tensor:  # [..., B]
        per_node = (x * y).sum((-2, -1))
        return per_node.new_zeros(*per_node.shape[:-1], num_graphs).index_add(-1, batch, per_node)

    def at_nodes(per_graph: Tensor) -> Tensor:  # [..., N, 1, 1]
        return per_graph.index_select(-1, batch)[..., None, None]

    vector = _draw_start(like, batch, num_graphs)
    vector = vector / at_nodes(inner(vector, vector).sqrt())
    alphas, betas = tridiagonalize(product, vector, inner, at_nodes, steps)
    return INFLATION * _largest_ritz_value(alphas, betas)


def tridiagonalize(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    inner: Callable[[Tensor, Tensor], Tensor],
    spread: Callable[[Tensor], Tensor],
    steps: int,
) -> tuple[Tensor, Tensor]:
    """Lanczos' recurrence for many symmetric operators at once: diagonals α and off-diagonals β.

    Args:
        product: x ↦ A x.
        start: of norm 1 for every operator.
        inner: (x, y) ↦ one inner product per operator, `[...]`.
        spread: brings numbers of operators to the shape of signals.
        steps: m, the dimension of the Krylov space.

    Returns:
        α and β `[..., m]`; the last β is the norm of the residual. Where a Krylov space is exhausted, what
        follows is 0.
    """
    vectors, alphas, betas = [start], [], []
    for _ in range(steps):
        residual = product(vectors[-1])
        alphas.append(inner(residual, vectors[-1]))
        for _twice in range(2):  # full reorthogonalisation, twice is enough
            for q in vectors:
                residual = residual - spread(inner(residual, q)) * q
        beta = inner(residual, residual).sqrt()
        # an exhausted Krylov space leaves rounding noise: stop that operator there
        beta = torch.where(beta > _rounding_error(alphas), beta, 0.0)
        betas.append(beta)
        vectors.append(residual * spread(torch.where(beta > 0, 1 / beta, 0.0)))
    return torch.stack(alphas, -1), torch.stack(betas, -1)


def _largest_ritz_value(alphas: Tensor, betas: Tensor) -> Tensor:
    """Largest eigenvalue of the tridiagonal matrix plus the norm of its Ritz vector's residual."""
    off = betas[..., :-1]
    tridiagonal = torch.diag_embed(alphas) + torch.diag_embed(off, 1) + torch.diag_embed(off, -1)
    values, ritz = torch.linalg.eigh(tridiagonal)
    return values[..., -1] + betas[..., -1] * ritz[..., -1, -1].abs()


def _rounding_error(alphas: list[Tensor]) -> Tensor:
    scale = torch.stack(alphas, -1).abs().amax(-1)
    return scale * 100 * torch.finfo(scale.dtype).eps


def _draw_start(like: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    """A fixed vector without structure that looks the same to a graph alone and in a batch."""
    first = torch.searchsorted(batch, torch.arange(num_graphs, device=batch.device))
    local = torch.arange(batch.numel(), device=batch.device) - first[batch]
    d = like.size(-2)
    position = local[:, None] * d + torch.arange(d, device=batch.device)
    # digits far behind the point of a sine; an even sequence would be orthogonal to modes of paths
    noise = (to_wide(position + 1) * 12.9898).sin() * 43758.5453
    return (noise - noise.floor() - 0.5).to(like.dtype)[..., None].expand_as(like)
