"""A guard against NaN: the first operation that makes one is an error with the operation, its operands and the user's line.

Operations run one by one, jitted functions and loops included, so the guard is for finding, not for speed. Inside compiled
code `effx.library.checkify` finds NaN without stopping.

Never: let a NaN pass that the operands did not have.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, final

import attrs
import numpy as np

from effx import Array
from effx.errors import ConcretizationError, EffxError
from effx.handling import InterceptHandler, Operation, Site

__all__ = ["NanError", "nan_guard"]

P = ParamSpec("P")
R = TypeVar("R")


class NanError(EffxError, FloatingPointError):
    """An operation made a NaN (or an infinity)."""


@final
@attrs.frozen
class NanGuard(InterceptHandler[None]):
    """Looks at every result.

    Attributes:
        infinities: True to look for infinities too.
    """

    infinities: bool = False
    steps = True

    def is_bad(self, x: Array) -> bool:
        """Says whether an array has a NaN; what another handler has boxed is looked at further in."""
        if x.type.kind not in "fc":
            return False
        try:
            found = x.host("nan_guard")
        except ConcretizationError:
            return False
        if found.dtype.kind not in "fc":  # bfloat16 and its like are no kinds of NumPy's own
            found = found.astype(np.float32)
        return bool(np.isnan(found).any() or (self.infinities and np.isinf(found).any()))


@NanGuard.rule(Operation)
def _(site: Site[NanGuard, None], op: Operation[Any], *operands: Array) -> Any:
    y = site.forward()
    guard = site.handler
    for part in y if isinstance(y, tuple) else (y,):
        if guard.is_bad(part) and not any([guard.is_bad(x) for x in operands]):
            shown = ", ".join([str(x) if x.size <= 8 else repr(x.type) for x in operands])
            what = "nan or infinity" if guard.infinities else "nan"
            raise NanError(f"{op.name}: {what} in the result {part.type!r} of ({shown}), at {site.line}")
    return y


def nan_guard(fun: Callable[P, R], infinities: bool = False) -> Callable[P, R]:
    """Returns a function that stops at the first NaN.

    Put it around `grad` and `vmap`, so that it sees their operations too.

    Args:
        fun: any function.
        infinities: True to stop at infinities too.

    Raises:
        NanError: when called, an operation makes a NaN of operands that have none.

    >>> import effx, effx.numpy as enp
    >>> f = effx.jit(lambda x: enp.log(x) * 2.0)
    >>> nan_guard(f)(enp.array([1.0, -1.0]))
    Traceback (most recent call last):
    ...
    effx.library.nan_guard.NanError: log: nan in the result f32[2] of ([ 1. -1.]), at ... in <lambda>
    ...
    """
    handler = NanGuard(infinities)

    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        found: R = handler.run(fun, *args, **kwargs)
        return found

    return guarded
