"""Symbolic sizes: integer polynomials of dimension variables, which stand in shapes where a size is not known yet.

A size that does not depend on a variable is always a plain int, so code that never meets a variable never meets this
module. Where a size is symbolic, arithmetic gives another size, and a comparison gives its truth if that is the same for
all values of the variables, else an error that names the sizes.

Never: read or print specifications of shapes (`effx.ir.shape_text`), or decide inequalities (`effx.ir.bounds`).
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import attrs

from effx.errors import InconclusiveDimensionOperation, ShapeError

if TYPE_CHECKING:
    # For the type checker a symbolic size is an int, so that shapes are tuples of ints everywhere. At run time it is
    # none: C code would read an int's own digits behind Python's back.
    _Int = int
else:
    _Int = object

T = TypeVar("T")


def _unconstrained(sizes: tuple[int, int]) -> tuple[int, int]:
    return rescoped(sizes[0]), rescoped(sizes[1])


@final
@attrs.frozen(order=False)
class Applied:
    """A function of sizes that is no polynomial, as a factor: floordiv, mod, max or min of two operands.

    The operands are in the scope without constraints, so that one factor is the same in every scope.
    """

    function: str
    operands: tuple[int, int] = attrs.field(converter=_unconstrained)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.operands))})"


Factor = str | Applied
# Factors with their powers, sorted; () is the constant's.
Monomial = tuple[tuple[Factor, int], ...]
Terms = dict[Monomial, int]


def _texts(constraints: Sequence[str]) -> tuple[str, ...]:
    return tuple(constraints)


@final
@attrs.frozen
class SymbolicScope:
    """What is known of the variables of some symbolic sizes beside that each is at least 1.

    Attributes:
        constraints: inequalities and equations as text, such as `"a >= 2*b"` or `"mod(a, 8) == 0"`.

    Raises:
        ValueError: a constraint does not parse, or the left side of an equation is no product of variables or functions.

    >>> from effx.export import symbolic_shape
    >>> (a,) = symbolic_shape("a", scope=SymbolicScope(["a >= 4"]))
    >>> a >= 3
    True
    """

    constraints: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    # Sizes that are at least zero, and products with what they are equal to.
    _at_least: "tuple[Dim, ...]" = attrs.field(init=False, eq=False, repr=False, factory=tuple)
    _equal: "tuple[tuple[Monomial, int], ...]" = attrs.field(init=False, eq=False, repr=False, factory=tuple)

    def __attrs_post_init__(self) -> None:
        if not self.constraints:
            return
        parse_constraint = _above("shape_text").parse_constraint
        put = object.__setattr__
        plain = SymbolicScope()
        for text in self.constraints:
            left, relation, right = parse_constraint(text, plain)
            if relation == "==":
                terms = terms_of(left)
                if len(terms) != 1 or () in terms or next(iter(terms.values())) != 1:
                    raise ValueError(
                        f"SymbolicScope: the left side of an equation must be a product of variables or functions, "
                        f"got {text!r}"
                    )
                if any([quotient(m, next(iter(terms))) is not None for m in terms_of(right)]):
                    raise ValueError(f"SymbolicScope: {text!r} says what {left!r} is by {left!r} itself")
                put(self, "_equal", (*self._equal, (next(iter(terms)), right)))
        for text in self.constraints:
            left, relation, right = parse_constraint(text, plain)
            if relation != "==":
                difference = left - right if relation == ">=" else right - left
                rewritten = of_terms(terms_of(difference), self)
                if isinstance(rewritten, Dim):
                    put(self, "_at_least", (*self._at_least, rewritten))
                elif rewritten < 0:
                    raise ValueError(f"SymbolicScope: the constraint {text!r} never holds")

    @property
    def at_least(self) -> "tuple[Dim, ...]":
        """Sizes that the constraints say are not negative."""
        return self._at_least

    @property
    def equal(self) -> "tuple[tuple[Monomial, int], ...]":
        """Products of factors, and the sizes that stand for them."""
        return self._equal


NO_CONSTRAINTS: Final = SymbolicScope()


@final
class Dim(_Int):
    """A symbolic size, such as `2*b + 1`. Made by `symbolic_shape` and by arithmetic.

    `==` is True where both sides are equal for all values of the variables, and False otherwise. An order is told where
    it is the same for all values.

    Raises:
        InconclusiveDimensionOperation: an order depends on the values, or an int is asked for.
        ShapeError: the sizes of an operation are of scopes with different constraints.

    >>> from effx.export import symbolic_shape
    >>> b, n = symbolic_shape("b, n")
    >>> (b + n) * 2 - n, (4 * b + 2) // 2, b * n // n, b + 1 > 1
    (2*b + n, 2*b + 1, b, True)
    """

    __slots__ = ("_hash", "scope", "terms")
    terms: tuple[tuple[Monomial, int], ...]
    scope: SymbolicScope
    _hash: int

    if not TYPE_CHECKING:

        def __init__(self, terms, scope):
            put = object.__setattr__
            put(self, "terms", terms)
            put(self, "scope", scope)
            put(self, "_hash", hash((terms, scope)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"symbolic sizes are immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return of_terms, (dict(self.terms), self.scope)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return show(self.terms)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    # arithmetic

    def __add__(self, other: int) -> int:
        if not is_size(other):
            return self._as_array("__add__", other)
        scope = joint_scope("+", self, other)
        terms = dict(self.terms)
        for m, c in terms_of(other).items():
            terms[m] = terms.get(m, 0) + c
        return of_terms(terms, scope)

    __radd__ = __add__

    def __neg__(self) -> int:
        return _made(tuple([(m, -c) for m, c in self.terms]), self.scope)

    def __pos__(self) -> int:
        return self

    def __sub__(self, other: int) -> int:
        return self + -other if is_size(other) else self._as_array("__sub__", other)

    def __rsub__(self, other: int) -> int:
        return -self + other if is_size(other) else self._as_array("__rsub__", other)

    def __mul__(self, other: int) -> int:
        if not is_size(other):
            return self._as_array("__mul__", other)
        scope = joint_scope("*", self, other)
        terms: Terms = {}
        for m, c in self.terms:
            for n, d in terms_of(other).items():
                product = times(m, n)
                terms[product] = terms.get(product, 0) + c * d
        return of_terms(terms, scope)

    __rmul__ = __mul__

    def __pow__(self, exponent: int, modulus: int | None = None) -> int:  # type: ignore[override]  # int's overloads give floats
        if type(exponent) is not int or modulus is not None:
            return NotImplemented
        if exponent < 0:
            raise ShapeError(f"symbolic size: {self!r} has no power {exponent}; powers must not be negative")
        product = 1
        for _ in range(exponent):
            product = product * self
        return product

    def __floordiv__(self, other: int) -> int:
        return floordiv(self, other) if is_size(other) else self._as_array("__floordiv__", other)

    def __rfloordiv__(self, other: int) -> int:
        return floordiv(other, self) if is_size(other) else self._as_array("__rfloordiv__", other)

    def __mod__(self, other: int) -> int:
        return mod(self, other) if is_size(other) else self._as_array("__mod__", other)

    def __rmod__(self, other: int) -> int:
        return mod(other, self) if is_size(other) else self._as_array("__rmod__", other)

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        return other // self, other % self

    def __abs__(self) -> int:
        return self if self >= 0 else -self

    # comparisons

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is Dim
            and self._hash == other._hash
            and self.terms == other.terms
            and self.scope == other.scope
        )

    def __ge__(self, other: int) -> bool:
        return self._compare(">=", other)

    def __le__(self, other: int) -> bool:
        return self._compare("<=", other)

    def __gt__(self, other: int) -> bool:
        return self._compare(">", other)

    def __lt__(self, other: int) -> bool:
        return self._compare("<", other)

    def _compare(self, relation: str, other: int) -> bool:
        if not is_size(other):
            return cast("bool", self._as_array(_METHODS[relation], other))

        joint_scope(relation, self, other)
        low, high = _bounds(self - other)
        # What each relation needs to be true for all values, and what makes it false for all.
        true, false = {
            ">=": (low >= 0, high < 0),
            "<=": (high <= 0, low > 0),
            ">": (low > 0, high <= 0),
            "<": (high < 0, low >= 0),
        }[relation]
        if true or false:
            return true
        named = ", ".join(sorted({*variables(self), *variables(other)}))
        strict = {">": f"{self!r} >= {other + 1!r}", "<": f"{self + 1!r} <= {other!r}"}
        constraint = strict.get(relation, f"{self!r} {relation} {other!r}")
        raise InconclusiveDimensionOperation(
            f"symbolic size: whether {self!r} {relation} {other!r} depends on the values of {named}; "
            f"a constraint may say it: symbolic_shape(..., constraints=[{constraint!r}])"
        )

    # what needs a number

    def __bool__(self) -> bool:

        low, high = _bounds(self)
        if low > 0 or high < 0:
            return True
        raise InconclusiveDimensionOperation(
            f"symbolic size: whether {self!r} is zero depends on the values of {', '.join(variables(self))}"
        )

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(
            f"symbolic size: {self!r} has no value while tracing; a loop over it is a scan or fori_loop, "
            f"and an array of it comes from asarray"
        )

    __index__ = __int__

    def __float__(self) -> float:
        return self.__int__()

    def __effx_array__(self) -> Any:
        """Returns the size as an integer scalar of weak type, which is known when the program runs."""
        return _above("ops.sizes").Size(self)()

    # NumPy's arrays leave operators to this class.
    __array_ufunc__ = None

    def _as_array(self, method: str, other: object) -> int:
        """Computes with the size as an array, for operands that are no sizes; so the result is no size either."""
        return cast("int", getattr(self.__effx_array__(), method)(other))

    def __truediv__(self, other: object) -> Any:
        return self._as_array("__truediv__", other if type(other) is not Dim else other.__effx_array__())

    def __rtruediv__(self, other: object) -> Any:
        return self._as_array("__rtruediv__", other)


def _made(terms: tuple[tuple[Monomial, int], ...], scope: SymbolicScope) -> Dim:
    """Makes a size, which the type checker takes for an int."""
    make: Callable[..., Dim] = Dim
    return make(terms, scope)


_METHODS: Final = {">=": "__ge__", "<=": "__le__", ">": "__gt__", "<": "__lt__"}


def _above(name: str) -> Any:
    """Returns a module of the IR that stands above this one, since it computes with sizes."""
    return importlib.import_module(f"effx.ir.{name}")


def _bounds(n: int) -> tuple[float, float]:
    """Returns between which numbers a size lies."""
    found: tuple[float, float] = _above("bounds").bounds(n)
    return found


def is_size(x: object) -> bool:
    """Says whether something is an int or a symbolic size; a bool is none."""
    return type(x) is int or type(x) is Dim or (isinstance(x, int) and not isinstance(x, bool))


def is_symbolic(n: object) -> bool:
    """Says whether a size is symbolic."""
    return type(n) is Dim


def has_symbolic(shape: Sequence[int]) -> bool:
    """Says whether a shape has a symbolic size."""
    return any([type(n) is Dim for n in shape])


def as_size(n: Any) -> int:
    """Returns an int, or a symbolic size as it is, from anything that `operator.index` takes."""
    return n if type(n) is Dim else index(n)


def rescoped(n: int, scope: "SymbolicScope | None" = None) -> int:
    """Returns a size as it is in another scope; without constraints if none is given."""
    if type(n) is not Dim:
        return n
    where = NO_CONSTRAINTS if scope is None else scope
    return n if n.scope is where else _made(n.terms, where)


def joint_scope(what: str, *sizes: int) -> SymbolicScope:
    """Returns the scope of sizes that meet.

    Raises:
        ShapeError: two scopes have different constraints.
    """
    first: Dim | None = None
    for n in sizes:
        if type(n) is Dim:
            if first is None:
                first = n
            elif n.scope != first.scope:
                raise ShapeError(
                    f"symbolic size: {first!r} {what} {n!r} mixes symbolic scopes: the constraints of the first are "
                    f"{list(first.scope.constraints)}, those of the second {list(n.scope.constraints)}"
                )
    return NO_CONSTRAINTS if first is None else first.scope


# --- terms -----------------------------------------------------------------------------------------


def terms_of(n: int) -> Terms:
    """Returns a size's terms."""
    return dict(n.terms) if type(n) is Dim else ({(): n} if n else {})


