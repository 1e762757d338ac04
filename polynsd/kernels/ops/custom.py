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
| `polynsd::csr_product`     | X z with a sparse matrix X of constants       | itself, transposed         |
| `polynsd::dropout`         | a share of the entries set to zero, by a key  | itself                     |

Each has a shape rule for the compiler and a vmap rule (a vmapped dimension joins the replicas), and
leaves the work to the backend of its tensors. The gradient formulas are registered twice: with the
operation, for `torch.compile`, and as an `autograd.Function`, which `torch.func.grad` needs.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import Parameter

from polynsd.kernels.ops.batching import called, joining, transformed
from polynsd.kernels.ops.operator import Pattern

Gradients = tuple[Tensor | None, ...]
NO_PATTERN = (None,) * len(Pattern._fields)


def differentiable(
    op: Any,
    setup_context: Callable[..., None],
    backward: Callable[..., Gradients],
    batched: int,
    shares: bool = False,
) -> Any:
    """The operation with its gradient formula, for every kind of differentiation.

    Its first `batched` arguments have replicas, or one (with `shares`) that all replicas share.
    """
    op.register_autograd(backward, setup_context=setup_context)
    joins_replicas(op, batched, shares)

    def forward(*args: Any) -> Any:
        is_plain = type(args[0]) in (Tensor, Parameter)  # then there is nothing to dispatch
        return (op._init_fn if is_plain else op)(*args)

    def apply(*args: Any) -> Any:
        return op(*args) if torch.compiler.is_compiling() else called(function.apply, unwatched, rule, args)

    def unwatched(*args: Any) -> Any:
        """Where no transform of `torch.func` is active; what it does not need costs PyTorch 40 µs."""
        return direct(*args) if torch.is_grad_enabled() else forward(*args)

    rule = joining(lambda *args: (function.apply if transformed() else unwatched)(*args), batched, shares)
    forward.__signature__ = signature(forward)  # type: ignore[attr-defined]  # PyTorch asks at every call
    parts = {"forward": forward, "setup_context": setup_context, "backward": backward, "vmap": rule}
    body = {name: staticmethod(part) for name, part in parts.items()}
    function = cast(Any, type(op._name.replace("::", "_"), (Function,), body))
    direct = super(Function, function).apply
    return apply


def joins_replicas(op: Any, batched: int, shares: bool = False) -> None:
    """A vmap rule for an operation without a gradient; see `batching.py`."""
    op.register_vmap(joining(op, batched, shares))
