"""Parameters of an estimator: what they mean, and how they are stored as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polynsd.errors import require_at_least

SEEDS = 2**31


def as_python(value: Any) -> Any:
    """NumPy's scalars as Python's numbers; everything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def seed_of(random_state: Any) -> int:
    """The seed that a parameter means: itself, one drawn from a RandomState, or a fresh one for None."""
    if random_state is None:
        return int(np.random.default_rng().integers(SEEDS))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(SEEDS, dtype=np.int64))
    require_at_least("random_state", random_state, 0)
    return int(random_state)


def to_plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON can hold them: class weights are pairs, because keys of JSON are strings."""
    stored = {name: as_python(value) for name, value in parameters.items()}
    weights = stored.get("class_weight")
    if isinstance(weights, Mapping):
        stored["class_weight"] = [[as_python(name), as_python(weight)] for name, weight in weights.items()]
    return stored


def from_plain(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `to_plain`."""
    weights = stored.get("class_weight")
    return {**stored, "class_weight": dict(weights)} if isinstance(weights, list) else dict(stored)
