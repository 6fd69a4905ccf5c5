"""A guard against NaN: the first operation that makes one is an error with the operation, its operands and the user's
line.

Operations run one by one, inside jitted functions and loops too, which is slow. The guard belongs outside
`grad`, `vmap` and `pmap`, whose operations it then intercepts. Inside them, or inside `jit`, values are not
concrete; use `effx.library.checkify` there.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, final

import attrs
import numpy as np

from effx import Array, tree
from effx.errors import ConcretizationError, EffxError, check_function
from effx.handling import Frame, InterceptHandler, Operation, Site
from effx.lazy import list_names
from effx.library.wrapping import under
from effx.tree import PyTree

__all__ = ["NanError", "nan_guard"]
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")


class NanError(EffxError, FloatingPointError):
    """An operation made a NaN (or an infinity).

    >>> import effx.numpy as enp
    >>> from effx.library.nan_guard import NanError, nan_guard
    >>> try:
    ...     nan_guard(enp.log)(-1.0)
    ... except NanError as error:
    ...     print("log" in str(error))
    True
    """


@final
@attrs.frozen
class NanGuard(InterceptHandler[None]):
    """Looks at every result.

    Attributes:
        infinities: True to check for infinities too.
        returned: True to report only those that reach the result.
        origins: if so, the arrays with a flaw by their identity, each with a description of the flaw's origin.
    """

    infinities: bool = False
    returned: bool = False
    origins: dict[int, tuple[Array, str]] = attrs.field(factory=dict)
    steps = True

    def find_flaws(self, *xs: Array) -> set[str]:
        """Returns what is wrong with the arrays that are concrete."""
        result: set[str] = set()
        for x in xs:
            try:
                value = x.host("nan_guard") if x.type.kind in "fc" else np.zeros(())
            except ConcretizationError:
                continue
            if value.dtype.kind not in "fc":  # bfloat16 and the like are not NumPy's own dtypes
                value = value.astype(np.float32)
            if np.isnan(value).any():
                result.add("nan")
            if self.infinities and np.isinf(value).any():
                result.add("infinity")
        return result

    def report_flaw(self, where: Array, text: str) -> None:
        """Raises an error for a flaw, or keeps it until the result is known."""
        if not self.returned:
            raise NanError(text)
        self.origins[id(where)] = (where, text)

    def moved(self, result: Array, parts: Sequence[Array]) -> None:
        """Keeps the origin of a flaw where a loop slices and stacks."""
        if self.origins and self.find_flaws(result):
            self.inherit_origin(result, parts)

    def inherit_origin(self, result: Array, operands: Sequence[Array]) -> None:
        """Gives a flaw the origin that the first operand with one has; none if it came from outside."""
        known = [self.origins[id(x)][1] for x in operands if id(x) in self.origins]
        if known:
            self.origins[id(result)] = (result, known[0])

    def returns(self, result: PyTree, frame: Frame) -> PyTree:
        """The result, if no flaw that was made has reached it."""
        for x in tree.leaves(result):
            if id(x) in self.origins:
                raise NanError(self.origins[id(x)][1])
        return result


@NanGuard.rule(Operation)
def _(site: Site[NanGuard, None, PyTree], op: Operation[Any], *operands: Array) -> Any:
    y = site.forward()
    guard = site.handler
    for part in y if isinstance(y, tuple) else (y,):
        # The operands are read only if there is something to explain.
        flaws = guard.find_flaws(part)
        if not flaws:
            continue
        new_flaws = flaws - guard.find_flaws(*operands)
        if new_flaws:
            shown = ", ".join([str(x) if x.size <= 8 else repr(x.type) for x in operands])
            kinds = " and ".join(sorted(new_flaws))
            # Inside a program that runs step by step, the error itself has the line of the call only.
            guard.report_flaw(
                part, f"{op.name}: {kinds} in the result {part.type!r} of ({shown}), at {site.line}"
            )
            continue
        guard.inherit_origin(part, operands)
    return y


def nan_guard(fun: Callable[P, R], infinities: bool = False, returned: bool = False) -> Callable[P, R]:
    """Returns a function that stops at the first NaN.

    Args:
        fun: any function.
        infinities: True to stop at infinities too.
        returned: True to stop only for a NaN that reaches the result, when this is known: others, such as those that
            `where` leaves out, do no harm.

    Raises:
        NanError: when called, an operation makes a NaN (or infinity) from operands without one.

    >>> import effx, effx.numpy as enp
    >>> f = effx.jit(lambda x: enp.log(x) * 2.0)
    >>> nan_guard(f)(enp.array([1.0, -1.0]))
    Traceback (most recent call last):
    ...
    effx.library.nan_guard.NanError: log: nan in the result f32[2] of ([ 1. -1.]), at ... in <lambda>
    ...
    >>> print(nan_guard(lambda x: enp.where(x > 0, enp.log(x), 0.0), returned=True)(enp.array([1.0, -1.0])))
    [0. 0.]
    """
    check_function(fun)

    @wraps(fun)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = under(NanGuard(infinities, returned), fun)(*args, **kwargs)
        return result

    return guarded
