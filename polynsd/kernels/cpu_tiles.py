"""Tiles: small matrices that a compiled loop keeps in vector registers.

A tile is n rows of a signal in `LANES` channels, or a whole d × d block. Numba has no such type, and
loops over small arrays go through memory at every step; each operation below becomes n (or n²)
vector instructions, whatever the width of the machine's registers.

n is part of the type. A tuple of that length, such as `(0, 0)`, tells it to the compiler. A place
in an array is counted in elements from its start, and nothing is checked.
"""

# mypy: disable-error-code="import-untyped, misc"
# ruff: noqa: ANN001, ANN201, ANN202

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 16
FAST = ("contract", "reassoc", "nsz")  # NaN and infinity keep their meaning


class Tile(types.Type):
    """n rows of numbers."""

    def __init__(self, dtype, n: int, lanes: int = LANES) -> None:
        self.dtype, self.n, self.lanes = dtype, n, lanes
        super().__init__(f"Tile({dtype}, {n}, {lanes})")


@register_model(Tile)
class TileModel(models.PrimitiveModel):
    """An LLVM array of vectors."""

    def __init__(self, manager, tile: Tile) -> None:
        row = ir.VectorType(manager.lookup(tile.dtype).get_value_type(), tile.lanes)
        super().__init__(manager, tile, ir.ArrayType(row, tile.n))


@intrinsic
def zeros(typing, array, rows):
    """Rows of zeros, in the dtype of the array."""
    return Tile(array.dtype, len(rows))(array, rows), _zeros


@intrinsic
def zeros_like(typing, tile):
    """A tile of zeros."""
    return tile(tile), _zeros


@intrinsic
def load(typing, array, start, step, rows):
    """Row i = array[start + i step :][: LANES]."""

    def generate(context, builder, signature, args):
        array, start, step, _ = args
        places = _places(context, builder, signature, array, start, step, signature.return_type.n)
        return _packed(builder, [_load(builder, place, LANES) for place in places])

    return Tile(array.dtype, len(rows))(array, types.intp, types.intp, rows), generate


@intrinsic
def load_block(typing, array, start, down, across, size):
    """Entry (i, j) = array[start + i down + j across]; as many columns as rows."""

    def generate(context, builder, signature, args):
        array, start, down, across, _ = args
        d = signature.return_type.n
        rows = []
        for i in range(d):
            first = _moved(builder, start, down, i)
            row = ir.Constant(context.get_value_type(signature.return_type).element, ir.Undefined)
            for j, place in enumerate(_places(context, builder, signature, array, first, across, d)):
                row = builder.insert_element(row, builder.load(place), ir.IntType(32)(j))
            rows.append(row)
        return _packed(builder, rows)

    d = len(size)
    return Tile(array.dtype, d, d)(array, types.intp, types.intp, types.intp, size), generate


@intrinsic
def store(typing, array, start, step, tile):
    """array[start + i step :][: lanes] = row i."""

    def generate(context, builder, signature, args):
        array, start, step, tile = args
        rows = _rows(builder, tile)
        places = _places(context, builder, signature, array, start, step, len(rows))
        for place, row in zip(places, rows, strict=True):
            _store(builder, row, place)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, tile), generate


@intrinsic
def add_diagonal(typing, array, start, x, tile):
    """Row i + array[start + i] · row i of x."""

    def generate(context, builder, signature, args):
        array, start, x, tile = args
        rows = _rows(builder, tile)
        places = _places(context, builder, signature, array, start, start.type(1), len(rows))
        terms = zip(places, _rows(builder, x), rows, strict=True)
        return _packed(builder, [_add_scaled(builder, *term) for term in terms])

    return tile(array, types.intp, x, tile), generate


@intrinsic
def add_product(typing, array, start, down, across, x, tile):
    """Row i + Σ_j array[start + i down + j across] · row j of x."""

    def generate(context, builder, signature, args):
        array, start, down, across, x, tile = args
        rows, factors = _rows(builder, tile), _rows(builder, x)
        for i in range(len(rows)):
            first = _moved(builder, start, down, i)
            places = _places(context, builder, signature, array, first, across, len(factors))
            for place, factor in zip(places, factors, strict=True):
                rows[i] = _add_scaled(builder, place, factor, rows[i])
        return _packed(builder, rows)

    return tile(array, types.intp, types.intp, types.intp, x, tile), generate


@intrinsic
def add_dots(typing, array, start, scale, x, y):
    """array[start + i] += scale · ⟨row i of x, row i of y⟩."""

    def generate(context, builder, signature, args):
        array, start, scale, x, y = args
        (place,) = _places(context, builder, signature, array, start, start, 1)
        pairs = zip(_rows(builder, x), _rows(builder, y), strict=True)
        _add_sums(builder, place, scale, [builder.fmul(a, b, flags=FAST) for a, b in pairs])
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype, x, y), generate


