"""Drift shrinks with the depth of the halos and is gone at the exact one, for outputs and gradients."""

import pytest
import torch
from scale_graphs import path_graph, shaken, thirds

from polynsd import PolyNSD
from polynsd.scale import halo_drift, members, partition, receptive_field
from polynsd.training import get_task


@pytest.mark.parametrize("maps", ["diagonal", "general"])
def test_drift_shrinks_to_nothing(maps):
    data, model = path_graph(120), shaken(PolyNSD(5, 3, 2, 3, degree=2, stalk_dim=2, maps=maps), size=0.1)
    exact = receptive_field(model)
    table = halo_drift(
        model, data, partition(data, 6), range(exact + 1), task=get_task("accuracy"), train=thirds(120).train
    )
    assert [row.depth for row in table] == list(range(exact + 1))
    for drift in ([row.output for row in table], [row.gradient for row in table]):
        assert drift[-1] < 1e-12
        assert all(
            later < max(1.2 * drift[i], 1e-12) for i, later in enumerate(drift[1:])
        )  # roughly monotone
        assert drift[0] > 100 * drift[exact - 1] > 0
    assert table[0].nodes == pytest.approx(1 / 6)
    assert table[-1].nodes > table[0].nodes
    assert table[0].largest > 0


def test_some_parts_say_enough():
    data, model = path_graph(60), shaken(PolyNSD(5, 3, 1, 3, degree=1, stalk_dim=2))
    some = members(partition(data, 6))[:2]
    (row,) = halo_drift(model, data, some, [0])
    assert row.gradient is None
    assert row.output > 0


def test_a_global_model_is_compared_with_the_whole_graph():
    data = path_graph(30)
    model = shaken(PolyNSD(5, 3, 1, 3, degree=2, stalk_dim=2, lambda_max="lanczos"), size=0.1)
    labels = partition(data, 3)
    near, all_of_it = halo_drift(model, data, labels, [1, 30], task=get_task("accuracy"))
    assert near.output > 1e-6
    assert all_of_it.output < 1e-3  # the estimate of λ_max depends on the order of the nodes


def test_all_nodes_count_unless_told():
    data, model = path_graph(20), shaken(PolyNSD(5, 3, 1, 3, degree=1, stalk_dim=2))
    (row,) = halo_drift(model, data, partition(data, 4), [receptive_field(model)], task=get_task("accuracy"))
    assert row.gradient is not None
    assert row.gradient < 1e-12
    assert torch.isfinite(torch.tensor(row.gradient))
