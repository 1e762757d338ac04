"""scikit-learn's tools for nodes of a graph: cross-validation, grid search, pipelines.

    nodes = GraphNodes(graph)                                  # its labelled nodes
    cross_val_score(SheafClassifier(), nodes, nodes.y, cv=5)

scikit-learn splits what it is given by rows. `GraphNodes` is given by rows, its nodes, and every part of it
still knows the whole graph: an estimator is fitted to the labels of its nodes alone, but sees all edges and
features, as it will when it is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from polynsd.data import Graph
from polynsd.errors import DataError, ShapeError
from polynsd.estimator.labels import Labels, graph_labels, read_labels


class GraphNodes:
    """Some nodes of a graph, for `fit`, `predict` and `score` and for scikit-learn's tools.

    Args:
        graph: a `Graph` or PyG's `Data`.
        numbers: of the nodes; all labelled ones by default, or all where none has a label.
    """

    def __init__(self, graph: Any, numbers: Any = None) -> None:
        self.graph = graph if isinstance(graph, Graph) else Graph.from_pyg(graph)
        if numbers is None:
            labelled = self.graph.is_labelled
            numbers = np.flatnonzero(labelled if labelled.any() else ~labelled)
        self.numbers: NDArray[np.int64] = np.asarray(numbers)
        count = self.graph.num_nodes
        if self.numbers.dtype.kind not in "iu" or self.numbers.ndim != 1:
            raise ShapeError(
                f"nodes must be numbers [n]; got {self.numbers.dtype} {list(self.numbers.shape)}."
            )
        if len(self.numbers) and not 0 <= self.numbers.min() <= self.numbers.max() < count:
            raise ShapeError(f"nodes must be numbers from 0 to {count - 1}; some are not.")

    @property
    def y(self) -> NDArray[Any]:
        """The labels of these nodes, as the graph has them."""
        labels = graph_labels(self.graph)
        if labels is None:
            raise DataError(f"'{self.graph.name}' has no labels; pass y.")
        names = labels[self.numbers]
        is_text = names.dtype.kind == "O" and all(isinstance(name, str) for name in names)
        return names.astype(np.str_) if is_text else names

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and features, as of a table."""
        return len(self.numbers), self.graph.num_features

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, key: Any) -> GraphNodes:
        """Some of these nodes, by their places or a mask."""
        places = key[0] if isinstance(key, tuple) else key  # scikit-learn asks for [places, ...]
        return GraphNodes(self.graph, np.atleast_1d(self.numbers[places]))

    def __repr__(self) -> str:
        return f"GraphNodes({len(self):,} of the {self.graph.num_nodes:,} nodes of '{self.graph.name}')"

    def labels(self, y: Any, is_regression: bool) -> Labels:
        """The labels of the whole graph as an estimator may see them: y at these nodes, none elsewhere."""
        given = read_labels(self.y if y is None else y, len(self), False, is_regression)
        values = np.repeat(given.values[given.has_label][:1], self.graph.num_nodes)
        has_label = np.zeros(self.graph.num_nodes, dtype=bool)
        values[self.numbers], has_label[self.numbers] = given.values, given.has_label
        return Labels(values, has_label)

    def spread(self, weights: Any) -> NDArray[np.float64]:
        """Weights of these nodes as weights of all, 0 elsewhere."""
        values = np.asarray(weights, dtype=np.float64)
        if values.shape != (len(self),):
            raise ShapeError(
                f"sample_weight must hold one weight per node, [{len(self)}]; got {values.shape}."
            )
        spread = np.zeros(self.graph.num_nodes)
        np.add.at(spread, self.numbers, values)
        return spread


class TransformFeatures(BaseEstimator):  # type: ignore[misc]
    """A step of a pipeline: one of scikit-learn's transformers, on the features of a graph.

        make_pipeline(TransformFeatures(StandardScaler()), SheafClassifier())

    It is fitted to the features of the given nodes and applied to those of all nodes of their graph.

    Args:
        transformer: e.g. `StandardScaler()` or `TruncatedSVD(64)`.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, nodes: GraphNodes, y: Any = None) -> TransformFeatures:
        """Fits a copy of the transformer."""
        from sklearn.base import clone

        x = _features(nodes)[nodes.numbers]
        self.transformer_ = clone(self.transformer).fit(x, y)
        return self

    def transform(self, nodes: GraphNodes) -> GraphNodes:
        """The same nodes of a graph with other features."""
        x = self.transformer_.transform(_features(nodes))
        return GraphNodes(replace(nodes.graph, x=x, feature_names=None), nodes.numbers)

    def fit_transform(self, nodes: GraphNodes, y: Any = None) -> GraphNodes:
        """`fit`, then `transform`."""
        return self.fit(nodes, y).transform(nodes)


def _features(nodes: Any) -> Any:
    if not isinstance(nodes, GraphNodes) or nodes.graph.x is None:
        raise DataError(f"TransformFeatures needs GraphNodes of a graph with features; got {nodes!r}.")
    return nodes.graph.x
