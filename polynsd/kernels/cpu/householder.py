"""Products of reflections and their gradient on a CPU; see `ops/householder.py`."""

from functools import cache
from typing import Any

import numpy as np
import torch
from numba import carray

from polynsd.kernels.cpu.compile import COUNT, NUMBER, first, inlined, loop, replica
from polynsd.kernels.cpu.tiles import item


@cache
def product(dtype: torch.dtype, d: int) -> Any:
    """Q = H_1 … H_d. Tensors: numbers, Q. Sizes: n, shares."""
    like = NUMBER[dtype]

    @loop
    def share(task, k, tensors, sizes):
        count = item(sizes, COUNT)
        params = carray(replica(tensors, 0, 0, like), (count, d * (d - 1) // 2))
        out = carray(replica(tensors, 1, 0, like), (count, d, d))
        w = np.empty(d, out.dtype)
        for n in range(first(sizes, task), first(sizes, task + 1)):
            Q = out[n]
            Q[:] = 0
            for i in range(d):
                Q[i, i] = 1
            for step in range(d):
                tau = load_reflection(params[n], step, w)
                for i in range(d):
                    along = Q[i, step]
                    for j in range(step + 1, d):
                        along += Q[i, j] * w[j]
                    for j in range(step, d):
                        Q[i, j] -= tau * along * w[j]

    return share


@cache
def gradient(dtype: torch.dtype, d: int) -> Any:
    """∂w_k = −τ_k S_k w_k for k = d, …, 1. Tensors: numbers, Q, ∂Q, their gradient. Sizes: n, shares."""
    like = NUMBER[dtype]

    @loop
    def share(task, k, tensors, sizes):
        count = item(sizes, COUNT)
        params = carray(replica(tensors, 0, 0, like), (count, d * (d - 1) // 2))
        Q = carray(replica(tensors, 1, 0, like), (count, d, d))
        G = carray(replica(tensors, 2, 0, like), (count, d, d))
        out = carray(replica(tensors, 3, 0, like), (count, d * (d - 1) // 2))
        S, w, p = np.empty((d, d), Q.dtype), np.empty(d, Q.dtype), np.empty(d, Q.dtype)
        for n in range(first(sizes, task), first(sizes, task + 1)):
            fill_skew(S, Q[n], G[n])
            for step in range(d - 1, -1, -1):
                tau = load_reflection(params[n], step, w)
                turn(S, tau, w, p)
                for i in range(step + 1, d):
                    out[n, i * (i - 1) // 2 + step] = -tau * p[i]

    return share


@inlined
def load_reflection(params, step, w):
    """Fills w, column `step` of the identity plus the numbers below its diagonal; returns 2 / ‖w‖²."""
    w[:step] = 0
    w[step] = 1
    total = w[step]
    for i in range(step + 1, w.size):
        w[i] = params[i * (i - 1) // 2 + step]
        total += w[i] * w[i]
    return 2 / total


@inlined
def fill_skew(S, Q, G):
    """S = QᵀG − GᵀQ."""
    d = S.shape[0]
    for i in range(d):
        S[i, i] = 0
        for j in range(i):
            S[i, j] = 0
            for m in range(d):
                S[i, j] += Q[m, i] * G[m, j] - G[m, i] * Q[m, j]
            S[j, i] = -S[i, j]


@inlined
def turn(S, tau, w, p):
    """Fills p = S w and adds τ (w pᵀ − p wᵀ) to S."""
    for i in range(w.size):
        p[i] = 0
        for j in range(w.size):
            p[i] += S[i, j] * w[j]
    for i in range(w.size):
        for j in range(w.size):
            S[i, j] += tau * (w[i] * p[j] - p[i] * w[j])
