"""Symbolic sizes: arithmetic, comparison and text agree with integers for all values of the variables."""

import itertools
import operator
import pickle
from collections.abc import Callable, Mapping

import hypothesis
import hypothesis.strategies as st
import pytest

from effx.errors import InconclusiveDimensionOperation, ShapeError
from effx.export import SymbolicScope, is_symbolic_dim, symbolic_dim_bounds, symbolic_shape
from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.division import floordiv, maximum, minimum, mod
from effx.ir.sizes.evaluation import substitute
from effx.ir.sizes.shape_text import parse_size
from effx.ir.sizes.solving import plan_solution, solve

A, B = symbolic_shape("a, b")

FUNCTIONS: Mapping[str, tuple[Callable[[int, int], int], Callable[[int, int], int]]] = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "floordiv": (floordiv, operator.floordiv),
    "mod": (mod, operator.mod),
    "max": (maximum, max),
    "min": (minimum, min),
}
POINTS = [{"a": a, "b": b} for a in (1, 2, 3, 5, 8, 12) for b in (1, 2, 4, 7)]


@st.composite
def sizes(draw: st.DrawFn, depth: int = 3) -> tuple[int, list[int]]:
    """A size, and its values at POINTS computed by Python's integers alone."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        n = draw(st.sampled_from([A, B, 1, 2, 3, -1]))
        return n, [p["a"] if n is A else p["b"] if n is B else n for p in POINTS]
    name = draw(st.sampled_from(list(FUNCTIONS)))
    x, of_x = draw(sizes(depth - 1))
    y, of_y = draw(sizes(depth - 1))
    hypothesis.assume(name not in ("floordiv", "mod") or all(of_y))
    hypothesis.assume(y != 0 or name not in ("floordiv", "mod"))
    symbolic, plain = FUNCTIONS[name]
    return symbolic(x, y), [plain(k, m) for k, m in zip(of_x, of_y, strict=True)]


@hypothesis.given(sizes())
def test_arithmetic_is_that_of_integers(drawn: tuple[int, list[int]]) -> None:
    """A size has at each point the value that Python computes there."""
    n, values = drawn
    assert [substitute(n, p) for p in POINTS] == values


@hypothesis.given(sizes())
def test_bounds_hold(drawn: tuple[int, list[int]]) -> None:
    """No value is outside of the bounds."""
    low, high = bounds(drawn[0])
    assert all([low <= value <= high for value in drawn[1]])


@hypothesis.given(sizes())
def test_text_is_read_back(drawn: tuple[int, list[int]]) -> None:
    """What a size prints is that size, and so is its pickle."""
    n, _ = drawn
    assert parse_size(str(n)) == n
    assert pickle.loads(pickle.dumps(n)) == n


@hypothesis.given(sizes(), sizes(), st.sampled_from(["<", "<=", ">", ">="]))
def test_an_order_is_that_of_all_values(
    first: tuple[int, list[int]], second: tuple[int, list[int]], relation: str
) -> None:
    """A comparison tells the truth at each point, or refuses."""
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[relation]
    try:
        found = compare(first[0], second[0])
    except InconclusiveDimensionOperation:
        return
    assert all([compare(x, y) == found for x, y in zip(first[1], second[1], strict=True)])


@hypothesis.given(sizes(), sizes())
def test_equal_sizes_are_equal_everywhere(
    first: tuple[int, list[int]], second: tuple[int, list[int]]
) -> None:
    """`==` is True only where all values agree, and equal sizes have one hash."""
    if first[0] == second[0]:
        assert first[1] == second[1]
        assert hash(first[0]) == hash(second[0])


# What the documentation of shape polymorphism computes, and what slices, strides and paddings lead to.
@pytest.mark.parametrize(
    ("size", "text"),
    [
        (A + B - A, "b"),
        (2 * A - A, "a"),
        (A * B // B, "a"),
        ((2 * A + 3) // 2, "a + 1"),
        (-(-A // 2), "floordiv(a + 1, 2)"),
        ((A + 1) // 2, "floordiv(a + 1, 2)"),
        (2 * (A // 2) + A % 2, "a"),
        ((A * A - B * B) // (A + B), "a - b"),
        (maximum(A, 1), "a"),
        (maximum(A - 1, 0), "a - 1"),
        (minimum(A, B), "min(a, b)"),
        ((3 * A) % 3, "0"),
        (A // (A + 1), "0"),
        (A % (A + 1), "a"),
        (A * B - 3 + A**2, "a*b + a^2 - 3"),
        (2 - A, "-a + 2"),
        (-1 % A, "a - 1"),
        (-1 // A, "-1"),
        ((A + 5) % 5, "mod(a, 5)"),
    ],
)
def test_canonical_forms(size: int, text: str) -> None:
    """One size has one form."""
    assert str(size) == text


@pytest.mark.parametrize(
    ("truth", "constraints"),
    [
        ("a >= 1", []),
        ("a + b >= 2", []),
        ("a*b >= a", []),
        ("a - b >= 1", ["a >= b + 1"]),
        ("a >= 8", ["a >= 2*b", "b >= 4"]),
        ("12 >= a", ["a <= 3*b", "b <= 4"]),
        ("a >= mod(a, 4)", []),
        ("b >= max(b - 2, 0) + 1", []),
        ("a >= 2*floordiv(a, 2)", []),
        ("2*floordiv(a + 1, 2) >= a", []),
        ("a >= floordiv(a*b, b)", []),
        ("min(a, b) + 3 >= 4", []),
    ],
)
def test_what_is_decided(truth: str, constraints: list[str]) -> None:
    """Inequalities that shapes lead to are decided, by the constraints where they must be."""
    scope = SymbolicScope(constraints)
    left, right = [parse_size(side, scope) for side in truth.split(" >= ")]
    assert left >= right
    assert right <= left
    assert not left < right


def test_equations_rewrite() -> None:
    """An equation puts one size for another wherever it occurs."""
    scope = SymbolicScope(constraints_str=["a*b == 4*c", "mod(d, 8) == 0"])
    a, b, d = symbolic_shape("a, b, d", scope=scope)
    assert str(2 * a * b + 1) == "8*c + 1"
    assert d % 8 == 0
    assert (a * b) % 4 == 0
    # What a reshape into rows of 8 gives back.
    assert d // 8 * 8 == d
    assert d // 4 * 4 + 1 == d + 1
    assert (3 * d + 5) % 4 == 1
    assert str(d // 3 * 3) == "3*floordiv(d, 3)"


ERRORS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (
        lambda: A >= B,
        InconclusiveDimensionOperation,
        (
            "symbolic size: whether a >= b depends on the values of a, b; a constraint may say it: "
            "symbolic_shape(..., constraints=['a >= b'])"
        ),
    ),
    (
        lambda: A > B,
        InconclusiveDimensionOperation,
        (
            "symbolic size: whether a > b depends on the values of a, b; a constraint may say it: "
            "symbolic_shape(..., constraints=['a >= b + 1'])"
        ),
    ),
    (
        lambda: range(A),
        InconclusiveDimensionOperation,
        (
            "symbolic size: a has no value while tracing; a loop over it is a scan or fori_loop, and an array of "
            "it comes from asarray"
        ),
    ),
    (
        lambda: bool(A - 1),
        InconclusiveDimensionOperation,
        "symbolic size: whether a - 1 is zero depends on the values of a",
    ),
    (lambda: A**-1, ShapeError, "symbolic size: a has no power -1; powers must not be negative"),
    (
        lambda: A + symbolic_shape("c", constraints=["c >= 2"])[0],
        ShapeError,
        (
            "symbolic size: a + c mixes symbolic scopes: the constraints of the first are [], those of the "
            "second ['c >= 2']"
        ),
    ),
    (
        lambda: symbolic_shape("2a"),
        ValueError,
        "symbolic_shape: expected ',', got 'a', at position 1 of '2a'",
    ),
    (
        lambda: symbolic_shape("a/2"),
        ValueError,
        "symbolic_shape: '/' has no place in a size, at position 1 of 'a/2'",
    ),
    (
        lambda: symbolic_shape("(a"),
        ValueError,
        "symbolic_shape: expected ')', got 'the end', at position 2 of '(a'",
    ),
    (
        lambda: symbolic_shape("..."),
        ValueError,
        "symbolic_shape: '...' takes sizes from `like`, which is not given, at position 0 of '...'",
    ),
    (
        lambda: symbolic_shape("_, b", like=(None, 2)),
        ValueError,
        "symbolic_shape: '_' asks for a size that `like` (None, 2) does not know, at position 0 of '_, b'",
    ),
    (
        lambda: symbolic_shape("a, b", like=(2,)),
        ValueError,
        "symbolic_shape: 'a, b' has 2 sizes, and `like` (2,) has 1",
    ),
    (
        lambda: symbolic_shape("a", constraints="a >= 2"),
        ValueError,
        "symbolic_shape: constraints must be a sequence of strings, got the string 'a >= 2'",
    ),
    (
        lambda: symbolic_shape("a", constraints=["a > 2"]),
        ValueError,
        "SymbolicScope: '>' has no place in a size, at position 1 of 'a > 2'",
    ),
    (
        lambda: symbolic_shape("a", constraints=["a + b == 2"]),
        ValueError,
        "SymbolicScope: the left side of an equation must be a product of variables or functions, got 'a + b == 2'",
    ),
    (
        lambda: symbolic_shape("a", constraints=["a == 2*a"]),
        ValueError,
        "SymbolicScope: 'a == 2*a' says what a is by a itself",
    ),
    (
        lambda: symbolic_shape("a", constraints=["2 >= 3"]),
        ValueError,
        "SymbolicScope: the constraint '2 >= 3' never holds",
    ),
    (
        lambda: symbolic_shape("a", constraints=["a >= 2"], scope=SymbolicScope()),
        ValueError,
        "symbolic_shape: a scope has its constraints already; give constraints or a scope, not both",
    ),
]


@pytest.mark.parametrize(("bad", "kind", "text"), ERRORS)
def test_errors(bad: Callable[[], object], kind: type[Exception], text: str) -> None:
    """Each mistake has its words."""
    with pytest.raises(kind) as caught:
        bad()
    assert str(caught.value).splitlines()[0] == text


def test_shapes_from_text() -> None:
    """Placeholders take sizes from `like`; parentheses and a last comma may stand around."""
    assert symbolic_shape("(a, 2*b,)") == (A, 2 * B)
    assert symbolic_shape("(a + 1)*2, 3") == (2 * A + 2, 3)
    assert symbolic_shape(None, like=(2, 3)) == (2, 3)
    assert symbolic_shape("") == ()
    assert is_symbolic_dim(A)
    assert not is_symbolic_dim(3)
    assert symbolic_dim_bounds(2 * A) == (2, float("inf"))


@pytest.mark.parametrize("values", list(itertools.product([1, 2, 5], repeat=2)))
def test_variables_are_found(values: tuple[int, int]) -> None:
    """Sizes give the variables their values, each where it is linear."""
    a, b = values
    shapes = [(2 * A + 1, A * B), (A * B + B,)]
    plan = plan_solution("test", shapes, str)
    assert solve("test", plan, [(2 * a + 1, a * b), (a * b + b,)], str) == {"a": a, "b": b}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            (4, 6),
            "test: x axis 0 has size 4, which must be 2*a + 1: 3 is not divisible by 2, so no a gives it",
        ),
        (
            (1, 6),
            "test: x axis 0 has size 1, which must be 2*a + 1: a would be 0, and dimension variables are at least 1",
        ),
        ((5, 7), "test: x axis 1 has size 7, which must be a + 2, that is 4, with a = 2"),
    ],
)
def test_sizes_that_do_not_fit(given: tuple[int, int], text: str) -> None:
    """The error names the array, the axis, the specification and what is known."""
    plan = plan_solution("test", [(2 * A + 1, A + 2)], lambda i: "xyz"[i])
    with pytest.raises(ShapeError) as caught:
        solve("test", plan, [given], lambda i: "xyz"[i])
    assert str(caught.value).splitlines()[0] == text


def test_constraints_are_checked() -> None:
    """The scope's constraints must hold for the values."""
    a, b = symbolic_shape("a, b", constraints=["a >= 2*b"])
    plan = plan_solution("test", [(a, b)], str)
    assert solve("test", plan, [(6, 3)], str) == {"a": 6, "b": 3}
    with pytest.raises(ShapeError, match=r"the constraint a - 2\*b >= 0 does not hold with a = 5, b = 3"):
        solve("test", plan, [(5, 3)], str)


