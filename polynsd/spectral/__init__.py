"""Polynomial bases (`bases.py`), learnable spectral filters (`filter.py`), bounds of λ_max (`bounds.py`)."""

from polynsd.spectral.bases import Basis, basis_names, get_basis, register_basis
from polynsd.spectral.bounds import lanczos_lambda_max
from polynsd.spectral.filter import (
    Diffusion,
    PolynomialFilter,
    SpectralOperator,
    chebyshev_truncation,
    heat_kernel,
)

__all__ = [
    "Basis",
    "Diffusion",
    "PolynomialFilter",
    "SpectralOperator",
    "basis_names",
    "chebyshev_truncation",
    "get_basis",
    "heat_kernel",
    "lanczos_lambda_max",
    "register_basis",
]
