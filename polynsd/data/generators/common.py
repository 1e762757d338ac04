"""What the generators share: array types, random streams, splits and checks of arguments."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data.splits import Fractions, Masks, stratified_split
from polynsd.errors import ConfigError, require_at_least

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

NUM_SPLITS = 10


def random_streams(seed: int, count: int) -> list[np.random.Generator]:
    """Independent random generators, one per component of a graph.

    With a stream per component, changing the noise of a graph changes neither its labels nor its edges.
    """
    require_at_least("seed", seed, 0)
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def draw_stratified_masks(y: IntArray, fractions: Fractions) -> Masks:
    """Ten stratified splits, with the seeds 0 to 9."""
    labels = torch.from_numpy(y)
    return Masks.from_splits([stratified_split(labels, fractions, seed) for seed in range(NUM_SPLITS)])


def require_probability(name: str, value: float) -> None:
    """Raises unless 0 <= value <= 1."""
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"{name} must lie in [0, 1]; got {value!r}.")


def require_deviation(name: str, value: float) -> None:
    """Raises unless the value is a finite standard deviation."""
    if not 0.0 <= value < math.inf:
        raise ConfigError(f"{name} is a standard deviation, finite and at least 0; got {value!r}.")
