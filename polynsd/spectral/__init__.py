"""Bases, filters and what they do to frequencies."""

from polynsd.spectral.approximation import chebyshev_truncation, heat_kernel
from polynsd.spectral.bases import basis_names, get_basis, register_basis
from polynsd.spectral.basis import Basis
from polynsd.spectral.bounds import lanczos_lambda_max
from polynsd.spectral.filter import Diffusion, PolynomialFilter

__all__ = [
    "Basis",
    "Diffusion",
    "PolynomialFilter",
    "basis_names",
    "chebyshev_truncation",
    "get_basis",
    "heat_kernel",
    "lanczos_lambda_max",
    "register_basis",
]
