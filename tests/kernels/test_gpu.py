"""The GPU kernels against the reference: on a GPU, or in Triton's interpreter."""

from itertools import product

import pytest
import torch

pytest.importorskip("triton")

from polynsd import Topology
from polynsd.kernels.gpu import backend as gpu
from polynsd.kernels.ops import reference
from polynsd.testing import assert_close, example_graph, random_tensor

HAS_GPU = torch.cuda.is_available()  # which takes every case; the interpreter, being slow, some of them
DEVICE = "cuda" if HAS_GPU else "cpu"


def hub(leaves=18):
    """A hub with more leaves than fit a task, and an isolated node: the interpreter takes its time."""
    edges = torch.stack([torch.zeros(leaves, dtype=torch.long), 1 + torch.arange(leaves)])
    return Topology.from_edge_index(edges, leaves + 2)


def tiny():
    return Topology.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)


GRAPHS = {"hub": hub(), "no edges": example_graph("no edges"), "tiny": tiny()}


def operator(topology, d, dense, dtype, replicas=1):
    """A symmetric operator with spectrum in [−1, 1]: off-diagonal blocks damped by the degrees."""
    columns = d if dense else 1
    off = random_tensor(replicas, topology.num_half_edges, d, columns, dtype=dtype).clamp(-1, 1)
    off = off + (off[:, topology.twin].mT if dense else off[:, topology.twin])
    damping = (1 + topology.degree).rsqrt().to(dtype) / (2 * d)
    off = off * (damping[topology.row] * damping[topology.col])[:, None, None]
    diag = random_tensor(replicas, topology.num_nodes, d, columns, seed=1, dtype=dtype).clamp(-1, 1) / (4 * d)
    return (diag + diag.mT if dense else diag), off


def place(topology, *tensors):
    return topology.to(DEVICE).pattern, *(t.to(DEVICE) for t in tensors)


def both_ways(topology, d, C, K, dense, dtype=torch.float64, replicas=(1, 1, 1), blocks_wanted=True):
    """(name, found, expected) for the outputs and all gradients."""
    of_blocks, of_x, of_phi = replicas
    diag, off = operator(topology, d, dense, torch.float64, of_blocks)
    x = random_tensor(of_x, topology.num_nodes, d, C, seed=2)
    phi, g = random_tensor(of_phi, K + 1, seed=3), random_tensor(max(replicas), *x.shape[1:], seed=4)
    truth, found = [], []
    for backend, kind, out in ((reference, torch.float64, truth), (gpu, dtype, found)):
        pattern, *inputs = place(topology, *(t.to(kind) for t in (diag, off, x, phi, g)))
        *arguments, gradient = inputs
        y, *last = backend.filter_forward(pattern, *arguments)
        *gradients, _drift = backend.filter_backward(
            pattern, *arguments, tuple(last), gradient, blocks_wanted
        )
        out += [y, *last, *gradients]
    names = ("y", "T_K", "T_{K-1}", "gradient of diag", "gradient of off", "gradient of x", "gradient of phi")
    return list(zip(names, found, truth, strict=True))


def assert_equal(results, limit):
    for name, found, expected in results:
        assert found.shape == expected.shape, name
        assert_close(found.cpu(), expected.cpu(), name, limit)


@pytest.mark.parametrize("dense", [False, True], ids=["diagonal", "dense"])
@pytest.mark.parametrize(
    ("graph", "K"),
    [
        ("tiny", 0),
        ("tiny", 1),
        ("tiny", 2),
        ("tiny", 5),
        ("no edges", 3),
        ("hub", 2),
    ],
)
def test_filter(graph, K, dense):
    assert_equal(both_ways(GRAPHS[graph], 3, 5, K, dense), 1e-12)


SIZES = [(1, 1, False), (2, 16, False), (2, 16, True), (4, 65, True), (8, 33, False)]
OTHER_SIZES = [(1, 1, True), (4, 65, False), (8, 33, True)]


@pytest.mark.parametrize(("d", "C", "dense"), SIZES + OTHER_SIZES * HAS_GPU)
def test_sizes_of_stalks_and_channels(d, C, dense):
    """(4, 65) and (8, 33) take several chunks of channels."""
    assert_equal(both_ways(GRAPHS["tiny"], d, C, 2, dense), 1e-12)


@pytest.mark.parametrize("dense", [False, True], ids=["diagonal", "dense"])
def test_float32(dense):
    assert_equal(both_ways(GRAPHS["tiny"], 4, 16, 8 if HAS_GPU else 3, dense, torch.float32), 1e-5)


REPLICAS = [(1, 1, 2), (1, 2, 1), (2, 1, 1), (2, 2, 2)]
OTHER_REPLICAS = [(1, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1)]


