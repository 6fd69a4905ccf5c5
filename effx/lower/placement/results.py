"""jaxlib's result handlers, which make arrays of the buffers that an execution returns."""

from jaxlib import _jax

from effx.ir.types import ArrayType

__all__ = ["make_result_handler"]

# jaxlib 0.10 checks results by a Python method that jax patches in, unless `_skip_checks` is set; 0.12
# neither checks nor takes the argument.
_UNCHECKED = {"_skip_checks": True} if "_skip_checks" in (_jax.array_result_handler.__doc__ or "") else {}


def make_result_handler(t: ArrayType, sharding: _jax.Sharding, committed: bool) -> _jax.ResultHandler:
    """Returns the handler that makes an array of type `t` of one result of an execution."""
    return _jax.array_result_handler(t, sharding, committed, **_UNCHECKED)
