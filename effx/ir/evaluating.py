"""What stands in sizes, and what they are for values of their variables."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from effx.ir.dimensions import Dim
from effx.ir.division import floordiv, larger, mod, smaller

T = TypeVar("T")


def variables(n: int) -> tuple[str, ...]:
    """Returns the names of a size's variables, sorted."""
    if type(n) is not Dim:
        return ()
    found: set[str] = set()
    for m, _ in n.terms:
        for f, _ in m:
            found.update([f] if isinstance(f, str) else [v for x in f.operands for v in variables(x)])
    return tuple(sorted(found))


def evaluate(
    n: int,
    values: Mapping[str, T],
    constant: Callable[[int], T],
    operate: Callable[[str, T, T], T],
) -> T:
    """Computes a size.

    Args:
        n: the size.
        values: of the variables.
        constant: what a number is in the result's type.
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
    "max": larger,
    "min": smaller,
}


def substitute(n: int, values: Mapping[str, int]) -> int:
    """Returns a size with sizes for its variables, which may be symbolic themselves."""
    if type(n) is not Dim:
        return n
    return evaluate(n, values, lambda c: c, lambda name, x, y: _INTEGER[name](x, y))
