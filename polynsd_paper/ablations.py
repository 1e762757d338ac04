"""Ablations: one architecture of ours, and what each of its parts is good for.

The base is the first architecture that searches of sheaf models begin with: four layers of degree 4, free
Chebyshev coefficients, one mixing matrix for all numbers of a node, ReLU, a fixed Laplacian channel. Each row
changes one thing. Dropout is ½, the learning rate 0.01 and the decay 5e−4 throughout.
"""

from __future__ import annotations

from typing import Any

from polynsd.config import LayerConfig, ModelConfig
from polynsd.training.configuration import Configuration, get_rules
from polynsd.training.problem import Source
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.fixed import RULES

MODEL: dict[str, Any] = {"hidden_channels": 32, "num_layers": 4, "input_dropout": 0.5}
LAYER: dict[str, Any] = {
    "stalk_dim": 3,
    "fixed_channels": ("laplacian",),
    "degree": 4,
    "coefficients": "free",
    "correction": "none",
    "mixing": "full",
    "activation": "relu",
    "dropout": 0.5,
}
CHANGES: dict[str, dict[str, Any]] = {
    "base": {},
    "maps identity": {"maps": "identity"},
    "maps orthogonal": {"maps": "orthogonal"},
    "maps general": {"maps": "general"},
    "edge weights": {"edge_weights": True},
    "no fixed channel": {"fixed_channels": ()},
    "both fixed channels": {"fixed_channels": ("laplacian", "signless")},
    "diffusion": {"model": "nsd"},
    "degree 1": {"degree": 1},
    "degree 8": {"degree": 8},
    "degree 16": {"degree": 16},
    "monomials": {"basis": "monomial"},
    "monomials, degree 16": {"basis": "monomial", "degree": 16},
    "coefficients convex": {"coefficients": "convex"},
    "coefficients interpolation": {"coefficients": "interpolation"},
    "correction linear": {"correction": "linear"},
    "correction high-pass": {"correction": "high-pass"},
    "convex, correction linear": {"coefficients": "convex", "correction": "linear"},
    "mixing both": {"mixing": "both"},
    "mixing none": {"mixing": "none"},
    "norm layer": {"norm": "layer"},
    "norm batch": {"norm": "batch"},
    "activation elu": {"activation": "elu"},
    "gate none": {"gate": "none"},
    "gate linear": {"gate": "linear"},
    "gate shortcut": {"gate": "shortcut"},
    "maps start constant": {"map_start": "constant"},
    "maps start constant, gate shortcut": {"map_start": "constant", "gate": "shortcut"},
    "layers 2": {"num_layers": 2},
    "second linear": {"second_linear": True},
    "features and adjacency": {"features": "adjacency"},
}


def _cell(dataset: str, change: str) -> Cell:
    changes = dict(CHANGES[change])
    features = changes.pop("features", None)
    whole = {name: changes.pop(name) for name in list(changes) if name in ModelConfig.__dataclass_fields__}
    layer = {**LAYER, **changes}
    if whole.get("model") == "nsd":
        layer = {
            name: value
            for name, value in layer.items()
            if name not in ("degree", "coefficients", "correction")
        }
    model = ModelConfig(**{**MODEL, **whole}, layer=LayerConfig(**layer))
    plan = Configuration(model, get_rules(RULES, dataset).training)
    source = Source(dataset, protocol="geom-gcn", features=features)
    return Cell(dataset, {"change": change}, plan, RULES, sources=(source,))


ABLATIONS = Experiment(
    "ablations",
    "one architecture, one part changed at a time",
    "geom-gcn",
    ("cora", "chameleon", "film", "texas"),
    {"change": tuple(CHANGES)},
    _cell,
    minutes="5 s of an H200 per cell of chameleon, a minute of a CPU core per cell of texas",
)
