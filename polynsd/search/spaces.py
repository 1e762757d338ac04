"""The spaces that come with the library: the published one of each dataset, and ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polynsd.errors import ConfigError, unknown_name
from polynsd.published import published_layer
from polynsd.search.space import Space, check_space
from polynsd.sheaf import get_family
from polynsd.training.configuration import dotted
from polynsd.zoo import ALL_MODELS, SHEAF_MODELS, ZOO, model_class


@dataclass(frozen=True)
class PublishedSearch:
    """What differs between the datasets in the published searches."""

    depths: tuple[int, ...]
    learning_rate: float = 0.01
    widths: tuple[int, ...] = (8, 16, 32)
    epochs: int = 500
    patience: int = 200
    second_linear: bool = False
    most_dropout: float = 0.9


TO_8 = tuple(range(2, 9))
WEBKB = PublishedSearch((*TO_8, 16), 0.02)
WIKIPEDIA = PublishedSearch(TO_8, second_linear=True)
CITATIONS = PublishedSearch((*TO_8, 16, 32, 64))
PUBLISHED = {
    "texas": PublishedSearch((1, *TO_8, 16), 0.02),
    "wisconsin": WEBKB,
    "cornell": WEBKB,
    "cornell_fixed": WEBKB,
    "film": PublishedSearch(TO_8),
    "squirrel": WIKIPEDIA,
    "chameleon": WIKIPEDIA,
    "cora": CITATIONS,
    "citeseer": CITATIONS,
    "pubmed": PublishedSearch(TO_8),
    "roman_empire": PublishedSearch(TO_8[1:], 0.01, (16, 32, 64), 1000, 100, True, 0.8),
    "amazon_ratings": PublishedSearch(TO_8[1:], 0.01, (32, 64, 128), 800, 100, True, 0.8),
}

# D − A stands for the published flag `add_hp`, D + A for `add_lp`: their names are the wrong way round.
CHANNELS = [[], ["signless"], ["laplacian"], ["signless", "laplacian"]]
DROPOUT = {"low": 0.0, "high": 0.9, "step": 0.1}
DECAY = {"low": 1e-6, "high": 1e-2, "log": True}

# Ours: what the library can vary and what tends to matter. Identity maps are among the maps, so that learned
# ones must win on validation.
DEFAULT: dict[str, Any] = {
    "model.layer.maps": ["orthogonal", "diagonal", "identity"],
    "model.layer.stalk_dim": [2, 4],
    "model.layer.fixed_channels": [[], ["signless"]],
    "model.layer.learner": ["gnn", "mlp"],
    "model.layer.learner_hops": [1, 2, 3, 5],
    "model.layer.degree": {"low": 1, "high": 16, "log": True},
    "model.layer.normalization": ["sheaf-augmented", "random-walk"],
    "model.layer.norm": ["layer", "batch", "none"],
    "model.layer.gate": ["shortcut", "rezero"],
    "model.layer.dropout": DROPOUT,
    "model.input_dropout": DROPOUT,
    "model.linear_encoder": [False, True],
    "model.num_layers": [1, 2, 4, 8],
    "model.hidden_channels": [16, 32, 64, 128, 256],
    "training.learning_rate": {"low": 1e-4, "high": 3e-2, "log": True},
    "training.sheaf_rate": {"low": 1e-4, "high": 3e-2, "log": True},
    "training.weight_decay": DECAY,
    "training.sheaf_decay": DECAY,
    "training.epochs": 1000,
    "training.patience": 100,
}


# What a continuous model has beside it, or otherwise.
TIMES: dict[str, Any] = {
    "model.ode.horizon": [0.5, 1.0, 2.0, 4.0],
    "model.ode.steps": [1, 2, 4, 8],
    "model.num_layers": [1, 2],
}


def _start(
    layers: int, degree: int, width: int, norm: str, hops: int = 2, linear_encoder: bool = False
) -> dict[str, Any]:
    learner = {"maps": "orthogonal", "stalk_dim": 4, "learner": "gnn", "learner_hops": hops}
    operator = {"fixed_channels": [], "normalization": "sheaf-augmented", "degree": degree}
    block = {"norm": norm, "gate": "shortcut"}
    model = {"num_layers": layers, "hidden_channels": width, "linear_encoder": linear_encoder}
    return {**dotted("model", model), **dotted("model.layer", {**learner, **operator, **block})}


# What our own space begins with: the default block, one long filter, a deep narrow model, a deep wide one.
STARTS = (
    _start(2, 4, 32, "layer"),
    _start(1, 8, 32, "none"),
    _start(8, 2, 16, "batch", hops=5),
    _start(8, 1, 128, "none", linear_encoder=True),
)


def get_starts(space: Space) -> list[dict[str, Any]]:
    """The shapes that a search of this space begins with: those of `STARTS` that it contains."""
    varying = space.distributions()
    starts = [{name: value for name, value in start.items() if name in varying} for start in STARTS]
    return [start for start in starts if start and space.contains(start)]


def get_space(
    name: str, dataset: str | None = None, model: str | None = None, maps: str | None = None
) -> Space:
    """`paper`, `default` or a YAML file, for a model and a family of maps; checked.

    Args:
        name: of the space, or a path that ends in `.yaml` or `.yml`.
        dataset: the paper has a space for each.
        model: polynsd unless given; in a file it may stand as `model.model`.
        maps: diagonal in the paper's space, searched in ours (identity maps included) unless given.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        space = Space.load(name)
    elif name in ("paper", "default"):
        kind = model or "polynsd"
        if kind not in ALL_MODELS:
            raise unknown_name("model", kind, ALL_MODELS)
        ours = {**DEFAULT, **({} if maps is None else {"model.layer.maps": maps})}
        if maps is not None and not get_family(maps).orthogonal_columns:  # random walks need it
            del ours["model.layer.normalization"]
        options = _used_by(kind, ours) if name == "default" else paper_options(dataset, kind, maps)
        space = Space.from_dict(options)
    else:
        raise unknown_name("space", name, ("paper", "default", "FILE.yaml"))
    if model is not None:
        space = space.fixed("model.model", model)
    if maps is not None:
        space = space.fixed("model.layer.maps", maps)
    check_space(space)
    return space


