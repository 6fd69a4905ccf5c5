"""Quotients, remainders, maxima and minima of sizes, in a normal form."""

from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.dimensions import Dim, SymbolicScope, shared_scope, size_from_terms, size_terms, with_scope
from effx.ir.sizes.monomials import (
    Monomial,
    SizeFunction,
    Terms,
    divide_monomials,
    monomial_sort_key,
    multiply_monomials,
)


def apply_function(function: str, x: int, y: int) -> int:
    """Returns floordiv, mod, max or min of two sizes, simplified."""
    return {"floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum}[function](x, y)


def _make_function_term(function: str, x: int, y: int, scope: SymbolicScope) -> int:
    return size_from_terms({((SizeFunction(function, (with_scope(x), with_scope(y))), 1),): 1}, scope)


def exact_quotient(e: int, d: int) -> int | None:
    """Returns the size q with `e == q * d`, or None where there is no such polynomial."""
    left, divisor = size_terms(e), size_terms(d)
    if not divisor:
        return None
    scope = shared_scope("//", e, d)
    lead = min(divisor, key=monomial_sort_key)
    quotient_terms: Terms = {}
    # Each step takes away the leading term, so there are no more steps than monomials of that degree.
    for _ in range(64):
        if not left:
            return size_from_terms(quotient_terms, scope)
        m = min(left, key=monomial_sort_key)
        n = divide_monomials(m, lead)
        if n is None or left[m] % divisor[lead]:
            return None
        c = left[m] // divisor[lead]
        quotient_terms[n] = quotient_terms.get(n, 0) + c
        for k, b in divisor.items():
            product = multiply_monomials(n, k)
            left[product] = left.get(product, 0) - c * b
            if not left[product]:
                del left[product]
    return None


def floordiv(e: int, d: int) -> int:
    """Returns the size `e // d`."""
    if type(e) is not Dim and type(d) is not Dim:
        return e // d
    scope = shared_scope("//", e, d)
    exact = exact_quotient(e, d)
    if exact is not None:
        return exact
    if type(d) is not Dim and d < 0:
        return floordiv(-e, -d)
    # What d divides comes out.
    quotients, rest = _split_divisible(e, d)
    if quotients:
        return size_from_terms(quotients, scope) + floordiv(size_from_terms(rest, scope), d)
    if type(d) is not Dim and d > 1:
        ((m, c), *_) = sorted(rest.items(), key=lambda item: monomial_sort_key(item[0]))
        if m and c < 0:
            # One form for what rounds up: -(-n // d) and (n + d - 1) // d.
            return -floordiv(-e + (d - 1), d)

    if bounds(e)[0] >= 0 and bounds(d - e)[0] > 0:
        return 0
    if bounds(e)[1] < 0 and bounds(d + e)[0] >= 0:
        return -1
    return _make_function_term("floordiv", e, d, scope)


def _split_divisible(e: int, d: int) -> tuple[Terms, Terms]:
    """Splits a size into the quotients of the terms that d divides, and the other terms."""
    divisor = size_terms(d)
    if len(divisor) != 1:
        return {}, size_terms(e)
    ((n, b),) = divisor.items()
    quotients: Terms = {}
    rest: Terms = {}
    for m, c in size_terms(e).items():
        q = divide_monomials(m, n)
        if m == () and not n:
            # A constant: what is left lies between 0 and d.
            if c // b:
                quotients[()] = c // b
            if c % b:
                rest[()] = c % b
        elif q is not None and c % b == 0:
            quotients[q] = c // b
        else:
            rest[m] = c
    return quotients, rest


def mod(e: int, d: int) -> int:
    """Returns the size `e % d`, which has d's sign."""
    if type(e) is not Dim and type(d) is not Dim:
        return e % d
    scope = shared_scope("%", e, d)
    if exact_quotient(e, d) is not None:
        return 0
    if type(d) is not Dim and d > 0:
        left: Terms = {}
        for m, c in size_terms(e).items():
            remainder = _known_remainder(m, d, scope) if m and scope.equal else None
            monomial = m if remainder is None else ()
            left[monomial] = left.get(monomial, 0) + (c if remainder is None else c * remainder)
        rest = size_from_terms({m: c % d for m, c in left.items()}, scope)
    else:
        rest = size_from_terms(_split_divisible(e, d)[1], scope)
    if type(rest) is not Dim and type(d) is not Dim:
        return rest % d

    if bounds(rest)[0] >= 0 and bounds(d - rest)[0] > 0:
        return rest
    if bounds(rest)[1] < 0 and bounds(d + rest)[0] >= 0:
        return d + rest
    return _make_function_term("mod", rest, d, scope)


def _known_remainder(m: Monomial, d: int, scope: SymbolicScope) -> int | None:
    """Returns the remainder of a product by the constraints; None if unknown."""
    for product, r in scope.equal:
        if len(product) != 1 or isinstance(product[0][0], str) or type(r) is Dim:
            continue
        e, by = product[0][0].operands
        if (
            product[0][0].function == "mod"
            and type(by) is not Dim
            and by % d == 0
            and size_terms(e) == {m: 1}
        ):
            return r % d
    return None


def maximum(x: int, y: int) -> int:
    """Returns the larger of two sizes, as a function of the variables where that depends on them."""
    return _extremum("max", x, y)


def minimum(x: int, y: int) -> int:
    """Returns the smaller of two sizes, as a function of the variables where that depends on them."""
    return _extremum("min", x, y)


def _extremum(function: str, x: int, y: int) -> int:
    if type(x) is not Dim and type(y) is not Dim:
        return max(x, y) if function == "max" else min(x, y)
    scope = shared_scope(function, x, y)

    low, high = bounds(x - y)
    if low >= 0:
        return x if function == "max" else y
    if high <= 0:
        return y if function == "max" else x
    # One form for both orders of the operands.
    x, y = sorted((x, y), key=lambda n: (type(n) is not Dim, str(n)))
    return _make_function_term(function, x, y, scope)
