"""`decompose`: express functions by a chosen set of operations."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast, final

import attrs

from effx.array import Array
from effx.effects import Frame, Operation
from effx.errors import NoRuleError, TransformError, check_function
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.recursion import recur

P = ParamSpec("P")
R = TypeVar("R")
Kind = type[Operation[Any]]


@final
@attrs.frozen
class Decompose(InterceptHandler[None]):
    """Decomposes operations until only chosen ones are left.

    Attributes:
        allowed: the chosen classes and traits.
    """

    allowed: tuple[Kind, ...]

    def otherwise(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R | None:
        """Forwards a chosen operation, and enters programs."""
        if isinstance(op, self.allowed):
            return op(*operands)
        results = recur(frame, op, operands)
        if results is None and not op.can_decompose():
            allowed_names = ", ".join([k.__name__ for k in self.allowed])
            raise NoRuleError(
                f"decompose: {op.name} is not among the chosen operations ({allowed_names}) and does not decompose"
            )
        return cast("R | None", results)


def decompose(fun: Callable[P, R], to: Iterable[Kind]) -> Callable[P, R]:
    """Returns a function with the same values that performs only chosen operations.

    Operations that hold programs (calls, loops, branches) stay, with their programs decomposed.

    Args:
        fun: takes and returns pytrees of arrays.
        to: operation classes, base classes or traits. Decompositions are exact in real arithmetic; in floating
            point they may lose digits, which is why the operations exist.

    Raises:
        TransformError: an entry of `to` is no operation class.
        NoRuleError: when called, an operation is not chosen and does not decompose.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling.ops import Add, Div, Exp, Mul, Neg, Structural, Sub
    >>> f = decompose(enp.tanh, to=[Add, Sub, Mul, Div, Neg, Exp])
    >>> effx.make_jaxpr(f)(1.0)
    tanh(a: f32[]~) {
      b: f32[]~ = mul a 2.0:f32~
      c: f32[]~ = exp b
      d: f32[]~ = add c 1.0:f32~
      e: f32[]~ = div 2.0:f32~ d
      f: f32[]~ = sub 1.0:f32~ e
      return f
    }
    """
    check_function(fun)
    if not isinstance(to, Iterable):
        raise TransformError(f"decompose: to must list operation classes or traits, got {to!r}")
    allowed = tuple(to)
    for kind in allowed:
        if not isinstance(kind, type) or not issubclass(kind, Operation):  # type: ignore[redundant-expr]  # unchecked callers
            raise TransformError(f"decompose: expected operation classes or traits, got {kind!r}")
    handler = Decompose(allowed)

    @wraps(fun)
    def decomposed(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = handler.run(fun, *args, **kwargs)
        return result

    return decomposed
