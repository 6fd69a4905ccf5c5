"""Operands of lax functions: arrays keep their dtypes, Python numbers adapt to them, axes of size 1 repeat."""

from collections.abc import Callable, Sequence
from typing import Protocol, cast, overload

from effx import dtypes
from effx.array import Array, Operand, ordering
from effx.array.operators import is_complex
from effx.array.promotion import as_operand, broadcast_to
from effx.effects import perform
from effx.errors import ConcretizationError, ConversionError, ShapeError, name_user_call
from effx.ir.ops.base import Elementwise
from effx.ir.sizes.dimensions import as_size, is_symbolic
from effx.ir.types import ArrayType, Shape
from effx.ir.values.array import Number, Numeric
from effx.ir.values.holding import A, OfOperand
from effx.ir.values.scalars import scalar

# What a number may become: an int any number, a float only a floating or complex one.
_NUMBERS: dict[type[object], int] = {bool: 0, int: 1, float: 2, complex: 3}
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3, "V": -1}


class UnaryFunction(OfOperand, Protocol):
    """A function of one operand that keeps dtype and shape."""

    # For a function passed to vmap, say, checkers take this overload.
    @overload
    def __call__(self, x: A | Numeric, /) -> A: ...
    @overload
    def __call__(self, x: Operand, /) -> Array: ...


def typed_as_unary(function: Callable[[Operand], Array]) -> UnaryFunction:
    """Says to type checkers that a function of one operand keeps its dtype and shape."""
    return cast("UnaryFunction", function)


def perform_unary(op: Elementwise, x: Operand) -> Array:
    """Performs an operation on one operand; an int becomes a float if the operation takes floats only."""
    if isinstance(x, Array):
        return perform(op, (x,))
    array = as_operand(x)
    if type(x) is int and "i" not in op.kinds:
        array = scalar(x, *dtypes.scalar_dtype(float))
    return perform(op, (array,))


def perform_binary(op: Elementwise, x: Operand, y: Operand) -> Array:
    """Performs an operation on two operands."""
    if isinstance(x, Array) and isinstance(y, Array):
        s, t = x.type.shape, y.type.shape
        if s == t or not s or not t:
            return perform(op, (x, y))
    return perform(op, tuple(fit_operands(x, y)))


def perform_ordered(op: Elementwise, x: Operand, y: Operand) -> Array:
    """Performs `Max` or `Min` on two operands, complex numbers in NumPy's order."""
    if is_complex(x) or is_complex(y):
        a, b = fit_operands(x, y)
        s, t = a.type.shape, b.type.shape
        if a.type.dtype == b.type.dtype and (s == t or not s or not t):
            return ordering.compare_by_parts(op, a, b)
    return perform_binary(op, x, y)


def adapt_operands(*operands: Operand) -> list[Array]:
    """Returns operands as arrays; Python numbers take the dtype of the first array, where it can hold them.

    Without an array each has the dtype of its type, which the typing rule refuses if they differ.
    """
    arrays = [None if type(x) in _NUMBERS else as_operand(x) for x in operands]
    dtype = next((a.type.dtype for a in arrays if a is not None), None)
    if dtype is None:
        return [as_operand(x) for x in operands]
    rank = next(_KINDS[a.type.kind] for a in arrays if a is not None)
    return [
        a
        if a is not None
        else scalar(cast("Number", x), dtype)
        if _NUMBERS[type(x)] <= rank
        else as_operand(x)  # the typing rule refuses it and names both types
        for a, x in zip(arrays, operands, strict=True)
    ]


def fit_operands(*operands: Operand) -> list[Array]:
    """Adapts numbers, and repeats axes of size 1 where all operands with axes have the same number of them."""
    arrays = adapt_operands(*operands)
    shapes = {a.type.shape for a in arrays if a.type.shape}
    if len(shapes) < 2 or len({len(s) for s in shapes}) > 1:
        return arrays
    shape = tuple([max(sizes) if 0 not in sizes else 0 for sizes in zip(*shapes, strict=True)])
    if any(n not in (1, shape[i]) for s in shapes for i, n in enumerate(s)):
        return arrays  # the typing rule refuses them and names the types
    return [broadcast_to(a, shape) if a.type.shape else a for a in arrays]


def int_tuple(name: str, values: Sequence[int], *, function_name: str = "") -> tuple[int, ...]:
    """Returns a sequence of ints as a tuple.

    Raises:
        ShapeError: it is no sequence of ints.
    """
    try:
        return tuple([as_size(n) for n in values])
    except TypeError:
        raise ShapeError(
            f"{function_name or name_user_call()}: {name} must be a sequence of ints, got {values!r}"
        ) from None


def check_int(name: str, value: object, *, function_name: str = "") -> int:
    """Returns an argument that must be an int; a symbolic size is unchanged.

    Raises:
        ConcretizationError: it is an abstract integer.
        ConversionError: it is none.
    """
    try:
        return as_size(value)
    except ConcretizationError as error:
        raise ConcretizationError(
            f"{function_name or name_user_call()}: {name} must be an int that is known while tracing, got {value!r}; "
            f"mark it static (static_argnums or static_argnames of jit)"
        ) from error
    except TypeError:
        raise ConversionError(
            f"{function_name or name_user_call()}: {name} must be an int, got {value!r}"
        ) from None


def check_count(name: str, value: object) -> int:
    """Returns an argument that must be an int from 0; a symbolic size is unchanged.

    Raises:
        ConversionError: it is no int.
        ShapeError: it is negative.
    """
    count = check_int(name, value)
    if not is_symbolic(count) and count < 0:
        raise ShapeError(f"{name_user_call()}: {name} must not be negative, got {count}")
    return count


def resolve_axis(axis: int, t: ArrayType) -> int:
    """Returns an axis, negative ones counted from the end.

    Raises:
        ShapeError: it is out of range.
        ConversionError: it is no int.
    """
    if type(axis) is not int:
        axis = check_int("an axis", axis)
    if not -t.ndim <= axis < t.ndim:
        raise ShapeError(f"{name_user_call()}: axis {axis} is out of range for the {t.ndim} axes of {t!r}")
    return axis % t.ndim


def element_count(shape: Shape) -> int:
    """Returns the number of elements."""
    total = 1
    for n in shape:
        total *= n
    return total
