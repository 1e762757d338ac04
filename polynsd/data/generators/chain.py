"""A long text as a graph: words in order, dependencies inside sentences, syntactic roles as classes.

Consecutive words are joined, and every word is joined to its head in the dependency tree of its
sentence: a long thin graph of low homophily. The role of a word follows from its own type, the type
of its head and the side the head stands on; the features show the word's type only, and noisily, so
a model has to find the head among the neighbours. The trees are random projective ones, not those of
a language: do not read accuracies as a forecast for the public Roman-Empire graph, whose shape
(degree, diameter, homophily) these graphs share.
"""

import numpy as np

from polynsd.data.edges import merge_edges
from polynsd.data.generators.common import (
    FloatArray,
    IntArray,
    draw_stratified_masks,
    random_streams,
    require_deviation,
)
from polynsd.data.graph import Graph
from polynsd.errors import ConfigError, require_at_least

SENTENCE = (5, 35)  # words of the shortest and of the longest sentence
NUM_TYPES = 16  # kinds of words: nouns, verbs, articles, ...
ROLES_PER_TYPE = 3  # a word of one type plays one of so many roles
FRACTIONS = (0.5, 0.25, 0.25)


def syntax_chain(
    num_nodes: int = 20_000,
    num_classes: int = 18,
    num_features: int = 50,
    feature_noise: float = 1.5,
    seed: int = 0,
) -> Graph:
    """A chain of words with one dependency tree per sentence.

    Args:
        num_nodes: Number of words N, at least 100.
        num_classes: Roles C, 2 to 48; in a short text some may not occur.
        num_features: F >= 1.
        feature_noise: Standard deviation of the noise; embeddings of types have deviation 1.
        seed: The same arguments and seed give the same graph.

    Returns:
        A graph with ten stratified 50/25/25 splits and as extras the word's `type` [N], its `head` [N]
        (the word itself for the root of a sentence) and its `sentence` [N].
    """
    require_at_least("num_nodes", num_nodes, 100)
    require_at_least("num_classes", num_classes, 2)
    require_at_least("num_features", num_features, 1)
    require_deviation("feature_noise", feature_noise)
    if num_classes > NUM_TYPES * ROLES_PER_TYPE:
        raise ConfigError(
            f"{NUM_TYPES} types of words play at most {NUM_TYPES * ROLES_PER_TYPE} roles; "
            f"got num_classes={num_classes}. Lower num_classes."
        )
    sentence_rng, tree_rng, type_rng, role_rng, feature_rng = random_streams(seed, 5)
    sentence = draw_sentences(num_nodes, sentence_rng)
    head = projective_heads(tree_rng.random(num_nodes), sentence)
    types = word_types(sentence, type_rng)
    y = roles_of(types, head, role_table(num_classes, role_rng))
    return Graph(
        name="syntax-chain",
        edge_index=chain_edges(head),
        num_nodes=num_nodes,
        x=noisy_embeddings(types, num_features, feature_noise, feature_rng).astype(np.float32),
        y=y,
        masks={"default": draw_stratified_masks(y, FRACTIONS)},
        extras={"type": types, "head": head, "sentence": sentence},
    )


def draw_sentences(num_words: int, rng: np.random.Generator) -> IntArray:
    """The sentence [N] each word belongs to; lengths are uniform, the last sentence is cut off."""
    shortest, longest = SENTENCE
    sizes = rng.integers(shortest, longest + 1, size=num_words // shortest + 1)
    return np.repeat(np.arange(sizes.size), sizes)[:num_words]


def projective_heads(weight: FloatArray, sentence: IntArray) -> IntArray:
    """Head [N] of every word: the lighter of the nearest heavier words to its left and to its right.

    This is the Cartesian tree of the weights: dependencies never cross, the heaviest word of a
    sentence is its root and its own head, and about half of the dependencies join neighbours.
    """
    left, right = (nearest_heavier(weight, sentence, step) for step in (-1, 1))
    bounded = np.append(weight, np.inf)  # entry N stands for "none on this side"
    head = np.where(bounded[left] < bounded[right], left, right)
    return np.where(head == weight.size, np.arange(weight.size), head)


def nearest_heavier(weight: FloatArray, sentence: IntArray, step: int) -> IntArray:
    """The first heavier word of the same sentence in the direction of `step`, or N if there is none."""
    nearest = np.full(weight.size, weight.size)
    bounded = np.append(sentence, -1)  # entries N and -1 lie in no sentence
    pending, distance = np.arange(weight.size), 0
    while pending.size:
        distance += step
        pending = pending[bounded[pending + distance] == sentence[pending]]
        heavier = weight[pending + distance] > weight[pending]
        nearest[pending[heavier]] = pending[heavier] + distance
        pending = pending[~heavier]
    return nearest


def word_types(sentence: IntArray, rng: np.random.Generator) -> IntArray:
    """Type [N] of every word: a Markov chain in each sentence that never repeats a type at once."""
    follows = rng.exponential(size=(NUM_TYPES, NUM_TYPES)) ** 2  # some types follow each other often
    np.fill_diagonal(follows, 0.0)
    reach = np.cumsum(follows, axis=1) / follows.sum(axis=1, keepdims=True)
    first = np.flatnonzero(np.diff(sentence, prepend=-1))
    types = rng.integers(NUM_TYPES, size=sentence.size)
    for position in range(1, SENTENCE[1]):  # all sentences grow by one word at a time
        word = first[np.diff(first, append=sentence.size) > position] + position
        types[word] = (rng.random((word.size, 1)) >= reach[types[word - 1]]).sum(axis=1)
    return types


def role_table(num_classes: int, rng: np.random.Generator) -> IntArray:
    """Role by type of word, type of head and side of the head; the last type of head is "none"."""
    roles = rng.permutation(np.arange(NUM_TYPES * ROLES_PER_TYPE) % num_classes)
    choice = rng.integers(ROLES_PER_TYPE, size=(NUM_TYPES, NUM_TYPES + 1, 2))
    return roles.reshape(NUM_TYPES, ROLES_PER_TYPE)[np.arange(NUM_TYPES)[:, None, None], choice]


def roles_of(types: IntArray, head: IntArray, table: IntArray) -> IntArray:
    """Class [N] of every word."""
    word = np.arange(head.size)
    head_type = np.where(head == word, NUM_TYPES, types[head])
    return table[types, head_type, (head < word).astype(np.int64)]


def chain_edges(head: IntArray) -> IntArray:
    """Edges [2, E], u < v and sorted: consecutive words, and every word with its head."""
    word = np.arange(head.size)
    pairs = np.concatenate([np.stack([word[:-1], word[1:]]), np.stack([word, head])], axis=1)
    return merge_edges(pairs, head.size).edge_index


def noisy_embeddings(
    types: IntArray, num_features: int, noise: float, rng: np.random.Generator
) -> FloatArray:
    """Features [N, F]: a Gaussian vector per type, blurred word by word."""
    centres = rng.standard_normal((NUM_TYPES, num_features))
    return centres[types] + noise * rng.standard_normal((types.size, num_features))
