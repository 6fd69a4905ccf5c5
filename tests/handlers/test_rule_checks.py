"""What rules return and take is checked where they return it, and errors of rules say which rule, for which line."""

from __future__ import annotations

import operator
import re
import traceback
from collections.abc import Callable
from functools import partial, reduce, wraps
from operator import or_
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, export, lax
from effx.errors import NoRuleError, PayloadError, ShapeError, TransformError, TreeError
from effx.handling import (
    ArrayOperation,
    Backward,
    BoxHandler,
    Forward,
    InterceptHandler,
    Label,
    Linear,
    Site,
    Structural,
    array_type,
    coverage,
    decomposes,
    emits,
    jvp_rule,
    named_function,
    ops,
    tangent_of,
    transpose_rule,
    vmap_rule,
)
from effx.handling import Unary as UnaryOperation
from effx.ir import Program


@attrs.frozen
class Dual:
    x: Array
    dx: Array


def make_tangents(default: str = "error") -> Any:
    """A class of forward derivatives, along one direction or along several on a leading axis."""

    @attrs.frozen
    class Tangents(BoxHandler[Dual]):
        def lift(self, x: Array) -> Dual:
            return Dual(x, enp.zeros_like(x))

    Tangents.default = default  # type: ignore[assignment]  # one of the words
    rule: Any = Tangents.rule
    rule(ops.Mul)(lambda op, x, y: Dual(x.x * y.x, x.dx * y.x + x.x * y.dx))
    rule(ops.Add)(lambda op, x, y: Dual(x.x + y.x, x.dx + y.dx))

    @rule(Linear)  # type: ignore[untyped-decorator]  # of a class with any rules
    def _(op: Any, x: Dual) -> Dual:
        return Dual(op(x.x), op(x.dx) if x.dx.ndim == x.x.ndim else effx.vmap(op)(x.dx))

    return Tangents


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error))


X = np.asarray([0.5, -1.0, 2.0], np.float32)


# The type of a payload


def leave_out(op: Any, x: Dual) -> Dual:
    return Dual(op(x.x), x.dx)


WRONG: dict[str, tuple[type, Callable[..., Any], Callable[[Any], Any], str]] = {
    "an axis too many": (
        ops.ReduceSum,
        leave_out,
        enp.sum,
        r"reduce_sum.*: f32\[3\] in .dx does not fit a value f32\[\]",
    ),
    "the first leaf": (
        ops.ReduceSum,
        lambda op, x: Dual(x.x, op(x.dx)),
        enp.sum,
        r"reduce_sum.*: f32\[3\] in .x does not fit a value f32\[\]",
    ),
    "an axis too few": (
        ops.Sin,
        lambda op, x: Dual(op(x.x), x.dx[0]),
        enp.sin,
        r"sin.*: f32\[\] in .dx does not fit a value f32\[3\]",
    ),
    "another size": (
        ops.Sin,
        lambda op, x: Dual(op(x.x), x.dx[..., :2]),
        enp.sin,
        r"sin.*: f32\[2\] in .dx does not fit a value f32\[3\]",
    ),
    "another dtype": (
        ops.Sin,
        lambda op, x: Dual(op(x.x), x.dx.astype(enp.float16)),
        enp.sin,
        r"sin.*: f16\[3\] in .dx does not fit a value f32\[3\]",
    ),
    "an integer": (
        ops.Sin,
        lambda op, x: Dual(op(x.x), enp.ones(3, enp.int32)),
        enp.sin,
        r"sin.*: i32\[3\] in .dx does not fit a value f32\[3\]",
    ),
    "axes in another order": (
        ops.Transpose,
        leave_out,
        lambda x: enp.transpose(x * enp.ones((2, 3))),
        r"transpose.*: f32\[2,3\] in .dx does not fit a value f32\[3,2\]",
    ),
}

CONTEXTS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "eager": lambda f: f,
    "jit": effx.jit,
    "in a loop": lambda f: lambda x: lax.fori_loop(0, 1, lambda i, c: c + enp.sum(f(x)), enp.sum(x * 0.0)),
    "in a branch": lambda f: lambda x: lax.cond(enp.bool_(True), f, f, x),
    "vmap": lambda f: lambda x: effx.vmap(f)(enp.stack([x])),
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("mistake", WRONG)
def test_a_payload_of_another_type_is_refused(mistake: str, context: str) -> None:
    kind, rule, function, text = WRONG[mistake]
    tangents = make_tangents()
    tangents.rule(kind)(rule)
    if context == "vmap":  # operands of a batch have other shapes
        text = re.sub(r": .*", ": .* does not fit a value", text)
    with pytest.raises(TransformError, match=text) as caught:
        tangents().run(CONTEXTS[context](function), Dual(enp.asarray(X), enp.ones(3)))
    assert "test_rule_checks.py:" in str(caught.value)


