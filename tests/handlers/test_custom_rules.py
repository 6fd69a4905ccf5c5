"""Users' derivative rules stay in force under handlers of plain values, and what a handler records has its own derivative.

Each law compares with the same function without the handler, or with one that computes the record by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import ClosedOverError
from effx.handling import InterceptHandler, Site, ops
from effx.library.autocast import autocast
from effx.library.checkify import checkify
from effx.library.nan_guard import nan_guard
from effx.library.quantize import calibrate, fake_quantize
from effx.library.remat import remat

XS = np.array([0.25, 1.5, 2.75], np.float32)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5, atol=1e-6)


# --- functions with rules, which say another thing than the functions -----------------------------


@effx.custom_jvp
def straight(x: Any) -> Any:
    """Rounds; its derivative is taken to be 3."""
    return enp.floor(x)


straight.defjvp(lambda p, t: (enp.floor(p[0]), 3.0 * t[0]))


@effx.custom_vjp
def backward(x: Any) -> Any:
    """The same in reverse mode, with a residual."""
    return enp.floor(x)


backward.defvjp(lambda x: (enp.floor(x), enp.sin(x)), lambda r, ct: (3.0 * ct * r,))


@effx.custom_jvp
def guarded_root(x: Any) -> Any:
    """A square root whose derivative at 0 is 0."""
    return enp.sqrt(x)


@guarded_root.defjvp
def _(p: Any, t: Any) -> Any:
    (x,), (dx,) = p, t
    y = guarded_root(x)
    return y, enp.where(x > 0, dx / (2.0 * enp.where(x > 0, y, 1.0)), 0.0)


@effx.custom_vjp
def of_two(x: Any, scale: Any) -> Any:
    """Of two arguments and results, one of them an integer."""
    return {"y": enp.floor(x) * scale, "n": enp.int32(2)}


of_two.defvjp(
    lambda x, scale: (of_two(x, scale), (x, scale)),
    lambda r, ct: (5.0 * ct["y"] * r[1], 7.0 * ct["y"] * r[0]),
)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "forward rule": lambda x: straight(x) * x,
    "reverse rule": lambda x: backward(x) * x,
    "both": lambda x: backward(straight(x) * x),
    "guarded": lambda x: guarded_root(x - 1.5) * 2.0,
    "two arguments": lambda x: of_two(x, x * 2.0)["y"],
}
CONTEXTS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "alone": lambda f: f,
    "jit": effx.jit,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c) * 0.5, c), x, None, length=3)[0],
    "cond": lambda f: lambda x: lax.cond(True, f, lambda x: x, x),
    "vmap": lambda f: lambda x: effx.vmap(f)(enp.stack([x, 2.0 * x])).sum(),
    "checkpoint": effx.checkpoint,
}


# --- handlers -------------------------------------------------------------------------------------


@attrs.frozen
class Nothing(InterceptHandler[None]):
    """Sees every operation and forwards it."""


@attrs.frozen
class Stepping(InterceptHandler[None]):
    """Runs programs step by step."""

    steps = True


@attrs.frozen
class Count(InterceptHandler[Array]):
    """Counts products."""

    def initial(self) -> Array:
        return enp.int32(0)

    def returns(self, result: Any, frame: Any) -> Any:
        return result, frame.state


@Count.rule(ops.Mul)
def _(site: Site[Count, Array], op: ops.Mul, x: Array, y: Array) -> Array:
    site.state = site.state + 1
    return op(x, y)


@attrs.frozen
class Total(InterceptHandler[Array]):
    """Adds up the sines."""

    def initial(self) -> Array:
        return enp.float32(0)

    def returns(self, result: Any, frame: Any) -> Any:
        return result, frame.state


@Total.rule(ops.Sin)
def _(site: Site[Total, Array], op: ops.Sin, x: Array) -> Array:
    y = op(x)
    site.state = site.state + y.sum()
    return y


@attrs.frozen
class Gather(InterceptHandler[None]):
    """Collects the operand of each sine."""

    collects = True

    def returns(self, result: Any, frame: Any) -> Any:
        return result, frame.collected


@Gather.rule(ops.Sin)
def _(site: Site[Gather, None], op: ops.Sin, x: Array) -> Array:
    site.collect(f"sine {len(site.frame.collected)}", x)
    return op(x)


HANDLERS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "nothing": lambda f: lambda x: Nothing().run(f, x),
    "stepping": lambda f: lambda x: Stepping().run(f, x),
    "count": lambda f: lambda x: Count().run(f, x)[0],
    "total": lambda f: lambda x: Total().run(f, x)[0],
    "gather": lambda f: lambda x: Gather().run(f, x)[0],
    "two": lambda f: lambda x: Count().run(lambda x: Total().run(f, x)[0], x)[0],
    "autocast": lambda f: autocast(f),
    "calibrate": lambda f: lambda x: calibrate(f)(x)[1],
    "fake_quantize": lambda f: fake_quantize(f, {}),
    "checkify": lambda f: lambda x: checkify(f)(x)[1],
    "nan_guard": nan_guard,
    "remat": remat,
}


# All functions in one context, and one function in all.
PAIRS = [
    *[(name, "jit") for name in FUNCTIONS],
    *[("two arguments", context) for context in CONTEXTS if context != "jit"],
]
STEP_BY_STEP = ("stepping", "nan_guard")  # these need to know predicates


@pytest.mark.parametrize(
    ("handler", "name", "context"),
    [
        (h, name, context)
        for h in HANDLERS
        for name, context in PAIRS
        if context != "cond" or h not in STEP_BY_STEP
    ],
)
def test_gradients_are_those_without_the_handler(handler: str, name: str, context: str) -> None:
    f = CONTEXTS[context](FUNCTIONS[name])
    handled = HANDLERS[handler](f)
    expected = effx.vmap(effx.grad(f))(XS)
    assert np.isfinite(expected).all()
    close(effx.grad(handled)(XS[1]), expected[1])
    close(effx.jit(effx.vmap(effx.grad(handled)))(XS), expected)
    close(effx.grad(lambda xs: effx.vmap(handled)(xs).sum())(XS), expected)


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit])
def test_second_derivatives(handler: str, wrap: Any) -> None:
    f = FUNCTIONS["guarded"]
    handled = HANDLERS[handler](wrap(f))
    close(effx.grad(effx.grad(handled))(2.75), effx.grad(effx.grad(f))(2.75))
    close(effx.hessian(handled)(2.75), effx.grad(effx.grad(f))(2.75))
    close(effx.jvp(handled, (2.75,), (2.0,)), effx.jvp(f, (2.75,), (2.0,)))


# --- records --------------------------------------------------------------------------------------


@effx.custom_vjp
def with_sines(x: Any) -> Any:
    """A function that holds sines; its own derivative is taken to be 11."""
    return enp.sin(x) + enp.sin(2.0 * x)


with_sines.defvjp(lambda x: (enp.sin(x) + enp.sin(2.0 * x), None), lambda _, ct: (11.0 * ct,))


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit])
def test_a_state_has_the_derivative_of_what_it_is_made_of(wrap: Any) -> None:
    """The rule says nothing of it: it is that of the function's operations."""
    f = wrap(lambda x: enp.sin(with_sines(x)))
    y = np.sin(XS) + np.sin(2.0 * XS)

    def run(x: Any) -> Any:
        return Total().run(f, x)

    for get in (run, effx.jit(run), effx.vmap(run)):
        result, total = get(XS) if get is not run else [np.stack(z) for z in zip(*map(run, XS), strict=True)]
        if total.shape:
            close(result, np.sin(y))
            close(total, y + np.sin(y))
    close(effx.vmap(effx.grad(lambda x: run(x)[0]))(XS), 11.0 * np.cos(y))
    # The state adds the function's own sines, and the one outside, which sees the function's result with its rule.
    own = np.cos(XS) + 2.0 * np.cos(2.0 * XS)
    close(effx.vmap(effx.grad(lambda x: run(x)[1]))(XS), own + 11.0 * np.cos(y))
    close(effx.grad(lambda xs: effx.vmap(run)(xs)[1].sum())(XS), own + 11.0 * np.cos(y))


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit])
def test_what_is_collected_has_the_derivative_of_what_it_is_made_of(wrap: Any) -> None:
    f = wrap(with_sines)

    def collected(x: Any) -> Any:
        return sum(Gather().run(f, x)[1].values())

    close(collected(1.5), 4.5)
    close(effx.grad(collected)(1.5), 3.0)
    close(effx.vmap(effx.grad(collected))(XS), [3.0] * 3)


