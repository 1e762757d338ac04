"""`Graph`: an undirected graph with features, labels and splits, under its user's ids.

    graph = Graph.from_files("edges.csv", "nodes.csv", label="kind")
    data = graph.to_pyg()   # what models train on

The container between files and models: NumPy arrays, every undirected edge once (u < v), features dense
or sparse, a label of −1 (NaN for regression targets) where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.splits import Masks
from polynsd.memory import require_memory

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data

DENSE_COPIES = 2  # of features that are made dense, which are used as another array or a tensor
Features: TypeAlias = Any  # NDArray[np.float32] or scipy.sparse.csr_matrix, which has no types


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph to learn from.

    Args:
        name: how it prints and what results are filed under.
        edge_index: `[2, E]` integers, every undirected edge once with u < v, no loops, no duplicates.
        num_nodes: N.
        x: features `[N, F]`, a float32 array or a SciPy CSR matrix; None where there are none.
        y: class numbers `[N]` int64 with −1 for unlabelled nodes, or float targets with NaN; None where
            there are none.
        masks: the splits that came with the data, by protocol (`default`, `public`, …).
        edge_weight: `[E]` float32, non-negative.
        edge_attr: `[E, f]` float32.
        node_ids: `[N]` the user's ids (integers or strings); the row numbers unless given.
        class_names: the user's names of the classes, in the order of their numbers.
        feature_names: names of the columns of x.
        extras: further arrays that came with the data, untouched.
    """

    name: str
    edge_index: NDArray[np.integer[Any]]
    num_nodes: int
    x: Features = None
    y: NDArray[np.int64] | NDArray[np.float32] | None = None
    masks: Mapping[str, Masks] = field(default_factory=dict)
    edge_weight: NDArray[np.float32] | None = None
    edge_attr: NDArray[np.float32] | None = None
    node_ids: NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("masks", "extras"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def num_edges(self) -> int:
        """E, each undirected edge counted once; `to_pyg().num_edges` counts both directions."""
        return self.edge_index.shape[1]

    @property
    def num_features(self) -> int:
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def dense_x(self) -> NDArray[np.float32]:
        """The features [N, F] as an array, also where they are stored sparsely; F = 0 without features."""
        if self.x is None:
            return np.zeros((self.num_nodes, 0), dtype=np.float32)
        if sparse.issparse(self.x):
            require_memory(
                DENSE_COPIES * 4 * self.num_nodes * self.num_features,
                f"{self.name}, {self.num_features:,} sparse features of {self.num_nodes:,} nodes as an array",
            )
        dense: NDArray[np.float32] = self.x.toarray() if sparse.issparse(self.x) else self.x
        return dense

    @property
    def is_regression(self) -> bool:
        """Whether y holds real-valued targets."""
        return self.y is not None and np.issubdtype(self.y.dtype, np.floating)

    @cached_property
    def num_classes(self) -> int:
        """C, counting classes by their largest number; 0 without class labels."""
        return 0 if self.y is None or self.is_regression or not self.y.size else int(self.y.max()) + 1

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        """[N], False where the label is −1 or one of the targets NaN; False everywhere without `y`."""
        if self.y is None:
            return np.zeros(self.num_nodes, dtype=bool)
        has_value = np.asarray(~np.isnan(self.y) if self.is_regression else self.y >= 0)
        return np.asarray(has_value.all(axis=1)) if has_value.ndim == 2 else has_value

    @property
    def ids(self) -> NDArray[Any]:
        """The user's ids, or the row numbers."""
        return np.arange(self.num_nodes) if self.node_ids is None else self.node_ids

    @classmethod
    def from_files(
        cls,
        edges: str | PathLike[str],
        nodes: str | PathLike[str] | None = None,
        *,
        name: str | None = None,
        **options: Any,
    ) -> Graph:
        """Your own graph, from CSV, TSV (also `.gz`), Parquet or GraphML files.

        What was dropped, merged, filled or pooled is logged; `polynsd.data.tables.read_graph` returns it too.

        Args:
            edges: a table with a row per edge, or a GraphML file, which holds the nodes too.
            nodes: a table with a row per node; without one the edges name the nodes.
            name: of the graph; the name of the edge file by default.
            options: what each column means, e.g. `label="kind"`; see `polynsd.data.tables.ReadOptions`.
        """
        from polynsd.data.tables import read_graph

        return read_graph(edges, nodes, name=name, **options)[0]

    @classmethod
    def from_pandas(cls, edges: pd.DataFrame, nodes: pd.DataFrame | None = None, **options: Any) -> Graph:
        """From an edge table and a node table, with the options of `from_files`."""
        from polynsd.data.tables.read import from_pandas

        return from_pandas(edges, nodes, **options)

    @classmethod
    def from_networkx(
        cls,
        graph: nx.Graph,
        label: str | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        **options: Any,
    ) -> Graph:
        """From a NetworkX graph, its attributes taken as columns, with the options of `from_files`."""
        from polynsd.data.tables.read import from_networkx

        return from_networkx(graph, label=label, features=features, weight=weight, **options)

    @classmethod
    def from_scipy(cls, adjacency: Any, x: Any = None, y: Any = None, *, name: str = "graph") -> Graph:
        """From a square matrix, sparse or dense, its entries being weights unless all are 1."""
        from polynsd.data.convert import from_scipy

        return from_scipy(adjacency, x, y, name=name)

    @classmethod
    def from_pyg(cls, data: Data, *, node_ids: Any = None, name: str | None = None) -> Graph:
        """From PyG's `Data`; edge weights and features that differ between directions are averaged."""
        from polynsd.data.convert import from_pyg

        return from_pyg(data, node_ids=node_ids, name=name)

    def to_pandas(self, id_column: str = "id", label: str = "label") -> tuple[pd.DataFrame, pd.DataFrame]:
        """The edge table (source, target, …) and the node table (id, features, label)."""
        from polynsd.data.convert import to_pandas

        return to_pandas(self, id_column, label)

    def to_networkx(self, label: str = "label") -> nx.Graph:
        """A NetworkX graph whose nodes are the user's ids, with features and labels as attributes."""
        from polynsd.data.convert import to_networkx

        return to_networkx(self, label)

    def to_pyg(self, *, keep_sparse: bool = False) -> Data:
        """PyG's `Data`: both directions of every edge, dense features, masks as [N, S]; all of it copied.

        With `keep_sparse` features that are stored sparsely are a sparse tensor, which sheaf models take.
        """
        from polynsd.data.convert import to_pyg

        return to_pyg(self, keep_sparse=keep_sparse)

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, nodes={self.num_nodes}, edges={self.num_edges}, "
            f"features={self.num_features}, classes={self.num_classes})"
        )
