"""Triton kernels for the parameters and features of replicas."""

import triton
import triton.language as tl

ANY = ["N", "F", "groups", "values_step", "z_step"]


@triton.jit
def _hash32(z):
    """The hash of `ops/training.py`, in 32 bits."""
    z = (z ^ (z >> 16)) * 0x7FEB352D
    z = (z ^ (z >> 15)) * 0x846CA68B
    return z ^ (z >> 16)


@triton.jit(do_not_specialize_on_alignment=["keys", "rates"])
def dropout(x, keys, rates, out, n, x_step, BLOCK: tl.constexpr):
    """out[i] = x[i] / (1 − rate) where hash(i, key) ≥ rate · 2³², or zero."""
    r = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key, rate = tl.load(keys + r).to(tl.uint32), tl.load(rates + r)
    bits = _hash32(_hash32(i.to(tl.uint32) ^ key) + key)
    keep = bits.to(tl.float64) >= rate * 4294967296.0
    scale = tl.where(rate < 1, 1 / tl.where(rate < 1, 1 - rate, 1.0), 0.0).to(out.dtype.element_ty)
    value = tl.load(x + r * x_step + i, mask=i < n, other=0)
    tl.store(out + r * n + i, tl.where(keep, value * scale, 0.0), mask=i < n)


@triton.jit(do_not_specialize=ANY)
def csr_product(
    rowptr, col, entry, values, z, out, N, F, values_step, z_step, groups,
    GROUP: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """out[v] = Σ values[entry[e]] z[col[e]] over the entries e of row v."""
    v, r = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    c, C = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C), groups * GROUP
    begin, end = tl.load(rowptr + v), tl.load(rowptr + v + 1)
    total = tl.zeros([BLOCK_E, BLOCK_C], out.dtype.element_ty)
    for start in range(begin, end, BLOCK_E):
        e = start + tl.arange(0, BLOCK_E)
        inside = e < end
        value = tl.load(
            values + r * values_step + tl.load(entry + e, mask=inside, other=0), mask=inside, other=0
        )
        source = tl.load(col + e, mask=inside, other=0).to(tl.int64)
        place = (r * z_step + source[:, None]) * C + c[None, :]
        total += value[:, None] * tl.load(z + place, mask=inside[:, None] & (c < C)[None, :], other=0)
    tl.store(out + (r * N + v) * C + c, tl.sum(total, 0), mask=c < C)


@triton.jit(do_not_specialize=["n"])
def adam(
    theta, gradient, mean, square, decay, scale, factors, n,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adam's step in place; numbers that are not constants would be rounded to float32."""
    r = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside, place = i < n, r * n + i
    kind = theta.dtype.element_ty
    step, correction = tl.load(factors + 2 * r).to(kind), tl.load(factors + 2 * r + 1).to(kind)
    old = tl.load(theta + place, mask=inside, other=0)
    g = tl.load(gradient + place, mask=inside, other=0) + tl.load(decay + place, mask=inside, other=0) * old
    m = BETA1 * tl.load(mean + place, mask=inside, other=0) + (1 - BETA1) * g
    v = BETA2 * tl.load(square + place, mask=inside, other=0) + (1 - BETA2) * g * g
    tl.store(mean + place, m, mask=inside)
    tl.store(square + place, v, mask=inside)
    step *= tl.load(scale + place, mask=inside, other=0)
    tl.store(theta + place, old - step * m / (tl.sqrt(v) * correction + EPSILON), mask=inside)


@triton.jit(do_not_specialize=["n"])
def copy_rows(target, source, wanted, n, BLOCK: tl.constexpr):
    """target[r] = source[r] where wanted[r]."""
    r = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < tl.where(tl.load(wanted + r) != 0, n, 0)
    tl.store(target + r * n + i, tl.load(source + r * n + i, mask=inside, other=0), mask=inside)