def test_rules_of_several_results_are_checked() -> None:
    tangents = make_tangents()

    @tangents.rule(ops.TopK)  # type: ignore[untyped-decorator]  # of a class with any rules
    def _(op: Any, x: Dual) -> Any:
        values, indices = op(x.x)
        return Dual(values, x.dx), indices

    with pytest.raises(
        TransformError, match=r"the rule for top_k .*: f32\[3\] in .dx does not fit a value f32\[2\]"
    ):
        tangents().run(lambda x: lax.top_k(x, 2)[0], Dual(enp.asarray(X), enp.ones(3)))


def test_rules_of_functions_are_checked() -> None:
    @named_function
    def total(x: Array) -> Array:
        return enp.sum(x)

    tangents = make_tangents()
    tangents.function_rule(total)(lambda x: Dual(enp.sum(x.x), x.dx))
    with pytest.raises(
        TransformError, match=r"the rule for total .*: f32\[3\] in .dx does not fit a value f32\[\]"
    ):
        tangents().run(total, Dual(enp.asarray(X), enp.ones(3)))


def test_numbers_are_repeated() -> None:
    """In the leaves that have the value's type, whatever that is."""
    tangents = make_tangents()
    one: Any = 1
    two: Any = 2.0
    tangents.rule(ops.Sin)(lambda op, x: Dual(op(x.x), one))
    tangents.rule(ops.Cos)(lambda op, x: Dual(op(x.x), two))
    for x in (np.float32(0.5), X, X[:0], X.astype(np.float16)):
        box = Dual(enp.asarray(x), enp.zeros_like(enp.asarray(x)))
        for function, slope in ((enp.sin, 1), (enp.cos, 2)):
            y = effx.jit(lambda p, f=function: make_and_run(tangents, f, p))(box)
            np.testing.assert_array_equal(y.dx, np.full_like(x, slope))
            assert y.dx.dtype == x.dtype


def make_and_run(handler: Any, function: Callable[..., Any], payload: Dual) -> Dual:
    result: Dual = handler().run(function, payload)
    return result


def test_what_lift_leaves_open_may_vary() -> None:
    """Flags for whole arrays, numbers of directions that grow, and another structure."""

    @attrs.frozen
    class Noisy:
        centre: Array
        terms: Array  # one row for each source of noise
        largest: Array  # for the whole array

    @attrs.frozen
    class Noise(BoxHandler[Noisy]):
        def lift(self, x: Array) -> Noisy:
            return Noisy(x, enp.zeros((0, *x.shape)), enp.max(abs(x)))

    @Noise.rule(ops.Sin)
    def _(op: ops.Sin, x: Noisy) -> Noisy:
        y = op(x.centre)
        return Noisy(y, enp.concatenate([x.terms, 0.5 * y[None]]), enp.max(abs(y)))

    result = Noise().run(lambda x: enp.sin(enp.sin(x)), Noise().lift(enp.asarray(X)))
    assert result.terms.shape == (2, 3)
    np.testing.assert_allclose(result.terms[0], 0.5 * np.sin(X), rtol=1e-6)


@attrs.frozen
class Ranges(BoxHandler[Dual]):
    """A handler that says by `type_of` what its payloads stand for, and cannot lift traced values."""

    def lift(self, x: Array) -> Dual:
        return Dual(enp.asarray(float(x)), enp.zeros(()))


def test_a_lift_that_reads_values_says_nothing() -> None:
    Ranges.rule(ops.Mul)(lambda op, x, y: Dual(x.x * y.x, enp.ones(5)))
    result = Ranges().run(lambda x: x * 3.0, Dual(enp.asarray(2.0), enp.zeros(5)))
    assert float(result.x) == 6.0


# Operands of rank 0


@attrs.frozen
class Gradients(BoxHandler[Dual]):
    """Derivatives along all directions, on a leading axis, in any number of which `lift` knows nothing."""

    directions: int

    def lift(self, x: Array) -> Dual:
        return Dual(x, enp.zeros((self.directions, *x.shape), x.dtype))


@Gradients.rule(ops.Mul)
def _(op: ops.Mul, x: Dual, y: Dual) -> Dual:
    return Dual(x.x * y.x, x.dx * y.x + x.x * y.dx)


@Gradients.rule(ops.Add, ops.Sub)
def _(op: ops.Add | ops.Sub, x: Dual, y: Dual) -> Dual:
    return Dual(op(x.x, y.x), op(x.dx, y.dx))


@Gradients.rule(ops.Select)
def _(op: ops.Select, which: Dual, x: Dual, y: Dual) -> Dual:
    return Dual(op(which.x, x.x, y.x), op(which.x, x.dx, y.dx))


@Gradients.rule(Linear)
def _(op: Linear, *xs: Dual) -> Dual:
    apply: Any = op
    return Dual(apply(*[x.x for x in xs]), effx.vmap(apply)(*[x.dx for x in xs]))


RANK_ZERO: dict[str, Callable[[Any], Any]] = {
    "a number": lambda x: x * 2.0 + 1.0,
    "first": lambda x: 3.0 - x * x,
    "a boxed sum": lambda x: x * enp.sum(x) + enp.sum(x),
    "a boxed element": lambda x: (x - x[0]) * x[1],
    "a constant array": lambda x: x * enp.asarray([1.0, 2.0, 3.0]) * enp.float32(2.0),
    "matrices": lambda x: (enp.stack([x, x + 1.0]) * 2.0) * enp.sum(x),
}


