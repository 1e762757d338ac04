r"""Synthetic graphs whose heterophily, noise and size are set by hand.

    graph = heterophilous_graph(num_nodes=600, num_classes=2, heterophily=0.95)

Balanced classes, one random ellipsoid of features per class around a common centre, and a ring whose
edges are rewired to partners of a class drawn from the requested heterophily (`rewiring`). A node of class
c lies at a_c ⊙ s with semi-axes a_c ~ U[0, 1)^F and a unit vector s of spherical coordinates

    s_0 = cos φ_0,   s_j = cos φ_j · Π_{i<j} sin φ_i,   s_{F-1} = Π_i sin φ_i.

The angles are uniform, as published, so the points are not uniform on the sphere. Classes share their mean,
so a linear model of the features alone is at chance; they differ in shape, so a nonlinear one is not, and
every result needs an MLP beside it. Neighbours tell nothing at het = (C−1)/C, where they are a random
sample of all nodes. Do not read accuracies as a forecast for real data.

`features="gaussian"` is the published generator's other branch, which the paper's table of settings names.
All classes have one covariance BᵀB, B ~ U[0, 1)^(F×F), and means 0.25·U[0, 1)^F apart, so that an MLP is near
chance and neighbours are what tells. The published code ignores the noise there; ours adds it.

`legacy=True` is the published generator with its defects, for repeating old experiments only:

* labels are independent and uniform, so classes are not balanced;
* the angles of the last *node* are doubled instead of the last angle of every node, so the last coordinate
  is never negative elsewhere and its class mean is a_c·(2/π)^(F-1): even a linear model beats chance;
* points are not centred, noise always follows the axes;
* a node may pick itself, or a partner that picked it; such picks are lost, and the mean degree falls
  below 2·⌊k/2⌋. Picking loops over the nodes and takes O(N²k) time.

Left out is its `just_add_noise`, whose result depends on what an earlier run has cached.
"""

import numpy as np

from polynsd.data.edges import merge_edges
from polynsd.data.generators.common import (
    FloatArray,
    IntArray,
    random_streams,
    require_deviation,
    require_probability,
)
from polynsd.data.generators.rewiring import legacy_ring, rewired_ring
from polynsd.data.graph import Graph
from polynsd.errors import ConfigError, DataError, require_at_least, require_choice

FEATURES = ("ellipsoids", "gaussian")
MEANS_APART = 0.25  # scale of the means of Gaussian classes


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
    features: str = "ellipsoids",
) -> Graph:
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
        legacy: The published generator, defects included.
        features: "ellipsoids", which differ in shape, or "gaussian", which differ in their means.

    Returns:
        A graph with `x` [N, F] float32 and `y` [N]; `heterophily(graph)` of `polynsd.data` is the
        realised share of edges between different classes.
    """
    _check_sizes(num_nodes, num_classes, num_features, degree)
    require_probability("heterophily", heterophily)
    require_probability("edge_noise", edge_noise)
    require_deviation("feature_noise", feature_noise)
    _check_variant(scaled_noise, legacy, features)
    label_rng, axis_rng, angle_rng, noise_rng, edge_rng = random_streams(seed, 5)
    axes = axis_rng.random((num_classes, num_features))
    if legacy:
        y = label_rng.integers(num_classes, size=num_nodes)
    else:
        y = label_rng.permutation(np.arange(num_nodes) % num_classes)
    connect = legacy_ring if legacy else rewired_ring
    pairs = connect(y, num_classes, degree, heterophily, edge_noise, edge_rng)
    noise = feature_noise * noise_rng.standard_normal((num_nodes, num_features))
    if features == "gaussian":
        mixing = axis_rng.random((num_features, num_features))
        x = MEANS_APART * axes[y] + angle_rng.standard_normal(noise.shape) @ mixing + noise
    else:
        x = ellipsoid_points(y, axes, angle_rng, legacy)
        x -= 0.0 if legacy else x.mean(axis=0)
        x += axes[y] * noise if scaled_noise else noise
    return Graph(
        name="heterophilous-legacy" if legacy else "heterophilous",
        edge_index=merge_edges(pairs, num_nodes).edge_index,
        num_nodes=num_nodes,
        x=x.astype(np.float32),
        y=y,
    )


def ellipsoid_points(
    labels: IntArray, axes: FloatArray, rng: np.random.Generator, legacy: bool = False
) -> FloatArray:
    """Points [N, F] on the ellipsoids with semi-axes [C, F]: φ_i ~ U[0, π), the last φ ~ U[0, 2π)."""
    angles = np.pi * rng.random((labels.size, axes.shape[1] - 1))
    doubled = (-1, slice(None)) if legacy else (slice(None), -1)  # the last node, or the last angle
    angles[doubled] *= 2.0
    return axes[labels] * unit_vectors(angles)


def unit_vectors(angles: FloatArray) -> FloatArray:
    """Spherical coordinates [N, F-1] to unit vectors [N, F]."""
    ones = np.ones((angles.shape[0], 1))
    sines = np.cumprod(np.hstack([ones, np.sin(angles)]), axis=1)  # Π_{i<j} sin φ_i
    return np.hstack([np.cos(angles), ones]) * sines


def _check_sizes(num_nodes: int, num_classes: int, num_features: int, degree: int) -> None:
    require_at_least("num_classes", num_classes, 2)
    require_at_least("num_features", num_features, 2)
    require_at_least("degree", degree, 2)
    require_at_least("num_nodes", num_nodes, num_classes)
    if degree >= num_nodes:
        raise DataError(
            f"a simple graph on num_nodes={num_nodes} nodes has degree at most {num_nodes - 1}; "
            f"got degree={degree}. Lower degree or raise num_nodes."
        )


def _check_variant(scaled_noise: bool, legacy: bool, features: str) -> None:
    require_choice("features", features, FEATURES)
    if legacy and features == "gaussian":
        raise ConfigError("legacy=True has ellipsoids; got features='gaussian'. Choose one of the two.")
    if legacy and not scaled_noise:
        raise ConfigError(
            "the published generator always scales the noise by the axes; got legacy=True with "
            "scaled_noise=False. Choose one of the two."
        )
