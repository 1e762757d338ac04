r"""Points on one random ellipsoid per class, the features of the synthetic benchmark.

A unit vector has spherical coordinates φ_0, ..., φ_{F-2},

    s_0 = cos φ_0,   s_j = cos φ_j · Π_{i<j} sin φ_i,   s_{F-1} = Π_i sin φ_i,

and a node of class c lies at a_c ⊙ s, with semi-axes a_c ~ U[0, 1)^F. All classes share the centre,
so none can be told by its mean, only by its shape. Not uniform on the sphere: the angles are
uniform, as published, not the surface measure.
"""

import numpy as np

from polynsd.data.generators.synthetic import FloatArray, IntArray


def draw_axes(num_classes: int, num_features: int, rng: np.random.Generator) -> FloatArray:
    """Semi-axes [C, F] of the ellipsoids, uniform on [0, 1)."""
    return rng.random((num_classes, num_features))


def draw_half_turns(num_nodes: int, num_features: int, rng: np.random.Generator) -> FloatArray:
    """Angles [N, F-1], all uniform on [0, π)."""
    return np.pi * rng.random((num_nodes, num_features - 1))


def unit_vectors(angles: FloatArray) -> FloatArray:
    """Spherical coordinates [N, F-1] to unit vectors [N, F]."""
    ones = np.ones((angles.shape[0], 1))
    sines = np.cumprod(np.hstack([ones, np.sin(angles)]), axis=1)  # Π_{i<j} sin φ_i
    return np.hstack([np.cos(angles), ones]) * sines


def ellipsoid_points(labels: IntArray, axes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """a_y ⊙ s with the last angle on [0, 2π), so that the points go round the whole ellipsoid."""
    angles = draw_half_turns(labels.size, axes.shape[1], rng)
    angles[:, -1] *= 2.0
    return axes[labels] * unit_vectors(angles)


def centred_points(labels: IntArray, axes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The points of the ellipsoids minus their global mean."""
    points = ellipsoid_points(labels, axes, rng)
    points -= points.mean(axis=0)
    return points


def gaussian_noise(
    labels: IntArray, axes: FloatArray, sigma: float, scaled: bool, rng: np.random.Generator
) -> FloatArray:
    """ε ~ N(0, σ²) per entry, stretched by the axes of the node's class if `scaled`."""
    epsilon = sigma * rng.standard_normal((labels.size, axes.shape[1]))
    return axes[labels] * epsilon if scaled else epsilon
