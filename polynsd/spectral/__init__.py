"""Polynomial bases (`bases.py`), learnable spectral filters (`filter.py`) and what they act on
(`operator.py`), bounds of λ_max (`bounds.py`), distributions of eigenvalues (`density.py`).
"""

from polynsd.spectral.bases import Basis, basis_names, get_basis, register_basis
from polynsd.spectral.bounds import lanczos_lambda_max
from polynsd.spectral.density import SpectralDensity, estimate_density
from polynsd.spectral.filter import (
    Diffusion,
    PolynomialFilter,
    chebyshev_truncation,
    heat_kernel,
)
from polynsd.spectral.operator import SpectralOperator, SymmetricOperator

__all__ = [
    "Basis",
    "Diffusion",
    "PolynomialFilter",
    "SpectralDensity",
    "SpectralOperator",
    "SymmetricOperator",
    "basis_names",
    "chebyshev_truncation",
    "estimate_density",
    "get_basis",
    "heat_kernel",
    "lanczos_lambda_max",
    "register_basis",
]
