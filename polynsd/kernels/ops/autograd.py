"""The operations as PyTorch sees them: gradients, `torch.compile` and `torch.vmap`.

| operation                  | computes                                      | gradient                   |
|----------------------------|-----------------------------------------------|----------------------------|
| `polynsd::filter`          | Σ_k φ_k T_k(A) x, T_K x, T_{K−1} x            | `polynsd::filter_gradient` |
| `polynsd::filter_gradient` | ∂diag, ∂off, ∂x, ∂φ, memory independent of K  | `autograd_filter`          |
| `polynsd::gather`          | values of the nodes at the ends of half-edges | `polynsd::segment_sum`     |
| `polynsd::segment_sum`     | sums over the half-edges of a node            | `polynsd::gather`          |
| `polynsd::swap`            | values of the other half of every edge        | itself                     |
| `polynsd::block_multiply`  | products of small matrices                    | itself                     |
| `polynsd::block_apply`     | B x or Bᵀ x of small matrices and signals     | itself, and `block_outer`  |
| `polynsd::block_outer`     | l rᵀ of signals, summed over channels         | `polynsd::block_apply`     |
| `polynsd::linear`          | x Wᵀ of replicas                              | itself, `weight_gradient`  |
| `polynsd::weight_gradient` | gᵀ x, summed over the nodes in pieces         | `polynsd::linear`          |
| `polynsd::householder`     | products of reflections                       | `householder_gradient`     |
| `polynsd::symmetric_eigen` | eigenvalues, eigenvectors of small matrices   | none                       |
| `polynsd::csr_product`     | X z with a sparse matrix X of constants       | itself, transposed         |
| `polynsd::dropout`         | a share of the entries set to zero, by a key  | itself                     |

Each has a shape rule for the compiler and a vmap rule (a vmapped dimension joins the replicas), and
leaves the work to the backend of its tensors. The gradient formulas are registered twice: with the
operation, for `torch.compile`, and as an `autograd.Function`, which `torch.func.grad` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import Parameter

from polynsd.kernels.ops.batching import call_in_vmap, is_transformed, vmap_rule
from polynsd.kernels.ops.operator import Pattern

Gradients = tuple[Tensor | None, ...]
NO_PATTERN = (None,) * len(Pattern._fields)


_is_spelt_out: ContextVar[bool] = ContextVar("polynsd_is_spelt_out", default=False)


@contextmanager
def spelt_out() -> Iterator[None]:
    """What is traced in the `with` block is how operations compute, not their names: plain PyTorch.

    For `torch.export`, on the reference backend and without gradients.
    """
    token = _is_spelt_out.set(True)
    try:
        yield
    finally:
        _is_spelt_out.reset(token)


def is_spelt_out() -> bool:
    """Whether `spelt_out` is active; never for `torch.compile`, which cannot trace the question."""
    return not torch.compiler.is_dynamo_compiling() and _is_spelt_out.get()


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
    register_vmap(op, batched, shares)

    def forward(*args: Any) -> Any:
        is_bare = type(args[0]) in (Tensor, Parameter)  # then there is nothing to dispatch
        return (op._init_fn if is_bare else op)(*args)

    def apply(*args: Any) -> Any:
        if torch.compiler.is_compiling():
            return (op._init_fn if is_spelt_out() else op)(*args)
        return call_in_vmap(function.apply, untransformed, rule, args)

    def untransformed(*args: Any) -> Any:
        """Where no transform of `torch.func` is active; what it does not need costs PyTorch 40 µs."""
        return direct(*args) if torch.is_grad_enabled() else forward(*args)

    rule = vmap_rule(
        lambda *args: (function.apply if is_transformed() else untransformed)(*args), batched, shares
    )
    forward.__signature__ = signature(forward)  # type: ignore[attr-defined]  # PyTorch asks at every call
    parts = {"forward": forward, "setup_context": setup_context, "backward": backward, "vmap": rule}
    body = {name: staticmethod(part) for name, part in parts.items()}
    function = cast(Any, type(op._name.replace("::", "_"), (Function,), body))
    direct = super(Function, function).apply
    return apply


def register_vmap(op: Any, batched: int, shares: bool = False) -> None:
    """A vmap rule for an operation without a gradient; see `batching.py`."""
    op.register_vmap(vmap_rule(op, batched, shares))
