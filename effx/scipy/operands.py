"""Real operands of functions that are computed in 32 bits at least."""

from collections.abc import Callable

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import inexact_dtype
from effx.array.promotion import as_operand, convert, promote_dtypes
from effx.errors import DTypeError, name_user_call
from effx.transforms.custom.custom_derivatives import custom_jvp


def real_floats(*operands: Operand, function_name: str = "") -> tuple[list[Array], Array]:
    """Promotes real operands to floats of at least 32 bits, in which functions are computed.

    Returns:
        The operands, and one whose dtype the result has.

    Raises:
        DTypeError: an operand is complex, or no array.
    """
    arrays = [as_operand(x, function_name) for x in operands]
    for x in arrays:
        if x.type.kind == "c":
            raise DTypeError(f"{function_name or name_user_call()}: expected real numbers, got {x.type!r}")
    arrays = promote_dtypes(*arrays)
    # Not broadcast: functions of one parameter only are computed once for each of its elements.
    dtype, weak = inexact_dtype(arrays[0].type.dtype), all([x.type.weak for x in arrays])
    arrays = [convert(x, dtype, weak) for x in arrays]
    first = arrays[0]
    if dtype.itemsize < 4:
        arrays = [convert(x, dtypes.float32) for x in arrays]
    return arrays, first


def cast_like(first: Array, result: Array) -> Array:
    """Returns a result in the dtype of `real_floats`' operand."""
    return convert(result, first.type.dtype, first.type.weak)


def cast_strong_like(first: Array, result: Array) -> Array:
    """Returns a result in the dtype of `real_floats`' operand, not weak even of numbers, as JAX's of these functions."""
    return convert(result, first.type.dtype)


def with_derivative(
    function: Callable[[Array], Array], slope: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Returns a function with another function as its derivative."""
    differentiable = custom_jvp(function)

    @differentiable.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (dx,) = primals, tangents
        return differentiable(x), dx * slope(x)

    return differentiable
