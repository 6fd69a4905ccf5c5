"""Symbolic sizes: integer polynomials of dimension variables, used in shapes for sizes that are not known yet.

A size that does not depend on a variable is always a plain int, so code without variables never uses this
module. Where a size is symbolic, arithmetic gives another size, and a comparison gives its truth if that is the same for
all values of the variables, else an error that names the sizes.

Symbolic sizes are part of the shapes and parameters of the one IR: there is no second kind of type, and handlers
do not distinguish them. Code that needs a number raises an error that names the size.

Never: read or print specifications of shapes (`effx.ir.sizes.shape_text`), or decide inequalities (`effx.ir.sizes.bounds`).
"""

from collections.abc import Callable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Final, cast, final

import attrs

from effx.errors import InconclusiveDimensionOperation, ShapeError
from effx.ir.sizes.monomials import (
    Monomial,
    SizeFunction,
    Terms,
    divide_monomials,
    format_terms,
    monomial_sort_key,
    multiply_monomials,
)
from effx.ports import sizes

if TYPE_CHECKING:
    # For the type checker a symbolic size is an int, so that shapes are tuples of ints everywhere. At run time it is
    # none: C code would read an int's own digits behind Python's back.
    _Int = int
else:
    _Int = object


def _as_tuple(constraints: Sequence[str]) -> tuple[str, ...]:
    return tuple(constraints)


# Scopes are compared by their constraints, not by identity, so that types stay interned.
@final
@attrs.frozen
class SymbolicScope:
    """The constraints on the variables of symbolic sizes, beside that each is at least 1.

    Args:
        constraints_str: inequalities and equations as text, such as `"a >= 2*b"` or `"mod(a, 8) == 0"`.

    Attributes:
        constraints: these texts.

    Raises:
        ValueError: a constraint does not parse, or the left side of an equation is no product of variables or functions.

    >>> from effx.export import symbolic_shape
    >>> (a,) = symbolic_shape("a", scope=SymbolicScope(["a >= 4"]))
    >>> a >= 3
    True
    """

    constraints: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple, alias="constraints_str")
    # Sizes that are at least zero, and products with what they are equal to.
    _at_least: "tuple[Dim, ...]" = attrs.field(init=False, eq=False, repr=False, factory=tuple)
    _equal: "tuple[tuple[Monomial, int], ...]" = attrs.field(init=False, eq=False, repr=False, factory=tuple)

    def __attrs_post_init__(self) -> None:
        if not self.constraints:
            return
        parse_constraint = sizes.shape_text.parse_constraint
        put = object.__setattr__
        plain = SymbolicScope()
        for text in self.constraints:
            left, relation, right = parse_constraint(text, plain)
            if relation == "==":
                terms = size_terms(left)
                if len(terms) != 1 or () in terms or next(iter(terms.values())) != 1:
                    raise ValueError(
                        f"SymbolicScope: the left side of an equation must be a product of variables or functions, "
                        f"got {text!r}"
                    )
                if any([divide_monomials(m, next(iter(terms))) is not None for m in size_terms(right)]):
                    raise ValueError(f"SymbolicScope: {text!r} says what {left!r} is by {left!r} itself")
                put(self, "_equal", (*self._equal, (next(iter(terms)), right)))
        for text in self.constraints:
            left, relation, right = parse_constraint(text, plain)
            if relation != "==":
                difference = left - right if relation == ">=" else right - left
                rewritten = size_from_terms(size_terms(difference), self)
                if isinstance(rewritten, Dim):
                    put(self, "_at_least", (*self._at_least, rewritten))
                elif rewritten < 0:
                    raise ValueError(f"SymbolicScope: the constraint {text!r} never holds")

    @property
    def at_least(self) -> "tuple[Dim, ...]":
        """The sizes that the constraints state to be not negative."""
        return self._at_least

    @property
    def equal(self) -> "tuple[tuple[Monomial, int], ...]":
        """Products of factors, and the sizes that replace them."""
        return self._equal


NO_CONSTRAINTS: Final = SymbolicScope()


