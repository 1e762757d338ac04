"""The row `polynsd`: PolyNSD as this library has it by default, searched.

The block is that of `block.py`; its space is the library's own, with learned maps only, so that the control
with identity maps is a row beside it. The first start is what validation chose for the graph in `transport`,
if it is one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polynsd.published import PUBLISHED_MODEL
from polynsd.search.space import Space
from polynsd.search.spaces import DEFAULT, STARTS
from polynsd_paper.experiments.block import BASE_LAYER, BASE_MODEL, BASE_TRAINING, CHOSEN, TRAINING_OPTIONS

RANGES: dict[str, Any] = {
    **DEFAULT,
    "model.layer.maps": ["orthogonal", "diagonal"],
    "model.layer.learner": ["gnn", "concat"],
    "model.layer.learner_width": [64, 128],
    "model.num_layers": [1, 2, 4, 5, 6, 8],
}
LONGEST: dict[str, Any] = {"training.epochs": 2500, "training.patience": 300}  # on graphs that reward depth
HOUSEHOLDER = {"orthogonal(euler)": "orthogonal"}  # Euler's angles are for two dimensions only


def own_space(changes: Mapping[str, Any] | None = None) -> Space:
    """The library's block with its own space; `changes` replaces what the space has."""
    block = {f"model.layer.{name}": _as_choice(value) for name, value in BASE_LAYER.items()}
    options = {"model.model": "polynsd", **block, **RANGES}
    wanted = {name: rule for name, rule in (changes or {}).items() if name in options}
    return Space.from_dict({**options, **wanted})


def _as_choice(value: Any) -> Any:
    """A tuple is a value; in a space it stands in a list of choices."""
    return [list(value)] if isinstance(value, tuple) else value


def own_starts(dataset: str) -> tuple[dict[str, Any], ...]:
    """What was chosen for the graph, then what the library's own searches begin with."""
    if dataset not in CHOSEN:
        return STARTS
    chosen = {**BASE_MODEL, **BASE_LAYER, **BASE_TRAINING, **CHOSEN[dataset]}
    named = {f"{_owner(name)}.{name}": value for name, value in chosen.items()}
    named["model.layer.maps"] = HOUSEHOLDER.get(named["model.layer.maps"], named["model.layer.maps"])
    start = {name: value for name, value in named.items() if name in RANGES}
    if start["training.weight_decay"] == 0:
        start["training.weight_decay"] = RANGES["training.weight_decay"]["low"]
    return start, *STARTS[:3]


def _owner(option: str) -> str:
    if option in PUBLISHED_MODEL:
        return "model"
    return "training" if option in TRAINING_OPTIONS else "model.layer"
