"""Sweeps: one thing varies, everything else is fixed, and nothing is searched.

bases         eight polynomial bases under convex coefficients. All are normalised to sup-norm 1, so convex
              mixing is nonexpansive in each; `interpolation` has values at Chebyshev nodes as coefficients
depth         what happens to each model as layers are stacked
k-sweep       the degree of the filter, as the authors of the paper ran it
stalk         the dimension of the stalks
nsd-vs-poly   NSD and PolyNSD in depth and width, PolyNSD in its degree. The published comparison (d = 4,
              C = 16, one fixed channel, dropout 0.7) sweeps depth and width of NSD only
ablations     one architecture of ours with one part changed at a time; not in the paper

k-sweep and nsd-vs-poly are of the published architecture (`reference.py`), with the published numbers of
parameters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polynsd.published import PUBLISHED_MODEL, published_model, published_training
from polynsd.training.configuration import Configuration, get_rules
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.experiments.models import FAMILIES, RULES, WIKIPEDIA, fixed_model, fixed_sheaf
from polynsd_paper.experiments.reference import reference_model
from polynsd_paper.experiments.searched import STANDARD

BASIS_NAMES = {
    **{name: name for name in ("chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre")},
    "gegenbauer": "gegenbauer(1.5)",
    "jacobi": "jacobi(1, 0)",  # with both ½ it is Chebyshev of the second kind, with ±½ the third and fourth
    "interpolation": "chebyshev1",
}


def _basis_cell(dataset: str, maps: str, basis: str) -> Cell:
    coefficients = "interpolation" if basis == "interpolation" else "convex"
    plan = fixed_sheaf(dataset, maps=maps, degree=8, basis=BASIS_NAMES[basis], coefficients=coefficients)
    return Cell(dataset, {"maps": maps, "basis": basis}, plan, RULES)


BASES = Experiment(
    "bases",
    "test metric of eight polynomial bases",
    "geom-gcn",
    STANDARD,
    {"maps": FAMILIES, "basis": tuple(BASIS_NAMES)},
    _basis_cell,
    minutes="35 to 65 s of a CPU core per diagonal cell of the small graphs",
    paper="the extended leaderboard",
)

PROPAGATION_STEPS = {"gprgnn": "degree"}  # the option that is the model's depth, where it is not `layers`
DEEPEST = {"h2gcn": 4}  # its width doubles twice with every layer


def _depth_cell(dataset: str, model: str, layers: int) -> Cell | None:
    if layers > DEEPEST.get(model, layers):
        return None
    plan = fixed_model(dataset, model, **{PROPAGATION_STEPS.get(model, "layers"): layers})
    return Cell(dataset, {"model": model, "layers": layers}, plan, RULES)


DEPTH = Experiment(
    "depth",
    "test metric against the number of layers",
    "geom-gcn",
    ("cora", "citeseer", "cornell", "chameleon"),
    {
        "model": (
            "polynsd-diagonal", "polynsd-orthogonal", "polynsd-general", "nsd-diagonal", "nsd-orthogonal",
            "nsd-general", "identity-sheaf", "ansd", "gcn", "gat", "pairnorm", "gcnii", "ggcn", "gprgnn",
            "h2gcn",
        ),
        "layers": (2, 4, 8, 16, 32),
    },
    _depth_cell,
    minutes="40 s of a CPU core per cell of cornell",
    paper="the oversmoothing table",
)  # fmt: skip


TWO_LINEAR = (*WIKIPEDIA, "pubmed")  # graphs on which the published sweeps have a second linear layer


def _k_cell(dataset: str, maps: str, K: int) -> Cell:
    """D = 4 with both fixed channels, L = 2, C = 32, dropout 0.2, 500 epochs with patience 200, the epoch of
    least validation loss. The learning rate is 0.02 on the three small graphs and 0.01 elsewhere; on texas
    the learner sees means over the stalk.
    """
    layer = {
        "stalk_dim": 4,
        "fixed_channels": ("signless", "laplacian"),
        "learner": "pooled" if dataset == "texas" else "concat",
        "degree": K,
        "dropout": 0.2,
    }
    sizes = {"hidden_channels": 32, "num_layers": 2, "second_linear": dataset in TWO_LINEAR}
    model = reference_model("polynsd", maps, layer, input_dropout=0.2, **sizes)
    plan = Configuration(model, get_rules("paper", dataset).training)
    return Cell(dataset, {"maps": maps, "K": K}, plan, "paper")


K_SWEEP = Experiment(
    "k-sweep",
    "test metric against the degree K of the filter, for each family of maps",
    "geom-gcn",
    ("texas", "wisconsin", "film", "squirrel", "chameleon", "cornell", "citeseer", "pubmed", "cora"),
    {"maps": FAMILIES, "K": (1, 2, 4, 8, 12, 16)},
    _k_cell,
    seeds=1,
    minutes="half a minute of a CPU core per diagonal cell of texas",
    paper="the K sweep",
)


def _stalk_cell(dataset: str, maps: str, stalk_dim: int) -> Cell:
    options = {"maps": maps, "stalk_dim": stalk_dim}
    return Cell(dataset, options, fixed_sheaf(dataset, maps=maps, stalk_dim=stalk_dim), RULES)


STALK = Experiment(
    "stalk",
    "test metric against the dimension of the stalks",
    "geom-gcn",
    ("pubmed", "cora", "texas", "film"),
    {"maps": FAMILIES, "stalk_dim": (2, 3, 4, 5)},
    _stalk_cell,
    minutes="35 s of a CPU core per cell of texas; others not measured yet",
    paper="the stalk sweep",
)

LAYERS, WIDTHS, DEGREES = (2, 4, 8, 16, 32), (16, 32, 64, 128, 256), (2, 4, 6, 8, 16)
DECAYS: dict[str, Any] = {"weight_decay": 1.3351e-4, "sheaf_decay": 7.1535e-5}


def _growth_cell(dataset: str, model: str, setting: str) -> Cell | None:
    """500 epochs with patience 200, the epoch of least validation loss, learning rate 0.01."""
    kind, _, maps = model.partition("-")
    name, _, number = setting.partition("=")
    if name == "K" and kind == "nsd":
        return None
    layer: dict[str, Any] = {"stalk_dim": 4, "fixed_channels": ("laplacian",), "dropout": 0.7}
    sizes = {"hidden_channels": 16, "num_layers": 2}
    if name == "K":
        layer["degree"] = int(number)
    else:
        sizes[{"hidden": "hidden_channels", "layers": "num_layers"}[name]] = int(number)
    config = reference_model(kind, maps, layer, input_dropout=0.7, second_linear=True, **sizes)
    training = replace(get_rules("paper").training, **DECAYS)
    return Cell(dataset, {"model": model, name: int(number)}, Configuration(config, training), "paper")


NSD_VS_POLY = Experiment(
    "nsd-vs-poly",
    "NSD and PolyNSD against depth, width and degree",
    "geom-gcn",
    ("pubmed", "chameleon", "squirrel", "cora", "citeseer"),
    {
        "model": tuple(f"{kind}-{maps}" for kind in ("nsd", "polynsd") for maps in FAMILIES),
        "setting": (
            *(f"layers={n}" for n in LAYERS),
            *(f"hidden={n}" for n in WIDTHS[1:]),
            *(f"K={n}" for n in DEGREES),
        ),
    },
    _growth_cell,
    minutes="3 s of an H200 per cell of chameleon with diagonal maps",
    paper="PolyNSD against NSD",
)

# The first architecture that searches of sheaf models begin with. Dropout is ½, the learning rate 0.01 and
# the decay 5e−4 throughout.
BASE_MODEL: dict[str, Any] = {"hidden_channels": 32, "num_layers": 4, "input_dropout": 0.5}
BASE_LAYER: dict[str, Any] = {
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


def _ablation_cell(dataset: str, change: str) -> Cell:
    changes = dict(CHANGES[change])
    features = changes.pop("features", None)
    model = {name: changes.pop(name) for name in list(changes) if name in ("model", *PUBLISHED_MODEL)}
    layer = {**BASE_LAYER, **changes}
    if model.get("model") == "nsd":  # has no polynomial
        layer = {name: v for name, v in layer.items() if name not in ("degree", "coefficients", "correction")}
    plan = Configuration(published_model(**{**BASE_MODEL, **model}, layer=layer), published_training())
    source = Source(dataset, protocol="geom-gcn", features=features)
    return Cell(dataset, {"change": change}, plan, RULES, sources=(source,))


ABLATIONS = Experiment(
    "ablations",
    "one architecture, one part changed at a time",
    "geom-gcn",
    ("cora", "chameleon", "film", "texas"),
    {"change": tuple(CHANGES)},
    _ablation_cell,
    minutes="5 s of an H200 per cell of chameleon, a minute of a CPU core per cell of texas",
)