def paper_options(dataset: str | None, model: str, maps: str | None = None) -> dict[str, Any]:
    """The published random search as a space in plain data, with the published order of operations.

    The published learner of texas is not reproduced: it confuses the two ends of an edge. Epochs are
    selected by validation loss, as the published searches did.
    """
    if dataset not in PUBLISHED:
        raise ConfigError(
            f"the paper has no search space for {dataset or 'a generated graph'}, only for: "
            f"{', '.join(PUBLISHED)}. Use --space default or a file."
        )
    if model not in ("polynsd", "nsd"):
        raise ConfigError(
            f"the paper's search space is for polynsd and nsd, not {model}; use --space default."
        )
    rules = PUBLISHED[dataset]
    dropout = {**DROPOUT, "high": rules.most_dropout}
    layer = published_layer(maps or "diagonal", "diffusion" if model == "nsd" else "polynomial")
    options = {
        **dotted("model.layer", layer),
        "model.layer.degree": [2, 3, 4, 5, 8, 12, 16],
        "model.layer.stalk_dim": [2, 3, 4, 5],
        "model.layer.fixed_channels": CHANNELS,
        "model.layer.dropout": dropout,
        "model.input_dropout": dropout,
        "model.num_layers": list(rules.depths),
        "model.hidden_channels": list(rules.widths),
        "model.second_linear": rules.second_linear,
        "model.shared_filter": True,
        "training.learning_rate": rules.learning_rate,
        "training.weight_decay": {"low": math.exp(-9.2), "high": math.exp(-6.8), "log": True},
        "training.sheaf_decay": {"low": math.exp(-11), "high": math.exp(-6.8), "log": True},
        "training.epochs": rules.epochs,
        "training.patience": rules.patience,
        "training.select": "loss",
    }
    return _used_by(model, options)


def _of_zoo(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Dropout and training, sizes, and what the model itself says is worth varying."""
    sizes = ("model.num_layers", "model.hidden_channels", "model.layer.dropout")
    kept = {n: v for n, v in options.items() if n in sizes or n.startswith("training.")}
    if not hasattr(model_class(model), "sheaf_parameters"):
        kept.pop("training.sheaf_decay", None)
        kept.pop("training.sheaf_rate", None)
    return {"model.model": model, **kept, **zoo_space(model)}


def zoo_space(model: str) -> dict[str, Any]:
    """What a model of the zoo says is worth varying, by dotted names."""
    kind: Any = model_class(model)
    return _zoo_options({n: rule for n, rule in kind.space.items() if n not in ZOO[model].preset})


def published_options(model: str) -> dict[str, Any]:
    """The published sizes and options of a model of the zoo, by dotted names."""
    kind: Any = model_class(model)
    return _zoo_options({n: value for n, value in kind.published.items() if n not in ZOO[model].preset})


def _zoo_options(options: dict[str, Any]) -> dict[str, Any]:
    """By dotted names: sizes belong to all models, other options to the model itself."""
    sizes = ("num_layers", "hidden_channels")
    return {f"model.{n}" if n in sizes else f"model.options.{n}": value for n, value in options.items()}


def _used_by(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that mean something to a model, and the model itself."""
    if model in ZOO:
        return _of_zoo(model, options)
    preset = SHEAF_MODELS[model].preset
    options = {**options, **(TIMES if model == "sheaf-ode" else {})}
    dropped = {f"model.layer.{name}" for name in preset}
    if preset.get("maps") == "identity":
        dropped |= {"training.sheaf_decay", "training.sheaf_rate"}
    if "filter" in preset:
        dropped.add("model.shared_filter")
    return {"model.model": model, **{n: v for n, v in options.items() if n not in dropped}}
