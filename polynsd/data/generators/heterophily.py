"""Synthetic graphs whose heterophily, noise and size are set by hand.

Balanced classes, one random ellipsoid of features per class around a common centre, and a ring
rewired to partners whose class is drawn from the requested heterophily. Classes share their mean,
so a linear model of the features alone is at chance; they differ in shape, so a nonlinear one is
not, and every result needs an MLP beside it. Neighbours tell nothing at het = (C-1)/C, where they
are a random sample of all nodes. Do not read accuracies as a forecast for real data.

Every component (labels, axes, angles, noise, edges) has its own random stream, so that changing
the noise changes neither labels nor edges.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polynsd.data.generators.ellipsoids import centred_points, draw_axes, gaussian_noise
from polynsd.data.generators.legacy import legacy_points, legacy_ring, uniform_labels
from polynsd.data.generators.rewiring import rewired_ring
from polynsd.data.generators.synthetic import (
    FloatArray,
    IntArray,
    labelled_graph,
    named_streams,
    require_probability,
)
from polynsd.errors import ConfigError, DataError, require_at_least

if TYPE_CHECKING:
    from torch_geometric.data import Data


def heterophilous_graph(
    num_nodes: int = 1000,
    num_classes: int = 4,
    num_features: int = 15,
    degree: int = 4,
    heterophily: float = 0.9,
    feature_noise: float = 0.0,
    edge_noise: float = 0.0,
    scaled_noise: bool = True,
    seed: int = 0,
    legacy: bool = False,
) -> "Data":
    """A graph of N·k/2 edges with the requested share of them between different classes.

    Args:
        num_nodes: N, more than `degree` and at least `num_classes`.
        num_classes: C >= 2; class sizes differ by at most one.
        num_features: F >= 2.
        degree: Mean degree k, even.
        heterophily: Probability that a rewired edge leaves its class; exact at 0 and 1.
        feature_noise: Standard deviation σ of the Gaussian added to the features.
        edge_noise: Probability that a ring edge is kept, whatever the classes of its ends.
        scaled_noise: Whether the noise is stretched by the axes of the node's ellipsoid.
        seed: The same arguments and seed give the same graph.
        legacy: The published generator, defects included (see `polynsd.data.generators.legacy`).

    Returns:
        `x` [N, F], `edge_index` (both directions), `y` [N], `name` and the realised `heterophily`.
    """
    _require_sizes(num_nodes, num_classes, num_features, degree)
    _require_noise(heterophily, feature_noise, edge_noise)
    _require_variant(degree, scaled_noise, legacy)
    recipe, streams = PUBLISHED if legacy else CORRECTED, component_streams(seed)
    labels = recipe.draw_labels(num_nodes, num_classes, streams.labels)
    axes = draw_axes(num_classes, num_features, streams.axes)
    points = recipe.draw_points(labels, axes, streams.angles)
    x = points + gaussian_noise(labels, axes, feature_noise, scaled_noise, streams.noise)
    ends = recipe.connect(labels, num_classes, degree, heterophily, edge_noise, streams.edges)
    return labelled_graph(recipe.name, x, ends, labels)


class Streams(NamedTuple):
    """One independent random generator per component of the graph."""

    labels: np.random.Generator
    axes: np.random.Generator
    angles: np.random.Generator
    noise: np.random.Generator
    edges: np.random.Generator


def component_streams(seed: int) -> Streams:
    """The streams that `heterophilous_graph` draws from for this seed."""
    return named_streams(Streams, seed)


def balanced_labels(num_nodes: int, num_classes: int, rng: np.random.Generator) -> IntArray:
    """Shuffled labels whose class sizes differ by at most one."""
    return rng.permutation(np.arange(num_nodes) % num_classes)


class Recipe(NamedTuple):
    """The three choices in which the corrected and the published generator differ."""

    name: str
    draw_labels: Callable[[int, int, np.random.Generator], IntArray]
    draw_points: Callable[[IntArray, FloatArray, np.random.Generator], FloatArray]
    connect: Callable[[IntArray, int, int, float, float, np.random.Generator], tuple[IntArray, IntArray]]


CORRECTED = Recipe("heterophilous", balanced_labels, centred_points, rewired_ring)
PUBLISHED = Recipe("heterophilous-legacy", uniform_labels, legacy_points, legacy_ring)


def _require_sizes(num_nodes: int, num_classes: int, num_features: int, degree: int) -> None:
    require_at_least("num_classes", num_classes, 2)
    require_at_least("num_features", num_features, 2)
    require_at_least("degree", degree, 2)
    require_at_least("num_nodes", num_nodes, num_classes)
    if degree >= num_nodes:
        raise DataError(
            f"a simple graph on num_nodes={num_nodes} nodes has degree at most {num_nodes - 1}; "
            f"got degree={degree}. Lower degree or raise num_nodes."
        )


def _require_noise(heterophily: float, feature_noise: float, edge_noise: float) -> None:
    require_probability("heterophily", heterophily)
    require_probability("edge_noise", edge_noise)
    if not 0.0 <= feature_noise < math.inf:
        raise ConfigError(
            f"feature_noise is a standard deviation, finite and at least 0; got {feature_noise!r}."
        )


def _require_variant(degree: int, scaled_noise: bool, legacy: bool) -> None:
    if not legacy and degree % 2:
        raise ConfigError(
            f"a ring needs an even degree; got degree={degree}. Use {degree - 1} or {degree + 1}."
        )
    if legacy and not scaled_noise:
        raise ConfigError(
            "the published generator always scales the noise by the axes; got legacy=True with "
            "scaled_noise=False. Choose one of the two."
        )
