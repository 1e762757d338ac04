"""PolyNSD: sheaf neural networks with polynomial spectral filters, native to PyTorch Geometric.

    from polynsd import PolyNSD, SheafClassifier, heterophilous_graph

What the `__init__` of this package and of its rooms (`polynsd.data`, `polynsd.nn`, `polynsd.training`, …)
export in `__all__` is the public interface. Everything else, modules included, may change without notice.

`import polynsd` loads torch, numpy and scipy only; PyTorch Geometric, plots and everything optional load
when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polynsd import data, kernels, nn, sheaf, spectral, training
from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.data import heterophilous_graph, minesweeper
from polynsd.errors import ConfigError, DataError, GraphError, PolyNSDError, ShapeError
from polynsd.nn import NSD, IdentitySheaf, PolyNSD, PolySheafConv, PolySpectralGNN
from polynsd.sheaf import Diagonal, General, Identity, Orthogonal, SheafLaplacian, SheafLearner
from polynsd.spectral import Basis, PolynomialFilter, get_basis, heat_kernel, register_basis
from polynsd.topology import Topology, as_topology

if TYPE_CHECKING:
    from polynsd import estimator, report, runs, scale, search, stats, testing, zoo
    from polynsd.estimator import SheafClassifier, SheafRegressor, load_estimator
    from polynsd.runs import Run, read_run

__version__ = "0.1.0"

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
    "Run",
    "ShapeError",
    "SheafClassifier",
    "SheafLaplacian",
    "SheafLearner",
    "SheafRegressor",
    "Topology",
    "TrainConfig",
    "as_topology",
    "data",
    "estimator",
    "get_basis",
    "heat_kernel",
    "heterophilous_graph",
    "kernels",
    "load_estimator",
    "minesweeper",
    "nn",
    "read_run",
    "register_basis",
    "report",
    "runs",
    "scale",
    "search",
    "sheaf",
    "spectral",
    "stats",
    "testing",
    "training",
    "zoo",
]

_LAZY_MODULES = ("estimator", "report", "runs", "scale", "search", "stats", "testing", "zoo")
_LAZY_NAMES = {
    "SheafClassifier": "polynsd.estimator",
    "SheafRegressor": "polynsd.estimator",
    "load_estimator": "polynsd.estimator",
    "Run": "polynsd.runs",
    "read_run": "polynsd.runs",
}


def __getattr__(name: str) -> Any:
    """Imports the rooms and names that are not loaded by `import polynsd` when they are first asked for."""
    if name in _LAZY_MODULES:
        return import_module(f"polynsd.{name}")
    if name in _LAZY_NAMES:
        return getattr(import_module(_LAZY_NAMES[name]), name)
    raise AttributeError(f"module 'polynsd' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
