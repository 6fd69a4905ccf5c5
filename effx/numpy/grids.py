"""Index grids, and what indexes like one: `ix_`, `mgrid`, `ogrid`, `r_`, `c_`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from effx.array import Array, shaping
from effx.array.promotion import as_operand, convert
from effx.errors import IndexingError, OptionError, ShapeError, name_user_call
from effx.lax.operands import check_int
from effx.numpy.creation import asarray, ones, returnable_operand, zeros
from effx.numpy.indexing import nonzero
from effx.numpy.joining import concatenate
from effx.numpy.ranges import arange, diag_indices, linspace, meshgrid
from effx.numpy.scalars import result_type
from effx.numpy.shaping import atleast_1d

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["c_", "diag_indices_from", "ix_", "mask_indices", "mgrid", "ogrid", "r_"]


def ix_(*args: Operand) -> tuple[Array, ...]:
    """Vectors of indices as an open grid, which selects the elements of a rectangle.

    Args:
        *args: `[n_i]` integers, or booleans that mark the indices.

    Returns:
        For each an array with `n_i` elements along its own axis, and size 1 along the others.

    Raises:
        ShapeError: an argument is no vector.

    >>> import numpy as np
    >>> [x.shape for x in ix_(np.array([0, 2]), np.array([1, 2, 3]))]
    [(2, 1), (1, 3)]
    """
    results = []
    for i, arg in enumerate(args):
        x = returnable_operand(arg)
        if x.type.ndim != 1:
            raise ShapeError(f"ix_: takes vectors, argument {i} is {x.type!r}")
        if x.type.kind == "b":
            (x,) = nonzero(x)
        results.append(shaping.reshape(x, (1,) * i + (-1,) + (1,) * (len(args) - i - 1)))
    return tuple(results)


def diag_indices_from(arr: Operand) -> tuple[Array, ...]:
    """The indices of the diagonal of an array whose axes have one size.

    Raises:
        ShapeError: fewer than two axes, or different sizes.

    >>> import numpy as np
    >>> [x.tolist() for x in diag_indices_from(np.zeros((2, 2)))]
    [[0, 1], [0, 1]]
    """
    t = as_operand(arr).type
    if t.ndim < 2 or len(set(t.shape)) != 1:
        raise ShapeError(f"diag_indices_from: takes an array of at least two axes of one size, got {t!r}")
    return diag_indices(t.shape[0], t.ndim)


def mask_indices(
    n: int, mask_func: Callable[[Array, int], Array], k: int = 0, *, size: int | None = None
) -> tuple[Array, Array]:
    """The indices of an `[n, n]` matrix that a function such as `triu` keeps.

    Args:
        n: the size.
        mask_func: from a matrix and `k` to a matrix that is not 0 where it keeps it.
        k: passed to `mask_func`.
        size: how many indices to return; needed while tracing.

    >>> import numpy as np
    >>> import effx.numpy as enp
    >>> [x.tolist() for x in mask_indices(2, enp.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = nonzero(mask_func(ones((n, n)), k), size=size)
    return rows, columns


def _slice_numbers(part: slice, *, function_name: str = "") -> Array:
    """The numbers of a slice; with an imaginary step so many of them, the end included."""
    start, stop, step = part.start or 0, part.stop, 1 if part.step is None else part.step
    if stop is None:
        raise IndexingError(f"{function_name or name_user_call()}: a slice must have an end, got {part}")
    if isinstance(step, complex):
        return linspace(
            start, stop, check_int("the number of elements", int(abs(step)), function_name=function_name)
        )
    return arange(start, stop, step)


@final
class _GridIndexer:
    """Indexed with slices, gives the coordinates of a grid: dense and stacked, or open, as a list."""

    def __init__(self, name: str, sparse: bool) -> None:
        self.name, self.sparse = name, sparse

    def __repr__(self) -> str:
        return f"effx.numpy.{self.name}"

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            if key.stop is None:  # as in NumPy, where arange(start, None) counts up to the start
                return arange(key.start or 0)
            return _slice_numbers(key, function_name=self.name)
        if not key:
            return [] if self.sparse else zeros((0,), int)
        axes = [_slice_numbers(part, function_name=self.name) for part in key]
        dtype = result_type(*axes)
        axes = [convert(x, dtype, all([x.type.weak for x in axes])) for x in axes]
        coordinates = meshgrid(*axes, indexing="ij", sparse=self.sparse)
        return list(coordinates) if self.sparse else shaping.stack(list(coordinates), 0)


mgrid = _GridIndexer("mgrid", sparse=False)
ogrid = _GridIndexer("ogrid", sparse=True)


@final
class _JoinIndexer:
    """Indexed with slices, numbers and arrays, joins them along an axis.

    A string before them is "axis", "axis,ndim" or "axis,ndim,first": the axis to join along, the least number
    of axes, and how many of the added axes come before those of the part; or "r" or "c", which make
    a row or a column of a vector.
    """

    def __init__(self, name: str, axis: int, ndim: int, first: int) -> None:
        self.name, self.defaults = name, (axis, ndim, first)

    def __repr__(self) -> str:
        return f"effx.numpy.{self.name}"

    def __getitem__(self, key: Any) -> Array:
        entries = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, first = self.defaults
        text = entries.pop(0) if isinstance(entries[0], str) else ""
        if text not in ("", "r", "c"):
            try:
                numbers = [int(word) for word in text.split(",")]
            except ValueError:
                raise OptionError(
                    f"{self.name}: the string must be 'r', 'c', 'axis', 'axis,ndim' or 'axis,ndim,first', got {text!r}"
                ) from None
            axis, ndim, first = [*numbers, *self.defaults[len(numbers) :]][:3]
        parts = []
        for part in entries:
            x = (
                _slice_numbers(part, function_name=self.name)
                if isinstance(part, slice)
                else atleast_1d(asarray(part))
            )
            extra = max(ndim - x.type.ndim, 0)
            before = first if first >= 0 else max(first + extra + 1, 0)
            parts.append(shaping.reshape(x, (1,) * before + x.type.shape + (1,) * (extra - before)))
        joined = concatenate(parts, axis)
        if text not in ("r", "c") or joined.type.ndim > 1:
            return joined
        return shaping.reshape(joined, (1, -1) if text == "r" else (-1, 1))


r_ = _JoinIndexer("r_", 0, 1, -1)
c_ = _JoinIndexer("c_", -1, 2, 0)
