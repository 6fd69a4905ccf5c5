"""Forward-mode differentiation: values paired with tangents; importing this registers all rules."""

from effx.handlers.jvp import collective, custom, elementwise, index, linalg, reduce, shape, solve
from effx.handlers.jvp.handler import JVP, Dual, jvp

__all__ = ["JVP", "Dual", "jvp"]
