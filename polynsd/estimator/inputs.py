"""What an estimator is given, as a `Graph`, and the graph as the model sees it: scaled, in double precision.

An estimator takes a graph, PyG's `Data`, a pair (x, edges) or a plain table of features. Features are put on
a common scale by the training nodes: a column that is 0 or 1 on every training node (one-hot, a bag of words,
a flag) stays as it is; any other becomes (x − mean) / deviation; a constant column is only shifted. Double
precision makes a prediction independent of the order of nodes and of other components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.data import Graph
from polynsd.errors import DataError, GraphError, ShapeError, require_choice
from polynsd.estimator.features import STANDARD, FeatureTreatments, Matrix
from polynsd.estimator.sklearn_compat import check_table, count_features, forget_feature_names
from polynsd.nn.features import DENSITY, SIZE
from polynsd.sparse import to_tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data

LARGE = 2**26  # entries from which on a dense tensor is avoided in any case

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x − mean) / scale, column by column."""

    mean: Numbers
    scale: Numbers

    @classmethod
    def none(cls, width: int) -> Scaling:
        """The identity on `width` columns."""
        return cls(np.zeros(width), np.ones(width))

    @classmethod
    def of(cls, values: Numbers) -> Scaling:
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        is_constant = deviation <= np.finfo(np.float32).eps * np.abs(mean)
        return cls(mean, np.where(is_constant, 1.0, deviation))

    @classmethod
    def of_features(cls, values: Numbers) -> Scaling:
        """Standardises every column but those of 0 and 1."""
        scaling, is_flag = cls.of(values), ((values == 0) | (values == 1)).all(axis=0)
        return cls(np.where(is_flag, 0.0, scaling.mean), np.where(is_flag, 1.0, scaling.scale))

    def apply(self, values: Numbers) -> Numbers:
        return (values - self.mean) / self.scale

    def undo(self, values: Numbers) -> Numbers:
        return values * self.scale + self.mean


