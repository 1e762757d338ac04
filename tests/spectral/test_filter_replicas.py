"""Filters trained together: coefficients `[R, K + 1]` act as R filters."""

import pytest
import torch
from torch.func import functional_call

from polynsd.spectral import PolynomialFilter
from polynsd.spectral.filter import COEFFICIENTS
from polynsd.testing import assert_close, random_sheaf, random_tensor

R, K = 3, 4


@pytest.mark.parametrize("normalization", ["none", "sheaf-augmented"])
@pytest.mark.parametrize("stack_of_maps", [False, True])
@pytest.mark.parametrize("stack_of_signals", [False, True])
@pytest.mark.parametrize("coefficients", COEFFICIENTS)
def test_stacked_coefficients(coefficients, stack_of_signals, stack_of_maps, normalization):
    module = PolynomialFilter("jacobi(0.5, 0)", K, coefficients, "linear").double()
    stack = {"theta": random_tensor(R, K + 1), "alpha": random_tensor(R, seed=1)}
    lead = (R,) if stack_of_maps else ()
    sheaf = random_sheaf("isolated nodes", "general", 2, normalization, weighted=True, lead=lead)
    x = random_tensor(*[R] * stack_of_signals, 8, 2, 3, seed=2)
    together = functional_call(module, stack, (sheaf.laplacian(), x))
    single = []
    for r in range(R):
        L = sheaf.replica(r).laplacian()
        parameters = {name: value[r] for name, value in stack.items()}
        single.append(functional_call(module, parameters, (L, x[r] if stack_of_signals else x)))
    assert_close(together, torch.stack(single), "replicas")
