"""Analyses of whole programs: forward and backward facts, fix-points of loops, and the places of equations.

Never: computes a fact by running the analysed function, but for the inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import NoRuleError, TransformError
from effx.handling import Backward, Forward, Operation, Place, places
from effx.ir.ops.base import Elementwise
from effx.ir.ops.elementwise import Add, Exp, Log, Mul, Neg, Sub
from effx.ir.passes.varying_axes import find_varying_outputs, replace_shared_sums
from effx.ir.text import parse_program

Facts = frozenset[str]
NO: Facts = frozenset()


class Sources(Forward[Facts]):
    """Which inputs a value comes from."""

    def literal(self, value: object, type: Any) -> Facts:
        return NO

    def join(self, a: Facts, b: Facts) -> Facts:
        return a | b


@Sources.rule(Operation)
def _(place: Place, op: Any, *facts: Facts) -> Any:
    found = NO.union(*facts)
    return (found,) * len(place.equation.outputs) if op.multiple else found


class Users(Backward[Facts]):
    """Which outputs a value goes to; what decides goes to "control"."""

    def literal(self, value: object, type: Any) -> Facts:
        return NO

    def unknown(self, type: Any) -> Facts:
        return NO

    def join(self, a: Facts, b: Facts) -> Facts:
        return a | b

    def deciding(self, fact: Facts) -> Facts:
        return fact | {"control"}


@Users.rule(Operation)
def _(place: Place, op: Any, results: tuple[Facts, ...], operands: tuple[Facts, ...]) -> tuple[Facts, ...]:
    return (NO.union(*results),) * len(operands)


def rotate(x: Any, y: Any, z: Any) -> Any:
    """Three carries that move one place a turn: each depends on all, but only at the fix-point."""
    return lax.scan(lambda c, _: ((c[1], c[2], c[0]), None), (x, y, z), None, length=4)[0]


def mixed(x: Any, y: Any, z: Any) -> Any:
    a = lax.cond(x > 0, lambda y, z: y, lambda y, z: z, y, z)
    b = lax.while_loop(lambda c: c < z, lambda c: c * 2.0, y)
    return a, b, x


PROGRAMS: dict[str, tuple[Callable[..., Any], list[str], list[str]]] = {
    # what each output comes from; what each input goes to (outputs are 0, 1, 2; ! is control)
    "straight": (lambda x, y, z: (x * y, y + 1.0, z), ["xy", "y", "z"], ["0", "01", "2"]),
    "jit": (lambda x, y, z: (effx.jit(lambda a, b: a * b)(x, y), y, z), ["xy", "y", "z"], ["0", "01", "2"]),
    "checkpoint": (
        lambda x, y, z: (effx.checkpoint(lambda a: enp.sin(a))(x), y, z),
        ["x", "y", "z"],
        ["0", "1", "2"],
    ),
    "scan": (rotate, ["xyz", "xyz", "xyz"], ["012", "012", "012"]),
    "mixed": (mixed, ["yz", "yz", "x"], ["!2", "01!", "0!"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_facts(name: str) -> None:
    """Forward and backward facts are those found by thinking."""
    f, sources, users = PROGRAMS[name]
    program = effx.make_jaxpr(f)(1.0, 2.0, 3.0)
    found = Sources().run(program, *[frozenset({n}) for n in "xyz"])
    # A forward rule of a while loop sees the body only; the condition decides, and is another's business.
    want = [set(s) for s in sources] if name != "mixed" else [{"y", "z"}, {"y"}, {"x"}]
    assert [set(s) for s in found] == want
    back = Users().run(program, *[frozenset({str(i)}) for i in range(3)])
    assert [{"!" if u == "control" else u for u in s} for s in back] == [set(u) for u in users]


def test_constants_are_inputs() -> None:
    """What a function closes over has the fact of a constant."""
    w = enp.arange(3.0)
    program = effx.make_jaxpr(lambda x: x * w)(w)
    assert Sources().run(program, frozenset({"x"})) == (frozenset({"x"}),)
    assert Users().run(program, frozenset({"0"})) == (frozenset({"0"}),)


class Growing(Forward[int]):
    """Counts multiplications along the longest way, which has no bound in a loop."""

    def literal(self, value: object, type: Any) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return max(a, b)


@Growing.rule(Elementwise)
def _(place: Place, op: Any, *facts: int) -> int:
    return max(facts) + (type(op) is Mul)


def test_facts_that_grow_without_end() -> None:
    """A fix-point that is not reached is an error that names the loop."""
    straight = effx.make_jaxpr(lambda x: x * x * x)(1.0)
    assert Growing().run(straight, 0) == (2,)
    program = effx.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x))(1.0)
    with pytest.raises(
        TransformError, match=r"^Growing: the facts of what .* carries keep changing after 64 rounds"
    ):
        Growing().run(program, 0)


def test_no_rule_names_operation_and_line() -> None:
    """An operation without a rule is an error with the user's line."""

    class Nothing(Forward[int]):
        def literal(self, value: object, type: Any) -> int:
            return 0

    with pytest.raises(NoRuleError, match=r"^Nothing: no rule for sin at test_analysis.py:\d+ in <lambda>"):
        Nothing().run(effx.make_jaxpr(lambda x: enp.sin(x))(1.0), 0)