@intrinsic
def add_outer(typing, array, start, step, scale, x, y):
    """array[start + i step + j] += scale · ⟨row i of x, row j of y⟩."""

    def generate(context, builder, signature, args):
        array, start, step, scale, x, y = args
        rows, others = _rows(builder, x), _rows(builder, y)
        places = _places(context, builder, signature, array, start, step, len(rows))
        for place, row in zip(places, rows, strict=True):
            _add_sums(builder, place, scale, [builder.fmul(row, other, flags=FAST) for other in others])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, array.dtype, x, y), generate


@intrinsic
def combine(typing, a, x, b, y):
    """The tile a x + b y of numbers a, b and tiles x, y."""

    def generate(context, builder, signature, args):
        a, x, b, y = args
        a, b = (_splat(builder, number, LANES) for number in (a, b))
        pairs = zip(_rows(builder, x), _rows(builder, y), strict=True)
        sums = [_multiply_add(builder, a, x, builder.fmul(b, y, flags=FAST)) for x, y in pairs]
        return _packed(builder, sums)

    return x(x.dtype, x, x.dtype, x), generate


@intrinsic
def dot(typing, x, y):
    """⟨x, y⟩ over rows and lanes."""

    def generate(context, builder, signature, args):
        total = ir.Constant(args[0].type.element, None)
        for a, b in zip(*(_rows(builder, tile) for tile in args), strict=True):
            total = _multiply_add(builder, a, b, total)
        return builder.extract_element(_sums(builder, [total]), ir.IntType(32)(0))

    return x.dtype(x, x), generate


def _zeros(context, builder, signature, args):
    return ir.Constant(context.get_value_type(signature.return_type), None)


def _places(context, builder, signature, array, start, step, count):
    """Pointers to array[start + i step], the array being the first argument."""
    data = context.make_array(signature.args[0])(context, builder, array).data
    return [builder.gep(data, [_moved(builder, start, step, i)]) for i in range(count)]


def _moved(builder, start, step, i):
    return builder.add(start, builder.mul(step, step.type(i))) if i else start


def _rows(builder, tile):
    return [builder.extract_value(tile, i) for i in range(tile.type.count)]


def _packed(builder, rows):
    tile = ir.Constant(ir.ArrayType(rows[0].type, len(rows)), ir.Undefined)
    for i, row in enumerate(rows):
        tile = builder.insert_value(tile, row, i)
    return tile


def _load(builder, place, lanes):
    element = place.type.pointee
    row = builder.load(builder.bitcast(place, ir.VectorType(element, lanes).as_pointer()))
    row.align = _bytes(element)
    return row


def _store(builder, row, place):
    stored = builder.store(row, builder.bitcast(place, row.type.as_pointer()))
    stored.align = _bytes(row.type.element)


def _bytes(element):
    return 4 if isinstance(element, ir.FloatType) else 8


def _splat(builder, number, lanes):
    empty = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    return _shuffle(builder, builder.insert_element(empty, number, ir.IntType(32)(0)), empty, [0] * lanes)


def _shuffle(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


def _multiply_add(builder, a, x, y):
    return builder.fadd(builder.fmul(a, x, flags=FAST), y, flags=FAST)


def _add_scaled(builder, place, x, y):
    return _multiply_add(builder, _splat(builder, builder.load(place), x.type.count), x, y)


def _add_sums(builder, place, scale, rows):
    """Adds scale · the sums of the rows to as many numbers from `place` on."""
    scale = _splat(builder, scale, len(rows))
    _store(
        builder, _multiply_add(builder, scale, _sums(builder, rows), _load(builder, place, len(rows))), place
    )


def _sums(builder, rows):
    """The sums of all rows as one vector: halves are added to halves, two rows at a time."""
    count, segments = len(rows), 1
    rows = rows + rows[:1] * (-count % 4 if count > 2 else 0)
    while len(rows) > 1:
        rows = [_folded(builder, a, b, segments) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        segments *= 2
    while rows[0].type.count > segments:
        rows = [_folded(builder, rows[0], None, segments)]
    return _shuffle(builder, rows[0], rows[0], list(range(count)))


def _folded(builder, a, b, segments):
    """Adds the upper half of each of the equal segments of a (and b) to the lower half."""
    lanes = range(a.type.count if b is None else 2 * a.type.count)
    size = a.type.count // segments
    lower = [lane for lane in lanes if lane % size < size // 2]
    upper = [lane for lane in lanes if lane % size >= size // 2]
    halves = (_shuffle(builder, a, a if b is None else b, half) for half in (lower, upper))
    return builder.fadd(*halves, flags=FAST)
