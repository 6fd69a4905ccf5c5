"""`jax.experimental.hijax`: primitives and types of a library's own, of which flax.nnx has some for variables."""

from collections.abc import Callable
from typing import Any

from effx.compat.avals import AbstractValue, ShapedArray
from effx.compat.hijax import (
    GradAccum,
    HiPrim,
    HiType,
    NullAccum,
    ValAccum,
    jvp_from_lin,
    register_hitype,
    vjp_from_jvp,
)
from effx.compat.symbolic import Zero, instantiate_zeros, is_undefined_primal
from effx.ref import AbstractRef

__all__ = [
    "AbstractRef", "AbstractValue", "GradAccum", "HiPrim", "HiType", "NullAccum", "ShapedArray", "ValAccum", "Zero",
    "aval_method", "aval_property", "control_flow_allowed_effects", "instantiate_zeros", "is_undefined_primal",
    "jvp_from_lin", "register_hitype", "vjp_from_jvp",
]  # fmt: skip


class aval_property:  # JAX's name
    """A property of values under transformations, defined by their type: effx has only arrays there, and calls no type."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget


class aval_method:  # JAX's name
    """A method of values under transformations, defined by their type: effx has only arrays there, and calls no type."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


class _Allowed:
    """The effects that loops and branches may have: in effx all."""

    def add_type(self, effect: type[object]) -> None:
        """Allows an effect, which is so already."""


control_flow_allowed_effects = _Allowed()
