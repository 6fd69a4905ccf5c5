"""Communication along named axes, which vmap or pmap bind.

Never: know who binds an axis; the operations are effects that its handler takes.
"""

from collections.abc import Callable, Hashable, Sequence
from operator import index
from typing import TypeVar, cast, overload

import numpy as np

from effx import dtypes, tree
from effx.array import Array, Number, Operand, arithmetic
from effx.array.promotion import as_operand, convert
from effx.effects import current_frame
from effx.errors import ShapeError
from effx.handlers.evaluate import unbound
from effx.ir.ops import collective as c
from effx.ir.ops.collective import AxisEffect
from effx.lax.operands import count_from_start

T = TypeVar("T")
AxisName = Hashable


def _names(axis_name: AxisName | Sequence[AxisName]) -> tuple[AxisName, ...]:
    return tuple(axis_name) if isinstance(axis_name, list | tuple) else (axis_name,)


def _size(what: str, name: AxisName) -> int:
    frame = current_frame()
    while frame is not None:
        if frame.handler.takes(frozenset((AxisEffect(name),))):
            size = getattr(frame.handler, "size", None)
            if isinstance(size, int):
                return size
        frame = frame.outer
    raise unbound(what, frozenset((AxisEffect(name),)))


def axis_size(axis_name: AxisName | Sequence[AxisName]) -> int:
    """Returns the number of members of a named axis; of several axes the product.

    Args:
        axis_name: a name that a surrounding `vmap` or `pmap` binds, or several.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x * axis_size("i"), axis_name="i")(np.arange(3))
    Array([0, 3, 6], dtype=int32)
    """
    total = 1
    for name in _names(axis_name):
        total *= _size("axis_size", name)
    return total


def axis_index(axis_name: AxisName | Sequence[AxisName]) -> Array:
    """Returns the member's own place on a named axis.

    Args:
        axis_name: a name that a surrounding `vmap` or `pmap` binds, or several: the place then counts
            through the last one fastest.

    Returns:
        An i32 scalar.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x + axis_index("i"), axis_name="i")(np.zeros(3, np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    names = _names(axis_name)
    place: Array = as_operand(np.int32(0))
    for i, name in enumerate(names):
        _size("axis_index", name)
        own = c.AxisIndex(name)()
        place = own if i == 0 else place * _size("axis_index", name) + own
    return place


def _over(
    x: T, axis_name: AxisName | Sequence[AxisName], what: str, reduce: Callable[[Array, AxisName], Array]
) -> T:
    def leaf(value: Operand) -> Array:
        array = as_operand(value, what)
        for name in _names(axis_name):
            # While the caller's handlers are in sight, so that an error can list their names.
            _size(what, name)
            array = reduce(array, name)
        return array

    return cast("T", tree.map(leaf, x))


@overload
def psum(x: int, axis_name: AxisName | Sequence[AxisName]) -> int: ...
@overload
def psum(x: T, axis_name: AxisName | Sequence[AxisName]) -> T: ...
def psum(x: object, axis_name: AxisName | Sequence[AxisName]) -> object:
    """Returns the sum over all members of a named axis.

    Args:
        x: a tree of arrays; booleans are counted. A bare Python number is the same for all members
            and gives a Python number, so that `psum(1, axis_name)` is the number of members.
        axis_name: a name that a surrounding `vmap` or `pmap` binds, or several.

    Returns:
        A tree like x, the same for all members.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    """
    names = _names(axis_name)

    def leaf(value: Operand) -> Array | Number:
        if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
            total: Number = value
            for name in names:
                total = total * _size("psum", name)
            return total
        array = as_operand(value, "psum")
        if array.type.kind == "b":
            array = convert(array, dtypes.int32)
        for name in names:
            array = c.PSum(name)(array)
        return array

    return tree.map(leaf, x)


def pmean(x: T, axis_name: AxisName | Sequence[AxisName]) -> T:
    """Returns the mean over all members of a named axis.

    Args:
        x: a tree of arrays; integers give floats.
        axis_name: a name that a surrounding `vmap` or `pmap` binds, or several.

    Returns:
        A tree like x, the same for all members.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([-1.,  1.], dtype=float32)
    """
    names = _names(axis_name)
    count = 1
    for name in names:
        count *= _size("pmean", name)
    return cast(
        "T", tree.map(lambda total: arithmetic.true_divide(total, count), _over(x, names, "pmean", _add))
    )


def _add(x: Array, name: AxisName) -> Array:
    return c.PSum(name)(arithmetic.to_inexact(x))


def pmax(x: T, axis_name: AxisName | Sequence[AxisName]) -> T:
    """Returns the maximum over all members of a named axis.

    Args:
        x: a tree of real arrays.
        axis_name: a name that a surrounding `vmap` or `pmap` binds, or several.

    Returns:
        A tree like x, the same for all members.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x - pmax(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([-2.,  0.], dtype=float32)
    """
    return _over(x, axis_name, "pmax", lambda array, name: c.PMax(name)(array))


def pmin(x: T, axis_name: AxisName | Sequence[AxisName]) -> T:
    """Returns the minimum over all members of a named axis.

    Args:
        x: a tree of real arrays.
        axis_name: a name that a surrounding `vmap` or `pmap` binds, or several.

    Returns:
        A tree like x, the same for all members.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x - pmin(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([0., 2.], dtype=float32)
    """
    return _over(x, axis_name, "pmin", lambda array, name: c.PMin(name)(array))


def all_gather(x: T, axis_name: AxisName | Sequence[AxisName], *, axis: int = 0, tiled: bool = False) -> T:
    """Returns the values of all members of a named axis.

    Args:
        x: a tree of arrays `[*s]`.
        axis_name: a name that a surrounding `vmap` or `pmap` binds, or several, joined into one axis
            with the last name fastest.
        axis: where the members' axis stands in the result; negative places count from the end.
        tiled: whether to join along x's own axis `axis` instead of making a new one.

    Returns:
        A tree of arrays with an axis of the number of members, or with `axis` as many times longer.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: `axis` is out of range.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: all_gather(x, "i"), axis_name="i")(np.arange(2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    names = _names(axis_name)

    def leaf(value: Operand) -> Array:
        array = as_operand(value, "all_gather")
        result_type = array.type if tiled else array.type.with_shape((*array.type.shape, 1))
        place = count_from_start("all_gather", index(axis), result_type)
        # The last name runs fastest, so it is gathered first and the others are tiled around it.
        for i, name in enumerate(reversed(names)):
            array = c.AllGather(name, place, _size("all_gather", name), tiled or i > 0)(array)
        return array

    if not names:
        raise ShapeError("all_gather: needs at least one axis name")
    return cast("T", tree.map(leaf, x))
