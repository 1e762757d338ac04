"""From a `ModelConfig` to a model: the one place that knows models by name."""

from __future__ import annotations

from typing import Any

from torch import nn

from polynsd.config import LayerConfig, ModelConfig, to_dict
from polynsd.errors import ConfigError, unknown_name
from polynsd.nn.models import NSD, IdentitySheaf, PolyNSD, PolySpectralGNN
from polynsd.zoo.registry import ZOO, build_zoo

SHEAF_MODELS: dict[str, type[PolyNSD]] = {
    "polynsd": PolyNSD,
    "nsd": NSD,
    "identity-sheaf": IdentitySheaf,
    "poly-spectral": PolySpectralGNN,
}
ALL_MODELS = (*SHEAF_MODELS, *ZOO)


def build_model(config: ModelConfig, in_channels: int, out_channels: int) -> nn.Module:
    """The model that a configuration describes."""
    sizes = (in_channels, config.hidden_channels, config.num_layers, out_channels)
    if config.model in ZOO:
        _require_plain(config)
        return build_zoo(config.model, sizes, config.layer.dropout, config.options)
    if config.model not in SHEAF_MODELS:
        raise unknown_name("model", config.model, ALL_MODELS)
    if config.options:
        raise ConfigError(
            f"{config.model} has its options under layer; options are for models of the zoo. "
            f"Got {config.options}."
        )
    kind = SHEAF_MODELS[config.model]
    return kind(
        *sizes,
        input_dropout=config.input_dropout,
        second_linear=config.second_linear,
        shared_filter=config.shared_filter,
        shared_maps=config.shared_maps,
        checkpoint_layers=config.checkpoint_layers,
        **_layer_options(config.layer),
    )


def model_label(config: ModelConfig) -> str:
    """How a model is called in tables: its name and, for sheaf models, its maps."""
    if config.model not in SHEAF_MODELS:
        return config.model
    return f"{config.model} ({SHEAF_MODELS[config.model].preset.get('maps', config.layer.maps)})"


def _require_plain(config: ModelConfig) -> None:
    """Raises for options of sheaf models that a baseline would ignore."""
    plain = ModelConfig(layer=LayerConfig(dropout=config.layer.dropout))
    used = ("model", "hidden_channels", "num_layers", "layer", "options")
    pairs = [(config, plain), (config.layer, plain.layer)]
    ignored = [
        name
        for given, default in pairs
        for name, value in vars(given).items()
        if name not in used and value != getattr(default, name)
    ]
    if ignored:
        raise ConfigError(f"{config.model} has no use for {', '.join(ignored)}; leave it out.")


def _layer_options(layer: LayerConfig) -> dict[str, Any]:
    """What was changed from the defaults; a model's own preset fills in the rest."""
    plain = to_dict(LayerConfig())
    options = {name: value for name, value in to_dict(layer).items() if value != plain[name]}
    return {"dropout": layer.dropout, **options}
