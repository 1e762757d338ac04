"""Maps for masks that load them: a sheaf model trained on the client alone, before the federation begins."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from polynsd.config import TrainConfig
from polynsd.data import Split
from polynsd.federated.backbones import SheafBackbone, build_sheaf
from polynsd.federated.branches import sheaf_of
from polynsd.federated.config import FederatedConfig
from polynsd.federated.masks import transport_features
from polynsd.federated.payload import ClientData
from polynsd.topology import as_topology
from polynsd.training import fit, get_task

EPOCHS, PATIENCE = 200, 50


def load_transports(data: ClientData, config: FederatedConfig, seed: int) -> Tensor:
    """`[H, m]` the transports of a sheaf that was trained on the client's training nodes, kept fixed."""
    rules = TrainConfig(
        epochs=EPOCHS,
        patience=PATIENCE,
        learning_rate=config.rate,
        weight_decay=config.decay,
        select="metric",
    )
    result = fit(
        lambda: build_sheaf(config, data.num_features, data.num_classes, sheaf_of(config)),
        Data(x=data.x, edge_index=data.edge_index, y=data.y),
        Split(data.train, data.val, data.test),
        get_task("accuracy"),
        rules,
        seed,
    )
    model, topology = result.model.eval(), as_topology(data.edge_index, data.num_nodes)
    assert isinstance(model, SheafBackbone)
    with torch.no_grad():
        maps = model.maps(data.x, topology)
        return transport_features(maps, topology, topology.row < topology.col)
