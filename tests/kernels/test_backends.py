"""Every backend keeps the contract, and the choice between them is scoped."""

from types import SimpleNamespace

import pytest
import torch

from polynsd import kernels
from polynsd.errors import ConfigError
from polynsd.kernels import reference
from polynsd.testing import TOLERANCE, check_backend, random_sheaf
from polynsd.testing.operators import random_signal


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", kernels.available())
def test_contract(name, dtype):
    with kernels.use(name):
        check_backend(kernels, dtype)


def fake(product=reference.block_product, filtered=reference.chebyshev_filter):
    return SimpleNamespace(block_product=product, chebyshev_filter=filtered)


@pytest.mark.parametrize(
    ("backend", "text"),
    [
        (fake(product=lambda A, x: reference.block_product(A, x) + 1e-6), "block_product"),
        (fake(product=lambda A, x: reference.block_product(A, x.detach())), "gradient of x"),
        (fake(filtered=lambda A, phi, x, s: reference.chebyshev_filter(A, phi.abs(), x, s)), "filter"),
        (
            fake(
                filtered=lambda A, phi, x, s: reference.chebyshev_filter(
                    A._replace(off=A.off.detach()), phi, x, s
                )
            ),
            "gradient of off",
        ),
    ],
    ids=["value", "no gradient", "wrong filter", "no gradient of the blocks"],
)
def test_the_contract_refuses_wrong_backends(backend, text):
    with pytest.raises(AssertionError, match=text):
        check_backend(backend)


def test_the_chosen_backend_computes_and_the_choice_ends_with_its_block(monkeypatch):
    monkeypatch.setitem(kernels._backends, "tripled", fake(lambda A, x: 3 * reference.block_product(A, x)))
    L = random_sheaf("path", "general", 2).laplacian()
    x = random_signal(L)
    plain = L @ x
    with kernels.use("tripled"):
        with kernels.use("reference"):
            assert torch.equal(L @ x, plain)
        assert torch.equal(L @ x, 3 * plain)
    assert torch.equal(L @ x, plain)


def test_the_choice_ends_with_an_error_too(monkeypatch):
    monkeypatch.setitem(kernels._backends, "broken", fake(lambda A, x: 1 / 0))
    L = random_sheaf("path", "general", 2).laplacian()
    with pytest.raises(ZeroDivisionError), kernels.use("broken"):
        L @ random_signal(L)
    assert (L @ random_signal(L)).isfinite().all()


def test_unknown_backends_come_with_a_suggestion():
    with (
        pytest.raises(ConfigError, match=r"unknown backend 'refrence'.* Did you mean 'reference'"),
        kernels.use("refrence"),
    ):
        raise AssertionError("the block must not run")