def test_a_variable_that_an_equation_replaces_is_not_needed() -> None:
    """It occurs in no size any more; the variables that replace it are solved for, and bound by its constraints."""
    scope = SymbolicScope(["a == b", "c*b == d", "a >= 2"])
    a, b, c, d = symbolic_shape("a, b, c, d", scope=scope)
    plan = plan_solution("test", [(2 * a, b), (c, d)], str)
    assert solve("test", plan, [(6, 3), (4, 12)], str) == {"b": 3, "c": 4, "d": 12}
    with pytest.raises(ShapeError, match=r"axis 1 has size 4, which must be b, that is 3"):
        solve("test", plan, [(6, 4), (4, 12)], str)
    with pytest.raises(ShapeError, match=r"the constraint b - 2 >= 0 does not hold"):
        solve("test", plan, [(2, 1), (4, 4)], str)


def test_a_constraint_on_a_variable_without_a_size_is_refused() -> None:
    """Nothing says whether it holds."""
    (a,) = symbolic_shape("a", constraints=["b >= 3"])
    with pytest.raises(ShapeError) as caught:
        plan_solution("test", [(a,)], str)
    assert str(caught.value).splitlines()[0] == (
        "test: a constraint names the dimension variable b, which stands in no size; got ['b >= 3']"
    )