def test_counts_are_those_of_the_function() -> None:
    """Not those of its rules."""
    f = lambda x: straight(x * 2.0)  # noqa: E731
    assert effx.value_and_grad(lambda x: Count().run(f, x), has_aux=True)(1.5) == ((3.0, 1), 6.0)
    assert effx.value_and_grad(lambda x: Count().run(effx.jit(f), x), has_aux=True)(1.5) == ((3.0, 1), 6.0)


def test_a_state_that_results_depend_on_has_no_tangent() -> None:
    """A rule cannot know what a result owes to a state, so that a derivative by it is an error and not 0."""

    @attrs.frozen
    class Scale(InterceptHandler[Array]):
        """Multiplies sines by a number that grows with each."""

        start: float

        def initial(self) -> Array:
            return enp.float32(self.start)

    @Scale.rule(ops.Sin)
    def _(site: Site[Scale, Array], op: ops.Sin, x: Array) -> Array:
        scale = site.state
        site.state = scale + x
        return op(x) * scale

    close(effx.grad(lambda x: Scale(2.0).run(with_sines, x))(1.5), 11.0)
    with pytest.raises(ClosedOverError, match="with_sines depends on a value that is being differentiated"):
        effx.grad(lambda x: Scale(2.0).run(lambda x: with_sines(enp.sin(x)), x))(1.5)


