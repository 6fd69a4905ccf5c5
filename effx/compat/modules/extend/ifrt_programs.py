"""`jax.extend.ifrt_programs`: jaxlib's own, which orbax imports where Pathways writes arrays."""

from effx.lower.jaxlib_names import ifrt_programs

__all__ = ["ifrt_programs"]
