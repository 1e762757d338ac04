r"""Graphs with a planted sheaf: sensors that measure a field, each in a frame of its own.

Nodes form communities, and every community g has a field, a unit vector s_g ∈ R^d. A node sees the field in
its own frame O_v ∈ SO(d): what it sees is a section of the sheaf with maps F_v = O_v,

    x_v = O_vᵀ s_{g(v)},        F_v x_v = F_u x_u   on the edges of a community,

and its class is the axis ±e_i of its own frame that x_v is nearest to. Observed are x_v under strong noise
and, under weak noise, a compass: O_vᵀ e_1, …, O_vᵀ e_{d−1}, axes of the common frame as the node sees them.

The mean of the neighbours' measurements, transported by F_vᵀ F_u, is x_v with less noise, and the class is
read off it linearly. Their plain mean says next to nothing, and neither do their classes. Identity maps are
thus of no use, the planted ones are, and the compass tells a learner what they are. Without transport a model
has to turn its neighbours into a common frame and back by its own nonlinearities, from few labels.

Frames are O_v = exp(A_v), where the d(d−1)/2 entries of the skew matrix A_v are uniform in a ball of radius
π·spread. With a spread below 1 they are smooth functions of the compass; with a spread of 1 a rotation by π
equals one by −π, and learners of angles find that jump hard.

Do not read accuracies as a forecast for real data: this is the case that sheaves are made for.
"""

import numpy as np
import torch

from polynsd.data.edges import merge_edges
from polynsd.data.generators.common import (
    FloatArray,
    IntArray,
    draw_stratified_masks,
    random_streams,
    require_deviation,
    require_probability,
)
from polynsd.data.generators.rewiring import rewired_ring
from polynsd.data.graph import Graph
from polynsd.errors import ConfigError, DataError, require_at_least

FRACTIONS = (0.3, 0.2, 0.5)


def planted_sheaf(
    num_nodes: int = 1000,
    stalk_dim: int = 2,
    num_communities: int = 40,
    degree: int = 10,
    homophily: float = 0.9,
    feature_noise: float = 1.5,
    frame_noise: float = 0.1,
    frame_spread: float = 0.65,
    seed: int = 0,
) -> Graph:
    """A graph of N·k/2 edges whose nodes see their community's field in frames of their own.

    Args:
        num_nodes: N.
        stalk_dim: d >= 2; there are 2d classes and d² features, d−1 compass vectors and one measurement.
        num_communities: at least 2, of more than `degree` nodes each; sizes differ by at most one.
        degree: Mean degree k, even.
        homophily: Probability that an edge stays in its community; exact at 0 and 1.
        feature_noise: Standard deviation of the noise of a measurement, whose length is 1 without noise.
        frame_noise: Standard deviation of the noise of the compass, whose vectors have length 1.
        frame_spread: Frames are turned by up to this share of a half-turn, above 0 and at most 1.
        seed: The same arguments and seed give the same graph.

    Returns:
        A graph with ten stratified 30/20/50 splits and as extras the planted maps `frame` [N, d, d], the
        `section` [N, d] that classes are read off, and the `community` [N].
    """
    _check_sizes(num_nodes, stalk_dim, num_communities, degree)
    require_probability("homophily", homophily)
    require_deviation("feature_noise", feature_noise)
    require_deviation("frame_noise", frame_noise)
    if not 0.0 < frame_spread <= 1.0:
        raise ConfigError(f"frame_spread must lie above 0 and at most at 1; got {frame_spread!r}.")
    community_rng, field_rng, frame_rng, noise_rng, compass_rng, edge_rng = random_streams(seed, 6)
    community = community_rng.permutation(np.arange(num_nodes) % num_communities)
    pairs = rewired_ring(community, num_communities, degree, 1.0 - homophily, 0.0, edge_rng)
    field = random_directions(num_communities, stalk_dim, field_rng)
    frame = random_frames(num_nodes, stalk_dim, frame_spread, frame_rng)
    section = np.einsum("nij,ni->nj", frame, field[community])
    measured = section + feature_noise * noise_rng.standard_normal(section.shape)
    compass = frame[:, : stalk_dim - 1]  # rows i of O_v are O_vᵀ e_i
    compass = compass + frame_noise * compass_rng.standard_normal(compass.shape)
    y = nearest_axis(section)
    return Graph(
        name="planted-sheaf",
        edge_index=merge_edges(pairs, num_nodes).edge_index,
        num_nodes=num_nodes,
        x=np.hstack([compass.reshape(num_nodes, -1), measured]).astype(np.float32),
        y=y,
        masks={"default": draw_stratified_masks(y, FRACTIONS)},
        extras={"frame": frame, "section": section, "community": community},
    )


def random_directions(count: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Unit vectors [count, d], uniform on the sphere."""
    vectors = rng.standard_normal((count, d))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def random_frames(count: int, d: int, spread: float, rng: np.random.Generator) -> FloatArray:
    """Rotations exp(A) [count, d, d]; A below its diagonal is uniform in a ball of radius π·spread."""
    m = d * (d - 1) // 2
    radius = np.pi * spread * rng.random((count, 1)) ** (1 / m)
    A = np.zeros((count, d, d))
    rows, columns = np.tril_indices(d, -1)
    A[:, rows, columns] = radius * random_directions(count, m, rng)
    return np.asarray(torch.linalg.matrix_exp(torch.from_numpy(A - A.transpose(0, 2, 1))))


def nearest_axis(vectors: FloatArray) -> IntArray:
    """Class [N] of vectors [N, d]: i where they are nearest to e_i, d + i where they are nearest to −e_i."""
    return np.argmax(np.hstack([vectors, -vectors]), axis=1)


def _check_sizes(num_nodes: int, stalk_dim: int, num_communities: int, degree: int) -> None:
    require_at_least("stalk_dim", stalk_dim, 2)
    require_at_least("num_communities", num_communities, 2)
    require_at_least("degree", degree, 2)
    require_at_least("num_nodes", num_nodes, num_communities)
    if degree >= num_nodes // num_communities:
        raise DataError(
            f"communities need more than degree={degree} nodes; {num_nodes} nodes in {num_communities} "
            f"communities leave {num_nodes // num_communities}. Lower degree or num_communities."
        )
