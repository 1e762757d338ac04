"""How the library's operations become known to PyTorch.

| operation                  | computes                                      | gradient                   |
|----------------------------|-----------------------------------------------|----------------------------|
| `polynsd::filter`          | Σ_k φ_k T_k(A) x, T_K x, T_{K−1} x            | `polynsd::filter_gradient` |
| `polynsd::filter_gradient` | ∂diag, ∂off, ∂x, ∂φ, memory independent of K  | through plain PyTorch      |
| `polynsd::gather`          | values of the nodes at the ends of half-edges | `polynsd::segment_sum`     |
| `polynsd::segment_sum`     | sums over the half-edges of a node            | `polynsd::gather`          |
| `polynsd::swap`            | values of the other half of every edge        | itself                     |
| `polynsd::block_multiply`  | products of small matrices                    | itself                     |
| `polynsd::symmetric_eigen` | eigenvalues, eigenvectors of small matrices   | none                       |
| `polynsd::dropout`         | a share of the entries set to zero, by a key  | itself                     |

Each has a shape rule for the compiler and a vmap rule (a vmapped dimension joins the replicas), and
leaves the work to the backend of its tensors. The gradient formulas are registered twice: with the
operation, for `torch.compile`, and as an `autograd.Function`, which `torch.func.grad` needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from polynsd.kernels.operator import Pattern

Gradients = tuple[Tensor | None, ...]
NO_PATTERN = (None,) * len(Pattern._fields)


def differentiable(op: Any, setup_context: Callable[..., None], backward: Callable[..., Gradients]) -> Any:
    """The operation with its gradient formula, for every kind of differentiation."""
    op.register_autograd(backward, setup_context=setup_context)
    body = {
        "forward": staticmethod(op),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "generate_vmap_rule": True,
    }
    function: Any = type(op._name.replace("::", "_"), (Function,), body)
    return lambda *args: op(*args) if torch.compiler.is_compiling() else function.apply(*args)


def joins_replicas(op: Any, batched: int, shares: bool = False) -> None:
    """A vmap rule: the new dimension joins dimension 0 of the first `batched` arguments.

    With `shares`, what all replicas share stays the one that it is.
    """

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        B = info.batch_size
        pairs = list(zip(args[:batched], in_dims[:batched], strict=True))
        R = max(t.size(0) if dim is None else t.movedim(dim, 0).size(1) for t, dim in pairs)
        merged = [
            t if shares and dim is None and t.size(0) == 1 else _merge(t, dim, B, R) for t, dim in pairs
        ]
        result = op(*merged, *args[batched:])
        if isinstance(result, Tensor):
            return result.unflatten(0, (B, R)), 0
        return tuple(t.unflatten(0, (B, R)) for t in result), (0,) * len(result)

    op.register_vmap(rule)


def _merge(t: Tensor, dim: int | None, B: int, R: int) -> Tensor:
    t = t.unsqueeze(0) if dim is None else t.movedim(dim, 0)
    return t.expand(B, R, *t.shape[2:]).flatten(0, 1)
