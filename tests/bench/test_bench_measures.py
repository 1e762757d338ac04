"""The measures of `polynsd bench` have the answers that are known otherwise; so have its graphs."""

import os

import numpy as np
import pytest
import torch

from polynsd import kernels
from polynsd.bench.filters import (
    FilterProblem,
    Sizes,
    backward_step,
    forward_step,
    gigabytes_per_second,
)
from polynsd.bench.measures import peak_memory, times_of
from polynsd.bench.results import describe_fit, fit_growth, fit_times, warn_unsteady
from polynsd.bench.samples import SHAPES, Case, Shape, load_sample, skewed_edges
from polynsd.data import get_entry
from polynsd.errors import ConfigError


@pytest.fixture(autouse=True)
def no_data_at_hand(request, monkeypatch, tmp_path):
    """Stand-ins, unless a test is about real graphs."""
    if "data" not in request.keywords:
        monkeypatch.delenv("POLYNSD_DATA", raising=False)
        monkeypatch.setenv("POLYNSD_CACHE", str(tmp_path))


def test_peak_memory_counts_what_lives_at_the_same_time():
    before = torch.ones(2**18)
    with peak_memory("cpu") as peak:
        first = torch.empty(2**20)  # 4 MiB
        kept = torch.empty(2**18)  # 1 MiB
        del first
        kept = before + kept
    assert peak.mib == 5.0


def test_peak_memory_sees_what_autograd_keeps():
    x = torch.ones(2**18, requires_grad=True)  # 1 MiB, before
    with peak_memory("cpu") as peak:
        y = x.exp().exp().exp()
        assert y.requires_grad
    assert peak.mib == 3.0


def test_peak_memory_sees_inside_the_librarys_own_operations():
    problem = FilterProblem.create(load_sample("texas"), Case("texas", 2, 4, "diagonal", 4, "reference"))
    with kernels.use("reference"):
        with peak_memory("cpu") as peak:
            y = problem.forward()
        with peak_memory("cpu") as longer:
            problem.step()
    row_bytes = y.numel() * y.element_size() / 2**20
    assert peak.mib > 4 * row_bytes  # y, T_k, T_{k-1} and messages
    assert longer.mib > peak.mib


def test_the_median_is_taken_after_the_warm_up():
    calls = []
    times = times_of(lambda: calls.append(1), 3, "cpu", warm_up=2)
    assert times.median >= times.fastest >= 0
    assert len(calls) == 5


def test_a_busy_machine_is_told():
    steady, unsteadily = ({"step_ms": ms, "fastest_step_ms": 2.0} for ms in (2.5, 9.0))
    assert warn_unsteady([steady, {"step_ms": None, "error": "none"}]) == []
    assert warn_unsteady([steady, unsteadily]) == [
        "the machine was busy: 1 of 2 steps vary more than 1.5-fold"
    ]


def test_bytes_of_one_edge_by_hand():
    # two nodes, d = 2, C = 3, general maps, float32: rows of 24 bytes, blocks of 16
    sizes = Sizes(nodes=2, half_edges=2, row_bytes=24, block_bytes=16)
    assert forward_step(sizes) == 2 * (24 + 16 + 4) + 2 * (5 * 24 + 16 + 4) == 368
    assert backward_step(sizes) == 2 * (2 * 24 + 3 * 16 + 4) + 2 * (7 * 24 + 3 * 16 + 4) == 640
    assert gigabytes_per_second(3_000_000, 1.5) == 2.0


@pytest.mark.parametrize(
    ("maps", "block"), [("identity", 1), ("diagonal", 3), ("orthogonal", 9), ("general", 9)]
)
def test_sizes_of_a_problem(maps, block):
    sizes = FilterProblem.create(load_sample("texas"), Case("texas", 3, 5, maps, 2, "reference")).sizes
    assert sizes == Sizes(183, 2 * 279, row_bytes=60, block_bytes=4 * block)


def test_growth_recovers_known_laws():
    s = np.array([2.0, 4.0, 8.0, 32.0])
    power = fit_times(s, 3 * s**1.5)
    assert (power.exponent, power.exponent_r2) == (pytest.approx(1.5), pytest.approx(1.0))
    line = fit_times(s, 0.12 + 0.35 * s)
    assert (line.intercept_ms, line.slope_ms, line.r2) == tuple(map(pytest.approx, (0.12, 0.35, 1.0)))
    noisy = fit_times(s, [1.0, 3.0, 1.0, 3.0])
    assert 0 < noisy.r2 < 1


def test_laws_need_three_measured_points():
    def row(K, step_ms, backend="cpu"):
        facts = {"graph": "texas", "backend": backend, "maps": "general", "d": 4, "C": 16}
        return {**facts, "K": K, "step_ms": step_ms}

    rows = [row(2, 2.0), row(4, 4.0), row(8, 8.0), row(0, 1.0), row(16, None)]
    rows += [row(2, 1.0, "reference"), row(4, 1.0, "reference")]
    (found,) = fit_growth(rows)
    assert (found["backend"], found["points"], found["exponent"]) == ("cpu", 3, pytest.approx(1.0))
    assert describe_fit(found).startswith("texas, cpu, general, d=4, C=16: time grows as K^1.00 (R² 1.000); ")


# the graphs


@pytest.mark.parametrize("name", SHAPES)
def test_stand_ins_have_the_size_and_the_hub_of_the_real_graph(name):
    shape, entry = SHAPES[name], get_entry(name)
    assert (shape.nodes, shape.edges) == (entry.nodes, entry.edges)
    assert (shape.features, shape.classes) == (entry.features, entry.classes)
    edges = skewed_edges(shape)
    assert edges.shape == (2, shape.edges)
    assert (edges[0] < edges[1]).all()
    assert np.unique(edges[0] * shape.nodes + edges[1]).size == shape.edges
    degree = np.bincount(edges.ravel(), minlength=shape.nodes)
    assert degree.size == shape.nodes
    assert shape.hub <= degree.max() < 1.5 * shape.hub


def test_stand_ins_are_the_same_every_time():
    assert np.array_equal(skewed_edges(SHAPES["texas"]), skewed_edges(SHAPES["texas"]))
    assert not np.array_equal(skewed_edges(SHAPES["texas"]), skewed_edges(SHAPES["texas"], seed=1))
    first, second = load_sample("texas"), load_sample("texas")
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.train, second.train)


def test_too_many_edges_for_a_stand_in():
    with pytest.raises(ConfigError, match="more than half of all pairs of 10 nodes"):
        skewed_edges(Shape(10, 40, 0, 1.0, 1, 2))


def test_minesweeper_has_a_generator_of_its_own():
    sample = load_sample("minesweeper")
    assert sample.facts == {"graph": "minesweeper", "source": "generated", "nodes": 10_000, "edges": 39_402}
    assert (sample.x.size(1), sample.num_classes) == (7, 2)


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
@pytest.mark.parametrize("name", SHAPES)
def test_real_graphs_are_used_where_they_are_at_hand(name):
    sample, shape = load_sample(name), SHAPES[name]
    assert sample.facts == {"graph": name, "source": "data", "nodes": shape.nodes, "edges": shape.edges}
    assert int(sample.topology.degree.max()) == shape.hub
    assert sample.train.any()