@pytest.mark.parametrize("context", ["eager", "jit", "scan", "vmap"])
@pytest.mark.parametrize("name", RANK_ZERO)
def test_payloads_of_rank_zero_broadcast_as_values(name: str, context: str) -> None:
    """With as many directions as elements, so that a wrong alignment would have no error."""
    f = RANK_ZERO[name]
    x = enp.asarray(X)
    expected = np.moveaxis(np.asarray(effx.jacfwd(f)(x)), -1, 0)
    box = Dual(x, enp.eye(3))
    if context == "scan":
        result = Gradients(3).run(lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, length=2)[1], box)
        np.testing.assert_allclose(result.x, np.stack([f(x)] * 2), rtol=1e-5)
        # The axis of the loop stands in front of the payload's leaves.
        np.testing.assert_allclose(result.dx[0], expected, rtol=1e-5)
    elif context == "vmap":
        batched = effx.vmap(lambda x, dx: Gradients(3).run(f, Dual(x, dx)).dx)
        np.testing.assert_allclose(batched(x[None], enp.eye(3)[None])[0], expected, rtol=1e-5)
    else:
        g = effx.jit(f) if context == "jit" else f
        np.testing.assert_allclose(Gradients(3).run(g, box).dx, expected, rtol=1e-5)


@pytest.mark.parametrize("default", ["error", "forward", "drop", "derive"])
@pytest.mark.parametrize("behind", [False, True], ids=["axes in front", "axes behind"])
def test_numbers_need_no_rule_to_broadcast(default: Any, behind: bool) -> None:
    """Whatever happens to operations without a rule; `lift` says on which side of the value's axes the others are."""

    @attrs.frozen
    class Only(BoxHandler[Dual]):
        def lift(self, x: Array) -> Dual:
            return Dual(x, enp.zeros((*x.shape, 3) if behind else (3, *x.shape)))

        def primal(self, payload: Dual) -> Array:
            return payload.x

    Only.default = default

    @Only.rule(ops.Mul)
    def _(op: ops.Mul, x: Dual, y: Dual) -> Dual:
        a, b = (x.x[..., None], y.x[..., None]) if behind else (x.x, y.x)
        return Dual(x.x * y.x, x.dx * b + a * y.dx)

    box, number = Dual(enp.asarray(X), enp.eye(3)), Dual(enp.asarray(2.0), enp.asarray([1.0, 5.0, 7.0]))
    np.testing.assert_allclose(Only().run(lambda x: x * 2.0, box).dx, 2 * np.eye(3))
    expected = 2 * np.eye(3) + (np.outer(X, [1, 5, 7]) if behind else np.outer([1, 5, 7], X))
    for f in (lambda x, c: x * c, lambda x, c: c * x, effx.jit(lambda x, c: x * c)):
        np.testing.assert_allclose(Only().run(f, box, number).dx, expected)
    np.testing.assert_allclose(
        Only().run(lambda c: c * enp.asarray(X), number).dx,
        np.outer(X, [1, 5, 7]) if behind else np.outer([1, 5, 7], X),
    )


def test_directions_that_lift_knows_nothing_of() -> None:
    """They stand in front: of a number with arrays that have none, and with arrays that have some."""
    tangents = make_tangents()
    number = Dual(enp.asarray(2.0), enp.asarray([1.0, 5.0]))
    for f in (lambda c: enp.asarray(X) * c, effx.jit(lambda c: c * enp.asarray(X))):
        np.testing.assert_allclose(tangents().run(f, number).dx, np.outer([1, 5], X))
    box = Dual(enp.asarray(X), enp.ones((2, 3)))
    np.testing.assert_allclose(
        tangents().run(lambda x, c: x * c, box, number).dx, 2.0 + np.outer([1, 5], X), rtol=1e-6
    )


def test_what_is_about_the_whole_array_is_not_repeated() -> None:
    @attrs.frozen
    class Facts:
        on: Array

    @attrs.frozen
    class Dependence(BoxHandler[Facts]):
        def lift(self, x: Array) -> Facts:
            return Facts(enp.zeros(4, bool))

    Dependence.rule(ops.Elementwise)(lambda op, *xs: Facts(reduce(or_, [x.on for x in xs])))
    a, b = Facts(enp.asarray([True, False, False, False])), Facts(enp.asarray([False, True, False, False]))
    for f in (lambda x, s: x * s, lambda x, s: enp.where(x > s, x, s)):
        result = Dependence().run(f, a, b, like=(enp.ones(3), 1.0))
        np.testing.assert_array_equal(result.on, [True, True, False, False])


@attrs.frozen
class Quantity:
    value: Array
    slopes: Array
    unit: str = attrs.field(metadata={"static": True})


