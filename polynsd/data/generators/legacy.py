"""The published synthetic generator, kept to repeat old experiments; its defects are deliberate.

Differences from `heterophilous_graph` with `legacy=False`, all intended to be reproduced:

* labels are independent and uniform, so classes are not balanced;
* the angles of the last *node* are doubled instead of the last angle of every node, so the last
  coordinate is never negative elsewhere and its class mean is a_c·(2/π)^(F-1): classes do not share
  their mean, and even a linear model of the features beats chance;
* points are not centred, noise always follows the axes;
* a node may pick itself, or a partner that picked it; such picks are lost, and the mean degree
  falls below 2·⌊k/2⌋.

Only the branch of the published code that draws points on ellipsoids is reproduced. Its Gaussian branch
(`ellipsoids=False`) is left out because it ignores the noise it is asked for, so that no experiment on
noise can rest on it; `just_add_noise` is left out because it adds noise to the features that an earlier
run has cached, so that its result does not follow from its arguments.

Do not use it for new results. The generator loops over nodes and takes O(N²k) time.
"""

import numpy as np

from polynsd.data.generators.ellipsoids import draw_half_turns, unit_vectors
from polynsd.data.generators.rewiring import ring
from polynsd.data.generators.synthetic import BoolArray, FloatArray, IntArray
from polynsd.errors import DataError


def uniform_labels(num_nodes: int, num_classes: int, rng: np.random.Generator) -> IntArray:
    """Independent uniform labels."""
    return rng.integers(num_classes, size=num_nodes)


def legacy_points(labels: IntArray, axes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """a_y ⊙ s with angles on [0, π); only those of the last node are doubled."""
    angles = draw_half_turns(labels.size, axes.shape[1], rng)
    angles[-1] *= 2.0
    return axes[labels] * unit_vectors(angles)


def legacy_ring(
    labels: IntArray,
    num_classes: int,
    degree: int,
    heterophily: float,
    edge_noise: float,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Ends (source, target) of the N·⌊k/2⌋ picks, loops and repetitions included."""
    source, target = ring(labels.size, degree)
    mixture = class_mixture(num_classes, heterophily)
    picks = target.reshape(labels.size, degree // 2)  # a view: filling it fills target
    for node, row in enumerate(picks):
        candidates = _candidates(node, labels.size, degree)
        for slot in np.flatnonzero(rng.random(row.size) >= edge_noise):
            wanted = int(rng.choice(num_classes, p=mixture[labels[node]]))
            row[slot] = _pick(node, wanted, candidates, labels, num_classes, rng)
            candidates[row[slot]] = False
    return source, target


def class_mixture(num_classes: int, heterophily: float) -> FloatArray:
    """R[C, C]: row c is the law of a partner's class, 1 - het on c and het/(C-1) elsewhere."""
    mixture = np.full((num_classes, num_classes), heterophily / (num_classes - 1))
    np.fill_diagonal(mixture, 1.0 - heterophily)
    return mixture


def _candidates(node: int, num_nodes: int, degree: int) -> BoolArray:
    """Nodes farther than k/2 by plain index, without wrapping round, and the node itself."""
    distance = np.abs(np.arange(num_nodes) - node)
    far_or_self: BoolArray = (distance > degree / 2) | (distance == 0)
    return far_or_self


def _pick(
    node: int,
    wanted: int,
    candidates: BoolArray,
    labels: IntArray,
    num_classes: int,
    rng: np.random.Generator,
) -> int:
    """A uniform candidate of the wanted class, or of the next class that has one."""
    for shift in range(num_classes):
        choices = np.flatnonzero(candidates & (labels == (wanted + shift) % num_classes))
        if choices.size:
            return int(rng.choice(choices))
    raise DataError(
        f"the published generator needs a candidate farther than degree/2 on the ring; node {node} "
        "has none left. Lower degree or raise num_nodes."
    )
