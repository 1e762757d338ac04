"""Layers and models."""

from typing import TYPE_CHECKING, Any

from polynsd.nn.conv import PolySheafConv
from polynsd.nn.layer import LayerResponse, SheafLayer
from polynsd.nn.models import NSD, IdentitySheaf, PolyNSD, PolySpectralGNN, count_parameters

if TYPE_CHECKING:
    from polynsd.zoo.gcn import GCN
    from polynsd.zoo.mlp import MLP

__all__ = [
    "GCN",
    "MLP",
    "NSD",
    "IdentitySheaf",
    "LayerResponse",
    "PolyNSD",
    "PolySheafConv",
    "PolySpectralGNN",
    "SheafLayer",
    "count_parameters",
]


def __getattr__(name: str) -> Any:
    """The two best known models of the zoo; PyG's layers are imported when one is asked for."""
    if name not in ("GCN", "MLP"):
        raise AttributeError(f"module 'polynsd.nn' has no attribute '{name}'")
    from polynsd.zoo import zoo_class

    return zoo_class(name.lower())
