"""Graphs that do not fit: partitions, halos, inference and training in parts, mixed precision."""

from polynsd.nn.precision import grad_scaler, lowered
from polynsd.scale.drift import HaloDrift, halo_drift
from polynsd.scale.fit import fit_in_parts
from polynsd.scale.halo import Halo, Halos
from polynsd.scale.inference import predict_in_parts
from polynsd.scale.neighbors import neighbor_batches
from polynsd.scale.partition import cut_share, members, partition
from polynsd.scale.reach import receptive_field

__all__ = [
    "Halo",
    "HaloDrift",
    "Halos",
    "cut_share",
    "fit_in_parts",
    "grad_scaler",
    "halo_drift",
    "lowered",
    "members",
    "neighbor_batches",
    "partition",
    "predict_in_parts",
    "receptive_field",
]
