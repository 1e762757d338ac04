"""The configuration that sweeps hold fixed while they vary one thing.

d = 3, C = 32, L = 2, K = 4, dropout ½ everywhere, learning rate 0.01, decay 5e−4; the
epoch is chosen by the validation metric. The two Wikipedia graphs have a second linear layer in the
encoder, as published. It is nobody's best configuration: what a sweep shows is the effect of what it varies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polynsd.config import LayerConfig, ModelConfig
from polynsd.training.configuration import Configuration, get_rules

RULES = "default"
WIKIPEDIA = ("squirrel", "chameleon")


def sheaf(
    dataset: str, model: str = "polynsd", *, hidden: int = 32, layers: int = 2, **layer: Any
) -> Configuration:
    """The fixed sheaf model, with these options changed."""
    options = {"stalk_dim": 3, "degree": 4, "dropout": 0.5, **layer}
    if model == "nsd":
        options.pop("degree")
    config = ModelConfig(
        model=model,
        hidden_channels=hidden,
        num_layers=layers,
        input_dropout=0.5,
        second_linear=dataset in WIKIPEDIA,
        layer=LayerConfig(**options),
    )
    return Configuration(config, get_rules(RULES, dataset).training)


def plain(dataset: str, model: str, *, hidden: int = 64, layers: int = 2, **options: Any) -> Configuration:
    """A model of the zoo under the same rules."""
    config = ModelConfig(
        model=model,
        hidden_channels=hidden,
        num_layers=layers,
        layer=LayerConfig(dropout=0.5),
        options=options,
    )
    return Configuration(config, get_rules(RULES, dataset).training)


def named(dataset: str, row: str, **changes: Any) -> Configuration:
    """`polynsd-general`, `nsd-diagonal`, `identity-sheaf` or a model of the zoo."""
    model, _, maps = row.rpartition("-")
    if model in ("polynsd", "nsd"):
        return sheaf(dataset, model, maps=maps, **changes)
    if row in ("identity-sheaf", "poly-spectral"):
        return sheaf(dataset, row, **changes)
    return plain(dataset, row, **changes)


def trained(configuration: Configuration, **changes: Any) -> Configuration:
    """The configuration with other training options."""
    return Configuration(configuration.model, replace(configuration.training, **changes))
