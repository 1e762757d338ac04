"""A schedule is a partition of the half-edges that leaves no node out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polynsd import Topology
from polynsd.kernels.gpu.schedule import schedule, task_length
from polynsd.testing.strategies import topologies


@pytest.fixture(autouse=True, scope="module")
def interpreter():
    """Under Triton's interpreter graphs on a CPU are scheduled too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        yield


def stars(degrees):
    """A graph of hubs with these numbers of leaves."""
    hubs = torch.repeat_interleave(torch.tensor(degrees))
    return Topology.from_edge_index(torch.stack([hubs, len(degrees) + torch.arange(hubs.numel())]))


def check_schedule(topology):
    tasks, splits = schedule(topology.rowptr, topology.num_half_edges)
    length = task_length(topology.num_half_edges)
    covered = torch.cat([torch.arange(b, e) for _, b, e, _ in tasks.tolist()] or [torch.empty(0)])
    assert torch.equal(covered.sort().values, torch.arange(topology.num_half_edges).to(covered))
    assert set(tasks[:, 0].tolist()) == set(range(topology.num_nodes))
    sizes = tasks[:, 2] - tasks[:, 1]
    assert bool((sizes.diff() <= 0).all())  # longest first
    assert int(sizes.max(initial=0) if sizes.numel() == 0 else sizes.max()) <= length
    for node, begin, end, slot in tasks.tolist():
        first, last = topology.rowptr[node], topology.rowptr[node + 1]
        assert first <= begin <= end <= last
        assert (slot < 0) == (begin == first and end == last)
    slots = [slot for node, a, b in splits.tolist() for slot in range(a, b)]
    assert slots == list(range(int((tasks[:, 3] >= 0).sum())))
    for node, a, b in splits.tolist():
        own = tasks[tasks[:, 0] == node]
        assert sorted(own[:, 3].tolist()) == list(range(a, b))
        assert torch.equal(own[own[:, 3].argsort(), 1], own[:, 1].sort().values)  # slots follow the row


@given(topologies())
def test_any_graph(topology):
    check_schedule(topology)


@given(st.lists(st.integers(1, 70), min_size=1, max_size=4))
def test_long_rows_are_split(degrees):
    check_schedule(stars(degrees))


def test_a_hub_of_a_large_graph_is_split_evenly():
    topology = stars([1904, 300, 3])
    tasks, splits = schedule(topology.rowptr, topology.num_half_edges)
    assert splits[:, 0].tolist() == [0, 1]
    assert tasks[0, 2] - tasks[0, 1] == task_length(topology.num_half_edges)


def test_task_lengths_are_powers_of_two_that_grow_with_the_graph():
    lengths = [task_length(H) for H in (0, 558, 62_742, 396_706, 20_000_000)]
    assert lengths == [16, 16, 32, 128, 128]


def test_a_cpu_without_the_interpreter_needs_no_schedule(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    tasks, splits = schedule(stars([100]).rowptr, 200)
    assert tasks.shape == (0, 4)
    assert splits.shape == (0, 3)