def test_static_data_may_differ() -> None:
    """It neither hides a wrong leaf nor makes a right one wrong."""

    @attrs.frozen
    class Units(BoxHandler[Quantity]):
        def lift(self, x: Array) -> Quantity:
            return Quantity(x, enp.zeros_like(x), "")

    Units.rule(ops.Div)(lambda op, x, y: Quantity(x.value / y.value, x.slopes / y.value, ""))
    Units.rule(ops.Mul)(lambda op, x, y: Quantity((x.value * y.value)[0], x.slopes, x.unit + y.unit))
    metres = Quantity(enp.ones(3), enp.ones((2, 3)), "m")
    assert Units().run(lambda a, b: a / b, metres, metres).slopes.shape == (2, 3)
    with pytest.raises(PayloadError, match=r"mul.*: f32\[\] in .value does not fit a value f32\[3\]"):
        Units().run(lambda a, b: a * b, metres, metres)


def test_a_payload_may_gain_the_axes_of_its_operands() -> None:
    """As a Hessian beside gradients; but not more of them."""

    @attrs.frozen
    class Second:
        x: Array
        h: Array

    for axes, fits in (((2, 2, 3), True), ((2, 2, 2, 3), False)):

        @attrs.frozen
        class Curvature(BoxHandler[Second]):
            def lift(self, x: Array) -> Second:
                return Second(x, enp.zeros_like(x))

        rule: Any = lambda op, x, y, axes=axes: Second(x.x * y.x, enp.ones(axes))  # noqa: E731  for any payload
        Curvature.rule(ops.Mul)(rule)
        box = Second(enp.asarray(X), enp.ones((2, 3)))
        if fits:
            assert Curvature().run(lambda x: x * x, box).h.shape == axes
        else:
            with pytest.raises(PayloadError, match=r": f32\[2,2,2,3\] in .h does not fit a value f32\[3\]"):
                Curvature().run(lambda x: x * x, box)


def make_deciding_tangents(join: Callable[[Dual, Dual], Any]) -> Any:
    """Tangents that run all branches, since nothing says which one is chosen."""
    tangents: Any = make_tangents("derive")
    tangents.rule(ops.Comparison)(lambda op, x, y: Dual(op(x.x, y.x), op(x.x, y.x)))
    tangents.rule(ops.Convert)(lambda op, x: Dual(op(x.x), op(x.dx)))
    tangents.join = lambda self, a, b: join(a, b)
    return tangents()


def choose(x: Array) -> Array:
    return lax.cond(x[0] > 1.0, lambda: x * 3.0, lambda: x)


@pytest.mark.unguarded  # typeguard refuses the number before
@pytest.mark.parametrize("through", [choose, effx.jit(choose), lambda x: effx.checkpoint(choose)(x) * 1.0])
def test_numbers_in_what_join_gives(through: Callable[[Array], Array]) -> None:
    box = Dual(enp.asarray(X), enp.ones(3))
    joined = make_deciding_tangents(lambda a, b: Dual(enp.maximum(a.x, b.x), 0.0)).run(through, box)  # type: ignore[arg-type]  # a number
    np.testing.assert_array_equal(joined.x, np.maximum(X * 3, X))
    assert joined.dx.type == array_type(np.dtype("float32"), (3,))
    np.testing.assert_array_equal(joined.dx, np.zeros(3))
    with pytest.raises(
        PayloadError, match=r"^tangents: join must give a payload of type Dual, got None of type NoneType"
    ):
        make_deciding_tangents(lambda a, b: None).run(through, box)


@attrs.frozen
class Ends:
    low: Any
    high: Any


@attrs.frozen
class Around(BoxHandler[Ends]):
    """Bounds that say nothing, where a branch is not decided."""

    def lift(self, x: Array) -> Ends:
        return Ends(x, x)

    def join(self, a: Ends, b: Ends) -> Ends:
        return Ends(-np.inf, np.inf)

    def grow(self, before: Ends, after: Ends) -> Ends:
        return Ends(-np.inf, np.inf)


Around.rule(ops.Comparison, ops.Convert, Structural)(
    lambda op, *xs: Ends(op(*[x.low for x in xs]), op(*[x.high for x in xs]))
)
Around.rule(ops.Mul)(lambda op, x, y: Ends(-np.inf, np.inf))


@pytest.mark.unguarded  # typeguard refuses the number before
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, np.bool_])
@pytest.mark.parametrize("outside", [lambda f: f, effx.jit], ids=["eager", "jit"])
def test_a_number_that_a_dtype_does_not_hold_stays_what_it_is(dtype: type, outside: Any) -> None:
    """Not the least integer, nor True: an infinity."""

    def branch(x: Array) -> Array:
        return lax.cond(x[0] > 0, lambda: x, lambda: x[::-1])

    x = enp.asarray([1, 0, 1], dtype)
    for f in (branch, lambda x: branch(x) * x):
        ends = outside(lambda x, f=f: Around().run(f, Ends(x, x)))(x)
        assert np.all(np.asarray(ends.low) == -np.inf)
        assert np.all(np.asarray(ends.high) == np.inf)


