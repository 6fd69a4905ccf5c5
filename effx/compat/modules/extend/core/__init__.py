"""`jax.extend.core`: programs as libraries read and change them."""

from effx.compat.avals import (
    concrete_or_error,
    find_top_trace,
    get_opaque_trace_state,
    mapped_aval,
    take_current_trace,
    unmapped_aval,
    valid_jaxtype,
)
from effx.compat.jaxprs import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun, jaxprs_in_params, subjaxprs
from effx.compat.primitives import Primitive
from effx.compat.traces import TraceTag, set_current_trace
from effx.effects import Effect
from effx.errors import InconclusiveDimensionOperation, JaxprTypeError
from effx.ir.program import Literal, Var

__all__ = [
    "ClosedJaxpr", "DropVar", "Effect", "Effects", "InconclusiveDimensionOperation", "Jaxpr", "JaxprEqn", "JaxprTypeError",
    "Literal", "Primitive", "TraceTag", "Var", "concrete_or_error", "find_top_trace", "get_opaque_trace_state",
    "jaxpr_as_fun", "jaxprs_in_params", "mapped_aval", "no_effects", "set_current_trace", "subjaxprs", "take_current_trace",
    "unmapped_aval", "valid_jaxtype",
]  # fmt: skip

Effects = frozenset
no_effects: frozenset[Effect] = frozenset()


class DropVar:
    """JAX's class of unused results. In effx they are ordinary variables, so there are no instances."""
