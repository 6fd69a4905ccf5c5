"""`jax.experimental.jet`: derivatives of any order along curves, with JAX's helpers for series."""

from collections.abc import Callable, Sequence
from typing import TypeVar, final

import effx.numpy as enp
from effx import Array, lax
from effx.ir.values.array import Operand
from effx.library.jets import jet as evaluate_jet
from effx.tree import PyTree

__all__ = ["fact", "jet", "zero_series", "zero_term"]

R = TypeVar("R")


@final
class ZeroTerm:
    """A derivative that is zero."""


@final
class ZeroSeries:
    """A series whose derivatives are all zero."""


zero_term = ZeroTerm()
zero_series = ZeroSeries()


def fact(n: Operand) -> Array:
    """Returns the factorial of a number, as a floating array.

    >>> print(f"{fact(4):.1f}")
    24.0
    """
    return lax.exp(lax.lgamma(enp.asarray(n) + 1.0))


def _is_boolean(x: PyTree) -> bool:
    return isinstance(x, bool) or getattr(getattr(x, "dtype", None), "kind", "") == "b"


def jet(
    fun: Callable[..., R],
    primals: Sequence[PyTree],
    series: Sequence[PyTree],
    factorial_scaled: bool = True,
    **_: object,
) -> tuple[R, PyTree]:
    """`effx.experimental.jet.jet`, which also takes booleans, whose derivatives count for nothing, and `zero_term`.

    Args:
        fun, primals, series, factorial_scaled: as for `effx.experimental.jet.jet`.

    >>> import effx.numpy as enp
    >>> y, (dy,) = jet(enp.where, (True, 1.0, 2.0), ([0.0], [3.0], [4.0]))
    >>> print(y, dy)
    1.0 3.0
    """
    booleans = {i: x for i, x in enumerate(primals) if _is_boolean(x)}

    def with_booleans(*curves: PyTree) -> R:
        remaining = iter(curves)
        return fun(*[booleans[i] if i in booleans else next(remaining) for i in range(len(primals))])

    numbers = [i for i in range(len(primals)) if i not in booleans]
    order = max([len(terms) for terms in series if terms is not zero_series], default=0)
    terms_of_numbers = [
        [
            enp.zeros_like(primals[i]) if t is zero_term else t
            for t in ([zero_term] * order if series[i] is zero_series else series[i])
        ]
        for i in numbers
    ]
    return evaluate_jet(
        with_booleans, [primals[i] for i in numbers], terms_of_numbers, factorial_scaled=factorial_scaled
    )