@final
class Dim(_Int):
    """A symbolic size, such as `2*b + 1`. Made by `symbolic_shape` and by arithmetic.

    `==` is True where both sides are equal for all values of the variables, and False otherwise. An order is known if
    it is the same for all values.

    Raises:
        InconclusiveDimensionOperation: an order depends on the values, or an int is needed.
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
        return size_from_terms, (dict(self.terms), self.scope)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return format_terms(self.terms)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    # arithmetic

    def __add__(self, other: int) -> int:
        if not is_size(other):
            return self._as_array("__add__", other)
        scope = shared_scope("+", self, other)
        terms = dict(self.terms)
        for m, c in size_terms(other).items():
            terms[m] = terms.get(m, 0) + c
        return size_from_terms(terms, scope)

    __radd__ = __add__

    def __neg__(self) -> int:
        return _make_dim(tuple([(m, -c) for m, c in self.terms]), self.scope)

    def __pos__(self) -> int:
        return self

    def __sub__(self, other: int) -> int:
        return self + -other if is_size(other) else self._as_array("__sub__", other)

    def __rsub__(self, other: int) -> int:
        return -self + other if is_size(other) else self._as_array("__rsub__", other)

    def __mul__(self, other: int) -> int:
        if not is_size(other):
            return self._as_array("__mul__", other)
        scope = shared_scope("*", self, other)
        terms: Terms = {}
        for m, c in self.terms:
            for n, d in size_terms(other).items():
                product = multiply_monomials(m, n)
                terms[product] = terms.get(product, 0) + c * d
        return size_from_terms(terms, scope)

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
        return (
            _apply_division("floordiv", self, other)
            if is_size(other)
            else self._as_array("__floordiv__", other)
        )

    def __rfloordiv__(self, other: int) -> int:
        return (
            _apply_division("floordiv", other, self)
            if is_size(other)
            else self._as_array("__rfloordiv__", other)
        )

    def __mod__(self, other: int) -> int:
        return _apply_division("mod", self, other) if is_size(other) else self._as_array("__mod__", other)

    def __rmod__(self, other: int) -> int:
        return _apply_division("mod", other, self) if is_size(other) else self._as_array("__rmod__", other)

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

        shared_scope(relation, self, other)
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
        named = ", ".join(sorted({*sizes.evaluation.variables(self), *sizes.evaluation.variables(other)}))
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
        named = ", ".join(sizes.evaluation.variables(self))
        raise InconclusiveDimensionOperation(
            f"symbolic size: whether {self!r} is zero depends on the values of {named}"
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
        return sizes.operations.SizeValue(self)()

    # NumPy's arrays leave operators to this class.
    __array_ufunc__ = None

    def _as_array(self, method: str, other: object) -> int:
        """Computes with the size as an array, for operands that are no sizes; so the result is no size either."""
        return cast("int", getattr(self.__effx_array__(), method)(other))

    def __truediv__(self, other: object) -> Any:
        return self._as_array("__truediv__", other if type(other) is not Dim else other.__effx_array__())

    def __rtruediv__(self, other: object) -> Any:
        return self._as_array("__rtruediv__", other)


def _make_dim(terms: tuple[tuple[Monomial, int], ...], scope: SymbolicScope) -> Dim:
    """Makes a size, which the type checker takes for an int."""
    make: Callable[..., Dim] = Dim
    return make(terms, scope)


_METHODS: Final = {">=": "__ge__", "<=": "__le__", ">": "__gt__", "<": "__lt__"}


def _apply_division(function: str, x: int, y: int) -> int:
    """Returns a quotient or remainder."""
    result: int = getattr(sizes.division, function)(x, y)
    return result


def _bounds(n: int) -> tuple[float, float]:
    """Returns the bounds of a size."""
    interval: tuple[float, float] = sizes.bounds.bounds(n)
    return interval


def is_size(x: object) -> bool:
    """Returns whether a value is an int or a symbolic size; a bool is not."""
    return type(x) is int or type(x) is Dim or (isinstance(x, int) and not isinstance(x, bool))


def is_symbolic(n: object) -> bool:
    """Returns whether a size is symbolic."""
    return type(n) is Dim


def has_symbolic(shape: Sequence[int]) -> bool:
    """Returns whether a shape has a symbolic size."""
    return any([type(n) is Dim for n in shape])


def as_size(n: Any) -> int:
    """Converts a value to an int by `operator.index`; a symbolic size is returned unchanged."""
    return n if type(n) is Dim else index(n)


def with_scope(n: int, scope: "SymbolicScope | None" = None) -> int:
    """Returns a size in another scope; by default in the scope without constraints."""
    if type(n) is not Dim:
        return n
    where = NO_CONSTRAINTS if scope is None else scope
    return n if n.scope is where else _make_dim(n.terms, where)


def shared_scope(operator: str, *sizes: int) -> SymbolicScope:
    """Returns the common scope of sizes.

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
                    f"symbolic size: {first!r} {operator} {n!r} mixes symbolic scopes: the constraints of the first are "
                    f"{list(first.scope.constraints)}, those of the second {list(n.scope.constraints)}"
                )
    return NO_CONSTRAINTS if first is None else first.scope


