"""`jax.interpreters.partial_eval`: what of a function some of its arguments determine."""

from effx.compat.partial import PartialVal, trace_to_jaxpr_dynamic, trace_to_jaxpr_nounits
from effx.compat.pruning import dce_jaxpr

__all__ = ["PartialVal", "dce_jaxpr", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits"]
