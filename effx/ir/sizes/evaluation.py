"""Evaluate sizes: their variables, and their values for values of the variables."""

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Final, TypeVar

from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.dimensions import Dim, SymbolicScope, size_from_terms, size_terms
from effx.ir.sizes.division import floordiv, maximum, minimum, mod

T = TypeVar("T")


def variables(n: int) -> tuple[str, ...]:
    """Returns the names of a size's variables, sorted."""
    if type(n) is not Dim:
        return ()
    names: set[str] = set()
    for m, _ in n.terms:
        for f, _ in m:
            names.update([f] if isinstance(f, str) else [v for x in f.operands for v in variables(x)])
    return tuple(sorted(names))


def evaluate(
    n: int,
    values: Mapping[str, T],
    constant: Callable[[int], T],
    operate: Callable[[str, T, T], T],
) -> T:
    """Computes a size.

    Args:
        n: the size.
        values: the values of the variables.
        constant: converts a number to the result's type.
        operate: computes "add", "mul", "floordiv", "mod", "max" or "min" of two values.

    Raises:
        KeyError: a variable has no value.
    """
    if type(n) is not Dim:
        return constant(n)
    total: T | None = None
    for m, c in n.terms:
        term: T | None = None
        for f, power in m:
            if isinstance(f, str):
                value = values[f]
            else:
                x, y = [evaluate(k, values, constant, operate) for k in f.operands]
                value = operate(f.function, x, y)
            for _ in range(power):
                term = value if term is None else operate("mul", term, value)
        if term is None:
            term = constant(c)
        elif c != 1:
            term = operate("mul", term, constant(c))
        total = term if total is None else operate("add", total, term)
    assert total is not None
    return total


_INTEGER: Final[Mapping[str, Callable[[int, int], int]]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "floordiv": floordiv,
    "mod": mod,
    "max": maximum,
    "min": minimum,
}


def substitute(n: int, values: Mapping[str, int]) -> int:
    """Returns a size with sizes for its variables, which may be symbolic themselves."""
    if type(n) is not Dim:
        return n
    return evaluate(n, values, lambda c: c, lambda name, x, y: _INTEGER[name](x, y))


# How many values are tried if algebra does not decide.
MAX_TRIED: Final = 4096


def is_largest(n: int, values: Mapping[str, int]) -> bool:
    """Returns whether a size is largest at these values, among all values up to them that its scope allows.

    False also if neither algebra nor a few thousand trials decide.

    >>> from effx.ir.sizes.shape_text import symbolic_shape
    >>> [is_largest(n, {"a": 8}) for n in symbolic_shape("2*a, a - mod(a, 3), 10 - a, mod(a, 4)")]
    [True, True, False, False]
    """
    if type(n) is not Dim or all(
        [c > 0 and all([isinstance(f, str) for f, _ in m]) for m, c in n.terms if m]
    ):
        return True  # it grows with each variable
    largest = substitute(n, values)
    limits = [(v, values[v]) for v in variables(n)]
    limited_scope = SymbolicScope((*n.scope.constraints, *[f"{v} <= {value}" for v, value in limits]))
    if bounds(size_from_terms(size_terms(n), limited_scope))[1] <= largest:
        return True
    if math.prod([value for _, value in limits]) > MAX_TRIED:
        return False
    assignments = [
        dict(chosen) for chosen in product(*[[(v, k) for k in range(1, value + 1)] for v, value in limits])
    ]
    return all(
        [
            substitute(n, assignment) <= largest
            for assignment in assignments
            if _is_allowed(n.scope, assignment)
        ]
    )


def _is_allowed(scope: SymbolicScope, values: Mapping[str, int]) -> bool:
    """Returns whether the constraints of a scope on these variables alone hold."""
    return all([substitute(n, values) >= 0 for n in scope.at_least if {*variables(n)} <= {*values}])
