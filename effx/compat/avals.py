"""`jax.core`'s functions on values, for effx's values: a value's aval is its type, `effx.ir.ArrayType`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, final

import attrs

from effx.array import Array, HostArray
from effx.array.promotion import as_operand
from effx.effects import Frame, current_frame, isolated, outermost, use_frame
from effx.errors import ConcretizationError, DTypeError, EffxError
from effx.handlers.vmap.handler import element_type
from effx.ir.types import ArrayType
from effx.lower.placement.concrete import ConcreteArray
from effx.transforms.jit.make_jaxpr import typeof

__all__ = [
    "AbstractValue",
    "OpaqueTraceState",
    "ShapedArray",
    "concrete_or_error",
    "find_top_trace",
    "get_aval",
    "get_opaque_trace_state",
    "is_unknown",
    "mapped_aval",
    "resumed_state",
    "take_current_trace",
    "trace_state_clean",
    "unmapped_aval",
    "valid_jaxtype",
]


def is_unknown(x: object) -> bool:
    """Says whether a value is an array of unknown elements.

    Those are boxes of handlers, and variables of programs being staged.
    """
    return isinstance(x, Array) and not isinstance(x, ConcreteArray | HostArray)


ShapedArray = ArrayType


class _Types(type):
    def __instancecheck__(cls, x: object) -> bool:
        return type(x) is ArrayType

    def __subclasscheck__(cls, other: type) -> bool:
        return other is ArrayType or super().__subclasscheck__(other)


class AbstractValue(metaclass=_Types):
    """What types of values are: those of arrays."""


def get_aval(x: Any) -> ArrayType:
    """Returns the type of a value that is an array or becomes one.

    Raises:
        DTypeError: it does not.
    """
    aval: ArrayType = typeof(x)
    return aval


def valid_jaxtype(x: Any) -> bool:
    """Says whether a value is an array or becomes one."""
    try:
        as_operand(x)
    except EffxError:
        return False
    return True


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """Returns a value that is known here, as `force` gives it.

    Raises:
        ConcretizationError: it is not known.
    """
    if is_unknown(val):
        raise ConcretizationError(f"{context or 'concrete_or_error'}: needs a concrete value, got {val!r}")
    return val if force is None else force(val)


def mapped_aval(size: int, axis: int | None, aval: ArrayType) -> ArrayType:
    """Returns the type of a batch's elements; the type itself where axis is None."""
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise DTypeError(f"mapped_aval: axis {axis} of {aval!r} has not {size} elements")
    return element_type(aval, axis % aval.ndim)


def unmapped_aval(size: int, axis: int | None, aval: ArrayType, *_: object) -> ArrayType:
    """Returns the type of batches of elements of this type; the type itself where axis is None."""
    return aval if axis is None else aval.with_shape((*aval.shape[:axis], size, *aval.shape[axis:]))


def find_top_trace(xs: object) -> Frame:
    """Returns the frame of the innermost handler.

    Args:
        xs: not used, as in JAX, whose current trace this is.
    """
    return current_frame() or outermost


@final
@attrs.frozen
class OpaqueTraceState:
    """Under which handlers code runs, to be compared; two are equal inside of the same handlers."""

    frame: Frame | None = attrs.field(eq=id, repr=False)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """Returns under which handlers this runs.

    Args:
        convention: of the calling library; the result is the same for all.
    """
    return OpaqueTraceState(current_frame())


@contextmanager
def take_current_trace() -> Iterator[OpaqueTraceState]:
    """Runs a block outside of all handlers, and gives those that are around."""
    state = get_opaque_trace_state()
    with isolated():
        yield state


def resumed_state(state: OpaqueTraceState) -> AbstractContextManager[None]:
    """Runs a block under the handlers that `take_current_trace` gave."""
    return isolated() if state.frame is None else use_frame(state.frame)


def trace_state_clean() -> bool:
    """Says whether no handler is around: operations run at once."""
    return current_frame() is None
