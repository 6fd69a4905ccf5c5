"""`jax._src.core`: numpyro, flax and quax ask here for what `jax.core` and `jax.extend.core` have."""

from effx import dtypes
from effx.compat.avals import AbstractValue, ShapedArray, get_aval, take_current_trace, trace_state_clean
from effx.compat.jaxprs import jaxpr_as_fun
from effx.compat.tokens import Token
from effx.compat.traces import Trace, Tracer, TraceTag, set_current_trace
from effx.ir.types import ArrayType, array_type

__all__ = [
    "AbstractValue", "ShapedArray", "Token", "Trace", "TraceTag", "Tracer", "get_aval", "jaxpr_as_fun", "physical_aval",
    "set_current_trace", "take_current_trace", "trace_state_clean",
]  # fmt: skip


def physical_aval(aval: ArrayType) -> ArrayType:
    """Returns the type of an array's memory: keys are words."""
    if not dtypes.is_key(aval.dtype):
        return aval
    return array_type(dtypes.uint32, (*aval.shape, aval.dtype.itemsize // 4))