def size_terms(n: int) -> Terms:
    """Returns a size's terms."""
    return dict(n.terms) if type(n) is Dim else ({(): n} if n else {})


def size_from_terms(terms: Terms, scope: SymbolicScope = NO_CONSTRAINTS) -> int:
    """Returns the size with these terms: an int if no variable remains."""
    for product, value in scope.equal:
        terms = _substitute_product(terms, product, value)
    terms = _combine_divisions({m: c for m, c in terms.items() if c}, scope)
    if scope.equal:
        terms = _remove_exact_divisions(terms, scope)
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return _make_dim(tuple(sorted(terms.items(), key=lambda item: monomial_sort_key(item[0]))), scope)


def _substitute_product(terms: Terms, product: Monomial, value: int) -> Terms:
    """Replaces a product of factors by a size wherever it occurs."""
    if not any([divide_monomials(m, product) is not None for m in terms]):
        return terms
    result: Terms = {}
    for m, c in terms.items():
        rest = divide_monomials(m, product)
        parts = (
            {m: c}
            if rest is None
            else {multiply_monomials(rest, n): c * d for n, d in size_terms(value).items()}
        )
        for n, d in parts.items():
            result[n] = result.get(n, 0) + d
    return _substitute_product(result, product, value)


def _combine_divisions(terms: Terms, scope: SymbolicScope) -> Terms:
    """Replaces `d*floordiv(e, d) + mod(e, d)` by `e`."""
    for m, c in list(terms.items()):
        if len(m) != 1 or m[0][1] != 1:
            continue
        factor = m[0][0]
        if not isinstance(factor, SizeFunction) or factor.function != "mod":
            continue
        e, d = factor.operands
        division: Monomial = ((SizeFunction("floordiv", (e, d)), 1),)
        changed = {n: k for n, k in terms.items() if n != m}
        for n, k in size_terms(d).items():
            product = multiply_monomials(n, division)
            changed[product] = changed.get(product, 0) - c * k
        for n, k in size_terms(e).items():
            changed[n] = changed.get(n, 0) + c * k
        changed = {n: k for n, k in changed.items() if k}
        if len(changed) < len(terms):
            return _combine_divisions(changed, scope)
    return terms


def _remove_exact_divisions(terms: Terms, scope: SymbolicScope) -> Terms:
    """Replaces `d*floordiv(e, d)` by `e - r` if by the constraints e has the remainder r."""
    for m, c in terms.items():
        for f, power in m:
            if isinstance(f, str) or f.function != "floordiv" or power != 1:
                continue
            e, d = with_scope(f.operands[0], scope), f.operands[1]
            if type(d) is Dim or c % d:
                continue
            r = _apply_division("mod", e, d)
            if type(r) is Dim:
                continue
            rest = divide_monomials(m, ((f, 1),))
            assert rest is not None
            changed = {n: k for n, k in terms.items() if n != m}
            for n, k in size_terms(e - r).items():
                product = multiply_monomials(rest, n)
                changed[product] = changed.get(product, 0) + c // d * k
            return _remove_exact_divisions({n: k for n, k in changed.items() if k}, scope)
    return terms


def dimension_variable(name: str, scope: SymbolicScope = NO_CONSTRAINTS) -> int:
    """Returns a dimension variable as a size."""
    return size_from_terms({((name, 1),): 1}, scope)
