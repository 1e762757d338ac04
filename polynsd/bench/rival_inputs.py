"""A graph as the rivals of the estimator take it: treated features, neighbour means, tensors on a device."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch_geometric.utils import to_torch_csr_tensor

from polynsd.data import Graph
from polynsd.data.graph import Features
from polynsd.data.transforms import apply
from polynsd.optional import load_optional
from polynsd.training.task import get_task

DENSE = 0.25  # a product with a larger share of entries is not stored as sparse


class RivalInputs:
    """What is computed once is kept.

    Args:
        graph: with features, and the class labels of all nodes.
        metric: accuracy or roc_auc.
        device: where networks train.
    """

    def __init__(self, graph: Graph, metric: str, device: torch.device) -> None:
        assert graph.y is not None
        self.graph, self.task, self.device = graph, get_task(metric), device
        self.y = torch.tensor(graph.y)
        self._tensors: dict[str, Tensor] = {}
        self._components: dict[str, Features] = {}
        self._last_hops: tuple[tuple[str, int], Features] = ("", 0), None

    @cached_property
    def treatments(self) -> tuple[str, ...]:
        """Features as they are, rows of unit sum where no entry is negative, columns standardised."""
        rows = () if self.graph.x.min() < 0 else ("row-normalize",)
        return ("raw", *rows, "standardize")

    def tensor(self, treatment: str) -> Tensor:
        """Treated features on the device."""
        if treatment not in self._tensors:
            x = apply(treatment, self.graph).x
            self._tensors[treatment] = torch.tensor(_dense(x), device=self.device)
        return self._tensors[treatment]

    def hops(self, treatment: str, count: int) -> Features:
        """[X, PX, …, P^count X]; the last answer is kept, because it may be large."""
        if self._last_hops[0] != (treatment, count):
            self._last_hops = (treatment, count), self._compute_hops(treatment, count)
        return self._last_hops[1]

    def _compute_hops(self, treatment: str, count: int) -> Features:
        """Sparse while most entries are zero."""
        parts = [apply(treatment, self.graph).x]
        for _ in range(count):
            product = self.mean_matrix @ parts[-1]
            is_full = sparse.issparse(product) and product.nnz > DENSE * np.prod(product.shape)
            parts.append(product.toarray() if is_full else product)
        if all(sparse.issparse(part) for part in parts):
            return sparse.hstack(parts, format="csr")
        return np.hstack([_dense(part) for part in parts])

    def components(self, treatment: str, most: int) -> Features:
        """[X, PX], or so many principal components where it has more columns."""
        if treatment not in self._components:
            x = self.hops(treatment, 1)
            if x.shape[1] > most:
                decomposition = load_optional("sklearn.decomposition", "principal components need", "dev")
                x = decomposition.TruncatedSVD(min(most, min(x.shape) - 1), random_state=0).fit_transform(x)
            self._components[treatment] = _dense(x)
        return self._components[treatment]

    @cached_property
    def mean_matrix(self) -> Any:
        """P = D⁻¹A; a row of zeros where there is no neighbour."""
        edges, N = self._half_edges, self.graph.num_nodes
        A = sparse.csr_matrix((np.ones(edges.shape[1], dtype=np.float32), tuple(edges)), shape=(N, N))
        degree = np.maximum(np.diff(A.indptr), 1).astype(np.float32)
        return sparse.diags(1 / degree).tocsr() @ A

    @cached_property
    def edge_index(self) -> Tensor:
        return torch.from_numpy(self._half_edges).to(self.device)

    @cached_property
    def adjacency(self) -> Tensor:
        """The same as a sparse matrix, with which PyG keeps no message per edge."""
        size = (self.graph.num_nodes,) * 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch calls the format a beta version
            return to_torch_csr_tensor(self.edge_index, size=size)

    @property
    def _half_edges(self) -> NDArray[np.int64]:
        edges = self.graph.edge_index.astype(np.int64)
        return np.concatenate([edges, edges[::-1]], axis=1)


def _dense(x: Features) -> NDArray[np.float32]:
    dense: NDArray[np.float32] = x.toarray() if sparse.issparse(x) else x
    return dense
