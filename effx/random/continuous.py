"""Samplers of real numbers.

Each sampler checks its arguments and then calls one compiled function for its shape and dtype.

Never: use a key twice.
"""

import math
from collections.abc import Sequence

import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, convert, scalar
from effx.dtypes import DType, DTypeLike
from effx.effects import perform
from effx.errors import DTypeError, ShapeError
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import Bitcast
from effx.ir.ops.shape import Slice
from effx.array.shaping import reshape
from effx.ir.types import Shape
from effx.random.keys import as_key, sizes_of
from effx.random.threefry import random_bits, split_key, unsigned
from effx.transforms.jit import jit

ShapeLike = int | Sequence[int]
MAX, MIN, NEXT_AFTER, OR, SHIFT_RIGHT = e.Max(), e.Min(), e.NextAfter(), e.Or(), e.ShiftRightLogical()
ERF, ERF_INV, LOG, LOG1P, ABS, SIGN, TAN = e.Erf(), e.ErfInv(), e.Log(), e.Log1p(), e.Abs(), e.Sign(), e.Tan()


def as_floating(what: str, dtype: "DTypeLike | None", kinds: str = "f") -> DType:
    """Returns the floating dtype that a user asked for, the default one for None.

    Raises:
        DTypeError: it is another dtype.
    """
    found = dtypes.canonicalize(float if dtype is None else dtype)
    if dtypes.is_floating(found) or ("c" in kinds and dtypes.is_complex(found)):
        return found
    raise DTypeError(f"{what}: the dtype must be floating{' or complex' * ('c' in kinds)}, got {found}")


def as_bounds(what: str, shape: ShapeLike | None, *bounds: Operand) -> Shape:
    """Returns the shape of a sample, to which its parameters must broadcast.

    Raises:
        ShapeError: they do not.
    """
    arrays = [as_operand(b, what) for b in bounds]
    common = broadcast_shapes(*[a.type.shape for a in arrays])
    if shape is None:
        return common
    sizes = sizes_of(what, shape)
    if common and (len(common) > len(sizes) or broadcast_shapes(common, sizes) != sizes):
        raise ShapeError(f"{what}: parameters {', '.join(repr(a.type) for a in arrays)} do not broadcast to shape {list(sizes)}")
    return sizes


def unit_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns floats, evenly spaced in [0, 1)."""
    width, mantissa = dtypes.bits(dtype), dtypes.finfo(dtype).nmant
    # Bits behind the exponent of 1 are a float in [1, 2). Short mantissas need one byte only.
    drawn = 8 if mantissa < 8 else width
    bits = perform(SHIFT_RIGHT, (random_bits(key, drawn, shape), scalar(drawn - mantissa, unsigned(drawn))))
    one = int(np.ones((), dtype).view(unsigned(width)))
    pattern = perform(OR, (convert(bits, unsigned(width)), scalar(one, unsigned(width))))
    return Bitcast(dtype)(pattern) - 1.0


def uniform_floats(key: Array, shape: Shape, dtype: DType, minval: Operand = 0.0, maxval: Operand = 1.0) -> Array:
    """Returns floats in [minval, maxval)."""
    low, high = [broadcast_to(x, shape) if x.type.shape else x for x in [convert(as_operand(b), dtype) for b in (minval, maxval)]]
    # Rounding may leave the interval at its lower end.
    return perform(MAX, (low, unit_floats(key, shape, dtype) * (high - low) + low))


def normal_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard normal numbers, real or complex."""
    if dtypes.is_complex(dtype):
        real = dtypes.real_dtype(dtype)
        keys = split_key(key, (2,))
        parts = [normal_floats(reshape(Slice((i, 0), (i + 1, 2), (1, 1))(keys), (2,)), shape, real) for i in range(2)]
        return perform(e.Complex(), tuple([p / scalar(math.sqrt(2), real) for p in parts]))
    # The inverse of the distribution function, at a point in (-1, 1).
    lowest = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    points = uniform_floats(key, shape, dtype, float(lowest), 1.0)
    return perform(ERF_INV, (points,)) * scalar(float(np.array(math.sqrt(2), dtype)), dtype)


def gumbel_floats(key: Array, shape: Shape, dtype: DType, mode: str = "low") -> Array:
    """Returns standard Gumbel numbers."""
    smallest = float(dtypes.finfo(dtype).tiny)
    if mode == "high":
        # -log(-log(u)) with u near 1 is exact from 1 - u, and tails come from a second draw.
        points = uniform_floats(key, (2, *shape), dtype, smallest)
        draws = [reshape(Slice((i,) + (0,) * len(shape), (i + 1, *shape), (1,) * (len(shape) + 1))(points), shape) for i in range(2)]
        fine = draws[0] + draws[1] * (2.0 ** -(dtypes.finfo(dtype).nmant + 1))
        return -perform(LOG, (-perform(LOG1P, (-perform(MIN, (fine, scalar(1.0 - float(dtypes.finfo(dtype).epsneg), dtype))),)),))
    points = uniform_floats(key, shape, dtype, smallest, 1.0)
    return -perform(LOG, (-perform(LOG, (points,)),))


def _truncated(key: Array, lower: Array, upper: Array, shape: Shape, dtype: DType) -> Array:
    root = scalar(float(np.array(math.sqrt(2), dtype)), dtype)
    low, high = [broadcast_to(convert(x, dtype), shape) if x.type.shape else convert(x, dtype) for x in (lower, upper)]
    points = uniform_floats(key, shape, dtype, perform(ERF, (low / root,)), perform(ERF, (high / root,)))
    x = root * perform(ERF_INV, (points,))
    # Open at both ends.
    infinity = scalar(math.inf, dtype)
    return perform(MIN, (perform(MAX, (x, perform(NEXT_AFTER, (low, infinity)))), perform(NEXT_AFTER, (high, -infinity))))


def _exponential(key: Array, shape: Shape, dtype: DType) -> Array:
    return -perform(LOG1P, (-unit_floats(key, shape, dtype),))


def _laplace(key: Array, shape: Shape, dtype: DType) -> Array:
    points = uniform_floats(key, shape, dtype, -1.0 + float(dtypes.finfo(dtype).epsneg), 1.0)
    return perform(SIGN, (points,)) * perform(LOG1P, (-perform(ABS, (points,)),))


def _logistic(key: Array, shape: Shape, dtype: DType) -> Array:
    points = uniform_floats(key, shape, dtype, float(dtypes.finfo(dtype).eps), 1.0)
    return perform(LOG, (points / (1.0 - points),))


def _cauchy(key: Array, shape: Shape, dtype: DType) -> Array:
    points = uniform_floats(key, shape, dtype, float(dtypes.finfo(dtype).eps), 1.0)
    return perform(TAN, ((points - 0.5) * scalar(math.pi, dtype),))


STATIC = ("shape", "dtype")
_uniform_jit = jit(uniform_floats, static_argnames=STATIC)
_normal_jit = jit(normal_floats, static_argnames=STATIC)
_gumbel_jit = jit(gumbel_floats, static_argnames=(*STATIC, "mode"))
_truncated_jit = jit(_truncated, static_argnames=STATIC)
_exponential_jit = jit(_exponential, static_argnames=STATIC)
_laplace_jit = jit(_laplace, static_argnames=STATIC)
_logistic_jit = jit(_logistic, static_argnames=STATIC)
_cauchy_jit = jit(_cauchy, static_argnames=STATIC)