@pytest.mark.unguarded  # typeguard refuses the number before
def test_numbers_of_a_weak_value_stay_weak() -> None:
    tangents: Any = make_tangents()
    tangents.rule(ops.Sin)(lambda op, x: Dual(op(x.x), 2.0))  # type: ignore[arg-type]  # a number
    dual = tangents().run(enp.sin, Dual(enp.asarray(0.5), enp.asarray(1.0)))
    assert (dual.x.type.weak, dual.dx.type.weak) == (True, True)


def test_a_function_rule_of_arrays_may_give_numbers() -> None:
    @named_function
    def twice(x: Array) -> Array:
        return x * 2.0

    @attrs.frozen
    class Count(BoxHandler[Array]):
        def lift(self, x: Array) -> Array:
            return enp.float32(0.0)

    for number in (3.0, np.float32(3.0), np.asarray(3.0, np.float32)):
        Count.function_rule(twice)(lambda x, number=number: number)
        assert float(Count().run(twice, enp.float32(1.0))) == 3.0


@pytest.mark.parametrize("name", ["function", "self"])
def test_any_keyword_is_the_functions(name: str) -> None:
    @attrs.frozen
    class Nothing(InterceptHandler[None]):
        pass

    called = {"function": lambda function: function * 2.0, "self": lambda self: self * 2.0}[name]
    tangents: Any = make_tangents()()
    keywords: dict[str, Any] = {name: Dual(enp.asarray(X), enp.ones(3))}
    np.testing.assert_array_equal(tangents.run(called, **keywords).x, 2 * X)
    plain: dict[str, Any] = {name: enp.asarray(X)}
    np.testing.assert_array_equal(Nothing().run(called, **plain), 2 * X)


def test_numbers_from_rules_of_functions_in_batches() -> None:
    """The rule sees one element, whose payload the number fills, before the batch is stacked."""

    @named_function
    def bend(x: Array) -> Array:
        return enp.sin(x)

    tangents: Any = make_tangents()
    tangents.function_rule(bend)(lambda x: Dual(enp.sin(x.x), 2.0))  # type: ignore[arg-type]  # a number
    for shape in ((4, 3), (5, 4, 3)):
        x = np.linspace(-1.0, 1.0, int(np.prod(shape)), dtype=np.float32).reshape(shape)

        def f(y: Array) -> Array:
            return bend(y) * y

        for _ in shape[1:]:
            f = effx.vmap(f, in_axes=1, out_axes=1)
        value = tangents().run(effx.jit(f), Dual(enp.asarray(x), enp.ones(shape)))
        np.testing.assert_allclose(value.dx, 2.0 * x + np.sin(x), rtol=1e-5)
        assert value.dx.type == array_type(np.dtype("float32"), shape)
    tangents.function_rule(bend)(lambda x: Dual(enp.sin(x.x), enp.ones(7)))
    with pytest.raises(
        PayloadError, match=r"the rule for bend .*: f32\[7\] in .dx does not fit a value f32\[3\]"
    ):
        tangents().run(effx.vmap(bend), Dual(enp.ones((2, 3)), enp.ones((2, 3))))


def test_numbers_in_payloads_of_symbolic_sizes() -> None:
    tangents: Any = make_tangents()
    tangents.rule(ops.Sin)(lambda op, x: Dual(op(x.x), 2.0))  # type: ignore[arg-type]  # a number
    slope = effx.jit(lambda x: tangents().run(enp.sin, Dual(x, x)).dx)
    exported = export.export(slope)(effx.ShapeDtypeStruct(export.symbolic_shape("n"), "float32"))
    np.testing.assert_array_equal(exported.call(enp.ones(4)), np.full(4, 2.0))


def test_payloads_are_checked_where_nothing_may_be_staged() -> None:
    tangents: Any = make_tangents()
    tangents.rule(ops.Sin)(lambda op, x: Dual(op(x.x), 2.0))  # type: ignore[arg-type]  # a number
    with effx.no_tracing(True):
        np.testing.assert_array_equal(
            tangents().run(enp.sin, Dual(enp.ones(3), enp.ones(3))).dx, np.full(3, 2.0)
        )


# What is no rule, no payload, no state


@pytest.mark.parametrize(
    "rule", [3, None, Dual(enp.zeros(()), enp.zeros(()))], ids=["a number", "none", "a payload"]
)
@pytest.mark.unguarded  # typeguard refuses the mistake, or the number, before
def test_a_rule_is_a_function(rule: Any) -> None:
    tangents: Any = make_tangents()
    kind: Any = ops.Sin

    class Facts(Forward[int]):
        pass

    for register, name in (
        (tangents.rule(kind), "tangents: the rule for Sin"),
        (tangents.site_rule(kind, ops.Cos), "tangents: the rule for Sin, Cos"),
        (Facts.rule(kind), "Facts: the rule for Sin"),
        (jvp_rule(kind), "jvp: the rule for Sin"),
        (vmap_rule(kind), "vmap: the rule for Sin"),
        (transpose_rule(kind), "transpose: the rule for Sin"),
        (emits(kind), "stablehlo: the rule for Sin"),
        (decomposes(kind), "decompose: the rule for Sin"),
    ):
        with pytest.raises(TransformError, match=f"^{name} must be a function, got "):
            register(rule)
    assert coverage(tangents)[ops.Sin].how == "decomposition" or coverage(tangents)[ops.Sin].how == "refused"


