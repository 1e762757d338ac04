r"""A ring whose edges are rewired to partners of a chosen class.

Every node i starts with the k/2 forward ring edges (i, i+1), ..., (i, i+k/2). An edge is kept with
probability `edge_noise`; otherwise it goes from i to a uniform node of class c, drawn from

    P(c = y_i) = 1 - het,    P(c) = het / (C - 1) for every other class.

`rewired_ring` draws again what would make a loop or a second copy of an edge, so the result is a simple
graph with exactly N·k/2 edges. It is not meant for dense graphs: as k approaches the largest possible degree,
hardly any arrangement is left and the search for one takes many rounds. `legacy_ring` is the published rule,
which loses such picks (see `heterophily`).
"""

import numpy as np

from polynsd.data.generators.common import BoolArray, FloatArray, IntArray
from polynsd.errors import ConfigError, DataError

# Redrawing inside the wanted class leaves the class mixture untouched; in a sparse graph a handful
# of rounds suffice. After this many, edges whose class offers no partner draw another class too.
CLASS_ROUNDS = 16

# Rounds are limited by the pairs looked at in total, so that small tight graphs may search long
# and an impossible request on a large graph fails within a minute or two.
MAX_PAIRS_TRIED = 200_000_000
MIN_ROUNDS = 100
MAX_ROUNDS = 50_000


def rewired_ring(
    labels: IntArray,
    num_classes: int,
    degree: int,
    heterophily: float,
    edge_noise: float,
    rng: np.random.Generator,
) -> IntArray:
    """The N·k/2 edges [2, E] from source to target; `degree` k is below N, and even or a `ConfigError`."""
    if degree % 2:
        raise ConfigError(
            f"a ring needs an even degree; got degree={degree}. Use {degree - 1} or {degree + 1}."
        )
    if edge_noise == 0.0:
        _check_feasible(np.bincount(labels, minlength=num_classes), degree, heterophily)
    edges = source, target = ring(labels.size, degree)
    kept = rng.random(source.size) < edge_noise
    # the nodes sorted by class, so that uniform members of many classes are drawn in one indexing
    members, sizes = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=num_classes)
    starts = np.cumsum(sizes) - sizes
    wanted = draw_classes(labels[source], num_classes, heterophily, rng)
    pending = np.flatnonzero(~kept)
    for attempt in range(min(MAX_ROUNDS, max(MIN_ROUNDS, MAX_PAIRS_TRIED // source.size))):
        classes = wanted[pending]
        target[pending] = members[starts[classes] + rng.integers(sizes[classes])]
        pending = _find_collisions(source, target, kept, pending, labels.size)
        if pending.size == 0:
            return edges
        if attempt >= CLASS_ROUNDS:
            wanted[pending] = draw_classes(labels[source[pending]], num_classes, heterophily, rng)
    raise DataError(
        f"every rewired edge needs a free partner of an allowed class; {pending.size} of "
        f"{source.size} edges found none: the graph is full, or nearly so. "
        "Lower degree, or use more nodes or fewer classes."
    )


def ring(num_nodes: int, degree: int) -> IntArray:
    """The forward edges [2, E], (i, i+s mod N) for s = 1, ..., ⌊degree/2⌋, grouped by i."""
    steps = np.arange(1, degree // 2 + 1)
    source = np.repeat(np.arange(num_nodes), steps.size)
    return np.stack([source, (source + np.tile(steps, num_nodes)) % num_nodes])


def draw_classes(
    labels: IntArray, num_classes: int, heterophily: float, rng: np.random.Generator
) -> IntArray:
    """A partner's class for a node of each of these classes; exact at het = 0 and 1."""
    other = rng.integers(num_classes - 1, size=labels.size)
    other += other >= labels
    return np.where(rng.random(labels.size) < heterophily, other, labels)


def _find_collisions(
    source: IntArray, target: IntArray, kept: BoolArray, drawn: IntArray, num_nodes: int
) -> IntArray:
    """Edges that must draw again: loops, and all but one edge of every repeated pair.

    A kept edge owns its pair for good. Otherwise the edge drawn last takes the pair and the one
    that held it moves on: without evictions a node whose pairs are all taken would be stuck.
    """
    rank = np.full(source.size, 2, dtype=np.int8)
    rank[drawn] = 1
    rank[kept] = 0
    order = np.argsort(rank, kind="stable")
    pairs = np.minimum(source, target) * num_nodes + np.maximum(source, target)
    _, first = np.unique(pairs[order], return_index=True)
    collides = source == target
    collides[np.delete(order, first)] = True
    return np.flatnonzero(collides)


def _check_feasible(class_sizes: IntArray, degree: int, heterophily: float) -> None:
    """Raises when no simple graph exists although degree < N: the classes are too small.

    By Hall's theorem these bounds are sharp: a class on its own carries k <= n_c - 1, and the
    complete multipartite graph over the classes must have N·k/2 edges.
    """
    num_nodes = int(class_sizes.sum())
    if heterophily == 0.0 and degree >= class_sizes.min():
        raise DataError(
            f"heterophily=0 needs classes of more than degree={degree} nodes; the smallest has "
            f"{class_sizes.min()}. Lower degree or num_classes, or raise num_nodes."
        )
    pairs = int(num_nodes**2 - (class_sizes**2).sum()) // 2
    if heterophily == 1.0 and num_nodes * degree // 2 > pairs:
        raise DataError(
            f"heterophily=1 needs {num_nodes * degree // 2} inter-class edges; only {pairs} pairs "
            "of nodes differ in class. Lower degree, or raise num_nodes or num_classes."
        )


def legacy_ring(
    labels: IntArray,
    num_classes: int,
    degree: int,
    heterophily: float,
    edge_noise: float,
    rng: np.random.Generator,
) -> IntArray:
    """The N·⌊k/2⌋ picks [2, E] of the published rule, loops and repetitions included."""
    edges = ring(labels.size, degree)
    mixture = class_mixture(num_classes, heterophily)
    picks = edges[1].reshape(labels.size, degree // 2)  # a view: filling it fills the targets
    for node, row in enumerate(picks):
        # farther than k/2 by plain index, without wrapping round, or the node itself
        distance = np.abs(np.arange(labels.size) - node)
        candidates = (distance > degree / 2) | (distance == 0)
        for slot in np.flatnonzero(rng.random(row.size) >= edge_noise):
            wanted = int(rng.choice(num_classes, p=mixture[labels[node]]))
            row[slot] = _pick_partner(node, wanted, candidates, labels, num_classes, rng)
            candidates[row[slot]] = False
    return edges


def class_mixture(num_classes: int, heterophily: float) -> FloatArray:
    """R[C, C]: row c is the law of a partner's class, 1 - het on c and het/(C-1) elsewhere."""
    mixture = np.full((num_classes, num_classes), heterophily / (num_classes - 1))
    np.fill_diagonal(mixture, 1.0 - heterophily)
    return mixture


def _pick_partner(
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
