"""NeighborLoader is PyG's; we say when it is not there, and pass its batches on."""

import pytest
import torch
import torch_geometric.loader
from scale_graphs import path_graph

from polynsd.errors import ConfigError
from polynsd.scale import Halos, neighbor_batches


def test_its_absence_is_told(monkeypatch):
    monkeypatch.setattr("polynsd.scale.halo._sampler_is_installed", lambda: False)
    with pytest.raises(ConfigError, match="pyg-lib"):
        neighbor_batches(path_graph(), torch.arange(4), [2, 2], 2)


def test_batches_are_halos(monkeypatch):
    class Loader:
        """Takes all neighbours, as `num_neighbors=[-1, -1]` does."""

        def __init__(self, data, num_neighbors, input_nodes, batch_size, shuffle):
            self.halos = [Halos(data).around(c, len(num_neighbors)) for c in input_nodes.split(batch_size)]

        def __iter__(self):
            for halo in self.halos:
                halo.data.n_id, halo.data.batch_size = halo.nodes, halo.num_core
                yield halo.data

    monkeypatch.setattr("polynsd.scale.halo._sampler_is_installed", lambda: True)
    monkeypatch.setattr(torch_geometric.loader, "NeighborLoader", Loader)
    first, second = neighbor_batches(path_graph(), torch.arange(3), [-1, -1], 2, shuffle=False)
    assert first.core.tolist() == [0, 1]
    assert first.nodes.tolist() == [0, 1, 2, 3]
    assert second.num_core == 1
    assert second.depth == 2
