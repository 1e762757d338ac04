"""The zoo: the models that PolyNSD is compared with, by name, with one interface.

    Model(in_channels, hidden_channels, num_layers, out_channels, *, dropout=0.0, **options)
    model(x, edge_index, edge_weight=None) → logits [N, out_channels]

`build_model` makes any of them, and PolyNSD itself, from a `ModelConfig`; `registry.py` is the table of their
names. A model's `space` says what a search varies, its `published` is the configuration to begin with.
"""

from typing import TYPE_CHECKING, Any

from polynsd.zoo.registry import (
    ALL_MODELS,
    SHEAF_MODELS,
    ZOO,
    Entry,
    all_model_options,
    build_model,
    layer_defaults,
    model_class,
    model_label,
    model_options,
)

if TYPE_CHECKING:
    from polynsd.zoo.convolutional import GCN, MLP

__all__ = [
    "ALL_MODELS",
    "GCN",
    "MLP",
    "SHEAF_MODELS",
    "ZOO",
    "Entry",
    "all_model_options",
    "build_model",
    "layer_defaults",
    "model_class",
    "model_label",
    "model_options",
]


def __getattr__(name: str) -> Any:
    """GCN and MLP, the two best known models; their files are imported when one is asked for."""
    if name not in ("GCN", "MLP"):
        raise AttributeError(f"module 'polynsd.zoo' has no attribute '{name}'")
    return model_class(name.lower())
