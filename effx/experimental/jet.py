"""Derivatives of any order along curves, named as in jax.experimental.jet."""

from effx.library.jets import jet

__all__ = ["jet"]
