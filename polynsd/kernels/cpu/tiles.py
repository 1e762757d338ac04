"""Tiles: small matrices that a compiled loop keeps in vector registers.

A tile is n rows of a signal in `LANES` channels, or a whole d × d block. Numba has no such type, and
loops over small arrays go through memory at every step; each operation below becomes n (or n²)
vector instructions, whatever the width of the machine's registers.

n is part of the type. A tuple of that length, such as `(0, 0)`, tells it to the compiler. Tensors
are bare pointers, because Numba compiles them much faster than arrays; nothing is checked.
"""

# mypy: disable-error-code="import-untyped, misc"
# ruff: noqa: ANN001, ANN201, ANN202

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from polynsd.kernels.cpu import vectors
from polynsd.kernels.cpu.vectors import FAST

LANES = 16


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
def pointer(typing, address, like):
    """To numbers of the type of `like`."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(types.intp, like), generate


@intrinsic
def item(typing, data, index):
    """data[index]."""

    def generate(context, builder, signature, args):
        return builder.load(builder.gep(args[0], [args[1]]))

    return data.dtype(data, types.intp), generate


@intrinsic
def add_item(typing, data, index, value):
    """data[index] += value."""

    def generate(context, builder, signature, args):
        place = builder.gep(args[0], [args[1]])
        builder.store(builder.fadd(builder.load(place), args[2]), place)
        return context.get_dummy_value()

    return types.void(data, types.intp, data.dtype), generate


@intrinsic
def zeros(typing, data, rows):
    """Rows of zeros, of the type of the data."""
    return Tile(data.dtype, len(rows))(data, rows), _zeros


@intrinsic
def zeros_like(typing, tile):
    """A tile of zeros."""
    return tile(tile), _zeros


def _zeros(context, builder, signature, args):
    return ir.Constant(context.get_value_type(signature.return_type), None)


@intrinsic
def load(typing, data, start, step, rows):
    """Row i = data[start + i step :][: LANES]."""

    def generate(context, builder, signature, args):
        data, start, step, _ = args
        places = vectors.places(builder, data, start, step, signature.return_type.n)
        return vectors.tile(builder, [vectors.load(builder, place, LANES) for place in places])

    return Tile(data.dtype, len(rows))(data, types.intp, types.intp, rows), generate


@intrinsic
def prefetch(typing, data, start, step, rows):
    """Asks for the cache lines of a tile that is soon to be loaded."""

    def generate(context, builder, signature, args):
        data, start, step, rows = args
        for place in vectors.places(builder, data, start, step, rows.type.count):
            vectors.prefetch(builder, place, LANES)
        return context.get_dummy_value()

    return types.void(data, types.intp, types.intp, rows), generate


@intrinsic
def load_block(typing, data, start, down, across, size):
    """Entry (i, j) = data[start + i down + j across]; as many columns as rows."""

    def generate(context, builder, signature, args):
        data, start, down, across, _ = args
        rows = []
        for i in range(signature.return_type.n):
            first = vectors.moved(builder, start, down, i)
            places = vectors.places(builder, data, first, across, signature.return_type.lanes)
            rows.append(vectors.join(builder, [builder.load(place) for place in places]))
        return vectors.tile(builder, rows)

    block = Tile(data.dtype, len(size), len(size))
    return block(data, types.intp, types.intp, types.intp, size), generate


@intrinsic
def store(typing, data, start, step, tile):
    """data[start + i step :][: lanes] = row i."""

    def generate(context, builder, signature, args):
        data, start, step, tile = args
        rows = vectors.rows(builder, tile)
        for place, row in zip(vectors.places(builder, data, start, step, len(rows)), rows, strict=True):
            vectors.store(builder, row, place)
        return context.get_dummy_value()

    return types.void(data, types.intp, types.intp, tile), generate


@intrinsic
def add_diagonal(typing, data, start, x, tile):
    """Row i + data[start + i] · row i of x."""

    def generate(context, builder, signature, args):
        data, start, x, tile = args
        rows = vectors.rows(builder, tile)
        places = vectors.places(builder, data, start, start.type(1), len(rows))
        terms = zip(places, vectors.rows(builder, x), rows, strict=True)
        return vectors.tile(builder, [vectors.add_scaled(builder, *term) for term in terms])

    return tile(data, types.intp, x, tile), generate


@intrinsic
def add_product(typing, data, start, down, across, x, tile):
    """Row i + Σ_j data[start + i down + j across] · row j of x."""

    def generate(context, builder, signature, args):
        data, start, down, across, x, tile = args
        rows, factors = vectors.rows(builder, tile), vectors.rows(builder, x)
        for i in range(len(rows)):
            first = vectors.moved(builder, start, down, i)
            places = vectors.places(builder, data, first, across, len(factors))
            for place, factor in zip(places, factors, strict=True):
                rows[i] = vectors.add_scaled(builder, place, factor, rows[i])
        return vectors.tile(builder, rows)

    return tile(data, types.intp, types.intp, types.intp, x, tile), generate


@intrinsic
def add_dots(typing, data, start, scale, x, y):
    """data[start + i] += scale · ⟨row i of x, row i of y⟩."""

    def generate(context, builder, signature, args):
        data, start, scale, x, y = args
        pairs = zip(vectors.rows(builder, x), vectors.rows(builder, y), strict=True)
        products = [builder.fmul(a, b, flags=FAST) for a, b in pairs]
        vectors.add_sums(builder, builder.gep(data, [start]), scale, products)
        return context.get_dummy_value()

    return types.void(data, types.intp, data.dtype, x, y), generate


@intrinsic
def add_outer(typing, data, start, step, scale, x, y):
    """data[start + i step + j] += scale · ⟨row i of x, row j of y⟩."""

    def generate(context, builder, signature, args):
        data, start, step, scale, x, y = args
        rows, others = vectors.rows(builder, x), vectors.rows(builder, y)
        places = vectors.places(builder, data, start, step, len(rows))
        for place, row in zip(places, rows, strict=True):
            products = [builder.fmul(row, other, flags=FAST) for other in others]
            vectors.add_sums(builder, place, scale, products)
        return context.get_dummy_value()

    return types.void(data, types.intp, types.intp, data.dtype, x, y), generate


@intrinsic
def combine(typing, a, x, b, y):
    """The tile a x + b y of numbers a, b and tiles x, y."""

    def generate(context, builder, signature, args):
        a, b = (vectors.splat(builder, number, LANES) for number in args[::2])
        pairs = zip(*(vectors.rows(builder, tile) for tile in args[1::2]), strict=True)
        scaled = [(x, builder.fmul(b, y, flags=FAST)) for x, y in pairs]
        return vectors.tile(builder, [vectors.multiply_add(builder, a, x, y) for x, y in scaled])

    return x(x.dtype, x, x.dtype, x), generate


@intrinsic
def dot(typing, x, y):
    """⟨x, y⟩ over rows and lanes."""

    def generate(context, builder, signature, args):
        total = ir.Constant(args[0].type.element, None)
        for a, b in zip(*(vectors.rows(builder, tile) for tile in args), strict=True):
            total = vectors.multiply_add(builder, a, b, total)
        return builder.extract_element(vectors.sums(builder, [total]), ir.IntType(32)(0))

    return x.dtype(x, x), generate