def test_lift_gives_a_payload() -> None:
    @attrs.frozen
    class Plain(BoxHandler[Dual]):
        def lift(self, x: Array) -> Dual:
            return x  # type: ignore[return-value]  # the mistake

        def join(self, a: Dual, b: Dual) -> Dual:
            return a

    Plain.rule(ops.Mul)(lambda op, x, y: x)
    text = r"^plain: lift of the plain value f32\[\]~? must give a payload of type Dual, got (Array|Traced)"
    box = Dual(enp.asarray(1.0), enp.asarray(1.0))
    programs: list[Callable[[Any], Any]] = [
        lambda x: x * 2.0,
        effx.jit(lambda x: x * 2.0),
        lambda x: lax.fori_loop(0, 2, lambda i, c: x * c, 1.0),
        lambda x: (x, enp.ones(())),
    ]
    for program in programs:
        with pytest.raises(TransformError, match=text):
            Plain().run(program, box)


def test_a_state_needs_a_first_one() -> None:
    for assigns in (False, True):

        @attrs.frozen
        class Count(InterceptHandler[Array]):
            pass

        @Count.rule(ops.Sin)
        def _(site: Site[Count, Array], op: ops.Sin, x: Array, assigns: bool = assigns) -> Array:
            if assigns:
                site.state = enp.int32(1)
            else:
                enp.add(site.state, 1)
            return site.forward()

        for f in (enp.sin, effx.jit(enp.sin)):
            with pytest.raises(
                TransformError,
                match=r"^count: a rule reads or sets site\.state, but the handler has no state; define",
            ):
                Count().run(f, 1.0)


# Errors of rules


def fail(*_: object) -> Any:
    raise KeyError("not there")


LINE = r"test_rule_checks\.py:\d+ in "


def test_errors_of_rules_keep_their_class_and_say_where() -> None:
    tangents = make_tangents()
    tangents.rule(ops.Sin)(fail)
    box = Dual(enp.asarray(X), enp.ones(3))
    for f in (lambda x: enp.sin(x), effx.jit(lambda x: enp.sin(x))):
        with pytest.raises(KeyError, match="not there") as caught:
            tangents().run(f, box)
        (note,) = caught.value.__notes__
        assert re.fullmatch(
            rf"tangents: the rule for sin raises this at {LINE}fail, for {LINE}<lambda>", note
        )
        assert note in text_of(caught.value)


def test_errors_within_the_operations_of_rules() -> None:
    """An error of effx, which names the rule's line itself."""
    tangents = make_tangents()
    tangents.rule(ops.Sin)(lambda op, x: Dual(op(x.x), x.dx + enp.ones(2)))
    with pytest.raises(ShapeError, match="add: shapes do not fit") as caught:
        tangents().run(lambda x: enp.sin(x), Dual(enp.asarray(X), enp.ones(3)))
    assert re.search(
        rf"tangents: the rule for sin raises this at {LINE}<lambda>, for {LINE}<lambda>",
        text_of(caught.value),
    )


def test_each_handler_on_the_way_is_named() -> None:
    inner, outer = make_tangents(), make_tangents()
    inner.rule(ops.Sin)(lambda op, x: Dual(enp.cos(x.x), x.dx))
    outer.rule(ops.Cos)(fail)
    with pytest.raises(KeyError) as caught:
        outer().run(lambda x: inner().run(enp.sin, Dual(x, x)).x, Dual(enp.asarray(X), enp.ones(3)))
    names = [re.findall(r"the rule for (\w+)", note)[0] for note in caught.value.__notes__]
    assert names == ["cos", "sin"]


def test_rules_that_do_not_take_their_arguments() -> None:
    tangents = make_tangents()
    tangents.rule(ops.Sin)(lambda op, x, y: x)
    with pytest.raises(
        TransformError,
        match=rf"^tangents: the rule for sin at {LINE}<lambda> does not take its arguments: .*'y'",
    ) as caught:
        tangents().run(effx.jit(enp.sin), Dual(enp.asarray(X), enp.ones(3)))
    assert isinstance(caught.value.__cause__, TypeError)

    @attrs.frozen
    class Watch(InterceptHandler[None]):
        pass

    Watch.rule(ops.Sin)(lambda op, x: x)  # type: ignore[arg-type, return-value]  # the mistake: no site
    with pytest.raises(TransformError, match=rf"^watch: the rule for sin at {LINE}<lambda> does not take"):
        Watch().run(enp.sin, 1.0)

    @named_function
    def double(x: Array) -> Array:
        return x + x

    tangents.function_rule(double)(lambda x, y: x)
    with pytest.raises(
        TransformError, match=rf"^tangents: the rule for double at {LINE}<lambda> does not take"
    ):
        tangents().run(double, Dual(enp.asarray(X), enp.ones(3)))


