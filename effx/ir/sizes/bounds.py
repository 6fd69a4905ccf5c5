"""Bounds of symbolic sizes, for all values of their variables.

A lower bound of a polynomial is found in two ways, and the better one counts. Term by term, with bounds for each factor.
And after a shift: with each factor f written as its lower bound l and a rest, `f = l + f'`, a polynomial in which no rest
has a negative coefficient is smallest where all rests are zero; that is how `a*b - a` is seen to be at least 0. What a
scope's constraints say to be at least zero may be taken away first, a multiple at a time, and of max and min each operand
is a case.

The bounds are sound, and not always the best ones: which inequalities of polynomials over the integers hold cannot be
decided (Matiyasevich, 1970).
"""

from effx.ir.sizes.dimensions import Dim, SymbolicScope, size_from_terms, size_terms, with_scope
from effx.ir.sizes.monomials import Factor, Monomial, SizeFunction, Terms, multiply_monomials

INFINITY = float("inf")
Bounds = tuple[float, float]
# How many constraints a bound may use together.
MAX_DEPTH = 3


def bounds(n: int, depth: int = MAX_DEPTH) -> Bounds:
    """Returns the least and the greatest value that a size can have; infinite if unbounded.

    >>> from effx.ir.sizes.shape_text import symbolic_shape
    >>> a, b = symbolic_shape("a, b", constraints=["a <= 8", "a >= b + 2"])
    >>> bounds(a), bounds(a - b), bounds(3 - b), bounds(a * b - a)
    ((3, 8), (2, 7), (-3, 2), (0, inf))
    """
    if type(n) is not Dim:
        return n, n
    return _lower_bound(n, depth), -_lower_bound(-n, depth)


def _lower_bound(n: int, depth: int) -> float:
    if type(n) is not Dim:
        return n
    terms = size_terms(n)
    best = max(_termwise_lower(terms, n.scope, depth), _shifted_lower(terms, n.scope, depth))
    if not depth:
        return best
    extremum = next(
        (f for m, _ in n.terms for f, _ in m if not isinstance(f, str) and f.function in ("max", "min")), None
    )
    if extremum is not None:
        # It is one of its operands.
        cases = [_substitute_factor(n, extremum, with_scope(x, n.scope)) for x in extremum.operands]
        best = max(best, min([_lower_bound(x, depth - 1) for x in cases]))
    for nonnegative in (*n.scope.at_least, *_implied_nonnegative(n)):
        if type(nonnegative) is not Dim:
            continue
        for m, k in nonnegative.terms:
            c = terms.get(m, 0)
            # n = q * known + rest with q >= 0 is at least the rest.
            if m and c * k > 0 and (q := c // k) > 0:
                best = max(best, _lower_bound(n - q * nonnegative, depth - 1))
    return best


def _substitute_factor(n: Dim, f: SizeFunction, value: int) -> int:
    """Returns a size with a factor replaced by a value."""
    total: int = 0
    for m, c in n.terms:
        powers = dict(m)
        power = powers.pop(f, 0)
        total = total + size_from_terms({tuple(powers.items()): c}, n.scope) * value**power
    return total


def _implied_nonnegative(n: Dim) -> list[int]:
    """Returns sizes that are at least zero by the definitions of the functions in a size."""
    nonnegative: list[int] = []
    for f in {f for m, _ in n.terms for f, _ in m if not isinstance(f, str)}:
        x, y = [with_scope(k, n.scope) for k in f.operands]
        value = size_from_terms({((f, 1),): 1}, n.scope)
        if f.function == "floordiv" and type(y) is not Dim and y > 0:
            # y * floordiv(x, y) is x less a remainder between 0 and y - 1.
            nonnegative += [x - y * value, y * value - x + (y - 1)]
        elif f.function == "max":
            nonnegative += [value - x, value - y]
        elif f.function == "min":
            nonnegative += [x - value, y - value]
    return nonnegative


def _multiply_bounds(x: Bounds, y: Bounds) -> Bounds:
    # Zero times infinity is zero: the factors are finite, only not bounded.
    products = [0.0 if 0 in (a, b) else a * b for a in x for b in y]
    return min(products), max(products)


def _termwise_lower(terms: Terms, scope: SymbolicScope, depth: int) -> float:
    total: float = 0
    for m, c in terms.items():
        interval: Bounds = (c, c)
        for f, power in m:
            low, high = factor_bounds(f, scope, depth)
            if power % 2 == 0 and low < 0:
                low, high = 0, max(-low, high)
            for _ in range(power):
                interval = _multiply_bounds(interval, (low, high))
        total += interval[0]
    return total


def _shifted_lower(terms: Terms, scope: SymbolicScope, depth: int) -> float:
    """Returns the constant of the polynomial in the factors' rests, if no other coefficient is negative."""
    lows = {f: factor_bounds(f, scope, depth)[0] for m in terms for f, _ in m}
    if -INFINITY in lows.values():
        return -INFINITY
    result: Terms = {}
    for m, c in terms.items():
        expanded: dict[Monomial, float] = {(): c}
        for f, power in m:
            for _ in range(power):
                following: dict[Monomial, float] = {}
                for n, d in expanded.items():
                    for product, k in ((n, d * lows[f]), (multiply_monomials(n, ((f, 1),)), d)):
                        following[product] = following.get(product, 0) + k
                expanded = following
        for n, d in expanded.items():
            result[n] = result.get(n, 0) + int(d)
    if any([d < 0 for n, d in result.items() if n]):
        return -INFINITY
    return result.get((), 0)


def factor_bounds(f: Factor, scope: SymbolicScope, depth: int) -> Bounds:
    """Returns the bounds of a variable, which is at least 1, or of a function of sizes."""
    if isinstance(f, str):
        return (1, INFINITY)
    x, y = [with_scope(n, scope) for n in f.operands]
    a, b = bounds(x, depth - 1) if depth else (-INFINITY, INFINITY)
    c, d = bounds(y, depth - 1) if depth else (-INFINITY, INFINITY)
    match f.function:
        case "max":
            return max(a, c), max(b, d)
        case "min":
            return min(a, c), min(b, d)
        case "mod":
            return (0, d - 1) if c > 0 else (-INFINITY, INFINITY)
        case _:
            return _quotient_bounds(x, y, (a, b), (c, d))


def _quotient_bounds(x: int, y: int, of_x: Bounds, of_y: Bounds) -> Bounds:
    (a, b), (c, d) = of_x, of_y
    if c <= 0:
        return -INFINITY, INFINITY
    low = _floor(a, c if a < 0 else d)
    high = _floor(b, d if b < 0 else c)
    # What is at least k times the divisor has a quotient of at least k.
    if a >= 0 and type(y) is Dim:
        k = 0
        while k < 4 and bounds(x - (k + 1) * y, 0)[0] >= 0:
            k += 1
        low = max(low, k)
    return low, high


def _floor(x: float, y: float) -> float:
    if x in (INFINITY, -INFINITY):
        return x
    return (0 if x >= 0 else -1) if y == INFINITY else x // y
