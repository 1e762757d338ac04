"""Many tests at once: p-values that bound the chance of a single false discovery."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from polynsd.errors import DataError
from polynsd.stats.scores import Array


def holm(p: ArrayLike) -> Array:
    """Holm's step-down adjusted p-values, in the order given.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎:  p̃₍ᵢ₎ = max_{j ≤ i} min(1, (m − j + 1) p₍ⱼ₎).  Rejecting where p̃ ≤ α keeps the
    probability of any false rejection at most α, whatever the dependence of the tests, and never
    rejects less than Bonferroni (Holm, 1979).
    """
    values = np.asarray(p, dtype=np.float64).ravel()
    if not np.all((values >= 0) & (values <= 1)):  # also False for NaN
        raise DataError(f"p-values must lie in [0, 1]; got {values.tolist()}.")
    order = np.argsort(values, kind="stable")
    left = np.arange(len(values), 0, -1)  # hypotheses not yet rejected: m, m − 1, …, 1
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(left * values[order]))
    return adjusted
