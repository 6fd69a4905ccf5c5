"""Functions applied along axes, and functions given in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from effx.array import Array, arithmetic, shaping
from effx.array.promotion import as_operand, broadcast_arrays, convert
from effx.array.shaping import normalize_axis
from effx.errors import ShapeError, check_function
from effx.transforms.maps.vmap import vmap

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["apply_along_axis", "apply_over_axes", "piecewise"]


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Operand, *args: Any, **kwargs: Any) -> Any:
    """Applies a function of vectors along an axis.

    Args:
        func1d: from a vector, and the further arguments, to an array.
        axis: along which axis.
        arr: the array.
        *args, **kwargs: passed to the function.

    Returns:
        The array with the axis replaced by those of the function's result.

    >>> import effx.numpy as enp
    >>> enp.apply_along_axis(enp.sum, 0, enp.ones((2, 3))).tolist()
    [2.0, 2.0, 2.0]
    """
    check_function(func1d)
    x = as_operand(arr)
    along = normalize_axis(axis, x.type.ndim, x.type)

    def of_vector(v: Array) -> Any:
        return func1d(v, *args, **kwargs)

    mapped = of_vector
    for _ in range(along + 1, x.type.ndim):
        mapped = vmap(mapped, in_axes=-1, out_axes=-1)
    for _ in range(along):
        mapped = vmap(mapped, in_axes=0, out_axes=0)
    return mapped(x)


def apply_over_axes(func: Callable[[Array, int], Array], a: Operand, axes: int | Sequence[int]) -> Array:
    """Applies a function of an array and an axis along several axes, one after the other.

    Args:
        func: keeps the number of axes, or takes one away, which is put back with size 1.
        a: the array.
        axes: an axis or several.

    Raises:
        ShapeError: the function returns another number of axes.

    >>> import effx.numpy as enp
    >>> enp.apply_over_axes(enp.sum, enp.ones((2, 3)), (0, 1)).tolist()
    [[6.0]]
    """
    check_function(func)
    x = as_operand(a)
    for axis in [axes] if isinstance(axes, int) else axes:
        along = normalize_axis(axis, x.type.ndim, x.type)
        applied = func(x, along)
        if applied.ndim == x.type.ndim - 1:
            applied = shaping.expand_dims(applied, along)
        if applied.ndim != x.type.ndim:
            raise ShapeError(
                f"apply_over_axes: the function must keep the {x.type.ndim} axes of {x.type!r}, "
                f"got {applied.type!r}"
            )
        x = applied
    return x


def piecewise(
    x: Operand,
    condlist: Operand | Sequence[Operand],
    funclist: Sequence[Operand | Callable[..., Any]],
    *args: Any,
    **kw: Any,
) -> Array:
    """A function given in pieces: for each element the value of the last piece whose condition holds.

    Args:
        x: the array.
        condlist: a condition for each piece: booleans that broadcast against `x`.
        funclist: functions of `x`, or numbers; one more than conditions if the last is for the rest, which is 0
            otherwise.
        *args, **kw: passed to the functions.

    Returns:
        The values, in the shape and dtype of `x`.

    Raises:
        ShapeError: another number of functions.

    >>> import effx.numpy as enp
    >>> x = enp.array([-2.0, 3.0])
    >>> enp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, 10.0]).tolist()
    [2.0, 10.0]
    """
    a = as_operand(x)
    if isinstance(condlist, Sequence):
        conditions = [as_operand(c) for c in condlist]
    else:
        condition_array = as_operand(condlist)
        conditions = [condition_array] if condition_array.type.ndim == a.type.ndim else list(condition_array)
    n = len(conditions)
    if len(funclist) not in (n, n + 1):
        raise ShapeError(f"piecewise: {n} conditions need {n} or {n + 1} functions, got {len(funclist)}")
    rest = funclist[n] if len(funclist) > n else 0

    def value(f: Operand | Callable[..., Any]) -> Array:
        piece_value = f(a, *args, **kw) if callable(f) else f
        return convert(as_operand(piece_value), a.type.dtype)

    result = value(rest)
    for condition, f in zip(conditions, funclist, strict=False):
        result = arithmetic.where(
            condition if condition.type.kind == "b" else condition != 0, value(f), result
        )
    return broadcast_arrays([result, a], False)[0]
