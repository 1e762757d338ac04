"""Layers and models."""

from polynsd.nn.conv import PolySheafConv
from polynsd.nn.layer import LayerResponse, SheafLayer
from polynsd.nn.models import NSD, IdentitySheaf, PolyNSD, PolySpectralGNN, count_parameters

__all__ = [
    "NSD",
    "IdentitySheaf",
    "LayerResponse",
    "PolyNSD",
    "PolySheafConv",
    "PolySpectralGNN",
    "SheafLayer",
    "count_parameters",
]
