"""From the name of a model to the model.

`ZOO` is the table of all models that PolyNSD is compared with: name, file, class, preset. A file is imported
when its model is first asked for. `SHEAF_MODELS` are PolyNSD and its controls. `build_model` takes the names
of both:

    build_model(ModelConfig("gat", options={"heads": 4}), in_channels=5, out_channels=3)

The options of a model of the zoo are its keyword-only arguments; names, types and defaults are read from its
signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from torch import nn

from polynsd.config import LayerConfig, ModelConfig, ODEConfig, to_dict
from polynsd.errors import ConfigError, unknown_name
from polynsd.nn.models import NSD, IdentitySheaf, PolyNSD, PolySpectralGNN
from polynsd.nn.ode import SheafODE
from polynsd.nn.sheaf_model import SheafModel
from polynsd.published import PUBLISHED_LAYER, PUBLISHED_MODEL


@dataclass(frozen=True)
class Entry:
    """A row of the table of models.

    Attributes:
        file: module in `polynsd.zoo`.
        class_name: the class in it; several names may share one.
        preset: options that the name fixes.
        unused: options of the class that have no effect with this preset.
    """

    file: str
    class_name: str
    preset: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


ZOO: dict[str, Entry] = {
    # without and with a plain convolution
    "mlp": Entry("convolutional", "MLP"),
    "gcn": Entry("convolutional", "GCN"),
    "sgc": Entry("multihop", "SGC"),
    "sage": Entry("convolutional", "GraphSAGE"),
    "gat": Entry("attention", "GAT"),
    "gatv2": Entry("attention", "GAT", {"v2": True}),
    "gin": Entry("convolutional", "GIN"),
    "mixhop": Entry("multihop", "MixHop"),
    "gcnii": Entry("multihop", "GCNII"),
    "pairnorm": Entry("convolutional", "PairNormGCN"),
    "dropedge": Entry("convolutional", "DropEdgeGCN"),
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
    "polynormer": Entry("transformers", "Polynormer"),
    "sgformer": Entry("transformers", "SGFormer"),
    # made for heterophily
    "h2gcn": Entry("heterophily", "H2GCN"),
    "gprgnn": Entry("spectral", "GPRGNN"),
    "fagcn": Entry("attention", "FAGCN"),
    "ggcn": Entry("attention", "GGCN"),
    "fsgnn": Entry("heterophily", "FSGNN"),
    "glognn": Entry("heterophily", "GloGNN"),
    # spectral
    "chebnet": Entry("multihop", "ChebNet"),
    "chebnetii": Entry("spectral", "ChebNetII"),
    "bernnet": Entry("spectral", "BernNet"),
    "jacobi": Entry("spectral", "JacobiConv"),
    # sheaves
    "conn-nsd": Entry("connection", "ConnNSD"),
    "san": Entry("sheaf_maps", "SheafAttention", {"residual": False}),
    "ansd": Entry("sheaf_maps", "SheafAttention", {"residual": True}),
    "risnn": Entry("sheaf_maps", "RiSNN", {"time": True}),
    "risnn-not": Entry("sheaf_maps", "RiSNN", {"time": False}),
    "jdsnn": Entry("sheaf_maps", "JdSNN", {"weights": True}),
    "jdsnn-now": Entry("sheaf_maps", "JdSNN", {"weights": False}),
    "vanilla-sheaf": Entry("sheaf", "VanillaSheaf"),
    # in continuous time
    "grand": Entry("continuous", "GRAND", {"nonlinear": False}),
    "grand-nl": Entry("continuous", "GRAND", {"nonlinear": True}),
    "cgnn": Entry("continuous", "CGNN"),
}

SHEAF_MODELS: dict[str, type[SheafModel]] = {
    "polynsd": PolyNSD,
    "nsd": NSD,
    "identity-sheaf": IdentitySheaf,
    "poly-spectral": PolySpectralGNN,
    "sheaf-ode": SheafODE,
}
ALL_MODELS = (*SHEAF_MODELS, *ZOO)

COMMON = ("in_channels", "hidden_channels", "num_layers", "out_channels", "dropout")


def model_class(name: str) -> type[nn.Module]:
    """The class of a model of the zoo, imported now."""
    entry = ZOO[name]
    cls: type[nn.Module] = getattr(import_module(f"polynsd.zoo.{entry.file}"), entry.class_name)
    return cls


@cache
def model_options(name: str) -> dict[str, type]:
    """Options and their types of a model of the zoo, without those that its name fixes."""
    cls, excluded = model_class(name), (*COMMON, *ZOO[name].preset, *ZOO[name].unused)
    hints = get_type_hints(cls.__init__)
    return {option: hints[option] for option in inspect.signature(cls).parameters if option not in excluded}


@cache
def all_model_options() -> dict[str, type]:
    """Options and their types of all models of the zoo; one name has one type."""
    types: dict[str, type] = {}
    for name in ZOO:
        for option, kind in model_options(name).items():
            assert types.setdefault(option, kind) is kind, f"{option} of {name} has two types"
    return types


def build_model(config: ModelConfig, in_channels: int, out_channels: int) -> nn.Module:
    """The model that a configuration describes.

    Raises:
        ConfigError: for an unknown model, or options that the model does not have.
    """
    sizes = (in_channels, config.hidden_channels, config.num_layers, out_channels)
    if config.model in ZOO:
        _refuse_sheaf_options(config)
        given = {**_named_times(config), **config.options}
        options = {name: _check_option(config.model, name, value) for name, value in given.items()}
        preset = ZOO[config.model].preset
        return model_class(config.model)(*sizes, dropout=config.layer.dropout, **preset, **options)
    if config.model not in SHEAF_MODELS:
        raise unknown_name("model", config.model, ALL_MODELS)
    if config.options:
        raise ConfigError(
            f"{config.model} has its options under layer; options are for models of the zoo. "
            f"Got {config.options}."
        )
    cls: Any = SHEAF_MODELS[config.model]
    ignored = cls.preset.keys() - set(_named_options(config))  # the model's own values replace defaults
    layer = {name: value for name, value in to_dict(config.layer).items() if name not in ignored}
    model: nn.Module = cls(*sizes, **_own_options(config, cls), **layer)
    return model


def _own_options(config: ModelConfig, cls: type[SheafModel]) -> dict[str, Any]:
    """The options of a sheaf model beside those of its layers; raises for those that it does not have."""
    known = inspect.signature(cls).parameters
    options = {**vars(config), **vars(config.ode)}
    sizes = ("model", "hidden_channels", "num_layers", "layer", "ode", "options")
    named = [name for name in _named_options(config) if name in vars(config) and name not in sizes]
    unused = [name for name in (*named, *_named_times(config)) if name not in known]
    if unused:
        raise ConfigError(f"{config.model} has no use for {', '.join(unused)}; leave it out.")
    return {name: options[name] for name in known if name in options and name not in sizes}


def _named_times(config: ModelConfig) -> dict[str, Any]:
    """Options of the integration in time with another value than the default."""
    default = ODEConfig()
    return {name: value for name, value in vars(config.ode).items() if value != getattr(default, name)}


def layer_defaults(model: str) -> dict[str, Any]:
    """The options of a model's layers that are not as in `LayerConfig` unless given."""
    return SHEAF_MODELS[model].defaults if model in SHEAF_MODELS else {}


