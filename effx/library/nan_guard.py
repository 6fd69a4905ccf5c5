"""A guard against NaN: the first operation that makes one is an error with the operation, its operands and the user's line.

Operations run one by one, inside jitted functions and loops too, which is slow. The guard belongs outside
`grad`, `vmap` and `pmap`, whose operations it then sees. Inside them, or inside `jit`, values are not
concrete; use `effx.library.checkify` there.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, final

import attrs
import numpy as np

from effx import Array
from effx.errors import ConcretizationError, EffxError
from effx.handling import InterceptHandler, Operation, Site
from effx.library.wrapping import under

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

    def flaws(self, *xs: Array) -> set[str]:
        """Returns what is wrong with the arrays that are concrete."""
        found: set[str] = set()
        for x in xs:
            try:
                value = x.host("nan_guard") if x.type.kind in "fc" else np.zeros(())
            except ConcretizationError:
                continue
            if value.dtype.kind not in "fc":  # bfloat16 and the like are not NumPy's own dtypes
                value = value.astype(np.float32)
            if np.isnan(value).any():
                found.add("nan")
            if self.infinities and np.isinf(value).any():
                found.add("infinity")
        return found


@NanGuard.rule(Operation)
def _(site: Site[NanGuard, None], op: Operation[Any], *operands: Array) -> Any:
    y = site.forward()
    guard = site.handler
    for part in y if isinstance(y, tuple) else (y,):
        # The operands are looked at only if there is something to explain.
        flaws = guard.flaws(part)
        made = flaws and flaws - guard.flaws(*operands)
        if made:
            shown = ", ".join([str(x) if x.size <= 8 else repr(x.type) for x in operands])
            what = " and ".join(sorted(made))
            # Inside a program that runs step by step, the error itself has the line of the call only.
            raise NanError(f"{op.name}: {what} in the result {part.type!r} of ({shown}), at {site.line}")
    return y


def nan_guard(fun: Callable[P, R], infinities: bool = False) -> Callable[P, R]:
    """Returns a function that stops at the first NaN.

    Args:
        fun: any function.
        infinities: True to stop at infinities too.

    Raises:
        NanError: when called, an operation makes a NaN (or infinity) from operands without one.

    >>> import effx, effx.numpy as enp
    >>> f = effx.jit(lambda x: enp.log(x) * 2.0)
    >>> nan_guard(f)(enp.array([1.0, -1.0]))
    Traceback (most recent call last):
    ...
    effx.library.nan_guard.NanError: log: nan in the result f32[2] of ([ 1. -1.]), at ... in <lambda>
    ...
    """
    return under(NanGuard(infinities), fun)
