"""`ConnNSD`: sheaf diffusion along a connection that the features give, not a learner.

The connection aligns tangent spaces, found by local PCA, along the edges:

    O_v  = first d left singular vectors of [x_u − x_v]_u          (u: the neighbours of v)
    O_vu = U Vᵀ, where O_vᵀ O_u = U Σ Vᵀ                            (takes a signal at u into the frame of v)

A node with fewer than d neighbours borrows the nearest other nodes. Nothing is learned, so a connection
is found once per (x, graph), in float64 on the CPU, where many small decompositions are fast.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import ConfigError
from polynsd.memo import TensorMemo
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sparse import require_dense
from polynsd.topology import Topology
from polynsd.zoo.sheaf import SheafModel, nsd_layer

BATCH_SIZE = 2**24  # numbers in memory for one batch of decompositions
SHARP = 1e-5  # of the largest eigenvalue; above it eigenvectors of a Gram matrix have ten digits


class ConnNSD(SheafModel):
    """x⁺ = (1 + tanh ε) x − φ(L (I ⊗ W₁) dropout(x) W₂), L the connection Laplacian (Barbero et al., 2022).

    `in_channels` must be at least `stalk_dim`; the connection sees all features, also with `input_dropout`.
    The arguments are those of `SheafModel`; d is the dimension of the local tangent spaces.
    """

    def make_layer(self) -> nn.Module:
        return nsd_layer(self)

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        L = connection_laplacian(x, topology, self.stalk_dim)
        for layer in self.layers:
            state = layer.diffuse(state, L)
        return state


@cache
def _laplacians(d: int) -> TensorMemo[SheafLaplacian]:
    """By features; a memo for each d, so that a search over d finds a connection once."""
    return TensorMemo()


def connection_laplacian(x: Tensor, topology: Topology, d: int) -> SheafLaplacian:
    """(D + I)^{−1/2} L (D + I)^{−1/2} with L_vv = deg(v) I and L_vu = −O_vu."""
    if x.size(-1) < d:
        raise ConfigError(
            f"a frame of stalk_dim={d} directions needs at least {d} features; got {x.size(-1)}. "
            "Use a smaller stalk_dim."
        )

    def find() -> SheafLaplacian:
        return SheafLaplacian(topology, connection_maps(x, topology, d), orthogonal_columns=True)

    return _laplacians(d)(x, find, topology)


@torch.no_grad()
def connection_maps(x: Tensor, topology: Topology, d: int) -> Tensor:
    """[H, d, d] restriction maps with F_vᵀ F_u = O_vu: I at the lower node, O_vu at the upper one."""
    require_dense(x)
    features = x.detach().double().cpu()
    rowptr, col, first = (t.cpu() for t in (topology.rowptr, topology.col, topology.first_half))
    frames = local_frames(features, rowptr, col, d)
    aligned = alignment(frames, topology.row.cpu()[first], col[first])
    maps = torch.eye(d, dtype=features.dtype).repeat(len(col), 1, 1)
    maps[topology.twin.cpu()[first]] = aligned
    return maps.to(x)


def local_frames(x: Tensor, rowptr: Tensor, col: Tensor, d: int) -> Tensor:
    """[N, F, d] the frames O_v; isolated nodes, which nobody aligns with, have none."""
    N, width = x.shape
    degree, frames = rowptr.diff(), x.new_zeros(N, width, d)
    for n in degree[degree > 0].unique().tolist():  # nodes of one degree make a batch
        borrowed = max(0, min(d, N - 1) - n)
        size = width * max(n, d) + (N if borrowed else 0)
        for nodes in (degree == n).nonzero().squeeze(-1).split(max(1, BATCH_SIZE // size)):
            around = col[rowptr[nodes, None] + torch.arange(n)]
            if borrowed:
                around = torch.cat([around, nearest(x, nodes, around, borrowed)], -1)
            frames[nodes] = principal_directions(x[around] - x[nodes, None], d)
    return frames


def nearest(x: Tensor, nodes: Tensor, around: Tensor, count: int) -> Tensor:
    """[n, count] the nodes closest to each of the given ones, besides itself and those around it."""
    distance = torch.cdist(x[nodes], x)
    distance.scatter_(1, torch.cat([nodes[:, None], around], -1), torch.inf)
    return distance.topk(count, largest=False).indices


def principal_directions(differences: Tensor, d: int) -> Tensor:
    """[n, m, F] → [n, F, d] leading left singular vectors; the largest entry of each is positive."""
    lacking = max(0, d - differences.size(-2))  # in a graph of fewer than d + 1 nodes
    rows = functional.pad(differences, (0, 0, 0, lacking))
    squares, V = torch.linalg.eigh(rows @ rows.mT)  # of few neighbours, faster than singular vectors
    squares, V = squares[..., -d:].flip(-1), V[..., -d:].flip(-1)
    U = rows.mT @ (V * squares.clamp(min=torch.finfo(rows.dtype).tiny).rsqrt().unsqueeze(-2))
    blurred = squares[..., -1] <= SHARP * squares[..., 0]
    if bool(blurred.any()):
        U[blurred] = torch.linalg.svd(rows[blurred].mT, full_matrices=False).U[..., :d]
    peak = U.gather(-2, U.abs().argmax(-2, keepdim=True))
    return torch.where(peak < 0, -U, U)


def alignment(frames: Tensor, v: Tensor, u: Tensor) -> Tensor:
    """[E, d, d] the orthogonal matrices O_vu closest to O_vᵀ O_u."""
    size = max(1, BATCH_SIZE // (2 * frames[0].numel()))
    overlaps = [frames[a].mT @ frames[b] for a, b in zip(v.split(size), u.split(size), strict=True)]
    U, _, Vh = torch.linalg.svd(torch.cat(overlaps))
    return U @ Vh
