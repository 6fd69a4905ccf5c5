"""`jax.interpreters.partial_eval`: what of a function some of its arguments determine."""

from effx.compat.partial import PartialVal, trace_to_jaxpr_nounits

__all__ = ["PartialVal", "trace_to_jaxpr_nounits"]
