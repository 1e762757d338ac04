"""PolyNSD: sheaf neural networks with polynomial spectral filters, native to PyTorch Geometric.

`import polynsd` loads torch, numpy and scipy only; PyTorch Geometric, plots and everything optional load when
they are first used.
"""

from importlib import import_module
from typing import Any

from polynsd import data, kernels, nn, sheaf, spectral, training
from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.data import heterophilous_graph, minesweeper
from polynsd.errors import ConfigError, DataError, GraphError, PolyNSDError, ShapeError
from polynsd.nn import NSD, IdentitySheaf, PolyNSD, PolySheafConv, PolySpectralGNN
from polynsd.sheaf import Diagonal, General, Identity, Orthogonal, SheafLaplacian, SheafLearner
from polynsd.spectral import Basis, PolynomialFilter, get_basis, heat_kernel, register_basis
from polynsd.topology import Topology, as_topology

__version__ = "0.1.0"

_LATER = {
    "SheafClassifier": "polynsd.estimator",
    "SheafRegressor": "polynsd.estimator",
    "load_estimator": "polynsd.estimator",
    "Run": "polynsd.runs",
    "read_run": "polynsd.runs",
}


def __getattr__(name: str) -> Any:
    """Estimators and runs, whose packages load when they are first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module 'polynsd' has no attribute '{name}'")
    return getattr(import_module(_LATER[name]), name)


__all__ = [
    "NSD",
    "Basis",
    "ConfigError",
    "DataError",
    "Diagonal",
    "General",
    "GraphError",
    "Identity",
    "IdentitySheaf",
    "LayerConfig",
    "ModelConfig",
    "Orthogonal",
    "PolyNSD",
    "PolyNSDError",
    "PolySheafConv",
    "PolySpectralGNN",
    "PolynomialFilter",
    "ShapeError",
    "SheafLaplacian",
    "SheafLearner",
    "Topology",
    "TrainConfig",
    "as_topology",
    "data",
    "get_basis",
    "heat_kernel",
    "heterophilous_graph",
    "kernels",
    "minesweeper",
    "nn",
    "register_basis",
    "sheaf",
    "spectral",
    "training",
]
