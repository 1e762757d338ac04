"""Which backend computes, what is said when it cannot, and what the kernels refuse."""

import logging
import os
from types import SimpleNamespace

import pytest
import torch

from polynsd import Topology, kernels
from polynsd.errors import ConfigError, ShapeError
from polynsd.kernels import registry
from polynsd.kernels.gpu import schedule
from polynsd.kernels.ops import edges, reference
from polynsd.kernels.registry import backend_for
from polynsd.testing import TOLERANCE, check_backend, example_graph, random_sheaf, random_tensor
from polynsd.testing.sheaf import random_signal

pytestmark = pytest.mark.usefixtures("no_tracer")  # others cover this code


@pytest.fixture
def without(monkeypatch):
    """A machine on which a package cannot be imported."""

    def forget(package):
        def find(name):
            if name == package:
                raise ImportError(f"No module named {name!r}")
            return real(name)

        real = registry.import_module
        monkeypatch.setattr(registry, "import_module", find)
        clear()

    def clear():
        registry._missing.cache_clear()
        registry._default_for.cache_clear()

    yield forget
    monkeypatch.undo()
    clear()


def test_without_numba_pytorch_computes_and_says_so_once(without, caplog):
    without("numba")
    L = random_sheaf("star", "general", 2).laplacian()
    with caplog.at_level(logging.WARNING, "polynsd"):
        first, second = (L @ random_tensor(6, 2, 3) for _ in range(2))
    assert torch.equal(first, second)
    assert backend_for(first) is reference
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert "the fast 'cpu' kernels need the package numba (pip install 'polynsd[cpu]')" in messages[0]
    assert "cpu" not in kernels.available()


@pytest.mark.parametrize(("name", "package"), [("cpu", "numba"), ("gpu", "triton")])
def test_a_backend_that_is_asked_for_must_be_there(without, name, package):
    without(package)
    with pytest.raises(ConfigError, match=f"backend '{name}' needs the package {package}"), kernels.use(name):
        raise AssertionError("the block must not run")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_gpu_backend_needs_a_gpu(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    registry._missing.cache_clear()
    try:
        with pytest.raises(ConfigError, match="needs a CUDA device"), kernels.use("gpu"):
            raise AssertionError("the block must not run")
    finally:
        registry._missing.cache_clear()


def test_half_precision_is_the_reference():
    assert backend_for(torch.zeros(1, dtype=torch.bfloat16)) is reference
    assert backend_for(torch.zeros(1)) is not reference


def test_choices_that_overlap_end_by_themselves():
    """As two threads may interleave them."""
    first, second = kernels.use("reference"), kernels.use("assembled")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert kernels.active() == "assembled"
    second.__exit__(None, None, None)
    assert kernels.active() == "auto"


def operator():
    return random_sheaf("star", "general", 2).laplacian().blocks  # 6 nodes, 10 half-edges


@pytest.mark.parametrize(
    ("change", "x", "phi", "text"),
    [
        ({}, random_tensor(5, 2, 3), torch.ones(3), "needs a signal and diagonal blocks for 6 nodes"),
        ({"off": random_tensor(9, 2, 2)}, random_tensor(6, 2, 3), torch.ones(3), "got 6, 6 and 9"),
        ({"diag": random_tensor(6, 3, 3)}, random_tensor(6, 2, 3), torch.ones(3), "stalks of dimension 2"),
        ({}, random_tensor(6, 2), torch.ones(3), "expected a signal"),
        ({}, random_tensor(6, 2, 3), torch.ones(0), "expected a signal"),
        ({}, random_tensor(6, 2, 3).to("meta"), torch.ones(3), "one device; got cpu, meta"),
    ],
)
def test_shapes_and_devices_are_checked(change, x, phi, text):
    with pytest.raises(ShapeError, match=text):
        kernels.chebyshev_filter(operator()._replace(**change), phi.double(), x, 1.0)


def test_values_on_edges_are_checked():
    pattern = example_graph("star").pattern
    with pytest.raises(ShapeError, match="expected 6 values on cpu; got 5 on cpu"):
        edges.at_rows(random_tensor(5, 2, 2), pattern)


def test_no_replicas_at_all():
    x = torch.empty(0, 6, 2, 3).double()
    assert kernels.block_product(operator(), x).shape == x.shape
    pattern = example_graph("star").pattern
    assert edges.at_rows(torch.empty(0, 6, 1, 1), pattern).shape == (0, 10, 1, 1)
    assert edges.sum_at_nodes(torch.empty(0, 10, 1, 1), pattern).shape == (0, 6, 1, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_computes_without_threads():
    topology = Topology.from_edge_index(
        torch.randint(0, 500, (2, 4000), generator=torch.Generator().manual_seed(0)), 500
    )
    L = random_sheaf(topology, "diagonal", 2, "sheaf-augmented").laplacian()
    x = random_tensor(500, 2, 3)
    expected = L @ x
    child = os.fork()
    if child == 0:
        same = False
        try:
            torch.set_num_threads(1)
            same = torch.equal(L @ x, expected)
        finally:
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_number_of_threads_of_pytorch_is_left_alone():
    before = torch.get_num_threads()
    L = random_sheaf("star", "general", 2, "sheaf-augmented").laplacian()
    L @ random_tensor(6, 2, 3)
    assert torch.get_num_threads() == before


# Every backend keeps the contract, and the choice between them is scoped


def is_interpreted(name):
    """Triton's interpreter takes its time."""
    return name == "gpu" and schedule.interpreted()


# test_gpu.py has float32; on a real GPU tensors of the contract, which are on the CPU, do not fit
CONTRACTS = [
    (name, dtype)
    for name in kernels.available()
    for dtype in TOLERANCE
    if name != "auto" and not (name == "gpu" and (dtype == torch.float32 or not schedule.interpreted()))
]


@pytest.mark.parametrize(("name", "dtype"), CONTRACTS, ids=str)
def test_contract(name, dtype):
    few = {"graphs": ("one edge",), "degrees": (2,), "stalks": (("identity", 2), ("general", 2))}
    with kernels.use(name):
        check_backend(kernels, dtype, **(few if is_interpreted(name) else {}))


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
    names = ("filter_backward", "take", "segment_sum", "block_multiply", "block_apply", "symmetric_eigen")
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
