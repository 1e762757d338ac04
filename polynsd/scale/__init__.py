"""Graphs that do not fit into memory: partitions, halos, inference and training in parts, mixed precision.

| module         | holds                                                                      |
|----------------|----------------------------------------------------------------------------|
| `partition.py` | every node into one of P parts, with few edges between parts               |
| `halo.py`      | a part with the nodes around it that its outputs depend on                 |
| `reach.py`     | how many hops that is for a model                                          |
| `inference.py` | outputs of the whole graph, part by part or layer by layer                 |
| `fit.py`       | training, part by part                                                     |
| `drift.py`     | the error that shallower halos make                                        |
"""

from polynsd.nn.precision import autocast, grad_scaler
from polynsd.scale.drift import HaloDrift, halo_drift
from polynsd.scale.fit import fit_in_parts
from polynsd.scale.halo import Halo, Halos, neighbor_batches
from polynsd.scale.inference import predict_in_parts
from polynsd.scale.partition import cut_share, members, partition
from polynsd.scale.reach import receptive_field

__all__ = [
    "Halo",
    "HaloDrift",
    "Halos",
    "autocast",
    "cut_share",
    "fit_in_parts",
    "grad_scaler",
    "halo_drift",
    "members",
    "neighbor_batches",
    "partition",
    "predict_in_parts",
    "receptive_field",
]
