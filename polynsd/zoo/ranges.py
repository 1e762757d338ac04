"""Ranges that several models of the zoo name in their `space`.

A space has an entry for `num_layers`, for `hidden_channels` where other widths than the usual 32, 64 and 128
are wanted, and for options. Depths and widths hold what is published, as far as it trains on a graph like
pubmed.
"""

CONVOLUTIONS = [2, 3, 4]  # depths of plain convolutions
PERCEPTRON = [2, 3]  # depths of an MLP
WIDE = [64, 256, 512]  # of models that are published with hundreds of channels
PER_COORDINATE = [16, 32]  # widths of sheaf models, per coordinate of the stalk
INPUT_DROPOUT = {"low": 0.0, "high": 0.8, "step": 0.1}
