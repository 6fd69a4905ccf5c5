"""`jax.interpreters.ad`: derivatives and transposes of primitives."""

from effx.compat.bound_rules import primitive_jvps, primitive_transposes
from effx.compat.composed import COMPOSED
from effx.compat.linear_rules import (
    add_tangents,
    backward_pass,
    defbilinear,
    defjvp,
    defjvp2,
    deflinear,
    deflinear2,
    get_primitive_transpose,
    linearize,
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
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "backward_pass",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "linearize",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]

add_jaxvals_p = COMPOSED["add_jaxvals"]
add_jaxvals = add_jaxvals_p.bind
