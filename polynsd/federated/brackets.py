"""What federated training lies between: all clients as one, and every client alone.

The upper bracket is a training of one client that has everything, `LocalClient(pool_clients(…), config)`; the
lower one is a training of all clients with `method="local"`.
"""

from __future__ import annotations

import numpy as np
import torch

from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS
from polynsd.errors import DataError
from polynsd.federated.partition import Partition
from polynsd.federated.payload import ClientData


def pool_clients(partition: Partition, graph: Graph | None = None) -> ClientData:
    """The union of the clients' graphs with their splits; of the whole graph, edges between clients too.

    Args:
        partition: the clients.
        graph: the one that was divided; without it edges between clients stay lost.
    """
    numbers = np.unique(np.concatenate(partition.nodes))
    places = [np.searchsorted(numbers, nodes) for nodes in partition.nodes]
    if graph is not None and len(numbers) != graph.num_nodes:
        raise DataError(f"the clients have {len(numbers)} of {graph.num_nodes} nodes; pool them without it.")
    first = ClientData.of(partition.graphs[0], partition.num_classes)
    x, y = first.x.new_zeros(len(numbers), first.num_features), first.y.new_full((len(numbers),), -1)
    masks = {part: torch.zeros(len(numbers), dtype=torch.bool) for part in PARTS}
    edges = []
    for place, member in zip(places, partition.graphs, strict=True):
        data, rows = ClientData.of(member, partition.num_classes), torch.as_tensor(place)
        x[rows], y[rows] = data.x, data.y
        edges.append(rows[data.edge_index])
        for part in PARTS:
            masks[part][rows] |= getattr(data, part)
    if graph is not None:
        whole = torch.as_tensor(np.ascontiguousarray(graph.edge_index), dtype=torch.long)
        edges = [whole, whole.flip(0)]
    union = torch.unique(torch.cat(edges, 1), dim=1)  # clients may overlap
    return ClientData(x, union, y, **masks, num_classes=partition.num_classes, ids=numbers)
