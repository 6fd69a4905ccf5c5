"""StableHLO text of operations that take sizes (broadcast, reshape, slice, pad, iota), fixed or symbolic.

A module with symbolic sizes passes the values of its dimension variables to each of its functions, as leading
arguments. XLA compiles it once these values are known: sizes become constants again, and each operation here gets its
fixed form.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from effx import dtypes
from effx.errors import NoRuleError
from effx.ir.program import Scalar
from effx.ir.sizes.dimensions import has_symbolic, is_symbolic
from effx.ir.sizes.evaluation import evaluate
from effx.ir.types import ArrayType, array_type


class _SizedModule(Protocol):
    variables: tuple[str, ...]


class SizeWriter(Protocol):
    """The interface of a function under construction; see `effx.lower.text.emit`."""

    sizes: dict[int, str]

    @property
    def module(self) -> _SizedModule:
        """The module, whose dimension variables have names here."""
        ...

    def line(self, text: str, results: int = 1) -> str:
        """Writes a line and returns the name of what it defines."""
        ...

    def constant(self, value: Scalar, t: ArrayType) -> str:
        """Returns the name of a constant."""
        ...


INDEX = array_type(dtypes.int32)
Operate = Callable[[str, str, str], str]


def integer_list(values: Sequence[int]) -> str:
    """Returns `[1, 2]`."""
    if has_symbolic(values):
        raise NoRuleError(f"lower: a form that takes symbolic sizes is missing here: {list(values)}")
    return f"[{', '.join(map(str, values))}]"


def variable_name(number: int) -> str:
    """Returns the name of a dimension variable's value in each function."""
    return f"%dim{number}"


def write_size(body: SizeWriter, n: int) -> str:
    """Writes a size as an i32 scalar, once for each function or region, and returns its name."""
    if not is_symbolic(n):
        return body.constant(n, INDEX)
    name = body.sizes.get(n)
    if name is None:
        names = {v: variable_name(i) for i, v in enumerate(body.module.variables)}
        name = body.sizes[n] = evaluate(n, names, lambda c: body.constant(c, INDEX), _size_operation(body))
    return name


def _size_operation(body: SizeWriter) -> Operate:
    def operate(function: str, x: str, y: str) -> str:
        def line(operation: str, a: str, b: str) -> str:
            return body.line(f"stablehlo.{operation} {a}, {b} : {INDEX.mlir}")

        match function:
            case "add":
                return line("add", x, y)
            case "mul":
                return line("multiply", x, y)
            case "max":
                return line("maximum", x, y)
            case "min":
                return line("minimum", x, y)
        # The remainder that has the divisor's sign.
        rest = line("remainder", line("add", line("remainder", x, y), y), y)
        return rest if function == "mod" else line("divide", line("subtract", x, rest), y)

    return operate


def write_sizes(body: SizeWriter, shape: Sequence[int]) -> tuple[str, ArrayType]:
    """Writes sizes as a vector of i32; returns its name and type."""
    t = array_type(dtypes.int32, (len(shape),))
    if not has_symbolic(shape):
        return body.line(f"stablehlo.constant dense<{integer_list(shape) if shape else '[]'}> : {t.mlir}"), t
    one = array_type(dtypes.int32, (1,)).mlir
    parts = [body.line(f"stablehlo.reshape {write_size(body, n)} : ({INDEX.mlir}) -> {one}") for n in shape]
    if len(parts) == 1:
        return parts[0], t
    kinds = ", ".join([one] * len(parts))
    return body.line(f"stablehlo.concatenate {', '.join(parts)}, dim = 0 : ({kinds}) -> {t.mlir}"), t


def broadcast_in_dim(body: SizeWriter, x: str, t: ArrayType, out: ArrayType, dims: Sequence[int]) -> str:
    """Writes x broadcast along new axes and along axes of size 1."""
    if not has_symbolic(out.shape):
        return body.line(
            f"stablehlo.broadcast_in_dim {x}, dims = {integer_list(dims)} : ({t.mlir}) -> {out.mlir}"
        )
    shape, s = write_sizes(body, out.shape)
    return body.line(
        f"stablehlo.dynamic_broadcast_in_dim {x}, {shape}, dims = {integer_list(dims)} : ({t.mlir}, {s.mlir}) -> {out.mlir}"
    )