def _order(m: Monomial) -> tuple[int, str]:
    return -sum([power for _, power in m]), _product(m)


def _product(m: Monomial) -> str:
    return "*".join([str(f) if power == 1 else f"{f}^{power}" for f, power in m])


def show(terms: Iterable[tuple[Monomial, int]]) -> str:
    """Returns terms as text: `2*a*b - 1`."""
    text = ""
    for m, c in terms:
        size = abs(c)
        term = _product(m) if size == 1 and m else f"{size}*{_product(m)}" if m else str(size)
        text += (f"-{term}" if c < 0 else term) if not text else (f" - {term}" if c < 0 else f" + {term}")
    return text or "0"


def times(m: Monomial, n: Monomial) -> Monomial:
    """Returns the product of two monomials."""
    powers = dict(m)
    for f, p in n:
        powers[f] = powers.get(f, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """Returns m / n, or None where n does not divide m."""
    powers = dict(m)
    for f, p in n:
        left = powers.get(f, 0) - p
        if left < 0:
            return None
        powers[f] = left
    return tuple([(f, p) for f, p in powers.items() if p])


def of_terms(terms: Terms, scope: SymbolicScope = NO_CONSTRAINTS) -> int:
    """Returns the size with these terms: an int where no variable is left."""
    for product, value in scope.equal:
        terms = _rewritten(terms, product, value)
    terms = _joined({m: c for m, c in terms.items() if c}, scope)
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return _made(tuple(sorted(terms.items(), key=lambda item: _order(item[0]))), scope)


def _rewritten(terms: Terms, product: Monomial, value: int) -> Terms:
    """Puts a size for a product of factors wherever it occurs."""
    if not any([quotient(m, product) is not None for m in terms]):
        return terms
    result: Terms = {}
    for m, c in terms.items():
        rest = quotient(m, product)
        parts = {m: c} if rest is None else {times(rest, n): c * d for n, d in terms_of(value).items()}
        for n, d in parts.items():
            result[n] = result.get(n, 0) + d
    return _rewritten(result, product, value)


def _joined(terms: Terms, scope: SymbolicScope) -> Terms:
    """Puts `e` for `d*floordiv(e, d) + mod(e, d)`."""
    for m, c in list(terms.items()):
        if len(m) != 1 or m[0][1] != 1:
            continue
        factor = m[0][0]
        if not isinstance(factor, Applied) or factor.function != "mod":
            continue
        e, d = factor.operands
        whole: Monomial = ((Applied("floordiv", (e, d)), 1),)
        changed = {n: k for n, k in terms.items() if n != m}
        for n, k in terms_of(d).items():
            product = times(n, whole)
            changed[product] = changed.get(product, 0) - c * k
        for n, k in terms_of(e).items():
            changed[n] = changed.get(n, 0) + c * k
        changed = {n: k for n, k in changed.items() if k}
        if len(changed) < len(terms):
            return _joined(changed, scope)
    return terms


def variable(name: str, scope: SymbolicScope = NO_CONSTRAINTS) -> int:
    """Returns a dimension variable as a size."""
    return of_terms({((name, 1),): 1}, scope)


def apply(function: str, x: int, y: int) -> int:
    """Returns floordiv, mod, max or min of two sizes, simplified."""
    return {"floordiv": floordiv, "mod": mod, "max": larger, "min": smaller}[function](x, y)


def _applied(function: str, x: int, y: int, scope: SymbolicScope) -> int:
    return of_terms({((Applied(function, (x, y)), 1),): 1}, scope)


# --- division ----------------------------------------------------------------------------------------


def exact_quotient(e: int, d: int) -> int | None:
    """Returns the size q with `e == q * d`, or None where there is no such polynomial."""
    left, divisor = terms_of(e), terms_of(d)
    if not divisor:
        return None
    scope = joint_scope("//", e, d)
    lead = min(divisor, key=_order)
    found: Terms = {}
    # Each step takes away the leading term, so there are no more steps than monomials of that degree.
    for _ in range(64):
        if not left:
            return of_terms(found, scope)
        m = min(left, key=_order)
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
        ((m, c), *_) = sorted(rest.items(), key=lambda item: _order(item[0]))
        if m and c < 0:
            # One form for what rounds up: -(-n // d) and (n + d - 1) // d.
            return -floordiv(-e + (d - 1), d)

    if _bounds(e)[0] >= 0 and _bounds(d - e)[0] > 0:
        return 0
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
        rest = of_terms({m: c % d for m, c in terms_of(e).items()}, scope)
    else:
        rest = of_terms(_divisible(e, d)[1], scope)
    if type(rest) is not Dim and type(d) is not Dim:
        return rest % d

    if _bounds(rest)[0] >= 0 and _bounds(d - rest)[0] > 0:
        return rest
    return _applied("mod", rest, d, scope)


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

    low, high = _bounds(x - y)
    if low >= 0:
        return x if function == "max" else y
    if high <= 0:
        return y if function == "max" else x
    # One form for both orders of the operands.
    x, y = sorted((x, y), key=lambda n: (type(n) is not Dim, str(n)))
    return _applied(function, x, y, scope)


# --- what stands in sizes ------------------------------------------------------------------------------


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