def test_a_handler_may_give_up_rules() -> None:
    """With `keeps_rules = False` the function is differentiated as the handler makes it."""

    @attrs.frozen
    class Given(InterceptHandler[None]):
        keeps_rules = False

    close(effx.grad(lambda x: Given().run(straight, x))(1.5), 0.0)


def test_rules_see_the_handler() -> None:
    """The function's body, and the passes of its rules, run under the handler."""

    @attrs.frozen
    class Half(InterceptHandler[None]):
        pass

    @Half.rule(ops.Sin)
    def _(site: Site[Half, None], op: ops.Sin, x: Array) -> Array:
        return op(x / 2)

    @effx.custom_vjp
    def f(x: Any) -> Any:
        return enp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * enp.sin(x),))
    for g in (f, effx.jit(f)):
        close(Half().run(g, 1.0), np.sin(0.5))
        close(effx.value_and_grad(lambda x: Half().run(g, x))(1.0), (np.sin(0.5), np.sin(0.5)))  # noqa: B023


# --- arrays of a handler --------------------------------------------------------------------------


@attrs.frozen
class Weighted(InterceptHandler[None]):
    """Multiplies sines by an array."""

    weight: Array


@Weighted.rule(ops.Sin)
def _(site: Site[Weighted, None], op: ops.Sin, x: Array) -> Array:
    return op(x) * site.handler.weight


@effx.custom_vjp
def sine(x: Any) -> Any:
    """Its derivative is taken to be ten times its value."""
    return enp.sin(x)


sine.defvjp(lambda x: (enp.sin(x), x), lambda x, ct: (10.0 * enp.sin(x) * ct,))


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit, effx.checkpoint])
def test_rules_take_the_arrays_of_a_handler_as_they_are_then(wrap: Any) -> None:
    """The trace whose arrays it had may have ended when they run."""
    weighted = wrap(lambda w, x: Weighted(w).run(sine, x))
    weights, ten = enp.array([1.0, 2.0]), 10.0 * np.sin(0.5)
    close(effx.grad(weighted, 1)(2.0, 0.5), 2.0 * ten)
    close(effx.grad(lambda x: effx.vmap(weighted, (0, None))(weights, x).sum())(0.5), 3.0 * ten)
    close(
        effx.grad(lambda x: lax.scan(lambda c, w: (c + weighted(w, x), None), 0.0, weights)[0])(0.5),
        3.0 * ten,
    )
    # By the array itself the function is differentiated as it computes, and then by its argument too.
    close(effx.grad(weighted)(2.0, 0.5), np.sin(0.5))
    close(effx.grad(weighted, (0, 1))(2.0, 0.5), [np.sin(0.5), 2.0 * np.cos(0.5)])


@pytest.mark.parametrize("wrap", [effx.jit, effx.checkpoint])
@pytest.mark.parametrize("handler", ["nothing", "stepping", "nan_guard", "count"])
def test_rules_of_functions_that_are_staged_under_the_handler(handler: str, wrap: Any) -> None:
    """The gradient is further out than the trace, so that no value shows it."""
    close(effx.grad(wrap(HANDLERS[handler](straight)))(1.5), 3.0)


def test_batching_rules_stay_where_results_depend_on_a_state() -> None:
    @attrs.frozen
    class Scaled(InterceptHandler[Array]):
        def initial(self) -> Array:
            return enp.float32(2)

    @Scaled.rule(ops.Sin)
    def _(site: Site[Scaled, Array], op: ops.Sin, x: Array) -> Array:
        return op(x) * site.state

    @effx.custom_batching.custom_vmap
    def f(x: Any) -> Any:
        return enp.sin(x)

    @f.def_vmap
    def _(size: int, batched: Any, x: Any) -> Any:
        return 100.0 * enp.sin(x), True

    close(effx.vmap(lambda x: Scaled().run(f, x))(XS), 200.0 * np.sin(XS))