def reshape(body: SizeWriter, x: str, t: ArrayType, out: ArrayType) -> str:
    """Writes a reshape; none where the shape is the same."""
    if t.shape == out.shape:
        return x
    if not has_symbolic(out.shape):
        return body.line(f"stablehlo.reshape {x} : ({t.mlir}) -> {out.mlir}")
    shape, s = write_sizes(body, out.shape)
    return body.line(f"stablehlo.dynamic_reshape {x}, {shape} : ({t.mlir}, {s.mlir}) -> {out.mlir}")


def iota(body: SizeWriter, t: ArrayType, axis: int) -> str:
    """Writes 0, 1, 2, … along an axis."""
    if not has_symbolic(t.shape):
        return body.line(f"stablehlo.iota dim = {axis} : {t.mlir}")
    shape, s = write_sizes(body, t.shape)
    return body.line(f"stablehlo.dynamic_iota {shape}, dim = {axis} : ({s.mlir}) -> {t.mlir}")


def static_slice(
    body: SizeWriter,
    x: str,
    t: ArrayType,
    out: ArrayType,
    *,
    start: Sequence[int],
    limit: Sequence[int],
    strides: Sequence[int],
) -> str:
    """Writes the elements from start to limit in steps."""
    if not has_symbolic((*t.shape, *start, *limit, *strides)):
        ranges = ", ".join(
            [f"{a}:{b}" if k == 1 else f"{a}:{b}:{k}" for a, b, k in zip(start, limit, strides, strict=True)]
        )
        return body.line(f"stablehlo.slice {x} [{ranges}] : ({t.mlir}) -> {out.mlir}")
    vectors = [write_sizes(body, values) for values in (start, limit, strides)]
    names, kinds = ", ".join([n for n, _ in vectors]), ", ".join([s.mlir for _, s in vectors])
    return body.line(f"stablehlo.real_dynamic_slice {x}, {names} : ({t.mlir}, {kinds}) -> {out.mlir}")


def dynamic_slice(
    body: SizeWriter, x: str, t: ArrayType, starts: Sequence[tuple[str, ArrayType]], out: ArrayType
) -> str:
    """Writes a block of a size at computed starts, which are clamped so that it fits."""
    names, kinds = [n for n, _ in starts], [s.mlir for _, s in starts]
    if not has_symbolic(out.shape):
        operands, types = ", ".join([x, *names]), ", ".join([t.mlir, *kinds])
        return body.line(
            f"stablehlo.dynamic_slice {operands}, sizes = {integer_list(out.shape)} : ({types}) -> {out.mlir}"
        )
    # A gather of one block. Its starts are clamped as well, and its sizes are an operand.
    one, vector = array_type(starts[0][1].dtype, (1,)), array_type(starts[0][1].dtype, (t.ndim,))
    parts = [
        body.line(f"stablehlo.reshape {n} : ({s}) -> {one.mlir}") for n, s in zip(names, kinds, strict=True)
    ]
    at = parts[0]
    if len(parts) > 1:
        at = body.line(
            f"stablehlo.concatenate {', '.join(parts)}, dim = 0 : ({', '.join([one.mlir] * len(parts))}) -> {vector.mlir}"
        )
    shape, s = write_sizes(body, out.shape)
    axes = integer_list(range(t.ndim))
    return body.line(
        f'"stablehlo.dynamic_gather"({x}, {at}, {shape}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {axes}, '
        f"start_index_map = {axes}, index_vector_dim = 0>, indices_are_sorted = true}}> "
        f": ({t.mlir}, {vector.mlir}, {s.mlir}) -> {out.mlir}"
    )


def pad(
    body: SizeWriter,
    x: str,
    t: ArrayType,
    value: str,
    out: ArrayType,
    *,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> str:
    """Writes x with elements of a value at the edges and between."""
    scalar = array_type(t.dtype).mlir
    if not has_symbolic((*low, *high, *interior)):
        return body.line(
            f"stablehlo.pad {x}, {value}, low = {integer_list(low)}, high = {integer_list(high)}, interior = "
            f"{integer_list(interior)} "
            f": ({t.mlir}, {scalar}) -> {out.mlir}"
        )
    vectors = [write_sizes(body, values) for values in (low, high, interior)]
    names, kinds = ", ".join([n for n, _ in vectors]), ", ".join([s.mlir for _, s in vectors])
    return body.line(
        f"stablehlo.dynamic_pad {x}, {value}, {names} : ({t.mlir}, {scalar}, {kinds}) -> {out.mlir}"
    )