def test_rules_of_every_kind_of_callable() -> None:
    """Partial functions, methods, objects, wrapped ones and those of C."""
    box = Dual(enp.asarray(X), enp.ones(3))

    class Rule:
        def __init__(self, takes: bool) -> None:
            self.takes = takes

        def __call__(self, op: Any, *rest: Any) -> Any:
            raise KeyError("an object")

        def method(self, op: Any) -> Any:
            return op

    def wrap(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def wrapper(op: Any, x: Any) -> Any:
            raise KeyError("a wrapper")

        return wrapper

    def check(rule: Any, error: type[Exception], text: str) -> None:
        tangents = make_tangents()
        tangents.rule(ops.Sin)(rule)
        with pytest.raises(error) as caught:
            tangents().run(enp.sin, box)
        assert re.search(text, text_of(caught.value)), text_of(caught.value)

    check(Rule(True), KeyError, f"tangents: the rule for sin raises this at {LINE}__call__, for ")
    check(partial(fail, 1), KeyError, f"tangents: the rule for sin raises this at {LINE}fail, for ")
    check(wrap(lambda op, x: x), KeyError, f"tangents: the rule for sin raises this at {LINE}wrapper, for ")
    check(Rule(True).method, TransformError, f"tangents: the rule for sin at {LINE}method does not take")
    check(
        partial(lambda op: op), TransformError, f"tangents: the rule for sin at {LINE}<lambda> does not take"
    )
    check(operator.add, TypeError, "tangents: the rule for sin raises this at <built-in function add>, for ")


@pytest.mark.unguarded  # typeguard refuses the mistake first
def test_type_errors_around_of_a_rule_are_not_its_own() -> None:
    """Those of `lift` and of an operation's typing rule."""

    @attrs.frozen
    class Wrong(BoxHandler[Dual]):
        def lift(self, x: Array) -> Dual:
            return Dual(x, enp.stack(3))  # type: ignore[arg-type]  # the mistake

    Wrong.rule(ops.Mul)(lambda op, x, y: x)
    with pytest.raises(TypeError) as caught:
        Wrong().run(lambda x: x * 2.0, Dual(enp.asarray(X), enp.ones(3)))
    assert "does not take its arguments" not in text_of(caught.value)


def test_a_type_error_inside_of_a_rule_is_its_own() -> None:
    tangents = make_tangents()
    tangents.rule(ops.Sin)(lambda op, x: len(3))  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="has no len"):
        tangents().run(enp.sin, Dual(enp.asarray(X), enp.ones(3)))


def test_errors_of_analyses() -> None:
    class Size(Forward[int]):
        def literal(self, value: object, type: Any) -> int:
            return 0

    class Use(Backward[int]):
        def literal(self, value: object, type: Any) -> int:
            return 0

        def unknown(self, type: Any) -> int:
            return 0

        def join(self, a: int, b: int) -> int:
            return a + b

    program = effx.make_jaxpr(lambda x: enp.sin(x))(1.0)
    for analysis, line in ((Size, "Size"), (Use, "Use")):
        analysis.rule(ops.Sin)(fail)
        with pytest.raises(KeyError) as caught:
            analysis().run(program, 1)
        assert re.search(
            rf"{line}: the rule for sin raises this at {LINE}fail, for {LINE}<lambda>", text_of(caught.value)
        )
        analysis.rule(ops.Sin)(lambda place: 1)
        with pytest.raises(
            TransformError, match=rf"^{line}: the rule for sin at {LINE}<lambda> does not take"
        ):
            analysis().run(program, 1)


class OwnSquare(UnaryOperation):
    """x², of which each rule is wrong in its turn."""

    __slots__ = ()
    kinds = "f"


