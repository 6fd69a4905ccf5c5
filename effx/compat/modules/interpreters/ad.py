"""`jax.interpreters.ad`: derivatives and transposes of primitives."""

from effx.compat.bound_rules import primitive_jvps, primitive_transposes
from effx.compat.linear_rules import (
    add_tangents,
    defbilinear,
    defjvp,
    defjvp2,
    deflinear,
    deflinear2,
    get_primitive_transpose,
)
from effx.compat.symbolic import (
    JVPTracer,
    UndefinedPrimal,
    Zero,
    instantiate_zeros,
    is_undefined_primal,
    zeros_like_aval,
)

__all__ = [
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]
