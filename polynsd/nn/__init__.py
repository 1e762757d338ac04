"""Layers and models.

| module          | holds                                                                              |
|-----------------|------------------------------------------------------------------------------------|
| `models.py`     | `PolyNSD` and its controls: encoder, sheaf layers, decoder                         |
| `sheaf_model.py` | what models of sheaf layers share                                                 |
| `ode.py`        | `SheafODE`: a sheaf layer in continuous time                                       |
| `integration.py` | solvers, and gradients through them                                               |
| `conv.py`       | `PolySheafConv`, one layer as a convolution of PyG                                 |
| `layer.py`      | `SheafLayer`, the step that both are made of                                       |
| `hooks.py`      | `hook_layers`: states, maps and Laplacians of a model while it computes            |
| `inputs.py`     | checks of features and graphs, values of edges on half-edges                       |
| `edge_mask.py`  | edges that PyG's explainers can mask                                               |
| `features.py`   | encoding of sparse features                                                        |
| `export.py`     | trained models as programs of plain PyTorch                                        |
| `precision.py`  | what autocast may lower, and what it may not                                       |
| `checkpoint.py` | layers that are computed again in the backward pass                                |
"""

from polynsd.nn.conv import PolySheafConv
from polynsd.nn.export import export_model
from polynsd.nn.hooks import LayerHook, hook_layers
from polynsd.nn.integration import count_evaluations
from polynsd.nn.layer import LayerResponse, SheafLayer
from polynsd.nn.models import NSD, IdentitySheaf, PolyNSD, PolySpectralGNN, count_parameters
from polynsd.nn.ode import SheafODE
from polynsd.nn.sheaf_model import SheafModel

__all__ = [
    "NSD",
    "IdentitySheaf",
    "LayerHook",
    "LayerResponse",
    "PolyNSD",
    "PolySheafConv",
    "PolySpectralGNN",
    "SheafLayer",
    "SheafModel",
    "SheafODE",
    "count_evaluations",
    "count_parameters",
    "export_model",
    "hook_layers",
]