WAYS: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "jvp": (jvp_rule, lambda x: effx.jvp(OwnSquare(), (x,), (x,)), "jvp"),
    "tangent": (tangent_of, lambda x: effx.jvp(OwnSquare(), (x,), (x,)), "jvp"),
    "vmap": (vmap_rule, lambda x: effx.vmap(OwnSquare())(x), "vmap"),
    "lowering": (emits, lambda x: effx.jit(OwnSquare())(x), "lowering to cpu"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.unguarded  # typeguard refuses the mistake, or the number, before
def test_errors_of_an_operations_rules(way: str) -> None:
    register, run, name = WAYS[way]
    x = enp.asarray(X)
    emits(OwnSquare)(lambda body, op, inputs, outputs: body.name(inputs[0]))
    register(OwnSquare)(fail)
    with pytest.raises(KeyError) as caught:
        run(x)
    assert re.search(
        rf"{name}: the rule for own_square raises this at {LINE}fail, for {LINE}<lambda>",
        text_of(caught.value),
    )
    register(OwnSquare)(lambda: None)
    with pytest.raises(
        TransformError, match=rf"^{name}: the rule for own_square at {LINE}<lambda> does not take"
    ):
        run(x)


def test_errors_of_transposes() -> None:
    class Same(UnaryOperation, Linear):
        """x, linear."""

        __slots__ = ()
        kinds = "f"

    emits(Same)(lambda body, op, inputs, outputs: body.name(inputs[0]))
    transpose_rule(Same)(fail)
    with pytest.raises(KeyError) as caught:
        effx.grad(lambda x: Same()(x))(1.0)
    assert re.search(
        rf"transpose: the rule for same raises this at {LINE}fail, for {LINE}<lambda>", text_of(caught.value)
    )


def test_a_state_of_replicas() -> None:
    """It is not branches that ran."""

    @attrs.frozen
    class Count(InterceptHandler[Array]):
        def initial(self) -> Array:
            return enp.int32(0)

    @Count.rule(ops.Sin)
    def _(site: Site[Count, Array], op: ops.Sin, x: Array) -> Array:
        site.state = site.state + 1
        return site.forward()

    with pytest.raises(
        TransformError,
        match=r"^count: 2 replicas of a parallel map ran, and each has left a state; define merge_states",
    ):
        Count().run(effx.pmap(enp.sin), enp.ones((2, 3)))


def test_a_function_rule_of_another_structure() -> None:
    @named_function
    def pair(x: Array) -> tuple[Array, Array]:
        return x, x

    tangents = make_tangents()
    tangents.function_rule(pair)(lambda x: x)
    with pytest.raises(TreeError, match="tangents: the rule for pair gives a result of structure"):
        tangents().run(pair, Dual(enp.asarray(X), enp.ones(3)))


# Operations of a user's own that hold programs


@attrs.frozen
class HoldsProgram(ops.HigherOrder):
    """An operation with the types of a program that it holds."""

    program: Program

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self.program,)

    @property
    def in_types(self) -> Any:
        return self.program.in_types

    def infer(self, *types: Any) -> Any:
        return self.program.out_types


@attrs.frozen
class Twice(HoldsProgram):
    """f(f(x)) of a program f."""

    def decompose(self, *operands: Any) -> Any:
        return ops.Call(self.program)(*ops.Call(self.program)(*operands))


@attrs.frozen
class Closed(HoldsProgram):
    """A program that only XLA enters."""


def call(kind: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: kind(effx.make_jaxpr(f)(x))(x)[0]


NOISE = Label("noise of test_rule_checks")


@attrs.frozen
class Noise(ArrayOperation):
    effects = frozenset({NOISE})

    def infer(self, *types: Any) -> Any:
        return array_type(enp.float32.dtype, ())


@attrs.frozen
class Supply(InterceptHandler[Array]):
    """Supplies 1, 2, 3 …"""

    handles = frozenset({NOISE})

    def initial(self) -> Array:
        return enp.float32(0.0)


@Supply.rule(Noise)
def _(site: Site[Supply, Array], op: Noise) -> Array:
    site.state = site.state + 1
    return site.state


@attrs.frozen
class CountSines(InterceptHandler[Array]):
    def initial(self) -> Array:
        return enp.int32(0)

    def returns(self, result: Any, frame: Any) -> tuple[Any, Any]:
        return result, frame.state


@CountSines.rule(ops.Sin)
def _(site: Site[CountSines, Array], op: ops.Sin, x: Array) -> Array:
    site.state = site.state + 1
    return site.forward()


def loop(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.fori_loop(0, 3, lambda i, c: f(c), x)


@pytest.mark.parametrize(
    "around", [lambda f: f, effx.jit, loop, lambda f: effx.jit(loop(f))], ids=["", "jit", "loop", "both"]
)
@pytest.mark.unguarded  # typeguard refuses the mistake, or the number, before
def test_handlers_see_what_users_operations_hold(around: Any) -> None:
    sines = around(call(Twice, enp.sin))
    runs = int(around(lambda x: x + 1.0)(0.0))
    value, count = CountSines().run(sines, 0.5)
    assert int(count) == 2 * runs
    expected = 0.5
    for _ in range(2 * runs):
        expected = float(np.sin(expected))
    np.testing.assert_allclose(value, expected, rtol=1e-6)

    noisy = around(call(Twice, lambda x: x + Noise()()))
    n = 2 * runs
    assert float(Supply().run(noisy, 1.0)) == 1.0 + n * (n + 1) / 2
    assert float(CountSines().run(lambda x: Supply().run(noisy, x), 1.0)[0]) == 1.0 + n * (n + 1) / 2


@pytest.mark.unguarded  # typeguard refuses the mistake, or the number, before
def test_an_operation_that_hides_its_program_is_refused() -> None:
    emits(Closed)(lambda body, op, inputs, outputs: body.inline(op.program, [body.name(x) for x in inputs]))
    np.testing.assert_allclose(call(Closed, enp.sin)(0.5), np.sin(0.5), rtol=1e-6)
    text = "^closed: the handler count_sines has no rule for this operation, and cannot enter the programs"
    with pytest.raises(NoRuleError, match=text):
        CountSines().run(call(Closed, enp.sin), 0.5)
    with pytest.raises(NoRuleError, match=r"^closed: the handler supply has no rule for this operation"):
        Supply().run(call(Closed, lambda x: x + Noise()()), 0.5)
