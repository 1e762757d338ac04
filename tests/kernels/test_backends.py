"""Every backend keeps the contract, and the choice between them is scoped."""

from types import SimpleNamespace

import pytest
import torch

from polynsd import kernels
from polynsd.errors import ConfigError
from polynsd.kernels import registry
from polynsd.kernels.gpu import schedule
from polynsd.kernels.ops import reference
from polynsd.testing import TOLERANCE, check_backend, random_sheaf
from polynsd.testing.sheaf import random_signal


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", kernels.available())
def test_contract(name, dtype):
    few = {"graphs": ("star",), "degrees": (0, 3)} if name == "gpu" and schedule.interpreted() else {}
    with kernels.use(name):
        check_backend(kernels, dtype, **few)


def fake(product=kernels.block_product, filtered=kernels.chebyshev_filter):
    return SimpleNamespace(block_product=product, chebyshev_filter=filtered)


@pytest.mark.parametrize(
    ("backend", "text"),
    [
        (fake(product=lambda A, x: kernels.block_product(A, x) + 1e-6), "block_product"),
        (fake(product=lambda A, x: kernels.block_product(A, x.detach())), "gradient of x"),
        (fake(filtered=lambda A, phi, x, s: kernels.chebyshev_filter(A, phi.abs(), x, s)), "filter"),
        (
            fake(
                filtered=lambda A, phi, x, s: kernels.chebyshev_filter(
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


def module(forward):
    """A backend like `reference` but for its forward pass."""
    names = ("filter_backward", "take", "segment_sum", "block_multiply", "symmetric_eigen")
    return SimpleNamespace(filter_forward=forward, **{name: getattr(reference, name) for name in names})


@pytest.fixture
def replace_cpu(monkeypatch):
    def replace(forward):
        load = registry.load_backend
        monkeypatch.setattr(
            registry, "load_backend", lambda name: module(forward) if name == "cpu" else load(name)
        )

    return replace


def test_the_chosen_backend_computes_and_the_choice_ends_with_its_block(replace_cpu):
    def tripled(*args):
        y, *rest = reference.filter_forward(*args)
        return 3 * y, *rest

    L = random_sheaf("path", "general", 2).laplacian()
    x = random_signal(L)
    with kernels.use("reference"):
        plain = L @ x
        replace_cpu(tripled)
        with kernels.use("cpu"):
            assert torch.equal(L @ x, 3 * plain)
            with kernels.use("reference"):
                assert torch.equal(L @ x, plain)
            assert torch.equal(L @ x, 3 * plain)
        assert torch.equal(L @ x, plain)


def test_the_choice_ends_with_an_error_too(replace_cpu):
    replace_cpu(lambda *args: 1 / 0)
    L = random_sheaf("path", "general", 2).laplacian()
    with kernels.use("reference"):
        with pytest.raises(ZeroDivisionError), kernels.use("cpu"):
            L @ random_signal(L)
        assert (L @ random_signal(L)).isfinite().all()


def test_unknown_backends_come_with_a_suggestion():
    with (
        pytest.raises(ConfigError, match=r"unknown backend 'refrence'.* Did you mean 'reference'"),
        kernels.use("refrence"),
    ):
        raise AssertionError("the block must not run")
