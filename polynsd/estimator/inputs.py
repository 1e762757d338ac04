"""`Inputs`: the graph as candidates see it, with treated features; `Scaling`: of edge features and targets.

Everything is computed in double precision, which makes a prediction independent of the order of nodes and of
other components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.data import Graph
from polynsd.errors import DataError, require_choice
from polynsd.estimator.features import STANDARD, FeatureTreatments, Matrix, Numbers
from polynsd.estimator.structure import describe_structure
from polynsd.fields import require_fields
from polynsd.nn.features import DENSITY, SIZE
from polynsd.sparse import to_tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data

KEPT = 2**22  # numbers up to which features are kept in every treatment
LARGE = 2**26  # entries from which on a dense tensor is avoided in any case


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x − mean) / scale, column by column."""

    mean: Numbers
    scale: Numbers

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

    def state(self) -> dict[str, Any]:
        """Plain data, from which `restore` makes it again."""
        return {"mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def restore(cls, data: Any) -> Scaling:
        """The scaling that `state` described."""
        require_fields(data, mean=float | list[float], scale=float | list[float])
        mean, scale = (np.array(data[name], dtype=np.float64) for name in ("mean", "scale"))
        if mean.shape != scale.shape:
            raise DataError("a scaling needs as many scales as means")
        return cls(mean, scale)

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
        places: `[N]` for every node its number in the graph of `fit`, −1 where it is none of its nodes; None
            where this is that graph.
    """

    def __init__(
        self,
        graph: Graph,
        treatments: FeatureTreatments,
        edge_scaling: Scaling | None = None,
        device: torch.device | str = "cpu",
        places: NDArray[np.int64] | None = None,
    ) -> None:
        self.graph, self.treatments, self.edge_scaling = graph, treatments, edge_scaling
        self.device, self.places = torch.device(device), places
        self._features: dict[str, Matrix] = {}
        self._adjacency: dict[str, Any] = {}
        self._data: dict[tuple[str, torch.device, torch.dtype], Data] = {}
        self._edges: dict[torch.device, Tensor] = {}

    def with_graph(self, graph: Graph) -> Inputs:
        """Another graph of the same nodes."""
        return Inputs(graph, self.treatments, self.edge_scaling, self.device, self.places)

    def carry_over(self, values: NDArray[Any], missing: Any) -> NDArray[Any]:
        """`[…, N]` from values `[…, n]` of the nodes of `fit`; `missing` of all others."""
        if self.places is None:
            return values
        carried = np.full((*values.shape[:-1], self.num_nodes), missing, dtype=values.dtype)
        is_known = self.places >= 0
        carried[..., is_known] = values[..., self.places[is_known]]
        return carried

    @property
    def num_nodes(self) -> int:
        return self.graph.num_nodes

    @property
    def num_features(self) -> int:
        """The number of columns of treated features."""
        return len(self.treatments.columns)

    @property
    def num_sparse(self) -> int:
        """How many of them, the first ones, are sparse."""
        return len(self.treatments.sparse)

    def features(self, treatment: str = STANDARD) -> Matrix:
        """Treated features `[N, num_features]` in double precision: a `csr_array` or an array."""
        if treatment not in self._features:
            self._make_room(self._features)
            self._features[treatment] = self.treatments.apply(self.graph.x, treatment)
        return self._features[treatment]

    def adjacency(self, kind: str) -> Any:
        """A `csr_array` `[N, N]` of the weighted graph without loops; the row of an isolated node is zero.

        Args:
            kind: `mean` (D⁻¹ A), `symmetric` (D^−½ A D^−½) or `plain` (A).
        """
        require_choice("kind of adjacency", kind, ("mean", "symmetric", "plain"))
        if kind not in self._adjacency:
            self._adjacency[kind] = make_adjacency(self.graph, kind)
        return self._adjacency[kind]

    @cached_property
    def structure(self) -> Numbers:
        """`[N, 4]` what the graph looks like around every node (`structure.py`)."""
        return describe_structure(self.adjacency("plain"))

    def data(
        self, treatment: str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Data:
        """PyG's `Data` with both directions of every edge; x is a sparse tensor where features are sparse."""
        device = torch.device(device)
        key = (treatment, device, dtype)
        if key not in self._data:
            self._make_room(self._data)
            self._data[key] = self._make_data(*key)
        return self._data[key]

    def _make_room(self, kept: dict[Any, Any]) -> None:
        """Of features that fill memory one treatment is kept at a time."""
        x = self.graph.x
        if (x.nnz if sparse.issparse(x) else x.size) > KEPT:
            kept.clear()

    def _make_data(self, treatment: str, device: torch.device, dtype: torch.dtype) -> Data:
        from torch_geometric.data import Data

        graph = self.graph
        if device not in self._edges:  # one tensor for all treatments, whose structure is found once
            once = torch.from_numpy(graph.edge_index.astype(np.int64))
            self._edges[device] = torch.cat([once, once.flip(0)], 1).to(device)
        data = Data(edge_index=self._edges[device], num_nodes=graph.num_nodes)
        x = as_tensor(self.features(treatment), dtype)
        data.x = (x.to_dense() if device.type == "mps" else x).to(device)  # where sparse tensors hardly exist
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


def make_adjacency(graph: Graph, kind: str) -> Any:
    """A, D⁻¹ A or D^−½ A D^−½, sorted by rows and columns: `plain`, `mean` or `symmetric`."""
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


def _both_ways(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.concatenate([values, values]).astype(np.float64))
