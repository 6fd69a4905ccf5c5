"""Solve for the values of dimension variables from the sizes of arrays.

A variable is found from a size that is linear in it and has no other unknown variable: `2*b + 1` gives b. All further
sizes, and the scope's constraints, are then checked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import final

import attrs

from effx.errors import ShapeError
from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.dimensions import Dim, SymbolicScope, size_from_terms, size_terms
from effx.ir.sizes.evaluation import substitute, variables
from effx.ir.sizes.monomials import Monomial, divide_monomials


@final
@attrs.frozen
class SizeLocation:
    """A size among those of several arrays.

    Attributes:
        array, axis: the numbers of the array and of its axis.
        size: the specified size.
    """

    array: int
    axis: int
    size: int


@final
@attrs.frozen
class SolutionStep:
    """The equation for one variable: `size == coefficient * variable + rest`.

    Attributes:
        name: the variable's name.
        location: the location of the size.
        coefficient, rest: sizes of variables solved earlier.
    """

    name: str
    location: SizeLocation
    coefficient: int
    rest: int


@final
@attrs.frozen
class Solution:
    """The equations for the variables of some shapes, and the conditions to check.

    Attributes:
        names: the variables, in the order of their first occurrence.
        steps: the equations in order.
        locations: all sizes of all arrays.
        scope: the scope with the constraints.
        equal: products of factors with the sizes that they must equal, as far as that can be wrong.
    """

    names: tuple[str, ...]
    steps: tuple[SolutionStep, ...]
    locations: tuple[SizeLocation, ...]
    scope: SymbolicScope
    equal: tuple[tuple[Monomial, int], ...]


def plan_solution(
    function_name: str, shapes: Sequence[Sequence[int]], describe: Callable[[int], str]
) -> Solution:
    """Plans the solution for the dimension variables of shapes.

    Args:
        function_name: the calling function, for errors.
        shapes: the shapes with symbolic sizes.
        describe: names an array in errors.

    Raises:
        ShapeError: a variable stands in no size that is linear in it, or the sizes are of different scopes.
    """
    locations = tuple(
        [SizeLocation(i, axis, n) for i, shape in enumerate(shapes) for axis, n in enumerate(shape)]
    )
    symbolic_sizes = [p.size for p in locations if type(p.size) is Dim]
    scope = SymbolicScope()
    for n in symbolic_sizes:
        assert type(n) is Dim
        if n.scope != symbolic_sizes[0].scope:
            raise ShapeError(
                f"{function_name}: sizes {symbolic_sizes[0]!r} and {n!r} are of symbolic scopes with different constraints; "
                f"make them by one symbolic_shape, or hand its scope on"
            )
        scope = n.scope
    names = tuple(dict.fromkeys([v for n in symbolic_sizes for v in variables(n)]))
    known: set[str] = set()
    steps: list[SolutionStep] = []
    progress = True
    while progress and len(known) < len(names):
        progress = False
        for location in locations:
            unknown = [v for v in variables(location.size) if v not in known]
            step = None if len(unknown) != 1 else _plan_step(unknown[0], location)
            if step is not None:
                steps.append(step)
                known.add(step.name)
                progress = True
    missing = [v for v in names if v not in known]
    if missing:
        size_texts = ", ".join(
            [f"{describe(p.array)}.shape[{p.axis}] = {p.size!r}" for p in locations if type(p.size) is Dim]
        )
        raise ShapeError(
            f"{function_name}: no size gives the value of the dimension variable{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}; a variable must stand in a size that is linear in it, such as 2*{missing[0]} + 1, "
            f"got {size_texts}"
        )
    return Solution(names, tuple(steps), locations, scope, _check_equalities(function_name, names, scope))


def _check_equalities(
    function_name: str, names: Sequence[str], scope: SymbolicScope
) -> tuple[tuple[Monomial, int], ...]:
    # A variable that an equation replaces stands in no size any more, and the equation only says what it is.
    replaced = {
        f for product, _ in scope.equal if len(product) == 1 for f, power in product if power == 1
    } - {*names}
    checked = [
        (product, size_from_terms(size_terms(n), scope))
        for product, n in scope.equal
        if not (len(product) == 1 and product[0][1] == 1 and product[0][0] in replaced)
    ]
    sides = [
        *scope.at_least,
        *[side for product, n in checked for side in (size_from_terms({product: 1}), n)],
    ]
    for v in [v for n in sides if type(n) is Dim for v in variables(n)]:
        if v not in names:
            raise ShapeError(
                f"{function_name}: a constraint names the dimension variable {v}, which stands in no size; got "
                f"{[*scope.constraints]}"
            )
    return tuple(checked)


def _plan_step(name: str, location: SizeLocation) -> SolutionStep | None:
    alone: Monomial = ((name, 1),)
    factor, rest = {}, {}
    for m, c in size_terms(location.size).items():
        without = divide_monomials(m, alone)
        if without is None:
            rest[m] = c
        else:
            factor[without] = c
    assert type(location.size) is Dim
    coefficient, left = [size_from_terms(terms, location.size.scope) for terms in (factor, rest)]
    nonlinear = name in variables(left) or name in variables(coefficient)
    return None if not factor or nonlinear else SolutionStep(name, location, coefficient, left)


def solve(
    function_name: str,
    solution: Solution,
    shapes: Sequence[Sequence[int]],
    describe: Callable[[int], str],
    least: int = 1,
) -> Mapping[str, int]:
    """Returns the values of the variables for given shapes, which may be symbolic themselves.

    Args:
        function_name: the calling function, for errors.
        solution: the plan.
        shapes: the arrays' shapes.
        describe: names an array in errors.
        least: the smallest value that a variable may have.

    Raises:
        ShapeError: the shapes do not match; the error names the array, the axis and the variable.
    """
    values: dict[str, int] = {}

    def known_text() -> str:
        known = ", ".join([f"{v} = {n}" for v, n in values.items()])
        return f" with {known}" if known else ""

    def make_error(location: SizeLocation, requirement: str) -> ShapeError:
        actual = shapes[location.array][location.axis]
        return ShapeError(
            f"{function_name}: {describe(location.array)} axis {location.axis} has size {actual}, which must be "
            f"{requirement}"
        )

    for step in solution.steps:
        actual, size = shapes[step.location.array][step.location.axis], step.location.size
        rest = substitute(step.rest, values)
        factor = substitute(step.coefficient, values)
        if factor == 0:
            raise make_error(
                step.location,
                f"{size!r}{known_text()}: {step.coefficient} is 0, so {step.name} is not determined",
            )
        value, left = divmod(actual - rest, factor)
        if left != 0:
            raise make_error(
                step.location,
                f"{size!r}{known_text()}: {actual - rest} is not divisible by {factor}, so no {step.name} gives it",
            )
        if bounds(value)[1] < least:
            raise make_error(
                step.location,
                f"{size!r}{known_text()}: {step.name} would be {value}, and dimension variables are at least {least}",
            )
        values[step.name] = value
    for location in solution.locations:
        actual, expected = shapes[location.array][location.axis], substitute(location.size, values)
        if actual != expected:
            requirement = (
                f"{location.size!r}, that is {expected},{known_text()}"
                if type(location.size) is Dim
                else f"{location.size}"
            )
            raise make_error(location, requirement)
    for known in solution.scope.at_least:
        value = substitute(known, values)
        if bounds(value)[1] < 0:
            raise ShapeError(f"{function_name}: the constraint {known!r} >= 0 does not hold{known_text()}")
    for product, n in solution.equal:
        left_side, right_side = substitute(size_from_terms({product: 1}), values), substitute(n, values)
        if left_side != right_side and type(left_side) is int and type(right_side) is int:
            raise ShapeError(
                f"{function_name}: the constraint {size_from_terms({product: 1})!r} == {n!r} does not hold{known_text()}: "
                f"{left_side} is not {right_side}"
            )
    return values
