"""`jax.numpy`: what takes more there than in `effx.numpy`."""

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar, cast, final

import attrs
import numpy as np

from effx import lax
from effx import numpy as enp
from effx.array import Operand
from effx.array.shaping import normalize_axes
from effx.compat.modules.dtypes import issubdtype
from effx.dtypes import DTypeLike, float32
from effx.effects import Frame, Handler, Operation, Value, handle, perform
from effx.ir.ops.linalg import DotGeneral
from effx.ir.types import Shape, array_type
from effx.ir.values.array import Array
from effx.transforms.placement.out_sharding import OutSharding

R = TypeVar("R")

__all__ = ["arange", "einsum", "issubdtype", "ndim", "shape", "size"]


def arange(
    start: Operand,
    stop: Operand | None = None,
    step: Operand | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """`effx.numpy.arange`, in which integers that do not fit into the requested dtype wrap around.

    Args:
        start, stop, step, dtype, device, out_sharding: as for `effx.numpy.arange`.

    >>> print(arange(126, 130, dtype=np.int8))
    [ 126  127 -128 -127]
    """
    try:
        return enp.arange(start, stop, step, dtype, device=device, out_sharding=out_sharding)
    except OverflowError:
        if dtype is None:
            raise
    wide = enp.arange(start, stop, step, device=device, out_sharding=out_sharding)
    return wide.astype(dtype)


def einsum(
    subscripts: str | Operand,
    /,
    *operands: object,
    out: None = None,
    optimize: object = "auto",
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Callable[..., Array] = lax.dot_general,
    out_sharding: OutSharding = None,
) -> Array:
    """`effx.numpy.einsum`, with a function for contractions: flax's layers with 8-bit floats pass their own.

    Args:
        subscripts, operands, out, optimize, precision, preferred_element_type, out_sharding: as for
            `effx.numpy.einsum`.
        _dot_general: takes two arrays and the arguments of `jax.lax.dot_general`. It is called where two operands are
            summed over a label that they share.

    >>> print(einsum("ij,j->i", np.eye(2), np.array([3.0, 4.0]), _dot_general=lambda x, y, *_, **__: x @ y * 10))
    [30. 40.]
    """
    own = nullcontext() if _dot_general is lax.dot_general else handle(_Contractions(_dot_general, precision))
    with own:
        return enp.einsum(
            subscripts,
            *operands,
            out=out,
            optimize=optimize,
            precision=precision,
            preferred_element_type=preferred_element_type,
            out_sharding=out_sharding,
        )


@final
@attrs.frozen
class _Contractions(Handler):
    """Contracts by a user's function.

    Attributes:
        contract: the function.
        precision: what `einsum` was called with.
    """

    name = "einsum"
    intercepts = True
    contract: Callable[..., Array]
    precision: object

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Contracts, or performs any other operation."""
        if type(op) is not DotGeneral:
            return perform(op, operands)
        x, y = cast("tuple[Array, Array]", operands)
        axes = (op.lhs_contract, op.rhs_contract), (op.lhs_batch, op.rhs_batch)
        return cast(
            "R", self.contract(x, y, axes, self.precision, preferred_element_type=op.preferred or x.dtype)
        )


def shape(a: object) -> Shape:
    """The sizes; also of lists, and of None and other objects, which NumPy takes for scalars.

    `effx.numpy.shape` refuses those, as JAX will too: today it warns. Libraries ask it of optional arguments.

    >>> shape(np.ones((2, 3))), shape(1.0)
    ((2, 3), ())
    """
    return _shape_of("shape", a)


def _shape_of(function_name: str, a: object) -> Shape:
    known = getattr(a, "shape", None)
    if known is not None:
        return tuple(known)
    if not isinstance(a, bool | int | float | complex):
        warnings.warn(
            f"{function_name} requires ndarray or scalar arguments, got {type(a)}",
            DeprecationWarning,
            stacklevel=3,
        )
    return np.asarray(a).shape


def ndim(a: object) -> int:
    """The number of axes, of what `shape` takes.

    >>> ndim(np.ones(2)), ndim(1.0)
    (1, 0)
    """
    return len(_shape_of("ndim", a))


def size(a: object, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the product of the sizes of some axes, of what `shape` takes.

    >>> size(np.ones((1, 3))), size(np.ones((1, 3)), 1)
    (3, 3)
    """
    sizes = _shape_of("size", a)
    axes = normalize_axes(axis, array_type(float32, sizes))
    return math.prod([sizes[i] for i in axes])
