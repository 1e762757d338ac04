"""Chebyshev truncation: exact coefficients, the promised rate, and the operator exponential."""

import numpy as np
import pytest
import torch
from scipy import special
from scipy.linalg import expm

from polynsd.errors import ConfigError
from polynsd.spectral import PolynomialFilter, chebyshev_truncation, heat_kernel
from polynsd.testing import assert_close, random_sheaf, random_tensor

TIMES = [0.0, 0.1, 1.0, 5.0, 20.0]
LAM = np.linspace(0.0, 2.0, 1001)


@pytest.mark.parametrize("lam_max", [0.5, 2.0, 7.0])
@pytest.mark.parametrize("t", TIMES)
def test_heat_kernel_has_bessel_coefficients(t, lam_max):
    """e^{−tλ} = e^{−s} (I_0(s) + 2 Σ (−1)^k I_k(s) T_k(ξ)), s = t λ_max / 2."""
    k = np.arange(21)
    exact = np.where(k == 0, 1, 2) * (-1.0) ** k * special.ive(k, t * lam_max / 2)
    np.testing.assert_allclose(chebyshev_truncation(heat_kernel(t), 20, lam_max), exact, atol=1e-15)


@pytest.mark.parametrize("rho", [1.3, 2.0, 5.0])
@pytest.mark.parametrize("degree", [0, 1, 4, 12])
@pytest.mark.parametrize("t", TIMES)
def test_error_is_within_the_bernstein_bound(t, degree, rho):
    """2 M ρ^{−K} / (ρ − 1), M = max |f| on the ellipse, reached at its left end."""
    module = PolynomialFilter.from_response(heat_kernel(t), degree, dtype=torch.float64)
    with torch.no_grad():
        found = module.response(torch.as_tensor(LAM)).numpy()
    M = np.exp(t * ((rho + 1 / rho) / 2 - 1))
    bound = 2 * M * rho**-degree / (rho - 1)
    assert np.abs(found - heat_kernel(t)(LAM)).max() <= bound + 1e-14


@pytest.mark.parametrize("normalization", ["none", "sheaf-augmented"])
def test_filtering_with_the_heat_kernel_is_diffusion(normalization):
    L = random_sheaf("complete", "general", 2, normalization).laplacian()
    lam_max = float(torch.as_tensor(L.lambda_max()))
    module = PolynomialFilter.from_response(heat_kernel(0.8), 30, lam_max, dtype=torch.float64)
    x = random_tensor(5, 2, 3)
    exact = torch.as_tensor(expm(-0.8 * L.to_dense().numpy())) @ x.flatten(0, 1)
    assert_close(module(L, x), exact.reshape(x.shape), "heat flow", tolerance=1e-12)


def test_polynomials_are_reproduced():
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.25])
    module = PolynomialFilter.from_response(cubic, 3, lam_max=3.0, dtype=torch.float64)
    lam = torch.linspace(0, 3, 50, dtype=torch.float64)
    assert_close(module.response(lam, 3.0), torch.as_tensor(cubic(lam.numpy())), "cubic")


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64])
def test_dtype_of_the_filter(dtype):
    module = PolynomialFilter.from_response(heat_kernel(1.0), 4, dtype=dtype)
    assert module.theta.dtype == module.to_chebyshev.dtype == (dtype or torch.get_default_dtype())


@pytest.mark.parametrize("t", [-1.0, float("nan")])
def test_time_does_not_run_backwards(t):
    with pytest.raises(ConfigError, match="diffusion time must not be negative"):
        heat_kernel(t)


def test_degree_must_not_be_negative():
    with pytest.raises(ConfigError, match="degree must be an integer of at least 0; got -1"):
        chebyshev_truncation(heat_kernel(1.0), -1)
