"""`jax.extend.ifrt_programs`: jaxlib's own, which orbax asks for where arrays are written by Pathways."""

from effx.lower.jaxlib_names import ifrt_programs

__all__ = ["ifrt_programs"]
