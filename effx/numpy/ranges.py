"""New arrays of numbers in sequence, and index grids.

Concrete numbers are computed on the host in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic, shaping, triangles
from effx.array.promotion import as_operand, broadcast_to, convert, size_scalar
from effx.dtypes import DTypeLike
from effx.effects import perform
from effx.errors import BackendError, ConcretizationError, DTypeError, OptionError, ShapeError, name_user_call
from effx.ir.ops import elementwise
from effx.ir.ops.shape import Iota
from effx.ir.sizes.dimensions import is_size, is_symbolic
from effx.ir.sizes.division import maximum
from effx.ir.types import array_type
from effx.ir.values.scalars import check_fits, scalar
from effx.lax.operands import check_count, check_int
from effx.numpy.creation import is_recorded, make_constant, to_device
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = [
    "arange", "diag_indices", "eye", "fromfunction", "geomspace", "identity", "indices", "linspace",
    "logspace", "meshgrid", "tri", "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices",
    "triu_indices_from", "vander",
]  # fmt: skip


def _are_exact(low: float, high: float, by: float, dtype: dtypes.DType) -> bool:
    """Returns whether a floating dtype has all numbers of a range of whole numbers."""
    if not dtypes.is_floating(dtype) or not all(
        [abs(x) <= 0.5 / float(dtypes.finfo(dtype).eps) for x in (low, high, by)]
    ):
        return False
    return all([float(x).is_integer() for x in (low, high, by)])


def _concrete_number(name: str, x: Any) -> Any:
    """Returns a concrete number for an argument that determines a shape."""
    if isinstance(x, int | float) or is_symbolic(x):
        return x
    try:
        value = as_operand(x).host(name)
    except ConcretizationError as error:
        raise ConcretizationError(
            f"{name_user_call()}: {name} decides the result's shape and must be known; got the abstract {x.type!r}; "
            f"mark it static, or scale and shift an arange of fixed length"
        ) from error
    if value.ndim:
        raise ShapeError(
            f"{name_user_call()}: {name} must be a number, got an array of shape {list(value.shape)}"
        )
    return value.item()


def arange(
    start: Operand,
    stop: Operand | None = None,
    step: Operand | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers from start up to stop, which is left out, in equal steps.

    Args:
        start: the first number; with one argument that is the stop, and the start is 0.
        stop: where to end.
        step: the difference of neighbours.
        dtype: by default the promotion of the arguments' dtypes.
        device: where to put it.
        out_sharding: the sharding of the result; by default replicated.

    Raises:
        ConcretizationError: an argument is abstract.
        OptionError: a number is complex.

    >>> arange(3).tolist(), arange(1.0, 2.0, 0.25).tolist()
    ([0, 1, 2], [1.0, 1.25, 1.5, 1.75])
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, arange, start, stop, step, dtype, device=device)
    bounds = [x for x in (start, stop, step) if x is not None]
    for x in bounds:
        if np.iscomplexobj(x):
            raise OptionError(
                f"arange: start, stop and step must be real numbers, got {x}; dtype may be complex"
            )
    kinds = [0 if is_symbolic(x) else x for x in bounds]
    result_dtype = dtypes.canonicalize_requested(dtype) if dtype is not None else dtypes.result_type(*kinds)
    first, last = (0, start) if stop is None else (start, stop)
    low, high = _concrete_number("start", first), _concrete_number("stop", last)
    by = 1 if step is None else _concrete_number("step", step)
    if by == 0:
        raise ShapeError("arange: step must not be 0")
    if any([is_symbolic(n) for n in (low, high, by)]):
        return to_device(_symbolic_range(low, high, by, result_dtype), device)
    integers = type(low) is int and type(high) is int and type(by) is int and dtypes.is_integer(result_dtype)
    if integers and range(low, high, by):
        check_fits(low, result_dtype)
        check_fits(range(low, high, by)[-1], result_dtype)
    if is_recorded() and (integers or _are_exact(low, high, by, result_dtype)):
        # An iota, so that a program does not store the numbers.
        count = max(math.ceil((high - low) / by), 0) if not integers else len(range(low, high, by))
        result = Iota(array_type(result_dtype, (count,)), 0)()
        result = result if by == 1 else result * by
        return to_device(result if low == 0 else result + low, device)
    count = (high - low) / by
    if not math.isfinite(count):
        raise ShapeError(f"arange: from {low} to {high} in steps of {by} there is no number of elements")
    try:
        data = np.arange(low, high, by)
    except (MemoryError, ValueError):
        raise BackendError(f"arange: {math.ceil(count)} elements do not fit into the host's memory") from None
    return to_device(make_constant(data.astype(result_dtype), result_dtype, is_computed=True), device)


def _symbolic_range(low: int, high: int, by: int, dtype: dtypes.DType) -> Array:
    """A range of ints whose length is symbolic."""
    if not all([is_size(n) for n in (low, high, by)]):
        raise ShapeError(
            f"arange: with a symbolic size all of start, stop and step must be ints or sizes, got {low}, {high}, {by}"
        )
    count = maximum(-((low - high) // by), 0)
    result = Iota(array_type(dtype, (count,)), 0)()
    return (result if by == 1 else result * by) + low


@overload
def linspace(
    start: Operand, stop: Operand, num: int = 50, endpoint: bool = True,
    retstep: Literal[False] = False, dtype: DTypeLike | None = None, axis: int = 0, *, device: object = None,
) -> Array: ...  # fmt: skip
@overload
def linspace(
    start: Operand, stop: Operand, num: int, endpoint: bool,
    retstep: Literal[True], dtype: DTypeLike | None = None, axis: int = 0, *, device: object = None,
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def linspace(
    start: Operand, stop: Operand, num: int = 50, endpoint: bool = True, *,
    retstep: Literal[True], dtype: DTypeLike | None = None, axis: int = 0, device: object = None,
) -> tuple[Array, Array]: ...  # fmt: skip
def linspace(
    start: Operand,
    stop: Operand,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: object = None,
) -> Array | tuple[Array, Array]:
    """Numbers in equal steps from start to stop, both included.

    Args:
        start, stop: the ends, numbers or arrays that broadcast against each other.
        num: how many numbers.
        endpoint: False to leave stop out.
        retstep: True to return the step too.
        dtype: by default the floating promotion of the ends.
        axis: the index of the new axis.
        device: where to put the numbers.

    >>> linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    count = check_int("num", num)
    if count < 0:
        raise ShapeError(f"linspace: num must not be negative, got {count}")
    result_dtype = (
        arithmetic.inexact_dtype(dtypes.result_type(start, stop))
        if dtype is None
        else dtypes.canonicalize_requested(dtype)
    )
    if type(start) in (int, float) and type(stop) in (int, float) and not is_symbolic(count):
        try:
            data, by = np.linspace(start, stop, count, endpoint, retstep=True)  # type: ignore[call-overload]  # numbers, by their types
        except (MemoryError, ValueError):
            raise BackendError(f"linspace: {count} elements do not fit into the host's memory") from None
        inexact = arithmetic.inexact_dtype(result_dtype)
        values = make_constant(
            (data if dtypes.is_inexact(result_dtype) else np.floor(data)).astype(result_dtype),
            result_dtype,
            is_computed=True,
        )
        values = to_device(values, device)
        return (
            (values, make_constant(np.array(by, inexact), inexact, is_computed=True)) if retstep else values
        )
    a, b = arithmetic.promote_inexact(start, stop)
    computed = (
        dtypes.result_type(a.type.dtype, result_dtype) if dtypes.is_inexact(result_dtype) else a.type.dtype
    )
    a, b = shaping.broadcast_arrays(convert(a, computed), convert(b, computed))
    parts = count - 1 if endpoint else count
    width = b - a
    first, last = shaping.expand_dims(a, 0), shaping.expand_dims(b, 0)
    # A weighted sum of both ends: exact at start, and symmetric in rounding.
    if is_symbolic(count):
        interval_count = size_scalar(maximum(parts, 1), computed)
        step_indices = shaping.reshape(
            Iota(array_type(dtypes.int32, (count,)), 0)(), (count,) + (1,) * a.type.ndim
        )
        step, t = width / interval_count, convert(step_indices, computed) / interval_count
        result = first * (1 - t) + last * t
        if endpoint:
            result = arithmetic.where((step_indices > 0) & (step_indices == count - 1), last, result)
    else:
        step = (
            width / scalar(float(parts), computed, True)
            if parts
            else width * scalar(float("nan"), dtypes.real_dtype(computed), True)
        )
        ramp = np.arange(count).reshape((count,) + (1,) * a.type.ndim) / max(parts, 1)
        t = make_constant(ramp.astype(computed), computed, is_computed=True)
        result = first * (1 - t) + last * t if count else broadcast_to(a, (0, *a.type.shape))
        if endpoint and count > 1:
            result = shaping.concatenate([result[:-1], last], 0)
    if axis:
        result = shaping.moveaxis(result, 0, axis)
    if dtypes.is_integer(result_dtype):
        result = perform(arithmetic.FLOOR, (result,))
    values = to_device(convert(result, result_dtype), device)
    return (values, convert(step, arithmetic.inexact_dtype(result_dtype))) if retstep else values


