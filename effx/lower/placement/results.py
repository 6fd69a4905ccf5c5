"""What makes arrays of the results of an execution."""

from jaxlib import _jax

from effx.ir.types import ArrayType

__all__ = ["make_result_handler"]

# jaxlib 0.10 checks results by a Python method that jax patches in, unless told not to; 0.12
# neither checks nor takes the argument.
_UNCHECKED = {"_skip_checks": True} if "_skip_checks" in (_jax.array_result_handler.__doc__ or "") else {}


def make_result_handler(t: ArrayType, sharding: _jax.Sharding, committed: bool) -> _jax.ResultHandler:
    """Returns what makes one result of an execution an array of type `t`."""
    return _jax.array_result_handler(t, sharding, committed, **_UNCHECKED)
