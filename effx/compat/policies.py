"""Ask policies of checkpoints as JAX does: with the primitive, the operands' types and the parameters."""

import inspect
from collections.abc import Callable, Sequence
from typing import final

import attrs

from effx.compat.bound import Bound, Parameters
from effx.compat.bound_rules import kind_of
from effx.compat.parameters import made
from effx.compat.primitives import Primitive, params_of, primitive_of
from effx.effects import Operation
from effx.ir.types import ArrayType
from effx.tracing.wrapping import wraps

__all__ = ["PolicyOfJax", "ask_policy_of_jax", "wrap_policy"]


def ask_policy_of_jax(
    policy: Callable[..., object], op: Operation[object], types: Sequence[ArrayType]
) -> object:
    """Returns a policy's answer for an operation; policies of effx's own are asked with the operation itself."""
    home = getattr(policy, "__module__", None) or ""
    if home.partition(".")[0] == "effx":
        return policy(op, *types)
    return policy(primitive_of(op), *types, **params_of(op))


@final
@attrs.frozen
class PolicyOfJax:
    """A policy of effx's that may be asked in JAX's form too, as policies of users ask it.

    Attributes:
        policy: effx's.
    """

    policy: Callable[..., object]

    def __call__(self, prim: Operation[object] | Primitive, *types: ArrayType, **params: object) -> object:
        """Returns the policy's answer for an operation, or for a primitive and its parameters."""
        if isinstance(prim, Operation):
            return self.policy(prim, *types)
        kind = kind_of(prim)
        op = Bound(prim, Parameters(params)) if kind is None else made(kind, params)
        return self.policy(op, *types)


def wrap_policy(value: Callable[..., object]) -> Callable[..., object]:
    """Returns a policy of effx's as one of JAX's form, and a function that makes policies as one that makes such."""
    if "op" in inspect.signature(value).parameters:
        return PolicyOfJax(value)

    @wraps(value)
    def make_policy(*args: object, **kwargs: object) -> PolicyOfJax:
        policy = value(*args, **kwargs)
        assert callable(policy)
        return PolicyOfJax(policy)

    return make_policy
