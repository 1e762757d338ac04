"""Laplacians of spectral graph learning, as operators that `PolynomialFilter` takes.

| function               | signal      | operator                                                          |
|------------------------|-------------|-------------------------------------------------------------------|
| `graph_laplacian`      | `[N, d, C]` | D − A                                                             |
| `connection_laplacian` | `[N, d, C]` | L_vv = deg_v I, L_vu = −O_vu, orthogonal matrices O_vu            |
| `magnetic_laplacian`   | `[N, 2, C]` | D_s − A_s ∘ exp(i 2πq (A − Aᵀ)) of a directed graph, in real form |
| `hodge_laplacian`      | `[E, 1, C]` | B₁ᵀB₁ + B₂B₂ᵀ on the edges                                        |

The first three are sheaf Laplacians, so they have normalisations (`sheaf` is D^{−1/2} L D^{−1/2}) and bounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from polynsd.errors import DataError, ShapeError
from polynsd.kernels.ops.batching import is_transformed
from polynsd.memo import TensorMemo, can_read_values
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.spectral.operator import SymmetricOperator
from polynsd.topology import Topology, as_topology, carried_weight

ORTHOGONAL = 1e-2  # by which entries of OᵀO may be off, for half precision too
_checked_transports = TensorMemo[None]()


def graph_laplacian(
    graph: Any,
    num_nodes: int | None = None,
    *,
    normalization: str = "none",
    edge_weight: Tensor | None = None,
    stalk_dim: int = 1,
    dtype: torch.dtype | None = None,
) -> SheafLaplacian:
    """D − A, the same on every coordinate of a signal `[N, stalk_dim, C]`.

    Args:
        graph: an `edge_index`, a `Topology`, or what else `as_topology` takes; weights that it carries are
            used.
        num_nodes: N, where isolated nodes come last.
        normalization: `none`, `sheaf` (I − D^{−1/2} A D^{−1/2}), `sheaf-augmented` or `degree`.
        edge_weight: one per column of `edge_index`, equal in both directions; per half-edge of a `Topology`.
        stalk_dim: d.
        dtype: of the operator.
    """
    topology, weight = _read_graph(graph, num_nodes, edge_weight)
    ones = torch.ones(topology.num_half_edges, 1, 1, dtype=dtype, device=topology.row.device)
    weight = None if weight is None else weight.to(ones.dtype)
    return SheafLaplacian(topology, ones, normalization, edge_weight=weight, stalk_dim=stalk_dim)


def _read_graph(
    graph: Any, num_nodes: int | None, edge_weight: Tensor | None
) -> tuple[Topology, Tensor | None]:
    """The graph and the weights of its half-edges, its own unless others are given."""
    topology = as_topology(graph, num_nodes)
    weight = carried_weight(graph) if edge_weight is None else edge_weight
    if weight is None or isinstance(graph, Topology):
        return topology, weight
    return topology, topology.symmetric_weight(weight.to(topology.row.device))


def connection_laplacian(
    graph: Any, transport: Tensor, num_nodes: int | None = None,
    *, normalization: str = "none", edge_weight: Tensor | None = None,
) -> SheafLaplacian:  # fmt: skip
    """L_vv = Σ_u w_vu I, L_vu = −w_vu O_vu; O_vu takes a signal at u into the frame of v, O_uv = O_vuᵀ.

    Args:
        graph: as in `graph_laplacian`.
        transport: `[..., E, d, d]` the orthogonal matrices O_vu of the edges v < u, in the order of
            `topology.first_half`; gradients reach them.
        num_nodes: N, where isolated nodes come last.
        normalization: as in `graph_laplacian`.
        edge_weight: as in `graph_laplacian`.
    """
    topology, weight = _read_graph(graph, num_nodes, edge_weight)
    if transport.dim() < 3 or transport.size(-3) != topology.num_edges:
        raise ShapeError(
            f"a connection has one matrix [d, d] for each of the {topology.num_edges} edges; got "
            f"{list(transport.shape)}."
        )
    if can_read_values() and not is_transformed():
        _checked_transports(transport, lambda: _check_orthogonal(transport.detach()))
    eye = torch.eye(transport.size(-1), dtype=transport.dtype, device=transport.device).expand_as(transport)
    # F_v = I at the lower node and F_u = O_vu at the upper one, so that F_vᵀ F_u = O_vu
    at_upper = (topology.row > topology.col)[:, None, None]
    per_edge = (transport.index_select(-3, topology.edge), eye.index_select(-3, topology.edge))
    maps = torch.where(at_upper, *per_edge)
    weight = None if weight is None else weight.to(maps.dtype)
    return SheafLaplacian(topology, maps, normalization, edge_weight=weight, orthogonal_columns=True)


def _check_orthogonal(transport: Tensor) -> None:
    """The bounds of the spectrum hold for orthogonal matrices alone."""
    eye = torch.eye(transport.size(-1), dtype=transport.dtype, device=transport.device)
    error = (transport.mT @ transport - eye).abs().amax((-2, -1))
    if not bool((error <= ORTHOGONAL).all()):
        edge = int(error.nan_to_num(torch.inf).flatten().argmax()) % max(transport.size(-3), 1)
        raise DataError(
            f"a connection must be orthogonal, OᵀO = I; at edge {edge} an entry is off by "
            f"{float(error.max()):.3g}. Make rotations of any matrices with torch.matrix_exp(raw - raw.mT)."
        )


def magnetic_laplacian(
    edge_index: Tensor, charge: Tensor | float = 0.25, num_nodes: int | None = None,
    *, normalization: str = "none", dtype: torch.dtype | None = None,
) -> SheafLaplacian:  # fmt: skip
    """D_s − A_s ∘ exp(iΘ) of a directed graph, with A_s = (A + Aᵀ) / 2 and Θ = 2πq (A − Aᵀ).

    A complex signal `[N, C]` is the real one `[N, 2, C]` of its real and imaginary parts; multiplication by
    exp(iθ) is a rotation by θ, so this is a connection Laplacian.

    Args:
        edge_index: `[2, E]` edges from source to target; A_vu = 1 for one from v to u.
        charge: q; gradients reach a tensor.
        num_nodes: N.
        normalization: as in `graph_laplacian`.
        dtype: of the operator, where the charge is a number.
    """
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        raise ShapeError(
            f"a magnetic Laplacian takes an edge_index [2, E] of directed edges, without weights; got "
            f"{type(edge_index).__name__}."
        )
    topology = as_topology(edge_index, num_nodes)
    charge = torch.as_tensor(charge, dtype=charge.dtype if isinstance(charge, Tensor) else dtype)
    charge = charge.to(topology.row.device)
    is_given = torch.zeros(topology.num_half_edges, dtype=charge.dtype, device=charge.device)
    is_given[topology.half_of_input[topology.half_of_input >= 0]] = 1.0  # A_uv at (v, u)
    backward, forward = is_given, is_given[topology.twin]
    theta = (2 * math.pi * charge * (forward - backward))[topology.first_half]
    cos, sin = theta.cos(), theta.sin()
    rotation = torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))
    weight = (forward + backward) / 2
    return connection_laplacian(topology, rotation, normalization=normalization, edge_weight=weight)


def hodge_laplacian(
    graph: Any, triangles: Tensor | None = None, dtype: torch.dtype | None = None
) -> SymmetricOperator:
    """B₁ᵀB₁ + B₂B₂ᵀ on signals `[E, 1, C]` of the edges v < u, in the order of `topology.first_half`.

    An edge points from its lower to its upper node. The images of B₁ᵀ and B₂ are orthogonal, so the bounds of
    both parts bound all: λ_max = max(2 max_v deg_v, 3 max_e t_e) with t_e triangles at the edge e.

    Args:
        graph: what `as_topology` takes.
        triangles: `[T, 3]` nodes of the triangles that are filled; all of the graph unless given.
        dtype: of the operator.
    """
    topology = as_topology(graph)
    v, u = (ends[topology.first_half].cpu().numpy() for ends in (topology.row, topology.col))
    N, E = topology.num_nodes, topology.num_edges
    key = v * N + u  # ascends
    filled = _find_triangles(v, u, N) if triangles is None else np.sort(triangles.cpu().numpy(), -1)
    a, b, c = filled.reshape(-1, 3).T
    sides = [np.searchsorted(key, low * N + high) for low, high in ((a, b), (b, c), (a, c))]
    for side, (low, high) in zip(sides, ((a, b), (b, c), (a, c)), strict=True):
        if len(side) and not (E and np.array_equal(key[side.clip(max=E - 1)], low * N + high)):
            raise ShapeError(
                "a triangle has a side that is no edge of the graph; give triangles of its edges."
            )
    edges, faces = np.arange(E), np.arange(len(filled))
    B1 = _signed_incidence([(v, -1), (u, 1)], edges, N)
    B2 = _signed_incidence(list(zip(sides, (1, 1, -1), strict=True)), faces, E)
    counts = np.bincount(np.concatenate(sides), minlength=1)
    bound = max(2 * int(topology.degree.max()) if N else 0, 3 * int(counts.max()))
    L = csr_array(B1.T @ B1 + B2 @ B2.T)
    return SymmetricOperator.from_matrix(L, float(bound), dtype, topology.row.device)


def _signed_incidence(parts: list[tuple[NDArray[Any], int]], col: NDArray[Any], rows: int) -> csr_array:
    """The matrix with these signs at (row, col) of every part."""
    signs = np.concatenate([np.full(len(row), float(sign)) for row, sign in parts])
    index = np.concatenate([row for row, _ in parts]), np.tile(col, len(parts))
    return coo_array((signs, index), shape=(rows, len(col))).tocsr()


def _find_triangles(v: NDArray[Any], u: NDArray[Any], N: int) -> NDArray[Any]:
    """[T, 3] nodes a < b < c of all triangles: edges (a, b), then edges (b, c) with an edge (a, c)."""
    first = np.searchsorted(v, np.arange(N + 1))  # of the edges with lower node v
    above = np.diff(first)[u]
    a, b = np.repeat(v, above), np.repeat(u, above)
    step = np.arange(len(a)) - np.repeat(np.cumsum(above) - above, above)
    c = u[first[b] + step]
    return np.stack([a, b, c], -1)[np.isin(a * N + c, v * N + u)]