def test_wrong_numbers_of_facts() -> None:
    """One fact for each input, or output."""
    program = effx.make_jaxpr(lambda x, y: x + y)(1.0, 2.0)
    with pytest.raises(TransformError, match=r"^Sources: <lambda> takes 2 inputs, got 1 facts"):
        Sources().run(program, NO)
    with pytest.raises(TransformError, match=r"^Users: <lambda> gives 1 results, got 2 facts"):
        Users().run(program, NO, NO)
    with pytest.raises(TransformError, match=r"^Users: <lambda> takes 2 inputs, known has 1 facts"):
        Users().run(program, NO, known=[NO])


class Inverse(Backward["Array | None"]):
    """Solves y = f(x), where each operation can be undone; None is what is not known."""

    def literal(self, value: object, type: Any) -> Array:
        return enp.asarray(value, type.dtype)

    def unknown(self, type: Any) -> None:
        return None

    def join(self, a: Array | None, b: Array | None) -> Array | None:
        return b if a is None else a

    def constant(self, x: Array) -> Array:
        return x

    def ahead(self, place: Place, operands: Any) -> Any:
        if any(x is None for x in operands) or place.op.multiple:
            return None
        return (place.op(*operands),)


Inverse.rule(Exp)(lambda place, op, ys, xs: (Log()(ys[0]),))
Inverse.rule(Neg)(lambda place, op, ys, xs: (-ys[0],))


@Inverse.rule(Add)
def _(place: Place, op: Add, zs: Any, xs: Any) -> Any:
    (z,), (x, y) = zs, xs
    return (z - y if x is None else x, z - x if y is None else y)


@Inverse.rule(Sub)
def _(place: Place, op: Sub, zs: Any, xs: Any) -> Any:
    (z,), (x, y) = zs, xs
    return (z + y if x is None else x, x - z if y is None else y)


@Inverse.rule(Mul)
def _(place: Place, op: Mul, zs: Any, xs: Any) -> Any:
    (z,), (x, y) = zs, xs
    return (z / y if x is None else x, z / x if y is None else y)


def test_inverse() -> None:
    """An inverse that knows what can be computed ahead; it composes with jit and grad."""
    w = enp.array([1.0, 2.0, 4.0])

    def f(x: Any) -> Any:
        return effx.jit(lambda y: enp.exp(y * w) - enp.exp(w) * 0.5)(-x)

    x = enp.array([0.1, 0.2, 0.3])
    program = effx.make_jaxpr(f)(x)

    def invert(y: Any) -> Any:
        return Inverse().run(program, y)[0]

    np.testing.assert_allclose(invert(f(x)), x, rtol=1e-4)
    np.testing.assert_allclose(effx.jit(invert)(f(x)), x, rtol=1e-4)
    slopes = effx.vmap(effx.grad(lambda x, w: -x * w), (0, 0))(x, w)
    jacobian = effx.jacfwd(invert)(f(x))
    np.testing.assert_allclose(enp.diagonal(jacobian), 1 / (slopes * enp.exp(-x * w)), rtol=1e-4)


