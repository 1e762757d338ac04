"""Given responses, approximated by Chebyshev truncation.

For f analytic in the Bernstein ellipse with parameter ρ > 1 and |f| ≤ M there, the error of degree
K is at most 2 M ρ^{−K} / (ρ − 1) on the whole spectrum, hence also in operator norm.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import ConfigError, require_at_least

Response = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def heat_kernel(t: float) -> Response:
    """λ ↦ exp(−t λ)."""
    if not t >= 0:
        raise ConfigError(f"diffusion time must not be negative; got t={t}.")
    return lambda lam: np.exp(-t * lam)


def chebyshev_truncation(response: Response, degree: int, lam_max: float = 2.0) -> NDArray[np.float64]:
    """[K + 1] coefficients of the Chebyshev series of a response f(λ) on [0, λ_max], cut after degree K."""
    require_at_least("degree", degree, 0)
    count = max(256, 4 * (degree + 1))  # aliasing is far below rounding for analytic responses
    angle = (np.arange(count) + 0.5) * math.pi / count
    lam = lam_max / 2 * (np.cos(angle) + 1)
    values = np.broadcast_to(np.asarray(response(lam), dtype=np.float64), lam.shape)
    phi = 2 / count * np.cos(np.outer(np.arange(degree + 1), angle)) @ values
    phi[0] /= 2
    return np.asarray(phi)
