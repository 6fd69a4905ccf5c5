"""`jax.extend.core`: programs as libraries read and change them."""

from collections.abc import Callable, Hashable

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
from effx.compat.wrapped import DebugInfo
from effx.effects import Effect, Handler, axes_in_scope, current_frame
from effx.errors import InconclusiveDimensionOperation, JaxprTypeError
from effx.handlers.staging.stage import Stage
from effx.handlers.vmap.handler import Vmap
from effx.ir.program import Literal, Var
from effx.ir.types import ArrayType, array_type

__all__ = [
    "ClosedJaxpr", "DebugInfo", "DropVar", "Effect", "Effects", "InconclusiveDimensionOperation", "Jaxpr",
    "JaxprEqn", "JaxprTypeError", "Literal", "Primitive", "TraceTag", "Var", "array_types", "check_jaxpr",
    "concrete_or_error", "find_top_trace", "gensym", "get_opaque_trace_state", "jaxpr_as_fun", "jaxprs_in_params",
    "mapped_aval", "new_jaxpr_eqn", "no_effects", "primal_dtype_to_tangent_dtype", "set_current_trace",
    "subjaxprs", "take_current_trace", "unmapped_aval", "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
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


def primal_dtype_to_tangent_dtype(primal_dtype: dtypes.DTypeLike) -> dtypes.DType:
    """Returns the dtype of the tangents of arrays of a dtype: its own for floats, else float0."""
    return array_type(dtypes.canonicalize_requested(primal_dtype), ()).to_tangent_aval().dtype


def unsafe_get_axis_names_DO_NOT_USE() -> list[Hashable]:  # JAX's name
    """Returns the names of mapped axes in scope."""
    return [name for name, _ in axes_in_scope()]


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:  # JAX's name
    """Says whether a function is being staged."""
    return _is_installed(Stage)


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:  # JAX's name
    """Says whether a function is being mapped over a batch."""
    return _is_installed(Vmap)


def _is_installed(kind: type[Handler]) -> bool:
    frame = current_frame()
    while frame is not None:
        if isinstance(frame.handler, kind):
            return True
        frame = frame.outer
    return False