def model_label(config: ModelConfig) -> str:
    """The name of a model in tables; sheaf models are followed by their maps."""
    if config.model not in SHEAF_MODELS:
        return config.model
    return f"{config.model} ({SHEAF_MODELS[config.model].preset.get('maps', config.layer.maps)})"


def _refuse_sheaf_options(config: ModelConfig) -> None:
    """Raises for options of sheaf models, which a model of the zoo would ignore."""
    used = ("model", "hidden_channels", "num_layers", "layer", "ode", "options", "dropout")
    ignored = [name for name in _named_options(config) if name not in used]
    if ignored:
        raise ConfigError(f"{config.model} has no use for {', '.join(ignored)}; leave it out.")


def _named_options(config: ModelConfig) -> list[str]:
    """Options of a model and its layers with a value that is neither the default nor the published one."""
    parts = ((config, ModelConfig(), PUBLISHED_MODEL), (config.layer, LayerConfig(), PUBLISHED_LAYER))
    return [
        name
        for given, default, published in parts
        for name, value in vars(given).items()
        if value not in (getattr(default, name), published.get(name, value))
    ]


def _check_option(name: str, option: str, value: Any) -> Any:
    """The value in the type of its option; an int may stand for a float, nothing else is converted."""
    types = model_options(name)
    if option in ZOO[name].preset:
        raise ConfigError(f"{name} means {option}={ZOO[name].preset[option]!r}; leave it out.")
    if not types:
        raise ConfigError(f"{name} has no options of its own; got {option}={value!r}.")
    if option not in types:
        raise unknown_name(f"option of {name}", option, types)
    if types[option] is float and type(value) is int:
        return float(value)
    if type(value) is not types[option]:
        raise ConfigError(f"{option} of {name} must be of type {types[option].__name__}; got {value!r}.")
    return value
