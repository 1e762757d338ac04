"""Names, files and presets of the zoo; a file is imported when its model is first asked for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from torch import nn

from polynsd.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class Entry:
    """Where a model stands, the options that make it what it is, and those that mean nothing to it then."""

    module: str
    kind: str
    preset: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


ZOO: dict[str, Entry] = {
    # without and with a plain convolution
    "mlp": Entry("mlp", "MLP"),
    "gcn": Entry("gcn", "GCN"),
    "sgc": Entry("sgc", "SGC"),
    "sage": Entry("sage", "GraphSAGE"),
    "gat": Entry("gat", "GAT"),
    "gatv2": Entry("gat", "GAT", {"v2": True}),
    "gin": Entry("gin", "GIN"),
    "mixhop": Entry("mixhop", "MixHop"),
    "gcnii": Entry("gcnii", "GCNII"),
    "pairnorm": Entry("pairnorm", "PairNormGCN"),
    "dropedge": Entry("dropedge", "DropEdgeGCN"),
    # one residual skeleton, other messages (Platonov et al.)
    "resnet": Entry("residual", "ResidualNet", {"message": "none"}, ("heads",)),
    "resnet-sgc": Entry("residual", "ResidualNet", {"message": "none", "features": "sgc"}, ("heads",)),
    "resnet-adj": Entry("residual", "ResidualNet", {"message": "none", "features": "adjacency"}, ("heads",)),
    "residual-gcn": Entry("residual", "ResidualNet", {"message": "gcn"}, ("heads",)),
    "residual-sage": Entry("residual", "ResidualNet", {"message": "sage"}, ("heads",)),
    "residual-gat": Entry("residual", "ResidualNet", {"message": "gat"}),
    "gat-sep": Entry("residual", "ResidualNet", {"message": "gat-sep"}),
    "gt": Entry("residual", "ResidualNet", {"message": "gt"}),
    "gt-sep": Entry("residual", "ResidualNet", {"message": "gt-sep"}),
    # residual, norm, dropout and depth (Luo et al.)
    "tuned-gcn": Entry("tuned", "TunedGNN", {"conv": "gcn"}, ("heads",)),
    "tuned-sage": Entry("tuned", "TunedGNN", {"conv": "sage"}, ("heads",)),
    "tuned-gat": Entry("tuned", "TunedGNN", {"conv": "gat"}),
    # transformers
    "polynormer": Entry("polynormer", "Polynormer"),
    "sgformer": Entry("sgformer", "SGFormer"),
    # made for heterophily
    "h2gcn": Entry("h2gcn", "H2GCN"),
    "gprgnn": Entry("gprgnn", "GPRGNN"),
    "fagcn": Entry("fagcn", "FAGCN"),
    "ggcn": Entry("ggcn", "GGCN"),
    "fsgnn": Entry("fsgnn", "FSGNN"),
    "glognn": Entry("glognn", "GloGNN"),
    # spectral
    "chebnet": Entry("chebnet", "ChebNet"),
    "chebnetii": Entry("chebnetii", "ChebNetII"),
    "bernnet": Entry("bernnet", "BernNet"),
    "jacobi": Entry("jacobi", "JacobiConv"),
    # sheaves
    "conn-nsd": Entry("conn_nsd", "ConnNSD"),
    "san": Entry("san", "SheafAttention", {"residual": False}),
    "ansd": Entry("san", "SheafAttention", {"residual": True}),
    "risnn": Entry("risnn", "RiSNN", {"time": True}),
    "risnn-not": Entry("risnn", "RiSNN", {"time": False}),
    "jdsnn": Entry("jdsnn", "JdSNN", {"weights": True}),
    "jdsnn-now": Entry("jdsnn", "JdSNN", {"weights": False}),
    "vanilla-sheaf": Entry("vanilla_sheaf", "VanillaSheaf"),
}

COMMON = ("in_channels", "hidden_channels", "num_layers", "out_channels", "dropout")


def zoo_class(name: str) -> type[nn.Module]:
    """The class behind a name."""
    entry = ZOO[name]
    kind: type[nn.Module] = getattr(import_module(f"polynsd.zoo.{entry.module}"), entry.kind)
    return kind


@cache
def own_options(name: str) -> dict[str, type]:
    """The options of a model and their types: its keyword-only arguments, less what its name settles."""
    kind, settled = zoo_class(name), (*COMMON, *ZOO[name].preset, *ZOO[name].unused)
    hints = get_type_hints(kind.__init__)
    return {key: hints[key] for key in inspect.signature(kind).parameters if key not in settled}


@cache
def option_kinds() -> dict[str, type]:
    """The options of all models; one name has one type."""
    kinds: dict[str, type] = {}
    for name in ZOO:
        for option, kind in own_options(name).items():
            assert kinds.setdefault(option, kind) is kind, f"{option} of {name} has two types"
    return kinds


def build_zoo(
    name: str, sizes: tuple[int, int, int, int], dropout: float, options: Mapping[str, Any]
) -> nn.Module:
    """The model of that name."""
    read = {option: _read(name, option, value) for option, value in options.items()}
    return zoo_class(name)(*sizes, dropout=dropout, **ZOO[name].preset, **read)


def _read(name: str, option: str, value: Any) -> Any:
    """A value in the type of its option; a whole number may stand for a float, but nothing for an int."""
    known = own_options(name)
    if option in ZOO[name].preset:
        raise ConfigError(f"{name} means {option}={ZOO[name].preset[option]!r}; leave it out.")
    if not known:
        raise ConfigError(f"{name} has no options of its own; got {option}={value!r}.")
    if option not in known:
        raise unknown_name(f"option of {name}", option, known)
    kind = known[option]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ConfigError(f"{option} of {name} must be of type {kind.__name__}; got {value!r}.")
    return value
