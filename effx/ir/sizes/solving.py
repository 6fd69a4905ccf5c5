"""The values of dimension variables, from the sizes of arrays.

A variable is found where a size is linear in it and knows no other unknown one: `2*b + 1` gives b. All further sizes, and
the scope's constraints, are then checked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import final

import attrs

from effx.errors import ShapeError
from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.dimensions import Dim, SymbolicScope, of_terms, terms_of
from effx.ir.sizes.evaluation import substitute, variables
from effx.ir.sizes.monomials import Monomial, quotient


@final
@attrs.frozen
class Place:
    """A size among those of several arrays.

    Attributes:
        array, axis: of the arrays' sizes.
        size: what the specification says of it.
    """

    array: int
    axis: int
    size: int


@final
@attrs.frozen
class Step:
    """How one variable is found: `size == coefficient * variable + rest`.

    Attributes:
        name: the variable's.
        place: the size.
        coefficient, rest: of variables that are known before.
    """

    name: str
    place: Place
    coefficient: int
    rest: int


@final
@attrs.frozen
class Solution:
    """How the variables of some shapes are found, and what must hold beside.

    Attributes:
        names: the variables, in the order of their first places.
        steps: in order.
        places: all sizes of all arrays.
        scope: whose constraints hold.
        equal: products of factors and what they must be equal to, as far as that can be wrong.
    """

    names: tuple[str, ...]
    steps: tuple[Step, ...]
    places: tuple[Place, ...]
    scope: SymbolicScope
    equal: tuple[tuple[Monomial, int], ...]


def solution_of(what: str, shapes: Sequence[Sequence[int]], say: Callable[[int], str]) -> Solution:
    """Plans how the dimension variables of shapes are found.

    Args:
        what: who asks, for errors.
        shapes: with symbolic sizes.
        say: names an array in errors.

    Raises:
        ShapeError: a variable stands in no size that is linear in it, or the sizes are of different scopes.
    """
    places = tuple([Place(i, axis, n) for i, shape in enumerate(shapes) for axis, n in enumerate(shape)])
    found = [p.size for p in places if type(p.size) is Dim]
    scope = SymbolicScope()
    for n in found:
        assert type(n) is Dim
        if n.scope != found[0].scope:
            raise ShapeError(
                f"{what}: sizes {found[0]!r} and {n!r} are of symbolic scopes with different constraints; "
                f"make them by one symbolic_shape, or hand its scope on"
            )
        scope = n.scope
    names = tuple(dict.fromkeys([v for n in found for v in variables(n)]))
    known: set[str] = set()
    steps: list[Step] = []
    progress = True
    while progress and len(known) < len(names):
        progress = False
        for place in places:
            unknown = [v for v in variables(place.size) if v not in known]
            step = None if len(unknown) != 1 else _linear(unknown[0], place)
            if step is not None:
                steps.append(step)
                known.add(step.name)
                progress = True
    missing = [v for v in names if v not in known]
    if missing:
        listed = ", ".join(
            [f"{say(p.array)}.shape[{p.axis}] = {p.size!r}" for p in places if type(p.size) is Dim]
        )
        raise ShapeError(
            f"{what}: no size gives the value of the dimension variable{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}; a variable must stand in a size that is linear in it, such as 2*{missing[0]} + 1, "
            f"got {listed}"
        )
    return Solution(names, tuple(steps), places, scope, _checkable(what, names, scope))


def _checkable(what: str, names: Sequence[str], scope: SymbolicScope) -> tuple[tuple[Monomial, int], ...]:
    # A variable that an equation replaces stands in no size any more, and the equation only says what it is.
    replaced = {
        f for product, _ in scope.equal if len(product) == 1 for f, power in product if power == 1
    } - {*names}
    checked = [
        (product, of_terms(terms_of(n), scope))
        for product, n in scope.equal
        if not (len(product) == 1 and product[0][1] == 1 and product[0][0] in replaced)
    ]
    sides = [*scope.at_least, *[side for product, n in checked for side in (of_terms({product: 1}), n)]]
    for v in [v for n in sides if type(n) is Dim for v in variables(n)]:
        if v not in names:
            raise ShapeError(
                f"{what}: a constraint names the dimension variable {v}, which stands in no size; got {[*scope.constraints]}"
            )
    return tuple(checked)


def _linear(name: str, place: Place) -> Step | None:
    alone: Monomial = ((name, 1),)
    factor, rest = {}, {}
    for m, c in terms_of(place.size).items():
        without = quotient(m, alone)
        if without is None:
            rest[m] = c
        else:
            factor[without] = c
    assert type(place.size) is Dim
    coefficient, left = [of_terms(terms, place.size.scope) for terms in (factor, rest)]
    nonlinear = name in variables(left) or name in variables(coefficient)
    return None if not factor or nonlinear else Step(name, place, coefficient, left)


def solve(
    what: str,
    solution: Solution,
    shapes: Sequence[Sequence[int]],
    say: Callable[[int], str],
    least: int = 1,
) -> Mapping[str, int]:
    """Returns the values of the variables for given shapes, which may be symbolic themselves.

    Args:
        what: who asks, for errors.
        solution: the plan.
        shapes: of the arrays.
        say: names an array in errors.
        least: the smallest value that a variable may have.

    Raises:
        ShapeError: the shapes do not fit; the error names the array, the axis and the variable.
    """
    values: dict[str, int] = {}

    def told() -> str:
        known = ", ".join([f"{v} = {n}" for v, n in values.items()])
        return f" with {known}" if known else ""

    def wrong(place: Place, why: str) -> ShapeError:
        given = shapes[place.array][place.axis]
        return ShapeError(
            f"{what}: {say(place.array)} axis {place.axis} has size {given}, which must be {why}"
        )

    for step in solution.steps:
        given, size = shapes[step.place.array][step.place.axis], step.place.size
        rest = substitute(step.rest, values)
        factor = substitute(step.coefficient, values)
        if factor == 0:
            raise wrong(
                step.place, f"{size!r}{told()}: {step.coefficient} is 0, so {step.name} is not determined"
            )
        value, left = divmod(given - rest, factor)
        if left != 0:
            raise wrong(
                step.place,
                f"{size!r}{told()}: {given - rest} is not divisible by {factor}, so no {step.name} gives it",
            )
        if bounds(value)[1] < least:
            raise wrong(
                step.place,
                f"{size!r}{told()}: {step.name} would be {value}, and dimension variables are at least {least}",
            )
        values[step.name] = value
    for place in solution.places:
        given, wanted = shapes[place.array][place.axis], substitute(place.size, values)
        if given != wanted:
            said = (
                f"{place.size!r}, that is {wanted},{told()}" if type(place.size) is Dim else f"{place.size}"
            )
            raise wrong(place, said)
    for known in solution.scope.at_least:
        value = substitute(known, values)
        if bounds(value)[1] < 0:
            raise ShapeError(f"{what}: the constraint {known!r} >= 0 does not hold{told()}")
    for product, n in solution.equal:
        left_side, right_side = substitute(of_terms({product: 1}), values), substitute(n, values)
        if left_side != right_side and type(left_side) is int and type(right_side) is int:
            raise ShapeError(
                f"{what}: the constraint {of_terms({product: 1})!r} == {n!r} does not hold{told()}: "
                f"{left_side} is not {right_side}"
            )
    return values
