"""The hot path: a few operations on tensors, and a choice of who computes them.

Every other part of the library calls the functions below; a backend is a module that provides what `Backend`
asks for. Backends know tensors (`BlockOperator`), not sheaves.

| module        | holds                                                                           |
|---------------|---------------------------------------------------------------------------------|
| `registry.py` | the backends by name, how one is chosen (`use`), and its functions (`Backend`)  |
| `ops/`        | the operations, their rules for PyTorch, and the `reference` backend            |
| `cpu/`        | the Numba backend: `backend.py` calls the loops of the other modules            |
| `gpu/`        | the Triton backend: `backend.py` launches the kernels of the other modules      |

Start with `ops/filter.py`, then `ops/reference.py`.
"""

from polynsd.kernels.ops.batching import fast_vmap
from polynsd.kernels.ops.filter import block_product, chebyshev_filter, chebyshev_filter_autograd, tune
from polynsd.kernels.ops.operator import BlockOperator, Csr, Pattern
from polynsd.kernels.registry import Backend, active, available, use

__all__ = [
    "Backend",
    "BlockOperator",
    "Csr",
    "Pattern",
    "active",
    "available",
    "block_product",
    "chebyshev_filter",
    "chebyshev_filter_autograd",
    "fast_vmap",
    "tune",
    "use",
]
