"""PolyNSD: sheaf neural networks with polynomial spectral filters, native to PyTorch Geometric.

    from polynsd import PolyNSD, SheafClassifier, heterophilous_graph

What this package and its subpackages (`polynsd.data`, `polynsd.nn`, `polynsd.training`, …) list in `__all__`
is the public interface. Everything else, modules included, may change without notice.

`import polynsd` itself loads nothing, not even torch: a name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polynsd import (
        config,
        data,
        diagnostics,
        errors,
        estimator,
        kernels,
        nn,
        report,
        runs,
        scale,
        search,
        sheaf,
        spectral,
        stats,
        testing,
        topology,
        training,
        zoo,
    )
    from polynsd.config import LayerConfig, ModelConfig, TrainConfig
    from polynsd.data import heterophilous_graph, minesweeper
    from polynsd.errors import ConfigError, DataError, GraphError, PolyNSDError, ShapeError
    from polynsd.estimator import GraphNodes, SheafClassifier, SheafRegressor, load_estimator
    from polynsd.nn import NSD, IdentitySheaf, PolyNSD, PolySheafConv, PolySpectralGNN, SheafODE, export_model
    from polynsd.runs import Run, read_run
    from polynsd.sheaf import Diagonal, General, Identity, Orthogonal, SheafLaplacian, SheafLearner
    from polynsd.spectral import Basis, PolynomialFilter, get_basis, heat_kernel, register_basis
    from polynsd.topology import Topology, as_topology

__version__ = "0.1.0"

__all__ = [
    "NSD",
    "Basis",
    "ConfigError",
    "DataError",
    "Diagonal",
    "General",
    "GraphError",
    "GraphNodes",
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
    "SheafODE",
    "SheafRegressor",
    "Topology",
    "TrainConfig",
    "as_topology",
    "config",
    "data",
    "diagnostics",
    "errors",
    "estimator",
    "export_model",
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
    "topology",
    "training",
    "zoo",
]

# The names of `__all__` that are not modules themselves: where each one is.
_MODULES = {
    "polynsd.config": ("LayerConfig", "ModelConfig", "TrainConfig"),
    "polynsd.data": ("heterophilous_graph", "minesweeper"),
    "polynsd.errors": ("ConfigError", "DataError", "GraphError", "PolyNSDError", "ShapeError"),
    "polynsd.estimator": ("GraphNodes", "SheafClassifier", "SheafRegressor", "load_estimator"),
    "polynsd.nn": (
        *("NSD", "IdentitySheaf", "PolyNSD", "PolySheafConv", "PolySpectralGNN", "SheafODE"),
        "export_model",
    ),
    "polynsd.runs": ("Run", "read_run"),
    "polynsd.sheaf": ("Diagonal", "General", "Identity", "Orthogonal", "SheafLaplacian", "SheafLearner"),
    "polynsd.spectral": ("Basis", "PolynomialFilter", "get_basis", "heat_kernel", "register_basis"),
    "polynsd.topology": ("Topology", "as_topology"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a type checker would take it for a promise that every name exists

    def __getattr__(name: str) -> Any:
        """Imports a public name when it is first used, and keeps it."""
        if name in _MODULE_OF:
            globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
            return globals()[name]
        if name in __all__:
            return import_module(f"polynsd.{name}")
        raise AttributeError(f"module 'polynsd' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
