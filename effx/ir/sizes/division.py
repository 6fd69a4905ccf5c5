"""Quotients, remainders, maxima and minima of sizes, in one form for what is equal."""

from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.dimensions import Dim, SymbolicScope, joint_scope, of_terms, rescoped, terms_of
from effx.ir.sizes.monomials import Applied, Monomial, Terms, order, quotient, times


def apply(function: str, x: int, y: int) -> int:
    """Returns floordiv, mod, max or min of two sizes, simplified."""
    return {"floordiv": floordiv, "mod": mod, "max": larger, "min": smaller}[function](x, y)


def _applied(function: str, x: int, y: int, scope: SymbolicScope) -> int:
    return of_terms({((Applied(function, (rescoped(x), rescoped(y))), 1),): 1}, scope)


def exact_quotient(e: int, d: int) -> int | None:
    """Returns the size q with `e == q * d`, or None where there is no such polynomial."""
    left, divisor = terms_of(e), terms_of(d)
    if not divisor:
        return None
    scope = joint_scope("//", e, d)
    lead = min(divisor, key=order)
    found: Terms = {}
    # Each step takes away the leading term, so there are no more steps than monomials of that degree.
    for _ in range(64):
        if not left:
            return of_terms(found, scope)
        m = min(left, key=order)
        n = quotient(m, lead)
        if n is None or left[m] % divisor[lead]:
            return None
        c = left[m] // divisor[lead]
        found[n] = found.get(n, 0) + c
        for k, b in divisor.items():
            product = times(n, k)
            left[product] = left.get(product, 0) - c * b
            if not left[product]:
                del left[product]
    return None


def floordiv(e: int, d: int) -> int:
    """Returns the size `e // d`."""
    if type(e) is not Dim and type(d) is not Dim:
        return e // d
    scope = joint_scope("//", e, d)
    found = exact_quotient(e, d)
    if found is not None:
        return found
    if type(d) is not Dim and d < 0:
        return floordiv(-e, -d)
    # What d divides comes out.
    taken, rest = _divisible(e, d)
    if taken:
        return of_terms(taken, scope) + floordiv(of_terms(rest, scope), d)
    if type(d) is not Dim and d > 1:
        ((m, c), *_) = sorted(rest.items(), key=lambda item: order(item[0]))
        if m and c < 0:
            # One form for what rounds up: -(-n // d) and (n + d - 1) // d.
            return -floordiv(-e + (d - 1), d)

    if bounds(e)[0] >= 0 and bounds(d - e)[0] > 0:
        return 0
    if bounds(e)[1] < 0 and bounds(d + e)[0] >= 0:
        return -1
    return _applied("floordiv", e, d, scope)


def _divisible(e: int, d: int) -> tuple[Terms, Terms]:
    """Splits a size into the quotients of the terms that d divides, and the other terms."""
    divisor = terms_of(d)
    if len(divisor) != 1:
        return {}, terms_of(e)
    ((n, b),) = divisor.items()
    taken: Terms = {}
    rest: Terms = {}
    for m, c in terms_of(e).items():
        q = quotient(m, n)
        if m == () and not n:
            # A constant: what is left lies between 0 and d.
            if c // b:
                taken[()] = c // b
            if c % b:
                rest[()] = c % b
        elif q is not None and c % b == 0:
            taken[q] = c // b
        else:
            rest[m] = c
    return taken, rest


def mod(e: int, d: int) -> int:
    """Returns the size `e % d`, which has d's sign."""
    if type(e) is not Dim and type(d) is not Dim:
        return e % d
    scope = joint_scope("%", e, d)
    if exact_quotient(e, d) is not None:
        return 0
    if type(d) is not Dim and d > 0:
        left: Terms = {}
        for m, c in terms_of(e).items():
            known = _known_remainder(m, d, scope) if m and scope.equal else None
            place = m if known is None else ()
            left[place] = left.get(place, 0) + (c if known is None else c * known)
        rest = of_terms({m: c % d for m, c in left.items()}, scope)
    else:
        rest = of_terms(_divisible(e, d)[1], scope)
    if type(rest) is not Dim and type(d) is not Dim:
        return rest % d

    if bounds(rest)[0] >= 0 and bounds(d - rest)[0] > 0:
        return rest
    if bounds(rest)[1] < 0 and bounds(d + rest)[0] >= 0:
        return d + rest
    return _applied("mod", rest, d, scope)


def _known_remainder(m: Monomial, d: int, scope: SymbolicScope) -> int | None:
    """Returns the remainder that the constraints say a product has."""
    for product, r in scope.equal:
        if len(product) != 1 or isinstance(product[0][0], str) or type(r) is Dim:
            continue
        e, by = product[0][0].operands
        if product[0][0].function == "mod" and type(by) is not Dim and by % d == 0 and terms_of(e) == {m: 1}:
            return r % d
    return None


def larger(x: int, y: int) -> int:
    """Returns the larger of two sizes, as a function of the variables where that depends on them."""
    return _extreme("max", x, y)


def smaller(x: int, y: int) -> int:
    """Returns the smaller of two sizes, as a function of the variables where that depends on them."""
    return _extreme("min", x, y)


def _extreme(function: str, x: int, y: int) -> int:
    if type(x) is not Dim and type(y) is not Dim:
        return max(x, y) if function == "max" else min(x, y)
    scope = joint_scope(function, x, y)

    low, high = bounds(x - y)
    if low >= 0:
        return x if function == "max" else y
    if high <= 0:
        return y if function == "max" else x
    # One form for both orders of the operands.
    x, y = sorted((x, y), key=lambda n: (type(n) is not Dim, str(n)))
    return _applied(function, x, y, scope)