@pytest.mark.parametrize("replicas", REPLICAS + OTHER_REPLICAS * HAS_GPU, ids=str)
def test_replicas_share_or_own(replicas):
    assert_equal(both_ways(GRAPHS["tiny"], 2, 3, 2, True, replicas=replicas), 1e-12)


def test_gradients_of_the_blocks_are_left_out_when_not_wanted():
    results = both_ways(GRAPHS["tiny"], 2, 3, 2, True, blocks_wanted=False)
    assert [
        found.numel() for name, found, _ in results if name in {"gradient of diag", "gradient of off"}
    ] == [0, 0]
    assert_equal(results, 1e-12)


def test_the_same_bits_every_time():
    d, K = (4, 2) if HAS_GPU else (2, 1)
    first, second = (both_ways(GRAPHS["hub"], d, 3, K, False, torch.float32) for _ in range(2))
    assert all(torch.equal(a, b) for (_, a, _), (_, b, _) in zip(first, second, strict=True))


@pytest.mark.parametrize("by_col", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("F", [1, 5])
def test_segment_sum(graph, by_col, F):
    topology = GRAPHS[graph]
    pattern, values = place(topology, random_tensor(2, topology.num_half_edges, F))
    found = gpu.segment_sum(pattern, values, by_col)
    index = topology.col if by_col else topology.row
    expected = torch.zeros(2, topology.num_nodes, F).double().index_add(1, index, values.cpu())
    assert_close(found.cpu(), expected, "sum", 1e-12)


@pytest.mark.parametrize("F", [1, 5, 16])
def test_take(F):
    topology = GRAPHS["hub"]
    pattern, values = place(topology, random_tensor(2, topology.num_nodes, F))
    assert torch.equal(gpu.take(values, pattern.col).cpu(), values.cpu()[:, topology.col])


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_products_of_small_matrices(d):
    a, b = (random_tensor(7, d, d, seed=seed).to(DEVICE) for seed in (0, 1))
    for flags in product((False, True), repeat=2):
        assert_close(gpu.block_multiply(a, b, *flags), reference.block_multiply(a, b, *flags), "A B", 1e-12)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_products_of_reflections(d):
    params, G = random_tensor(70, d * (d - 1) // 2).to(DEVICE), random_tensor(70, d, d, seed=1).to(DEVICE)
    Q = reference.householder(params, d)
    assert_close(gpu.householder(params, d), Q, "Q", 1e-12)
    expected = reference.householder_gradient(params, Q, G)
    assert_close(gpu.householder_gradient(params, Q, G), expected, "gradient", 1e-12)


@pytest.mark.parametrize(("d", "C"), [(1, 1), (2, 32), (3, 70), (8, 16)])
def test_products_with_signals(d, C):
    """(3, 70) takes several chunks of channels, (2, 32) several programs."""
    B, x, g = random_tensor(21, d, d), random_tensor(21, d, C, seed=1), random_tensor(21, d, C, seed=2)
    B, x, g = (t.to(DEVICE) for t in (B, x, g))
    for flag in (False, True):
        assert_close(gpu.block_apply(B, x, flag), reference.block_apply(B, x, flag), "B x", 1e-12)
    assert_close(gpu.block_outer(x, g), reference.block_outer(x, g), "x gᵀ", 1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5] + [8] * HAS_GPU)
def test_eigenvalues_of_small_matrices(d):
    """As many as take several programs, where the interpreter is quick: a program has 256 numbers."""
    n = {1: 60, 2: 14, 3: 3}.get(d, 1)
    A = random_tensor(n, d, d)
    A = A @ A.mT
    scale, unit = torch.logspace(0, 6, d).double(), torch.eye(d).double().expand(n, d, d)
    cases = {
        "random": A,
        "identity": unit,
        "diagonal": torch.diag_embed(A.diagonal(dim1=-2, dim2=-1)),
        "tiny": 1e-30 * A,
        "wide": scale[:, None] * A * scale,
    }
    found = gpu.symmetric_eigen(torch.cat([*cases.values()]).to(DEVICE))
    each = zip(*(t.cpu().split(n) for t in found), strict=True)
    for (name, A), (values, Q) in zip(cases.items(), each, strict=True):
        assert_close(Q * values[:, None, :] @ Q.mT, A, f"Q diag Qᵀ, {name}", 1e-12)
        assert_close(Q.mT @ Q, unit, f"QᵀQ, {name}", 1e-12)


def test_eigenvalues_of_what_is_not_a_number():
    A = torch.full((2, 3, 3), torch.nan).double()
    A[1] = torch.eye(3)
    values, _ = gpu.symmetric_eigen(A.to(DEVICE))
    assert values[0].isnan().all()
    assert torch.equal(values[1].cpu(), torch.ones(3).double())


def test_nothing_to_compute():
    empty = Topology.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0)
    assert_equal(both_ways(empty, 2, 3, 2, False), 1e-12)
    assert_equal(both_ways(GRAPHS["tiny"], 2, 0, 2, True), 1e-12)
