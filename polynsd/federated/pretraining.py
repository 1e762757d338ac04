"""Maps for masks that load them: a sheaf model trained on every client alone, before the rounds begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from polynsd.federated.backbones import SheafBackbone
from polynsd.federated.batch import ClientGroup
from polynsd.federated.branches import sheaf_of
from polynsd.federated.client import LocalClient
from polynsd.federated.config import SHEAVES, FederatedConfig
from polynsd.federated.masks import transport_features
from polynsd.federated.payload import Payload
from polynsd.training.replica import eval_mode

EPOCHS, STRIDE = 200, 5  # validation chooses the epoch, of every fifth


def load_transports(clients: Sequence[LocalClient]) -> list[Tensor]:
    """`[H, m]` for every client the transports of its own sheaf at its best epoch on validation."""
    settings = sheaf_alone(clients[0].config)
    members = [
        LocalClient(client.data, replace(settings, seed=client.config.seed), client.number, client.device)
        for client in clients
    ]
    group = ClientGroup(dict(enumerate(members)))
    best, kept = [-1.0] * len(members), [torch.empty(0)] * len(members)
    for number in range(1, EPOCHS // STRIDE + 1):
        nothing = dict.fromkeys(range(len(members)), Payload())
        group.fit(nothing, number)
        for i, reply in group.evaluate(nothing, number).items():
            if reply.numbers["local_val_correct"] >= best[i]:  # the later one where they are equal
                best[i], kept[i] = reply.numbers["local_val_correct"], read_transports(members[i])
    return kept


def sheaf_alone(config: FederatedConfig) -> FederatedConfig:
    """The training of the sheaf: the same rates and sizes, nothing shared, no masks."""
    width = config.width if config.backbone in SHEAVES else None
    return replace(
        config,
        backbone=sheaf_of(config),
        width=width,
        masks="none",
        method="local",
        options={},
        local_epochs=STRIDE,
    )


@torch.no_grad()
def read_transports(client: LocalClient) -> Tensor:
    """The transports of a client's causal branch."""
    graph, model = client.graph, client.causal
    assert isinstance(model, SheafBackbone)
    with eval_mode(model):
        return transport_features(model.maps(graph.x, graph.topology), graph.topology, graph.first)
