"""What a GPU compiles anew, and what it compiles before it is needed; nothing is run here."""

from inspect import signature

import pytest
import torch

pytest.importorskip("triton")

from polynsd import PolyNSD, kernels
from polynsd.kernels.gpu import backend as gpu
from polynsd.kernels.gpu import blocks, training
from polynsd.kernels.gpu import filter as gpu_filter
from polynsd.kernels.gpu.compiling import _Zeros, compile_only
from polynsd.kernels.gpu.schedule import interpreted
from polynsd.kernels.ops.blocks import apply
from polynsd.testing import example_graph, random_tensor
from polynsd.topology import Topology
from polynsd.training.compiling import _compile

pytestmark = pytest.mark.skipif(not interpreted(), reason="tensors are on the CPU")
ANY = {*gpu_filter.ANY, *blocks.ANY, *training.ANY}


def hub(leaves=18):
    return Topology.from_edge_index(torch.stack([torch.zeros(leaves), 1 + torch.arange(leaves)]).long())


@pytest.fixture
def launches(monkeypatch):
    """(kernel, types of its arguments, constants) of everything that is launched, and not run."""
    seen = set()

    def record(kernel, grid, *args, **constants):
        numbers = {name: value for name, value in constants.items() if name in ANY}
        fixed = {name: value for name, value in constants.items() if name not in ANY}
        names = list(signature(kernel.fn).parameters)
        for name, value in (*zip(names, args, strict=False), *numbers.items()):
            assert name in ANY or not isinstance(value, int), f"{kernel.fn.__name__} depends on {name}"
        kinds = tuple(getattr(t, "dtype", type(t)) for t in args)
        seen.add((kernel.fn.__name__, kinds, tuple(sorted(fixed.items()))))

    monkeypatch.setattr(gpu, "launch", record)
    return seen


def run_filter(graph, d, C, K, replicas=1, backend=gpu):
    pattern, N, H = graph.pattern, graph.num_nodes, graph.num_half_edges
    diag, off = (torch.zeros(replicas, size, d, d) for size in (N, H))
    x, phi = torch.zeros(replicas, N, d, C), torch.zeros(replicas, K + 1)
    y, *last = backend.filter_forward(pattern, diag, off, x, phi)
    backend.filter_backward(pattern, diag, off, x, phi, tuple(last), y, True)


@pytest.mark.parametrize(
    "change",
    [{"K": 3}, {"K": 17}, {"replicas": 2}, {"C": 24}, {"C": 20}, {"graph": hub(40)}],
    ids=str,
)
def test_degree_width_replicas_and_graph_compile_nothing_new(launches, change):
    """A width of the same tile: 24 channels are three quarters of one for 32."""
    case = {"graph": hub(), "d": 4, "C": 32, "K": 4}
    run_filter(**case)
    known = set(launches)
    assert len(known) == 6  # forward and backward, with T and without, on rows and on pieces of rows
    run_filter(**(case | change))
    assert launches == known


def test_one_degree_compiles_for_all(launches):
    """Under `compile_only`; the first and the second degree need fewer kernels than the others."""
    run_filter(hub(), 4, 32, K=4)
    known = set(launches)
    launches.clear()
    run_filter(hub(), 4, 32, K=1, backend=_Zeros())
    assert launches == known


def test_kernels_are_compiled_and_not_run():
    B, x = random_tensor(5, 2, 2).requires_grad_(), random_tensor(5, 2, 3, seed=1)
    with kernels.use("gpu"):
        with compile_only():
            y = apply(B, x)
            (gradient,) = torch.autograd.grad(y.sum(), B)
        assert not y.any()
        assert not gradient.any()
        assert torch.equal(apply(B, x), B @ x)


def test_compiling_ahead_changes_nothing():
    topology = example_graph("star")
    x, edges = random_tensor(6, 4, dtype=torch.float32), torch.stack([topology.row, topology.col]).long()
    model = PolyNSD(4, 3, 2, 2, stalk_dim=2, maps="general", degree=3, dropout=0.5, norm="batch")
    before = {name: t.clone() for name, t in model.state_dict().items()}
    with torch.no_grad(), kernels.use("reference"):
        expected = model.eval()(x, edges.clone())
    random_state = torch.get_rng_state()
    with kernels.use("gpu"):
        _compile(model, lambda model: model(x, edges), "float32")
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    with torch.no_grad(), kernels.use("reference"):
        assert torch.equal(model(x, edges), expected)
