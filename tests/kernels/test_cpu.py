"""The compiled CPU backend does what the reference does, whatever is stacked, shared, empty or skewed."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch

pytest.importorskip("numba")

from numba.core import caching

from polynsd.kernels.cpu import backend as cpu
from polynsd.kernels.cpu import compile as cpu_run
from polynsd.kernels.ops import reference
from polynsd.kernels.ops.blocks import identity_like
from polynsd.testing import assert_close, example_graph, pairwise_cases, random_sheaf, random_tensor
from polynsd.topology import Topology

R = 3
DEGREES = (0, 1, 2, 5, 32)
CHANNELS = (0, 1, 3, 16, 17)
NAMES = ("y", "last", "before", "diag", "off", "x", "phi")


def hubs(leaves=700):
    """Three hubs that know each other, each with many leaves; three nodes know nobody."""
    edges = [(0, 1), (1, 2), (2, 0)]
    edges += [(hub, 3 + hub * leaves + leaf) for hub in range(3) for leaf in range(leaves)]
    return Topology.from_edge_index(torch.tensor(edges).t(), 6 + 3 * leaves)


def problem(graph, family, d, C, K, dtype=torch.float64, own=(False,) * 4):
    """(pattern, diag, off, x, φ, g), spectrum in [−1, 1]; `own` says which of the four have replicas."""
    blocks = random_sheaf(graph, family, d, "sheaf-augmented", dtype=dtype, lead=(R,)).laplacian().blocks
    diag, off = blocks.diag - identity_like(blocks.diag), blocks.off
    if family == "identity":
        d = 1
    N = blocks.pattern.num_nodes
    x, phi = random_tensor(R, N, d, C, seed=1, dtype=dtype), random_tensor(R, K + 1, seed=2, dtype=dtype)
    tensors = [t if stacked else t[:1] for t, stacked in zip((diag, off, x, phi), own, strict=True)]
    g = random_tensor(R if any(own) else 1, N, d, C, seed=3, dtype=dtype)
    return blocks.pattern, *tensors, g


def results(backend, pattern, diag, off, x, phi, g, blocks_wanted=True):
    """Everything that the two passes return."""
    y, *last = backend.filter_forward(pattern, diag, off, x, phi)
    *gradients, _drift = backend.filter_backward(pattern, diag, off, x, phi, tuple(last), g, blocks_wanted)
    return dict(zip(NAMES, (y, *last, *gradients), strict=True))


def assert_same(found, expected, tolerance=None):
    for name in NAMES:
        assert_close(found[name], expected[name], name, tolerance)


def assert_identical(found, expected):
    for value, truth in zip(found, expected, strict=True):
        assert torch.equal(value, truth)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


STALKS = [("identity", 1)] + [(family, d) for family in ("diagonal", "general") for d in range(1, 9)]


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(("family", "d"), STALKS)
def test_filter(family, d):
    for graph, C, K in pairwise_cases(("isolated nodes", "star", "no edges", "one node"), CHANNELS, DEGREES):
        arguments = problem(graph, family, d, C, K)
        assert_same(results(cpu, *arguments), results(reference, *arguments), 1e-12)


@pytest.mark.parametrize("family", ["identity", "diagonal", "general"])
def test_filter_in_single_precision(family):
    for graph, K in ((hubs(), 1), (hubs(), 5), ("isolated nodes", 5), ("isolated nodes", 16)):
        for C in (3, 16):
            pattern, *tensors = problem(graph, family, 4, C, K, torch.float32)
            truth = results(reference, pattern, *(t.double() for t in tensors))
            assert_same(results(cpu, pattern, *tensors), truth, 1e-5)


@pytest.mark.parametrize("family", ["diagonal", "general"])
def test_filter_on_a_skewed_graph(family):
    arguments = problem(hubs(), family, 3, 5, 6, own=(True, True, True, False))
    assert_same(results(cpu, *arguments), results(reference, *arguments), 1e-12)


@pytest.mark.parametrize("own", list(product([False, True], repeat=4)), ids=str)
def test_a_stack_of_replicas_is_its_members_to_the_bit(own):
    if not any(own):
        return
    for family, C, K in (("diagonal", 16, 3), ("general", 3, 1), ("identity", 17, 2)):
        pattern, *tensors = problem("star", family, 2, C, K, own=own)
        found = results(cpu, pattern, *tensors)
        for r in range(R):
            alone = results(cpu, pattern, *(t[r : r + 1] if t.size(0) == R else t for t in tensors))
            assert_identical([t[r : r + 1] for t in found.values()], alone.values())


def test_a_graph_without_nodes():
    topology = Topology.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0)
    for family in ("diagonal", "general"):
        arguments = problem(topology, family, 2, 3, 4)
        assert_same(results(cpu, *arguments), results(reference, *arguments))


@pytest.mark.parametrize("family", ["identity", "diagonal", "general"])
def test_shares_may_be_many_and_empty(family, monkeypatch):
    arguments = problem("isolated nodes", family, 4, 16, 5)
    whole = results(cpu, *arguments)
    monkeypatch.setattr(cpu, "SHARE", 1)
    shared = results(cpu, *arguments)
    assert_same(shared, whole, 1e-14)
    assert torch.equal(shared["y"], whole["y"])


def everything(pattern, *tensors):
    """All operations of the backend on one problem, as a flat list."""
    _, off, x, *_ = tensors
    values = off.flatten(2)
    A = x[0] @ x[0].mT
    sums = [cpu.segment_sum(pattern, values, by_col) for by_col in (False, True)]
    return [
        *results(cpu, pattern, *tensors).values(),
        *sums,
        cpu.take(values, pattern.twin),
        cpu.block_multiply(A, A, False, True),
        cpu.block_apply(A, x[0], True),
        cpu.block_outer(x[0], x[0]),
        *cpu.symmetric_eigen(A),
        cpu.householder(values[0, :, :1], 2),
        cpu.householder_gradient(values[0, : len(A), :1], A[:, :2, :2], A[:, :2, :2].mT),
    ]


@pytest.mark.parametrize("family", ["diagonal", "general"])
def test_the_number_of_threads_changes_no_bit(family, threads):
    arguments = problem(hubs(), family, 4, 16, 4, own=(False, False, True, True))
    threads(1)
    one = everything(*arguments)
    threads(2)
    for _ in range(3):
        assert_identical(everything(*arguments), one)


def test_several_threads_of_python_may_call_at_once(threads):
    threads(2)
    problems = [problem(hubs(), family, 4, 16, 4) for family in ("diagonal", "general")]
    expected = [everything(*arguments) for arguments in problems]
    with ThreadPoolExecutor(4) as pool:
        for found, truth in zip(
            pool.map(lambda i: everything(*problems[i % 2]), range(16)), expected * 8, strict=True
        ):
            assert_identical(found, truth)


@pytest.mark.parametrize("K", DEGREES)
@pytest.mark.parametrize("C", [3, 16])
def test_inputs_are_left_alone_and_results_are_new(C, K):
    pattern, *tensors = problem("star", "general", 2, C, K, own=(True, True, True, True))
    copies = [t.clone() for t in tensors]
    found = everything(pattern, *tensors)
    assert_identical(tensors, copies)
    storages = [t.untyped_storage().data_ptr() for t in [*found, *tensors, *pattern] if t.numel()]
    assert len(set(storages)) == len(storages)


def test_block_gradients_that_nobody_wants_are_empty():
    arguments = problem("star", "diagonal", 2, 3, 4)
    wanted, unwanted = results(cpu, *arguments), results(cpu, *arguments, blocks_wanted=False)
    assert unwanted["diag"].shape == unwanted["off"].shape == (1, 0)
    assert_identical([unwanted[name] for name in ("x", "phi")], [wanted[name] for name in ("x", "phi")])


def test_strided_inputs():
    pattern, *tensors = problem("star", "general", 3, 16, 4, own=(True, True, True, True))
    strided = [t.transpose(0, -1).contiguous().transpose(0, -1) for t in tensors]
    assert_identical(everything(pattern, *strided), everything(pattern, *tensors))


def test_the_filter_is_linear_in_the_signal():
    pattern, diag, off, x, phi, g = problem(hubs(), "general", 2, 16, 5)
    both = reference.coefficient(random_tensor(1, 2), 0) * x + g
    y = [cpu.filter_forward(pattern, diag, off, t, phi)[0] for t in (x, g, both)]
    assert_close(y[2], reference.coefficient(random_tensor(1, 2), 0) * y[0] + y[1], "filter of a sum")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("F", [0, 1, 2, 3, 4, 16, 17])
def test_between_nodes_and_half_edges(F, dtype):
    for graph in (hubs(), example_graph("isolated nodes"), example_graph("no edges")):
        pattern = graph.pattern
        at_nodes = random_tensor(R, pattern.num_nodes, F, dtype=dtype)
        on_halves = random_tensor(R, graph.num_half_edges, F, seed=1, dtype=dtype)
        for index in (pattern.row, pattern.col):
            assert torch.equal(cpu.take(at_nodes, index), at_nodes[:, index])
        assert torch.equal(cpu.take(on_halves, pattern.twin), on_halves[:, pattern.twin])
        for by_col in (False, True):
            truth = reference.segment_sum(pattern, on_halves.double(), by_col)
            assert_close(
                cpu.segment_sum(pattern, on_halves, by_col), truth, "sum", 2 * torch.finfo(dtype).eps
            )


@pytest.mark.parametrize("d", range(1, 10))
def test_products(d):
    a, b = random_tensor(500, d, d), random_tensor(500, d, d, seed=1)
    for transposes in product([False, True], repeat=2):
        assert_close(
            cpu.block_multiply(a, b, *transposes),
            reference.block_multiply(a, b, *transposes),
            "product",
            1e-14,
        )
    assert cpu.block_multiply(a[:0], b[:0], False, False).shape == (0, d, d)


@pytest.mark.parametrize("d", [2, 3, 4, 8, 9])
def test_products_of_reflections(d):
    params, G = random_tensor(200, d * (d - 1) // 2), random_tensor(200, d, d, seed=1)
    Q = reference.householder(params, d)
    assert_close(cpu.householder(params, d), Q, "Q", 1e-13)
    expected = reference.householder_gradient(params, Q, G)
    assert_close(cpu.householder_gradient(params, Q, G.mT.contiguous().mT), expected, "gradient", 1e-13)


@pytest.mark.parametrize("d", [1, 2, 4, 7, 9])
def test_products_with_signals(d):
    """One vector, a vector and a piece, no channels at all; as many nodes as take several shares."""
    B = random_tensor(200, d, d)
    for C in (0, 16, 19):
        x, g = random_tensor(200, d, C, seed=1), random_tensor(200, d, C, seed=2)
        for transpose in (False, True):
            assert_close(
                cpu.block_apply(B, x, transpose), reference.block_apply(B, x, transpose), "B x", 1e-14
            )
        assert_close(cpu.block_outer(x, g), reference.block_outer(x, g), "x gᵀ", 1e-14)


def assert_eigen(A, tolerance):
    """A = Q Λ Qᵀ, QᵀQ = I, λ ascending."""
    values, Q = (t.double() for t in cpu.symmetric_eigen(A))
    scale = A.double().abs().amax((-2, -1), keepdim=True).clamp(min=1e-300)
    eye = torch.eye(A.size(-1), dtype=torch.float64).expand_as(Q)
    assert_close(Q.mT @ Q, eye, "QᵀQ", tolerance)
    assert_close(Q * (values[:, None] / scale) @ Q.mT, A.double() / scale, "QΛQᵀ", tolerance)
    assert (values.diff() >= 0).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 7, 8, 12])
def test_eigenvalues(d):
    half = random_tensor(300, d, d)
    degenerate = half[:, :, :1] @ half[:, :, :1].mT + torch.eye(d, dtype=torch.float64)  # one λ is d − 1 fold
    special = torch.stack([torch.zeros(d, d), torch.eye(d), torch.ones(d, d), -torch.eye(d)]).double()
    for A in (half + half.mT, half @ half.mT, degenerate, special):
        for size in (1e-290, 1.0, 1e290):
            assert_eigen(size * A, 1e-14 * d)
        for size in (1e-30, 1.0, 1e30):
            assert_eigen((size * A).float(), 3e-7)


def test_eigenvalues_are_those_of_lapack():
    A = random_tensor(300, 4, 4)
    assert_close(cpu.symmetric_eigen(A)[0], torch.linalg.eigvalsh(A), "eigenvalues of lower triangles", 1e-14)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_has_no_eigenvalues_and_its_neighbours_have(bad):
    A = torch.eye(3, dtype=torch.float64).repeat(5, 1, 1)
    A[2, 1, 0] = A[2, 0, 1] = bad
    values, vectors = cpu.symmetric_eigen(A)
    assert values[2].isnan().all()
    assert vectors[2].isnan().all()
    others = [0, 1, 3, 4]
    assert torch.equal(values[others], torch.ones(4, 3, dtype=torch.float64))
    assert vectors[others].isfinite().all()


def test_nan_in_a_signal_stays_where_it_can_reach():
    pattern, diag, off, x, phi, _ = problem("isolated nodes", "diagonal", 2, 3, 2)
    x[0, 1, 0, 0] = float("nan")
    expected = reference.filter_forward(pattern, diag, off, x, phi)[0].isnan()
    assert torch.equal(cpu.filter_forward(pattern, diag, off, x, phi)[0].isnan(), expected)


def test_without_a_folder_to_cache_in(monkeypatch):
    def refuse(self):
        raise OSError("read-only file system")

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    double = cpu_run.cached(cpu_run.njit)(lambda x: 2 * x)
    assert double(21) == 42
