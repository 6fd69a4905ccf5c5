"""`jax.extend.core`: programs as libraries read and change them."""

from collections.abc import Callable

import numpy as np

from effx import dtypes
from effx.compat.avals import (
    concrete_or_error,
    find_top_trace,
    get_opaque_trace_state,
    mapped_aval,
    take_current_trace,
    unmapped_aval,
    valid_jaxtype,
)
from effx.compat.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    check_jaxpr,
    jaxpr_as_fun,
    jaxprs_in_params,
    new_jaxpr_eqn,
    subjaxprs,
)
from effx.compat.primitives import Primitive
from effx.compat.traces import TraceTag, set_current_trace
from effx.effects import Effect
from effx.errors import InconclusiveDimensionOperation, JaxprTypeError
from effx.ir.program import Literal, Var
from effx.ir.types import ArrayType

__all__ = [
    "ClosedJaxpr", "DropVar", "Effect", "Effects", "InconclusiveDimensionOperation", "Jaxpr", "JaxprEqn", "JaxprTypeError",
    "Literal", "Primitive", "TraceTag", "Var", "array_types", "check_jaxpr", "concrete_or_error", "find_top_trace", "gensym",
    "get_opaque_trace_state", "jaxpr_as_fun", "jaxprs_in_params", "mapped_aval", "new_jaxpr_eqn", "no_effects",
    "set_current_trace", "subjaxprs", "take_current_trace", "unmapped_aval", "valid_jaxtype",
]  # fmt: skip

Effects = frozenset
array_types: set[type] = {np.ndarray, *[dtype.type for dtype in dtypes.ALL]}
"""NumPy's classes that are arrays and scalars of JAX's dtypes."""


def gensym() -> Callable[[ArrayType], Var]:
    """Returns a function that makes a new variable of a type."""
    return Var


no_effects: frozenset[Effect] = frozenset()


class DropVar:
    """JAX's class of unused results. In effx they are ordinary variables, so there are no instances."""
