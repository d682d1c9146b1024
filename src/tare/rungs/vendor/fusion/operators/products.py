"""Matrix products, which read their factors at any strides."""

from math import prod

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.operators.pointwise import Number, expression
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import Constant, Operand, Pointwise, Shape, TensorView, whole
from tare.rungs.vendor.lowering.plan import HALVES


@reads("mm", "bmm")
def product(reader: Reader, meta: Meta, self: Operand, mat2: Operand) -> Operand:
    return matrix_product(reader, meta.shape, reader.view(self), reader.view(mat2))


@reads("addmm", "baddbmm")
def sum_and_product(
    reader: Reader, meta: Meta, self: Operand, beta: Number = 1, alpha: Number = 1, **factors: Operand
) -> Operand:
    first, second = factors.values()
    result = matrix_product(reader, meta.shape, reader.view(first), reader.view(second))
    summands = {"first": times(reader, self, beta, meta.shape), "second": times(reader, result, alpha, meta.shape)}
    return expression(reader, meta, "{first} + {second}", **summands)


def times(reader: Reader, operand: Operand, factor: Number, shape: Shape) -> Operand:
    return (
        operand
        if factor == 1
        else reader.pointwise("{0} * {1}", [operand, Constant(float(factor), "f32")], shape, operand.dtype)
    )


@reads("mv", "dot", "vdot")
def vector_product(reader: Reader, meta: Meta, self: Operand, **other: Operand) -> Operand:
    (second,) = (reader.view(operand) for operand in other.values())
    first = reader.view(self)
    matrix = (
        first
        if len(first.shape) == 2
        else TensorView(first.tensor, (1, *first.shape), (0, *first.strides), first.offset)
    )
    column = TensorView(second.tensor, (*second.shape, 1), (*second.strides, 0), second.offset)
    return reader.reshape(matrix_product(reader, (matrix.shape[0], 1), matrix, column), meta.shape)


def matrix_product(reader: Reader, shape: Shape, a: TensorView, b: TensorView) -> TensorView:
    """Rows of a times columns of b, over leading dimensions that both share."""
    if a.dtype != b.dtype or a.dtype not in ("f32", *HALVES):
        raise Unsupported(f"a product of {a.dtype} and {b.dtype}")
    (a, a_factor), (b, b_factor) = _looked_through(a), _looked_through(b)
    if a.shape[:-2] != b.shape[:-2]:
        # One of them is a copy that only joined its dimensions; the other's can be divided likewise.
        longer = max(a.shape[:-2], b.shape[:-2], key=len)
        a, b = (_with_leading(reader, view, longer) for view in (a, b))
    a, b = _readable(reader, a), _readable(reader, b)
    leading, rows, columns = a.shape[:-2], a.shape[-2], b.shape[-1]
    attributes = {
        "m": rows, "n": columns, "k": a.shape[-1], "batch": list(leading), "alpha": a_factor * b_factor,
        "a_strides": list(a.strides), "a_offset": a.offset, "b_strides": list(b.strides), "b_offset": b.offset,
    }  # fmt: skip
    call = reader.call("matmul", {"a": a, "b": b}, {"y": ((*leading, rows, columns), a.dtype)}, **attributes)
    result = whole(call.results["y"]).reshape(shape)
    assert result is not None
    return result


def _looked_through(view: TensorView) -> tuple[TensorView, float]:
    """A factor of a product may be a tensor that was copied only to join dimensions, or multiplied by a number.
    The product reads that tensor itself, and multiplies its result."""
    factor = 1.0
    while isinstance(view.tensor, Pointwise) and (scaled := view.tensor.scaled) is not None:
        source, number = scaled
        through = _seen_through(view, source) or _seen_through(view, source, turned=True)
        if through is None:
            break
        view, factor = through, factor * number
    return view, factor


def _seen_through(view: TensorView, source: TensorView, turned: bool = False) -> TensorView | None:
    """The same matrices in the tensor that was copied, if the copy only joined dimensions in front of them."""
    if turned:
        last = len(view.shape) - 1
        inner = _seen_through(view.permute([*range(last - 1), last, last - 1]), source)
        last = len(source.shape) - 1
        return inner and inner.permute([*range(last - 1), last, last - 1])
    joins = len(source.shape) >= 2 and prod(source.shape[:-2]) == prod(view.shape[:-2])
    return source if view.is_linear and joins and source.shape[-2:] == view.shape[-2:] else None


def _with_leading(reader: Reader, view: TensorView, leading: Shape) -> TensorView:
    if view.shape[:-2] == leading:
        return view
    reshaped = reader.reshape(view, (*leading, *view.shape[-2:]))
    assert isinstance(reshaped, TensorView)
    return reshaped


def _readable(reader: Reader, view: TensorView) -> TensorView:
    """The library reads matrices whose rows or whose columns are contiguous."""
    (rows, columns), (row, column) = view.shape[-2:], view.strides[-2:]
    by_rows = (column == 1 or columns == 1) and (row >= columns or rows == 1)
    by_columns = (row == 1 or rows == 1) and (column >= rows or columns == 1)
    return view if by_rows or by_columns else reader.copy(view, view.shape)
