"""A graph of thirty nodes, quick models and small spaces."""

import torch
from torch_geometric.data import Data

from polynsd.data.splits import random_split
from polynsd.search import SearchConfig, Space, open_study
from polynsd.training import Problem, get_task

NODES, FEATURES = 30, 4

# an mlp trains fastest, and a search does not care what it trains
QUICK = {
    "model.model": "mlp",
    "model.hidden_channels": [2, 3, 4],
    "model.num_layers": 2,
    "model.layer.dropout": {"low": 0.0, "high": 0.5},
    "training.learning_rate": {"low": 1e-3, "high": 0.1, "log": True},
    "training.weight_decay": 5e-4,
    "training.epochs": 4,
}


def toy_problem(splits=2, seed=0):
    generator = torch.Generator().manual_seed(0)
    nodes = torch.arange(NODES)
    y = nodes % 2
    x = torch.randn(NODES, FEATURES, generator=generator) + y[:, None]
    ahead = torch.stack([nodes, (nodes + 1) % NODES])
    data = Data(x=x, edge_index=torch.cat([ahead, ahead.flip(0)], 1), y=y)
    parts = tuple(random_split(NODES, (0.4, 0.3, 0.3), seed=i) for i in range(splits))
    return Problem(data, parts, get_task("accuracy"), seed, {"dataset": "toy"})


def toy_space(**changes):
    return Space.from_dict({**QUICK, **{name.replace("__", "."): value for name, value in changes.items()}})


def toy_search(url="memory:", space=None, splits=2, seed=0, study="toy", **config):
    config = {"sampler": "random", "pruner": "none", "batch": 4, **config}
    return open_study(url, study, space or toy_space(), toy_problem(splits, seed), SearchConfig(**config))


def by_params(study):
    """Parameters and value of every trial that counts, in an order of their own."""
    return sorted(
        (sorted(t.params.items()), t.value, t.state.name) for t in study.trials if t.value is not None
    )
