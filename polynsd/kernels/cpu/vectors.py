"""Vectors of numbers in LLVM: what the operations on tiles are made of."""

# mypy: disable-error-code="import-untyped, no-untyped-def"
# ruff: noqa: ANN001, ANN201, ANN202

from llvmlite import ir
from numba.core import cgutils

LINE = 64  # bytes of a cache line
FAST = ("contract", "reassoc", "nsz")  # NaN and infinity keep their meaning


def places(builder, data, start, step, count):
    """Pointers to data[start + i step]."""
    return [builder.gep(data, [moved(builder, start, step, i)]) for i in range(count)]


def moved(builder, start, step, i):
    """Start + i step."""
    return builder.add(start, builder.mul(step, step.type(i))) if i else start


def rows(builder, tile):
    """The vectors of a tile."""
    return [builder.extract_value(tile, i) for i in range(tile.type.count)]


def tile(builder, rows):
    """The tile of vectors."""
    whole = ir.Constant(ir.ArrayType(rows[0].type, len(rows)), ir.Undefined)
    for i, row in enumerate(rows):
        whole = builder.insert_value(whole, row, i)
    return whole


def load(builder, place, lanes):
    """As many numbers from a place on."""
    vector = ir.VectorType(place.type.pointee, lanes)
    row = builder.load(builder.bitcast(place, vector.as_pointer()))
    row.align = _bytes(vector.element)
    return row


def prefetch(builder, place, lanes):
    """Asks for the cache lines of as many numbers."""
    pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [pointer] + 3 * [integer])
    function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
    per_line = LINE // _bytes(place.type.pointee)
    for first in range(0, lanes, per_line):
        line = builder.bitcast(builder.gep(place, [integer(first)]), pointer)
        builder.call(function, [line, integer(0), integer(3), integer(1)])  # to read, to keep, data


def store(builder, row, place):
    """Writes a vector to a place, which need not be aligned."""
    builder.store(row, builder.bitcast(place, row.type.as_pointer())).align = _bytes(row.type.element)


def join(builder, numbers):
    """The vector of numbers."""
    row = ir.Constant(ir.VectorType(numbers[0].type, len(numbers)), ir.Undefined)
    for j, number in enumerate(numbers):
        row = builder.insert_element(row, number, ir.IntType(32)(j))
    return row


def splat(builder, number, lanes):
    """The vector that has the number in every lane."""
    return _shuffled(builder, join(builder, [number]), None, [0] * lanes)


def multiply_add(builder, a, x, y):
    """A x + y."""
    return builder.fadd(builder.fmul(a, x, flags=FAST), y, flags=FAST)


def add_scaled(builder, place, x, y):
    """The number at a place times x, plus y."""
    return multiply_add(builder, splat(builder, builder.load(place), x.type.count), x, y)


def add_sums(builder, place, scale, rows):
    """Adds scale · the sums of the rows to as many numbers from a place on."""
    old, scale = load(builder, place, len(rows)), splat(builder, scale, len(rows))
    store(builder, multiply_add(builder, scale, sums(builder, rows), old), place)


def sums(builder, rows):
    """The sums of all rows as one vector: halves are added to halves, two rows at a time."""
    count, segments = len(rows), 1
    rows = rows + rows[:1] * (-count % 4 if count > 2 else 0)
    while len(rows) > 1:
        rows = [_folded(builder, a, b, segments) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        segments *= 2
    while rows[0].type.count > segments:
        rows = [_folded(builder, rows[0], None, segments)]
    return _shuffled(builder, rows[0], None, range(count))


def _folded(builder, a, b, segments):
    """Adds the upper half of each of the equal segments of a (and b) to the lower half."""
    lanes = range(a.type.count if b is None else 2 * a.type.count)
    size = a.type.count // segments
    lower = [lane for lane in lanes if lane % size < size // 2]
    upper = [lane for lane in lanes if lane % size >= size // 2]
    return builder.fadd(*(_shuffled(builder, a, b, half) for half in (lower, upper)), flags=FAST)


def _shuffled(builder, a, b, lanes):
    """The given lanes of a, followed by those of b."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
    return builder.shuffle_vector(a, ir.Constant(a.type, ir.Undefined) if b is None else b, mask)


def _bytes(element):
    return 4 if isinstance(element, ir.FloatType) else 8
