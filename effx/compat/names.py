"""The JAX that effx stands in for."""

__all__ = ["VERSION"]

VERSION = "0.12.0"
"""The version whose names, parameters and values effx follows, and that libraries are told."""
