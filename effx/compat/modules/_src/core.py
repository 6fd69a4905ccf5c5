"""`jax._src.core`: numpyro and flax ask here for what `jax.core` and `jax.extend.core` have."""

from effx import dtypes
from effx.compat.avals import ShapedArray, get_aval, trace_state_clean
from effx.compat.traces import Tracer
from effx.ir.types import ArrayType, array_type

__all__ = ["ShapedArray", "Tracer", "get_aval", "physical_aval", "trace_state_clean"]


def physical_aval(aval: ArrayType) -> ArrayType:
    """Returns the type of an array's memory: keys are words."""
    if not dtypes.is_key(aval.dtype):
        return aval
    return array_type(dtypes.uint32, (*aval.shape, aval.dtype.itemsize // 4))
