"""`jax.interpreters.partial_eval`: what of a function some of its arguments determine."""

from effx.compat.partial import PartialVal, trace_to_jaxpr_dynamic, trace_to_jaxpr_nounits
from effx.compat.pruning import convert_constvars_jaxpr, dce_jaxpr, dce_rules
from effx.compat.traces import DynamicJaxprTracer

__all__ = [
    "DynamicJaxprTracer", "PartialVal", "convert_constvars_jaxpr", "dce_jaxpr", "dce_rules", "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]  # fmt: skip
