"""Loops over the parameters and features of replicas, on a CPU."""

# mypy: disable-error-code="misc, no-untyped-def, untyped-decorator"

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from numba import carray

from polynsd.kernels.cpu.compile import (
    COUNT,
    DOUBLE,
    INDEX,
    NUMBER,
    SHARES,
    first,
    first_node,
    inlined,
    loop,
    replica,
)
from polynsd.kernels.cpu.tiles import LANES, combine, item, load, store, zeros
from polynsd.kernels.ops.training import BETA1, BETA2, EPSILON

KEY, BYTE = np.int64(0), np.uint8(0)
FLOAT: Any = {torch.float32: np.float32, torch.float64: np.float64}


@inlined
def hash32(z):
    """The hash of `ops/training.py`, in 32 bits."""
    z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x7FEB352D))
    z = np.uint32((z ^ (z >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(z ^ (z >> np.uint32(16)))


@cache
def dropout(dtype: torch.dtype) -> Any:
    """Out[r, i] = x[r, i] / (1 − rate[r]) where hash(i, key[r]) ≥ rate[r] · 2³², or zero.

    Tensors: x, key, rate, out. Sizes: numbers in a row, shares.
    """
    like, kind = NUMBER[dtype], FLOAT[dtype]

    @loop
    def share(task, k, tensors, sizes):
        r, number = divmod(task, item(sizes, SHARES))
        n = item(sizes, COUNT)
        x, out = carray(replica(tensors, 0, r, like), n), carray(replica(tensors, 3, r, like), n)
        key, rate = np.uint32(item(replica(tensors, 1, r, KEY), 0)), item(replica(tensors, 2, r, DOUBLE), 0)
        limit = np.uint32(min(math.ceil(rate * 4294967296.0), 4294967295.0))
        scale = kind(1 / (1 - rate)) if rate < 1 else kind(0)
        for i in range(first(sizes, number), first(sizes, number + 1)):
            bits = hash32(np.uint32(hash32(np.uint32(i) ^ key) + key))
            out[i] = x[i] * scale if bits >= limit else kind(0)

    return share


@cache
def csr_product(dtype: torch.dtype, n: int) -> Any:
    """Out[r, v] = Σ values[r, entry[e]] z[r, col[e]] over the entries e of row v, n · LANES at a time.

    Tensors: rowptr, col, entry, values, z, out. Sizes: N, shares, C, F; C is a multiple of n · LANES.
    """
    like, one, rows = NUMBER[dtype], FLOAT[dtype](1), (0,) * n

    @loop
    def share(task, k, tensors, sizes):
        r, number = divmod(task, item(sizes, SHARES))
        rowptr, col = replica(tensors, 0, 0, INDEX), replica(tensors, 1, 0, INDEX)
        entry, values = replica(tensors, 2, 0, INDEX), replica(tensors, 3, r, like)
        z, out, C = replica(tensors, 4, r, like), replica(tensors, 5, r, like), item(sizes, 2)
        for v in range(first_node(rowptr, sizes, number), first_node(rowptr, sizes, number + 1)):
            for c in range(0, C, n * LANES):
                total = zeros(z, rows)
                for e in range(item(rowptr, v), item(rowptr, v + 1)):
                    value, source = item(values, item(entry, e)), load(z, item(col, e) * C + c, LANES, rows)
                    total = combine(value, source, one, total)
                store(out, v * C + c, LANES, total)

    return share


@cache
def adam(dtype: torch.dtype) -> Any:
    """Adam's step in place.

    Tensors: θ, gradient, m, v, decay, scale, factors. Sizes: P, shares.
    """
    like, kind = NUMBER[dtype], FLOAT[dtype]
    keep1, add1, keep2, add2, epsilon = (kind(b) for b in (BETA1, 1 - BETA1, BETA2, 1 - BETA2, EPSILON))

    @loop
    def share(task, k, tensors, sizes):
        r, number = divmod(task, item(sizes, SHARES))
        P = item(sizes, COUNT)
        theta, gradient = carray(replica(tensors, 0, r, like), P), carray(replica(tensors, 1, r, like), P)
        mean, square = carray(replica(tensors, 2, r, like), P), carray(replica(tensors, 3, r, like), P)
        decay, scale = carray(replica(tensors, 4, r, like), P), carray(replica(tensors, 5, r, like), P)
        factors = replica(tensors, 6, r, DOUBLE)
        step, correction = kind(item(factors, 0)), kind(item(factors, 1))
        for i in range(first(sizes, number), first(sizes, number + 1)):
            g = gradient[i] + decay[i] * theta[i]
            mean[i] = keep1 * mean[i] + add1 * g
            square[i] = keep2 * square[i] + add2 * g * g
            theta[i] -= step * scale[i] * mean[i] / (np.sqrt(square[i]) * correction + epsilon)

    return share


@cache
def copy_rows(dtype: torch.dtype) -> Any:
    """Target[r] = source[r] where wanted[r].

    Tensors: target, source, wanted. Sizes: P, shares.
    """
    like = NUMBER[dtype]

    @loop
    def share(task, k, tensors, sizes):
        r, number = divmod(task, item(sizes, SHARES))
        if not item(replica(tensors, 2, r, BYTE), 0):
            return
        P = item(sizes, COUNT)
        target, source = carray(replica(tensors, 0, r, like), P), carray(replica(tensors, 1, r, like), P)
        for i in range(first(sizes, number), first(sizes, number + 1)):
            target[i] = source[i]

    return share
