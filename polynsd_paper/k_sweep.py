"""The K sweep: what the degree of the filter does to each family of maps, everything else fixed.

As its authors ran it: d = 4 with both fixed channels (D = 6), L = 2, C = 32, dropout 0.2 everywhere, learned
edge weights, 500 epochs, patience 200, the epoch chosen by validation loss. The learning rate is 0.02
on the three small graphs and 0.01 elsewhere; the two Wikipedia graphs have a second linear layer in the
encoder; on texas the learner sees means over the stalk.
"""

from __future__ import annotations

from polynsd.config import LayerConfig, ModelConfig
from polynsd.training.configuration import Configuration, get_rules
from polynsd_paper.experiment import Cell, Experiment

DATASETS = ("texas", "wisconsin", "film", "squirrel", "chameleon", "cornell", "citeseer", "pubmed", "cora")
SECOND_LINEAR, POOLED = ("squirrel", "chameleon"), ("texas",)


def _cell(dataset: str, maps: str, K: int) -> Cell:
    layer = LayerConfig(
        stalk_dim=4,
        maps=maps,
        fixed_channels=("signless", "laplacian"),
        learner="pooled" if dataset in POOLED else "concat",
        edge_weights=True,
        degree=K,
        dropout=0.2,
    )
    model = ModelConfig(
        hidden_channels=32,
        num_layers=2,
        input_dropout=0.2,
        second_linear=dataset in SECOND_LINEAR,
        layer=layer,
    )
    training = get_rules("paper", dataset).training
    return Cell(dataset, {"maps": maps, "K": K}, Configuration(model, training), "paper")


K_SWEEP = Experiment(
    "k-sweep",
    "test metric against the degree K of the filter, for each family of maps",
    "geom-gcn",
    DATASETS,
    {"maps": ("diagonal", "orthogonal", "general"), "K": (1, 2, 4, 8, 12, 16)},
    _cell,
    seeds=1,
    minutes="half a minute of a CPU core per diagonal cell of texas",
)
