"""`jax.core`: types of values, and the evaluation of programs."""

from effx.compat.avals import (
    AbstractValue,
    ShapedArray,
    concrete_or_error,
    find_top_trace,
    get_aval,
    trace_state_clean,
    valid_jaxtype,
)
from effx.compat.conversions import pytype_aval_mappings
from effx.compat.hijax import typeof
from effx.compat.jaxprs import ClosedJaxpr, Jaxpr, JaxprEqn, eval_jaxpr, jaxpr_as_fun
from effx.compat.primitives import Primitive
from effx.compat.traces import Trace, Tracer
from effx.ir.program import Atom, Literal, Var
from effx.transforms.jit.make_jaxpr import ensure_compile_time_eval

__all__ = [
    "AbstractValue",
    "Atom",
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Var",
    "concrete_or_error",
    "ensure_compile_time_eval",
    "eval_jaxpr",
    "find_top_trace",
    "get_aval",
    "jaxpr_as_fun", "pytype_aval_mappings",
    "trace_state_clean",
    "typeof",
    "valid_jaxtype",
]  # fmt: skip