class Inputs:
    """A graph as candidates see it; everything is computed once, when it is asked for.

    Args:
        graph: with features.
        treatments: learned from the graph of `fit`.
        edge_scaling: of edge features, likewise; None leaves edge features out.
        device: where networks run.
    """

    def __init__(
        self,
        graph: Graph,
        treatments: FeatureTreatments,
        edge_scaling: Scaling | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.graph, self.treatments, self.edge_scaling = graph, treatments, edge_scaling
        self.device = torch.device(device)
        self._features: dict[str, Matrix] = {}
        self._adjacency: dict[str, Any] = {}
        self._data: dict[tuple[str, torch.device, torch.dtype], Data] = {}
        self._edges: dict[torch.device, Tensor] = {}

    @property
    def num_nodes(self) -> int:
        return self.graph.num_nodes

    @property
    def num_features(self) -> int:
        """The number of columns of treated features."""
        return len(self.treatments.columns)

    def features(self, treatment: str = STANDARD) -> Matrix:
        """Treated features `[N, num_features]` in double precision: a `csr_array` or an array."""
        if treatment not in self._features:
            self._features[treatment] = self.treatments.apply(self.graph.x, treatment)
        return self._features[treatment]

    def adjacency(self, kind: str) -> Any:
        """A `csr_array` `[N, N]` of the weighted graph without loops; the row of an isolated node is zero.

        Args:
            kind: `mean` (D⁻¹ A), `symmetric` (D^−½ A D^−½) or `plain` (A).
        """
        require_choice("kind of adjacency", kind, ("mean", "symmetric", "plain"))
        if kind not in self._adjacency:
            self._adjacency[kind] = _normalise(self.graph, kind)
        return self._adjacency[kind]

    def data(
        self, treatment: str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Data:
        """PyG's `Data` with both directions of every edge; x is a sparse tensor where features are sparse."""
        device = torch.device(device)
        key = (treatment, device, dtype)
        if key not in self._data:
            self._data[key] = self._make_data(*key)
        return self._data[key]

    def _make_data(self, treatment: str, device: torch.device, dtype: torch.dtype) -> Data:
        from torch_geometric.data import Data

        graph = self.graph
        if device not in self._edges:  # one tensor for all treatments, whose structure is found once
            once = torch.from_numpy(graph.edge_index.astype(np.int64))
            self._edges[device] = torch.cat([once, once.flip(0)], 1).to(device)
        data = Data(edge_index=self._edges[device], num_nodes=graph.num_nodes)
        data.x = as_tensor(self.features(treatment), dtype).to(device)
        if graph.edge_weight is not None:
            data.edge_weight = _both_ways(graph.edge_weight).to(device, dtype)
        if graph.edge_attr is not None and self.edge_scaling is not None:
            attr = self.edge_scaling.apply(graph.edge_attr.astype(np.float64))
            data.edge_attr = _both_ways(attr).to(device, dtype)
        return data


def as_tensor(features: Matrix, dtype: torch.dtype) -> Tensor:
    """A matrix as a tensor; sparse where a product with it is faster or a dense one would be large."""
    if not sparse.issparse(features):
        return torch.from_numpy(np.ascontiguousarray(features)).to(dtype)
    size = math.prod(features.shape)
    if size < SIZE or (features.nnz > DENSITY * size and size < LARGE):
        return torch.from_numpy(features.toarray()).to(dtype)
    return to_tensor(features, dtype)


def _normalise(graph: Graph, kind: str) -> Any:
    """A, D⁻¹ A or D^−½ A D^−½, sorted by rows and columns."""
    row, col = graph.edge_index.astype(np.int64)
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.astype(np.float64)
    ends = (np.concatenate([row, col]), np.concatenate([col, row]))
    A = sparse.csr_array((np.concatenate([weight, weight]), ends), shape=(graph.num_nodes,) * 2)
    A.sort_indices()
    if kind == "plain":
        return A
    degree = A.sum(1)
    power = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    if kind == "mean":
        A.data *= np.repeat(power, np.diff(A.indptr))
    else:
        A.data *= np.sqrt(np.repeat(power, np.diff(A.indptr)) * power[A.indices])
    return A


def as_graph(estimator: Any, given: Any, edges: Any = None, *, reset: bool = False) -> Graph:
    """The graph of what was given.

    Args:
        estimator: remembers (`reset`), or has remembered, the number and the names of the features.
        given: a `Graph`; PyG's `Data`; a pair (x, edges); or a table of features `[n, F]`.
        edges: with a table: an edge index `[2, E]` or SciPy's sparse adjacency matrix `[n, n]`; none by
            default.
        reset: whether this is `fit`.
    """
    if isinstance(given, tuple) and len(given) == 2:
        given, edges = given
    if not _has_edges(given):
        return _table_graph(check_table(estimator, _to_numpy(given), reset), edges)
    graph = given if isinstance(given, Graph) else Graph.from_pyg(given)
    if edges is not None:
        raise GraphError("the graph has edges of its own; leave edges out, or give its features alone.")
    if graph.x is None:
        raise DataError(
            f"a model needs features of nodes; '{graph.name}' has none. Give it some, e.g. the degree "
            "of every node."
        )
    if reset:
        _remember_features(estimator, graph)
        return graph
    graph = _align_features(estimator, graph)
    count_features(estimator, graph.num_features, reset)
    return graph


def is_table(given: Any, edges: Any = None) -> bool:
    """Whether this is a plain table of features: no graph, no edges."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return edges is None and not is_pair and not _has_edges(given)


def dense_features(graph: Graph) -> NDArray[np.float64]:
    """The features, dense and in double precision."""
    x = graph.x.toarray() if sparse.issparse(graph.x) else graph.x
    return np.asarray(x, dtype=np.float64)


def _has_edges(given: Any) -> bool:
    return isinstance(given, Graph) or hasattr(given, "edge_index")


def _to_numpy(given: Any) -> Any:
    return given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given


def _table_graph(x: NDArray[np.float64], edges: Any) -> Graph:
    """A graph of the rows; merged and checked as every edge list is."""
    if sparse.issparse(edges):
        return replace(Graph.from_scipy(edges), x=x)
    if edges is None:
        return Graph("table", np.empty((2, 0), dtype=np.int64), len(x), x=x)
    from torch_geometric.data import Data

    index = np.array(_to_numpy(edges))
    if index.shape == (len(x), len(x)) and len(x) != 2:
        raise ShapeError(
            f"edges must be an edge index [2, E] or a sparse adjacency matrix; got a dense {index.shape}. "
            "Make it sparse: scipy.sparse.csr_array(edges)."
        )
    return replace(Graph.from_pyg(Data(edge_index=torch.from_numpy(index), num_nodes=len(x))), x=x)


def _remember_features(estimator: Any, graph: Graph) -> None:
    forget_feature_names(estimator)
    count_features(estimator, graph.num_features, reset=True)
    if graph.feature_names is not None:
        estimator.feature_names_in_ = np.array(graph.feature_names, dtype=object)


def _align_features(estimator: Any, graph: Graph) -> Graph:
    """The graph with its features in the order of `fit`, where both have names, which must be the same."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or graph.feature_names is None or tuple(names) == graph.feature_names:
        return graph
    column = {name: number for number, name in enumerate(graph.feature_names)}
    missing = [name for name in names if name not in column]
    extra = sorted(column.keys() - set(names))
    if missing or extra:
        raise DataError(
            f"the features must be those of fit; missing: {', '.join(missing) or 'none'}; unknown: "
            f"{', '.join(extra) or 'none'}. Give the graph the same columns."
        )
    return replace(graph, x=graph.x[:, [column[name] for name in names]], feature_names=tuple(names))


def as_data(graph: Graph, features: Scaling, edge_features: Scaling | None) -> Data:
    """PyG's `Data` with scaled features and both directions of every edge."""
    from torch_geometric.data import Data

    once = torch.from_numpy(graph.edge_index.astype(np.int64))
    data = Data(edge_index=torch.cat([once, once.flip(0)], 1), num_nodes=graph.num_nodes)
    data.x = torch.from_numpy(features.apply(dense_features(graph)))
    if graph.edge_weight is not None:
        data.edge_weight = _both_ways(graph.edge_weight)
    if graph.edge_attr is not None and edge_features is not None:
        data.edge_attr = _both_ways(edge_features.apply(graph.edge_attr.astype(np.float64)))
    return data


def edge_inputs(data: Data, has_weights: bool, edge_dim: int) -> dict[str, Tensor]:
    """What the model is given of the edges, which must carry what those of `fit` did."""
    if not data.num_edges:
        return {"edge_attr": data.x.new_zeros(0, edge_dim)} if edge_dim else {}
    if has_weights != (data.edge_weight is not None):
        wanted, came = ("with", "without") if has_weights else ("without", "with")
        raise DataError(
            f"the model was fitted {wanted} edge weights; this graph comes {came} them. Give it the same."
        )
    count = 0 if data.edge_attr is None else data.edge_attr.size(1)
    if edge_dim and count != edge_dim:
        raise DataError(
            f"the model was fitted with {edge_dim} edge features; this graph has {count}. Give it the same."
        )
    extra = {"edge_weight": data.edge_weight} if has_weights else {}
    return {**extra, "edge_attr": data.edge_attr} if edge_dim else extra


def _both_ways(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.concatenate([values, values]).astype(np.float64))
