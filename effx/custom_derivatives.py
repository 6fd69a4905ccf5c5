"""Functions with custom derivative rules, and the types that rules receive."""

from effx.lax.control.linear_calls import linear_call
from effx.transforms.custom.closures import closure_convert
from effx.transforms.custom.custom_derivatives import custom_gradient, custom_jvp, custom_vjp
from effx.transforms.custom.custom_rules import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]


def __dir__() -> list[str]:
    return sorted(__all__)