def logspace(
    start: Operand,
    stop: Operand,
    num: int = 50,
    endpoint: bool = True,
    base: Operand = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Numbers in equal ratios from base**start to base**stop. Arguments as for `linspace`.

    >>> logspace(0, 2, 3, base=2).tolist()
    [1.0, 2.0, 4.0]
    """
    result_dtype = (
        arithmetic.inexact_dtype(dtypes.result_type(start, stop))
        if dtype is None
        else dtypes.canonicalize_requested(dtype)
    )
    exponents = linspace(start, stop, num, endpoint, dtype=arithmetic.inexact_dtype(result_dtype), axis=axis)
    return convert(arithmetic.power(as_operand(base), exponents), result_dtype)


def geomspace(
    start: Operand,
    stop: Operand,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Numbers in equal ratios from start to stop, which have one sign. Arguments as for `linspace`.

    >>> geomspace(1, 16, 3).round(4).tolist()
    [1.0, 4.0, 16.0]
    """
    result_dtype = (
        arithmetic.inexact_dtype(dtypes.result_type(start, stop))
        if dtype is None
        else dtypes.canonicalize_requested(dtype)
    )
    if type(start) in (int, float) and type(stop) in (int, float) and axis == 0:
        data = np.geomspace(start, stop, check_int("num", num), endpoint)  # type: ignore[arg-type]  # numbers, by their types
        return make_constant(data.astype(result_dtype), result_dtype, is_computed=True)
    a, b = arithmetic.promote_inexact(start, stop)
    a, b = convert(a, a.type.dtype), convert(b, b.type.dtype)
    sign = perform(arithmetic.SIGN, (a,))
    log = elementwise.Log()
    low, high = (arithmetic.unary(log, x * sign) for x in (a, b))
    ramp = linspace(low, high, num, endpoint, axis=axis)
    result = arithmetic.unary(elementwise.Exp(), ramp)
    if sign.type.shape:
        sign = shaping.expand_dims(sign, axis)
    return convert(result * sign, result_dtype)


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The indices of a grid: `i32[n, *dimensions]`, the i-th holding each element's index on axis i.

    Args:
        dimensions: the grid's shape.
        dtype: of the result, by default the default integer.
        sparse: True for a tuple of arrays that broadcast to the grid.

    >>> indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape = shaping.to_shape(dimensions)
    result_dtype = dtypes.canonicalize_requested(int if dtype is None else dtype)
    if sparse:
        return tuple([
            shaping.reshape(arange(n, dtype=result_dtype), tuple([n if i == j else 1 for j in range(len(shape))]))
            for i, n in enumerate(shape)
        ])  # fmt: skip
    if not shape:
        return make_constant(np.zeros((0,), result_dtype), result_dtype, is_computed=True)
    return shaping.stack([Iota(array_type(result_dtype, shape), i)() for i in range(len(shape))])


def meshgrid(
    *xi: Operand, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """Coordinate matrices from coordinate vectors.

    Args:
        xi: vectors.
        copy: ignored: arrays are immutable.
        sparse: True for size 1 on the axes along which values repeat.
        indexing: "xy" exchanges the first two axes, "ij" keeps them.

    >>> [x.tolist() for x in meshgrid(np.array([1, 2]), np.array([3]))]
    [[[1, 2]], [[3, 3]]]
    """
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    vectors = [as_operand(x) for x in xi]
    for v in vectors:
        if v.type.ndim > 1:
            raise ShapeError(f"meshgrid: takes vectors, got {v.type!r}")
    vectors = [shaping.reshape(v, -1) for v in vectors]
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        axes[:2] = [1, 0]
    shape = [1] * len(vectors)
    for axis, v in zip(axes, vectors, strict=True):
        shape[axis] = v.type.size
    result = []
    for axis, v in zip(axes, vectors, strict=True):
        spread = shaping.reshape(v, tuple([n if i == axis else 1 for i, n in enumerate(shape)]))
        result.append(spread if sparse else broadcast_to(spread, tuple(shape)))
    return tuple(result)


def eye(
    N: int, M: int | None = None, k: Operand = 0, dtype: DTypeLike | None = None, *, device: object = None
) -> Array:
    """Ones on the k-th diagonal of an N × M matrix, zeros elsewhere; on a device of choice. `k` may be abstract.

    >>> eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return to_device(_banded_matrix(N, M, k, dtype, np.eye, "EQ"), device)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The n × n identity matrix.

    >>> identity(1).tolist()
    [[1.0]]
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: Operand = 0, dtype: DTypeLike | None = None) -> Array:
    """Ones on and below the k-th diagonal of an N × M matrix, zeros elsewhere. `k` may be abstract.

    >>> tri(2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _banded_matrix(N, M, k, dtype, np.tri, "GE")


def _banded_matrix(
    n: int,
    m: int | None,
    k: Operand,
    dtype: DTypeLike | None,
    make: Callable[..., Any],
    test: str,
) -> Array:
    rows = check_int("N", n)
    columns = rows if m is None else check_int("M", m)
    offset = k if isinstance(k, Array) and k.frame is not None else check_int("k", k)
    if rows < 0 or columns < 0:
        raise ShapeError(f"{name_user_call()}: sizes must not be negative, got {rows} and {columns}")
    result_dtype = dtypes.canonicalize_requested(float if dtype is None else dtype)
    if isinstance(offset, Array):
        if offset.type.kind not in "iu" or offset.type.shape:
            raise DTypeError(
                f"{name_user_call()}: k must be an int or an integer array of rank 0, got {offset.type!r}"
            )
        return convert(triangles.band_mask((rows, columns), offset, test), result_dtype)
    if is_recorded() or rows * columns > 65536:
        return convert(triangles.band_mask((rows, columns), offset, test), result_dtype)
    return make_constant(make(rows, columns, offset).astype(result_dtype), result_dtype, is_computed=True)


def _triangle_indices(m: Operand, k: int, below: bool) -> Array:
    a = as_operand(m)
    if a.type.ndim < 2:
        raise ShapeError(f"{name_user_call()}: needs at least two axes, got {a.type!r}")
    offset = check_int("k", k)
    return triangles.tril(a, offset) if below else triangles.triu(a, offset)


def tril(m: Operand, k: int = 0) -> Array:
    """The matrices with zeros above the k-th diagonal.

    >>> tril(np.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle_indices(m, k, True)


def triu(m: Operand, k: int = 0) -> Array:
    """The matrices with zeros below the k-th diagonal.

    >>> triu(np.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle_indices(m, k, False)


def _index_pair(data: tuple[Any, ...]) -> tuple[Array, Array]:
    result_dtype = dtypes.canonicalize(int)
    first, second = [make_constant(i.astype(result_dtype), result_dtype, is_computed=True) for i in data]
    return first, second


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of the elements on and below the k-th diagonal of an n × m matrix.

    >>> [i.tolist() for i in tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _index_pair(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of the elements on and above the k-th diagonal of an n × m matrix.

    >>> [i.tolist() for i in triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _index_pair(np.triu_indices(n, k, m))


def tril_indices_from(arr: Operand, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for a matrix' own shape.

    >>> len(tril_indices_from(np.ones((3, 3)))[0])
    6
    """
    n, m = _check_matrix_shape(arr)
    return tril_indices(n, check_int("k", k), m)


def triu_indices_from(arr: Operand, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for a matrix' own shape.

    >>> len(triu_indices_from(np.ones((3, 3)))[0])
    6
    """
    n, m = _check_matrix_shape(arr)
    return triu_indices(n, check_int("k", k), m)


def _check_matrix_shape(x: Operand) -> tuple[int, int]:
    t = as_operand(x).type
    if t.ndim != 2:
        raise ShapeError(f"{name_user_call()}: takes a matrix, got {t!r}")
    return t.shape[0], t.shape[1]


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of `ndim` axes of size n.

    >>> [i.tolist() for i in diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    size, count = check_count("n", n), check_count("ndim", ndim)
    return (arange(size),) * count


def vander(x: Operand, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are powers of a vector.

    Args:
        x: `f32[m]`.
        N: the number of columns, by default m.
        increasing: True for the power 0 first.

    >>> vander(np.array([1, 2]), 3).tolist()
    [[1, 1, 1], [4, 2, 1]]
    """
    a = as_operand(x)
    if a.type.ndim != 1:
        raise ShapeError(f"vander: takes a vector, got {a.type!r}")
    count = a.type.size if N is None else check_count("N", N)
    powers = range(count) if increasing else range(count - 1, -1, -1)
    ones = broadcast_to(scalar(1, a.type.dtype), a.type.shape)
    columns = [ones if p == 0 else arithmetic.integer_power(a, p) for p in powers]
    if not columns:
        return make_constant(np.zeros((a.type.size, 0), a.type.dtype), a.type.dtype)
    return shaping.stack(columns, -1)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """Calls a function once with the index grids of a shape.

    >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int).tolist()
    [[0, 1], [1, 2]]
    """
    sizes = shaping.to_shape(shape)
    result_dtype = dtypes.canonicalize_requested(dtype)
    return function(*[Iota(array_type(result_dtype, sizes), i)() for i in range(len(sizes))], **kwargs)
