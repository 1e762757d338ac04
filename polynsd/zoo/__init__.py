"""The zoo: every model that PolyNSD is compared with, by name, with one interface.

    Model(in_channels, hidden_channels, num_layers, out_channels, *, dropout=0.0, **options)
    model(x, edge_index, edge_weight=None) → logits [N, out_channels]

One file per model; its keyword-only arguments are its `ModelConfig.options`. Its `space` is what a search
varies: `num_layers`, `hidden_channels` where the usual widths are wrong, and options; `published` is the
configuration to begin with. Models that differ in an option alone are one class with a preset.
"""

from polynsd.zoo.registry import ZOO, Entry, option_kinds, own_options, zoo_class

__all__ = ["ZOO", "Entry", "option_kinds", "own_options", "zoo_class"]