def test_places() -> None:
    """Places say how often, in which program, under which names and at which line an operation is performed."""

    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            with effx.named_scope("inner"):
                return effx.jit(enp.sin)(c), None

        with effx.named_scope("outer"):
            y = lax.scan(step, x, None, length=5)[0]
        y = lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, y)
        return lax.cond(y > 0, enp.cos, enp.exp, y)

    found = {p.op.name: p for p in places(effx.make_jaxpr(f)(1.0))}
    assert (found["sin"].repeats, found["sin"].share, found["sin"].unbounded) == (5, 1.0, False)
    assert found["sin"].scopes == "outer/inner"
    assert found["sin"].path[0] == "f"
    assert found["add"].unbounded
    assert (found["cos"].share, found["exp"].share) == (0.5, 0.5)
    assert found["add"].line.startswith("test_analysis.py:")
    assert found["add"].constants[1] == 1.0
    assert (
        found["add"].types == found["add"].result_types * 2
        or found["add"].types[0] is found["add"].result_types[0]
    )


class Influences(Sources):
    """Which inputs a value comes from, or is chosen by."""

    def decided(self, fact: Facts, results: tuple[Facts, ...]) -> tuple[Facts, ...]:
        return tuple([fact | found for found in results])


def test_what_decides_can_be_in_the_facts_of_what_it_decides_on() -> None:
    """Of what a branch gives, and of what a while loop carries."""

    def f(chosen: Any, bound: Any, step: Any, other: Any) -> Any:
        last = lax.while_loop(lambda x: x < bound, lambda x: x + step, step)
        return last, lax.cond(chosen > 0.0, lambda: step, lambda: other)

    program = effx.make_jaxpr(f)(0.0, 1.0, 2.0, 3.0)
    inputs = [frozenset({name}) for name in ("chosen", "bound", "step", "other")]
    assert [*map(sorted, Sources().run(program, *inputs))] == [["step"], ["other", "step"]]
    assert [*map(sorted, Influences().run(program, *inputs))] == [
        ["bound", "step"],
        ["chosen", "other", "step"],
    ]


SHARED = """
more(a: f32[], b: f32[]) {
  c: bool[] = lt b a
  return c
}
turn(a: f32[], b: f32[]) {
  c: f32[] = psum_shared[axis_name='i'] a b
  d: f32[] = add b c
  return d
}
one(a: f32[]) {
  return a
}
other(a: f32[]) {
  b: f32[] = psum[axis_name='i'] a
  return b
}
"""


WHILE = "while[condition=@more body=@turn constants=1]"
SCAN = "scan[body=@turn length=3 constants=1 carries=1]"


@pytest.mark.parametrize(
    ("op", "inputs", "differs", "becomes"),
    [
        # A number of iterations that differs makes what is carried differ, and the second operand of psum_shared.
        (WHILE, "TF", True, "none"),
        (WHILE, "FF", False, "psum"),
        (SCAN, "TF", False, "psum"),
        (SCAN, "TT", True, "none"),
        ("cond[branches=(@one, @other)]", "TF", True, "psum"),
        ("cond[branches=(@one, @other)]", "FT", True, "psum"),
        ("cond[branches=(@other, @other)]", "FT", False, "psum"),
    ],
)
def test_what_differs_between_members(op: str, inputs: str, differs: bool, becomes: str) -> None:
    """Is found through branches and loops, and decides what becomes of a shared sum inside."""
    first = "i32" if op.startswith("cond") else "f32"
    program = parse_program(f"{SHARED}f(a: {first}[], b: f32[]) {{\n c: f32[] = {op} a b\n return c\n}}")
    given = [x == "T" for x in inputs]
    assert find_varying_outputs(program, given, "i") == (differs,)
    text = str(replace_shared_sums(program, given, "i"))
    assert "psum_shared" not in text
    assert ("psum[" in text) is (becomes == "psum")
