"""Choosing between operands element by element, and bounding them."""

from effx.array import Array, Operand, arithmetic, ordering
from effx.array.promotion import as_operand, convert
from effx.dtypes import int32
from effx.effects import perform
from effx.errors import DTypeError
from effx.ir.ops import elementwise as e
from effx.lax.operands import adapt_operands

__all__ = ["clamp", "select", "select_n"]

CLAMP = e.Clamp()


def select(pred: Operand, on_true: Operand, on_false: Operand) -> Array:
    """Returns `on_true` where `pred` holds, else `on_false`.

    Args:
        pred: boolean, of the cases' shape or a scalar.
        on_true, on_false: of one dtype; of one shape, or one a scalar.

    Returns:
        An array of the cases' dtype and shape.

    Raises:
        DTypeError: `pred` is not boolean, or the cases' dtypes differ.
        ShapeError: shapes differ.

    >>> select(True, 1.0, 2.0)
    Array(1., dtype=float32, weak_type=True)
    """
    test = as_operand(pred)
    if test.type.kind != "b":
        raise DTypeError(f"select: the predicate must be bool, got {test.type!r}")
    case, other = adapt_operands(on_true, on_false)
    return perform(arithmetic.SELECT, (test, other, case))


def select_n(which: Operand, *cases: Operand) -> Array:
    """Chooses elements from several cases by index.

    Args:
        which: boolean (False: the first case, True: the second) or integer (the case's index), of the cases'
            shape or a scalar. An index out of range is clamped.
        cases: of one dtype; of one shape, or some of them scalars.

    Returns:
        An array of the cases' dtype and shape.

    Raises:
        DTypeError: `which` is neither boolean nor integer, or the cases' dtypes differ.
        ShapeError: shapes differ, or there are more than two cases for a boolean.

    >>> select_n(2, 10.0, 11.0, 12.0)
    Array(12., dtype=float32, weak_type=True)
    """
    chosen = as_operand(which)
    if chosen.type.kind in "iu":
        chosen = convert(chosen, int32)
    return perform(arithmetic.SELECT, (chosen, *(adapt_operands(*cases) if cases else ())))


def clamp(min: Operand, x: Operand, max: Operand) -> Array:
    """Returns x bounded to [min, max].

    Args:
        min, max: bounds of x's dtype, of x's shape or scalars. Where they cross, `max` wins.
        x: of any dtype and shape; NaN for NaN. Complex numbers have NumPy's order.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: dtypes differ.
        ShapeError: a bound has neither x's shape nor rank 0.

    >>> clamp(0.0, 1.5, 1.0)
    Array(1., dtype=float32, weak_type=True)
    """
    low, value, high = arrays = adapt_operands(min, x, max)
    t = value.type
    same = all([a.type.dtype == t.dtype and a.type.shape in ((), t.shape) for a in (low, high)])
    if t.kind == "c" and same:
        return ordering.compare_by_parts(
            arithmetic.MIN, ordering.compare_by_parts(arithmetic.MAX, low, value), high
        )
    return perform(CLAMP, tuple(arrays))
