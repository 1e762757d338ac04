"""Split protocols by name: which nodes train, validate and test, as published results divide them.

    stored                       the masks that came with the graph
    geom-gcn                     ditto, ten splits of 48/32/20 %
    platonov                     ditto, ten splits of 50/25/25 %
    public                       the fixed Planetoid split, 20 training nodes per class
    luan-60-20-20                class-balanced: equally many training nodes of every class
    random-60-20-20              a plain permutation
    city-10-10-80                a plain permutation
    repeated-ten-fold            five times ten folds, class by class: every node is tested once per repeat
    stratified(0.6, 0.2, 0.2)    every class cut by itself, for your own data; any three fractions

Masks that do not have the shares of the protocol are refused, and no rule stands in for masks that
are missing. Rules are seeded by the index of the split. Nodes without a label are in no part.
Compare numbers only where the protocol is the same: more training nodes alone raise an accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data.graph import Graph
from polynsd.data.splits import Fractions, Masks, Split, permuted_split, stratified_split
from polynsd.errors import ConfigError, DataError, require_at_least, unknown_name
from polynsd.spec import parse_spec

Rule = Callable[[Graph, int], Split]

DEFAULT_SPLITS = 10
STRATIFIED = "stratified"
REPEATED, FOLDS, REPEATS = "repeated-ten-fold", 10, 5
VALIDATION_FOLDS = 3  # 60/30/10: as few nodes as in one fold hardly choose an epoch
SHARE_TOLERANCE = 0.03  # the masks of the filtered graphs deviate by up to 0.028


# protocol → the masks that it reads, and the shares of the nodes that it expects of them
STORED: Mapping[str, tuple[str, Fractions | None]] = {
    "stored": ("default", None),
    "geom-gcn": ("default", (0.48, 0.32, 0.20)),
    "platonov": ("default", (0.50, 0.25, 0.25)),
    "public": ("public", None),
}


def get_split(graph: Graph, protocol: str, index: int) -> Split:
    """Split `index` of the graph by the protocol.

    Raises:
        ConfigError: there is no such protocol.
        DataError: the graph has no labels, or not the masks that the protocol reads.
    """
    require_at_least("index", index, 0)
    if protocol not in STORED:
        return _get_rule(protocol)(graph, index)
    split = _stored_masks(graph, protocol).split(index)
    is_labelled = torch.from_numpy(_labelled_nodes(graph))
    split = Split(*(mask & is_labelled for mask in split.parts))
    _, shares = STORED[protocol]
    if shares is not None:
        _check_shares(split, shares, protocol, graph.name)
    return split


def num_splits(graph: Graph, protocol: str) -> int:
    """How many splits there are; a rule can draw any number, ten is usual."""
    if protocol in STORED:
        return len(_stored_masks(graph, protocol))
    _get_rule(protocol)
    return FOLDS * REPEATS if protocol == REPEATED else DEFAULT_SPLITS


def get_splits(graph: Graph, protocol: str, count: int | None = None) -> list[Split]:
    """The first `count` splits, or all that there are."""
    if count is None:
        count = num_splits(graph, protocol)
    require_at_least("count", count, 1)
    return [get_split(graph, protocol, index) for index in range(count)]


def platonov_rule(y: NDArray[np.int64], index: int) -> Split:
    """The stratified 50/25/25 split that the masks of the heterophilous graphs were drawn by.

    scikit-learn is needed; the result depends on its random streams, which have been stable so far.
    """
    try:
        train_test_split = import_module("sklearn.model_selection").train_test_split
    except ImportError as error:
        raise ConfigError(
            "drawing splits by the rule of Platonov et al. needs scikit-learn, which is not installed. "
            "Install it with pip install scikit-learn, or use the masks that come with the data."
        ) from error
    halve = partial(train_test_split, test_size=0.5, random_state=index)
    labelled = np.flatnonzero(y >= 0)
    train, rest = halve(labelled, stratify=y[labelled])
    val, test = halve(rest, stratify=y[rest])
    return Split.from_nodes(y.size, train, val, test)


def _balance_classes(graph: Graph, index: int) -> Split:
    """Of every class round(0.6·N/C) training nodes, all of a smaller one; then round(0.2·N) validate.

    C counts the classes that occur.
    """
    y = _class_labels(graph, "luan-60-20-20")
    labels = np.unique(y[y >= 0])
    num_labelled = int((y >= 0).sum())
    per_class = round(0.6 * num_labelled / labels.size)
    rng = np.random.RandomState(index)
    classes = [rng.permutation(np.flatnonzero(y == label)) for label in labels]
    rest = rng.permutation(np.concatenate([members[per_class:] for members in classes]))
    train = np.concatenate([members[:per_class] for members in classes])
    num_val = round(0.2 * num_labelled)
    return Split.from_nodes(y.size, train, rest[:num_val], rest[num_val:])


def _repeated_folds(graph: Graph, index: int) -> Split:
    """Fold `index` mod 10 of repeat `index` div 10 tests, the next three validate, the others train.

    Members of every class are dealt to the folds one by one, each class going on where the last one ended, so
    that folds differ by one node at most.
    """
    y = _class_labels(graph, REPEATED)
    repeat, fold = divmod(index, FOLDS)
    rng = np.random.RandomState(repeat)
    order = np.concatenate([rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y[y >= 0])])
    folds_after = (np.arange(order.size) - fold) % FOLDS  # the test fold
    is_test, is_train = folds_after == 0, folds_after > VALIDATION_FOLDS
    return Split.from_nodes(y.size, order[is_train], order[~is_test & ~is_train], order[is_test])


def _permute(graph: Graph, index: int, percent: tuple[int, int]) -> Split:
    nodes = np.flatnonzero(_labelled_nodes(graph))
    return permuted_split(nodes, graph.num_nodes, percent, seed=index)


def _make_stratified_rule(*fractions: float | str) -> Rule:
    match fractions:
        case (float(train), float(val), float(test)):
            return lambda graph, index: stratified_split(
                torch.from_numpy(_class_labels(graph, STRATIFIED)), (train, val, test), seed=index
            )
    raise ConfigError(
        "protocol 'stratified' takes three fractions, those of training, validation and test nodes; got "
        f"{', '.join(map(str, fractions)) or 'none'}. Write for example 'stratified(0.6, 0.2, 0.2)'."
    )


RULES: Mapping[str, Rule] = {
    "luan-60-20-20": _balance_classes,
    "random-60-20-20": partial(_permute, percent=(60, 20)),
    REPEATED: _repeated_folds,
    "city-10-10-80": partial(_permute, percent=(10, 10)),
}


def _get_rule(protocol: str) -> Rule:
    spec = parse_spec(protocol)
    if spec.name == STRATIFIED:
        return _make_stratified_rule(*spec.arguments)
    if spec.name not in RULES:
        raise unknown_name("protocol", protocol, (*STORED, *RULES, STRATIFIED))
    if spec.arguments:
        raise ConfigError(f"protocol '{spec.name}' takes no arguments; got {protocol!r}. Leave them out.")
    return RULES[spec.name]


def _stored_masks(graph: Graph, protocol: str) -> Masks:
    key, _ = STORED[protocol]
    if key not in graph.masks:
        available = ", ".join(f"'{name}'" for name in graph.masks) or "none"
        raise DataError(
            f"protocol '{protocol}' reads the masks '{key}'; the graph '{graph.name}' has {available}. "
            "Ask for a rule by name, such as 'random-60-20-20' or 'stratified(0.6, 0.2, 0.2)'."
        )
    return graph.masks[key]


def _check_shares(split: Split, expected: Fractions, protocol: str, name: str) -> None:
    sizes = [int(mask.sum()) for mask in split.parts]
    shares = [size / sum(sizes) for size in sizes]
    if max(abs(a - b) for a, b in zip(shares, expected, strict=True)) > SHARE_TOLERANCE:
        wanted, actual = ("/".join(f"{100 * share:.0f}" for share in three) for three in (expected, shares))
        raise DataError(
            f"protocol '{protocol}' divides the nodes {wanted}; the masks of '{name}' divide them {actual}, "
            f"so they belong to another protocol. Ask for 'stored' to use them as they are."
        )


def _labelled_nodes(graph: Graph) -> NDArray[np.bool_]:
    if graph.y is None:
        raise DataError(f"a split needs labels; '{graph.name}' has none. Load it with its labels.")
    return graph.is_labelled


def _class_labels(graph: Graph, protocol: str) -> NDArray[np.int64]:
    if graph.is_regression or not _labelled_nodes(graph).any():
        raise DataError(
            f"protocol '{protocol}' divides class by class; '{graph.name}' has no class labels. "
            "Use 'random-60-20-20'."
        )
    return np.asarray(graph.y, dtype=np.int64)
