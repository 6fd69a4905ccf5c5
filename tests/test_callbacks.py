"""Python functions that programs call: their arguments, when they run, and their errors."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import logging
import math
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import debug, lax
from effx.errors import (
    BackendError,
    DTypeError,
    FormatFieldError,
    NoRuleError,
    OptionError,
    ShapeError,
    TransformError,
    TreeError,
)
from effx.experimental import io_callback
from effx.families.callbacks.callback import PythonCallback
from effx.handlers.evaluate.lowering_passes import order_effects
from effx.handling import InterceptHandler, Reference, handle
from effx.ir.types import ArrayType
from effx.lower.placement.backends import local_devices
from effx.lower.placement.shardings import SingleDeviceSharding
from effx.lower.runtime.executables import Executable

SCALAR = effx.ShapeDtypeStruct((), np.float32)
LIMIT = 120  # seconds: what hangs ends the process with the stacks of its threads
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Nothing here may wait for ever."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def printed(function: Callable[..., Any], *args: Any) -> list[str]:
    """The lines that a call prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        function(*args)
        effx.effects_barrier()
    return out.getvalue().splitlines()


def show(x: Any, **options: Any) -> Any:
    debug.print("{}", x, **options)


def once(x: Any) -> None:
    debug.print("once")


def like(x: Any) -> Any:
    return effx.ShapeDtypeStruct(x.shape, x.dtype)


# Values


@pytest.mark.parametrize("wrap", [effx.named_call, effx.jit, effx.vmap])
def test_arguments_are_data_and_not_numbers(wrap: Any) -> None:
    """What a program gives was computed: a bfloat16 operand does not decide the result's dtype, as with 2.0."""
    seen: list[Any] = []

    def keep(x: Any, *, n: Any) -> Any:
        seen.extend([x, n])
        return np.asarray(x * enp.bfloat16(2.0) + n * enp.int8(1), np.float32)

    def asked(x: Any) -> Any:
        y = effx.pure_callback(
            keep, effx.ShapeDtypeStruct((), np.float32), 2.0, n=3, vmap_method="sequential"
        )
        io_callback(keep, effx.ShapeDtypeStruct((), np.float32), 2.0, n=3)
        debug.callback(keep, 2.0, n=3)
        return x + y

    wrap(asked)(enp.ones(1))
    effx.effects_barrier()
    assert [repr(x) for x in seen] == ["Array(2., dtype=float32)", "Array(3, dtype=int32)"] * 3
    assert [(x * enp.bfloat16(2.0)).dtype for x in seen[::2]] == [np.float32] * 3

    def shown(x: Any) -> None:
        debug.print("{}", x.shape)

    assert printed(effx.jit(shown), enp.ones(2)) == ["(Array(2, dtype=int32),)"]


@pytest.mark.parametrize(
    "wrap", [lambda f: f, effx.jit, effx.checkpoint, effx.vmap, lambda f: effx.jit(effx.jit(f))]
)
@pytest.mark.parametrize("shape", [(3,), (0,), (1,), (2, 3)])
def test_values(wrap: Any, shape: tuple[int, ...]) -> None:
    """The function's own, in every surrounding."""
    x = np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)
    f = wrap(lambda x: effx.pure_callback(np.tanh, like(x), x, vmap_method="expand_dims"))
    np.testing.assert_allclose(f(x), np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool_",
        "int4",
        "uint4",
        "int8",
        "uint32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float4_e2m1fn",
        "complex64",
    ],
)
def test_dtypes_go_through(dtype: str) -> None:
    """Those of less than a byte too."""
    wanted = getattr(effx.dtypes, dtype)
    x = enp.array([0, 1, 1]).astype(wanted)
    seen = []

    def same(x: effx.Array) -> effx.Array:
        seen.append(x)
        return x

    y = effx.jit(lambda x: effx.pure_callback(same, like(x), x))(x)
    assert (y.dtype, seen[0].dtype) == (wanted, wanted)
    assert y.astype(np.float32).tolist() == [0.0, 1.0, 1.0]


def test_functions_get_and_give_pytrees() -> None:
    def host(pair: Any, *, scale: Any) -> Any:
        assert all([isinstance(x, effx.Array) and x.frame is None for x in (*pair, scale)])
        return {"sum": pair[0] + pair[1] * scale, "n": 3}

    declared = {"sum": effx.ShapeDtypeStruct((2,), np.float32), "n": effx.ShapeDtypeStruct((), np.int32)}
    f = effx.jit(lambda a, b: effx.pure_callback(host, declared, (a, b), scale=2.0))
    found = f(enp.ones(2), enp.arange(2.0))
    assert (found["sum"].tolist(), int(found["n"])) == ([1.0, 3.0], 3)


def test_64_bits_are_cast_where_they_are_off() -> None:
    """Those that the function returns; declared ones are refused, and taken where they are on."""
    wide = lambda x: np.sin(np.asarray(x, np.float64))  # noqa: E731
    declared = effx.ShapeDtypeStruct((), np.float32)
    assert effx.jit(lambda x: effx.pure_callback(wide, declared, x))(1.0).dtype == np.float32
    for wrong in (effx.ShapeDtypeStruct((), np.float64), ArrayType((), np.float64), np.zeros(())):
        for call in (effx.pure_callback, io_callback):
            with pytest.raises(OptionError) as caught:
                call(wide, wrong, 1.0)
            assert str(caught.value).partition("\n")[0] == (
                f"{call.__name__}: result_shape_dtypes says float64, but 64-bit types are off; say float32, or enable them "
                "by effx.config.update('enable_x64', True) or EFFX_ENABLE_X64=1"
            )
    with effx.enable_x64(True):
        declared = effx.ShapeDtypeStruct((), np.float64)
        y = effx.jit(lambda x: effx.pure_callback(wide, declared, x))(1.0)
        assert (y.dtype, float(y)) == (np.float64, math.sin(1.0))


def test_callbacks_may_compute() -> None:
    """With effx, on arrays that keep all threads busy, and by calling the function that calls them."""
    x = enp.ones((256, 256))  # powers of two are exact
    inner = effx.jit(lambda x: x @ x)
    outer = effx.jit(lambda x: effx.pure_callback(lambda x: inner(x) @ x, like(x), x @ x).sum())
    assert float(outer(x)) == 256.0**7
    assert float(outer(x)) == 256.0**7

    def times(n: effx.Array) -> Any:
        return 1 if n == 0 else n * factorial(n - 1)

    factorial = effx.jit(lambda n: effx.pure_callback(times, effx.ShapeDtypeStruct((), np.int32), n))
    assert int(factorial(5)) == 120


def test_the_callers_settings_hold_inside() -> None:
    """Whatever thread XLA calls on."""
    seen = []
    f = effx.jit(lambda x: debug.callback(lambda x: seen.append(effx.enable_x64.value), x.sum()))
    x = enp.ones((2000, 2000))
    f(x)
    with effx.enable_x64(True):
        f(x)
    assert seen == [False, True]


# vmap


def test_vmap_methods() -> None:
    """The function's arguments, and the sum."""
    expected = {
        "sequential": [((), ())] * 3,
        "sequential_unrolled": [((), ())] * 3,
        "expand_dims": [((3,), (1,))],
        "broadcast_all": [((3,), (3,))],
        "legacy_vectorized": [((3,), ())],
    }
    for method in METHODS:
        seen: list[Any] = []

        def add(x: effx.Array, y: effx.Array, seen: Any = seen) -> effx.Array:
            seen.append((x.shape, y.shape))
            return x + y

        f = effx.vmap(
            lambda x, y, m=method: effx.pure_callback(add, SCALAR, x, y, vmap_method=m), in_axes=(0, None)
        )
        for g in (f, effx.jit(f)):
            seen.clear()
            assert g(enp.arange(3.0), 1.0).tolist() == [1.0, 2.0, 3.0]
            assert seen == expected[method]


@pytest.mark.parametrize("method", METHODS)
def test_nested_vmap(method: Any) -> None:
    """Batches at any axes, of any nesting, and none of size 0 is a call of the function."""
    x, y = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.arange(3.0, dtype=np.float32)
    calls = []

    def host(x: effx.Array, y: effx.Array) -> Any:
        calls.append(1)
        return np.asarray(x) * 2 + np.asarray(y)

    f = lambda x, y: effx.pure_callback(host, SCALAR, x, y, vmap_method=method)  # noqa: E731
    both = effx.vmap(effx.vmap(f), in_axes=(0, None))
    np.testing.assert_array_equal(both(x, y), x * 2 + y)
    np.testing.assert_array_equal(
        effx.vmap(effx.vmap(f), in_axes=(1, None), out_axes=1)(x.T, y), (x * 2 + y).T
    )
    if method == "sequential":
        calls.clear()
        assert effx.vmap(f)(np.zeros(0, np.float32), np.zeros(0, np.float32)).shape == (0,)
        assert not calls


def test_vmap_calls_effects_for_each_element() -> None:
    f = lambda x, y: debug.print("{} {}", x, y, ordered=True)  # noqa: E731
    for g in (effx.vmap(f, in_axes=(0, None)), effx.jit(effx.vmap(f, in_axes=(0, None)))):
        assert printed(g, enp.arange(3), 7) == ["0 7", "1 7", "2 7"]
    assert effx.vmap(lambda x: io_callback(lambda x: x + 1, SCALAR, x))(enp.arange(3.0)).tolist() == [1, 2, 3]
    assert printed(effx.vmap(once), enp.arange(3)) == ["once"]


def test_results_may_come_in_other_containers() -> None:
    """As many leaves as declared, in their order, make the declared result."""
    declared = {"a": SCALAR, "b": [effx.ShapeDtypeStruct((2,), np.float32)]}
    for stage in (effx.jit, lambda f: f):
        f = stage(lambda x: effx.pure_callback(lambda x: ([x], (np.ones(2, np.float32),)), declared, x))
        result = f(3.0)
        assert result["a"] == 3.0
        assert result["b"][0].tolist() == [1.0, 1.0]


def test_debug_print_has_the_print_options_of_its_caller() -> None:
    """Compiled programs print from threads of XLA's, which have NumPy's defaults."""
    x = np.array([1.23456, 1e-7], np.float32)
    for stage in (effx.jit, lambda f: f):
        show: Any = lambda x: debug.print("{}", x)  # noqa: E731
        with np.printoptions(precision=2, suppress=True):
            assert printed(stage(show), x) == ["[1.23 0.  ]"]


# Effects


CONTEXTS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda step: effx.jit(step),
    "scan": lambda step: effx.jit(lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=2)[0]),
    "eager scan": lambda step: lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=2)[0],
    "while": lambda step: effx.jit(lambda x: lax.while_loop(lambda c: c < 2.0, step, x)),
    "fori": lambda step: effx.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: step(c), x)),
    "cond": lambda step: effx.jit(lambda x: lax.cond(x < 5.0, step, lambda x: x, x)),
    "switch": lambda step: effx.jit(lambda x: lax.switch(1, [lambda x: x, step], x)),
    "checkpoint": lambda step: effx.jit(effx.checkpoint(step)),
    "nested jit": lambda step: effx.jit(lambda x: effx.jit(step)(effx.jit(step)(x))),
    "jvp": lambda step: lambda x: effx.jvp(effx.jit(step), (x,), (x,)),
    "grad": lambda step: effx.grad(step),
    "grad of jit": lambda step: effx.grad(effx.jit(step)),
    "jit of grad": lambda step: effx.jit(effx.grad(step)),
    "grad of checkpoint": lambda step: effx.grad(effx.checkpoint(lambda x: enp.sin(step(x)))),
    "grad of scan": lambda step: effx.grad(
        lambda x: lax.scan(lambda c, _: (enp.sin(step(c)) * 0 + c + 1, None), x, None, length=2)[0]
    ),
    "hessian": lambda step: effx.jit(effx.hessian(step)),
}
TWICE = {"scan", "eager scan", "while", "fori", "nested jit", "grad of scan"}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("context", CONTEXTS)
def test_each_effect_happens_once(context: str, ordered: bool) -> None:
    """Also where nothing uses a result, where a derivative is taken, and where a checkpoint computes again."""

    def step(x: effx.Array) -> effx.Array:
        debug.print("{:.1f}", x, ordered=ordered)
        return x + 1.0

    f = CONTEXTS[context](step)
    for _ in range(2):  # the second call runs what the first has compiled
        assert printed(f, 0.0) == ["0.0", "1.0"][: 1 + (context in TWICE)]


RESULTLESS: dict[str, Callable[[Any], Any]] = {
    "jit": effx.jit(show),
    "jit of jit": effx.jit(effx.jit(show)),
    "cond": lambda x: lax.cond(x > 0, show, lambda x: None, x),
    "scan": lambda x: lax.scan(lambda c, _: (show(x), None), None, None, length=1),
    "checkpoint": effx.checkpoint(show),
    "pmap": lambda x: effx.pmap(show)(enp.reshape(x, (1,))),
}


@pytest.mark.parametrize("form", RESULTLESS)
@pytest.mark.parametrize(
    "wrap", [effx.grad, lambda f: effx.jit(effx.grad(f)), lambda f: effx.grad(effx.jit(f)), effx.hessian]
)
def test_what_gives_nothing_happens_under_derivatives(form: str, wrap: Any) -> None:
    """Programs of effects alone are not dropped when a function is split into a known and a linear part."""

    def f(x: Any) -> Any:
        RESULTLESS[form](x)
        return x * x

    assert printed(wrap(f), 3.0) == ["3.0"]


def test_linear_loops_are_silent() -> None:
    """The derivative of a while loop runs it again, without looking, and not at all if it does something."""

    def loop(say: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def body(c: Any) -> Any:
            i, y = c
            say(i)
            return i + 1, lax.cond(i > 0, lambda y: (show(y), y * 2.0)[1], lambda y: y, y)

        return lambda x: lax.while_loop(lambda c: (show(c[0], ordered=True), c[0] < 2)[1], body, (0, x))[1]

    found = []

    def slopes(wrap: Any) -> None:
        found.append(wrap(lambda x: effx.linearize(loop(show), x)[1](1.0))(3.0))

    for wrap in (lambda f: f, effx.jit):
        assert sorted(printed(slopes, wrap)) == ["0", "0", "1", "1", "2", "3.0"]
    assert [float(y) for y in found] == [2.0, 2.0]
    with pytest.raises(TransformError) as caught:
        effx.linearize(loop(lambda i: io_callback(lambda i: None, None, i)), 1.0)
    assert caught.value.message == (
        "linearize: the derivative of a while loop runs the loop again, but it has an io_callback; pass max_steps=N to "
        "while_loop or fori_loop, or use scan or jvp"
    )


def test_io_happens_though_nothing_uses_it() -> None:
    """And equal calls stay two; pure ones that nothing uses are left out."""
    seen = []

    def host(x: effx.Array) -> float:
        seen.append(float(x))
        return 1.0

    def f(x: Any) -> Any:
        io_callback(host, SCALAR, x)
        io_callback(host, SCALAR, x)
        effx.pure_callback(lambda x: seen.append(-1.0), None, x)
        return x

    effx.jit(f)(2.0)
    assert seen == [2.0, 2.0]


@pytest.mark.parametrize("stage", [effx.jit, lambda f: f], ids=["jit", "eager"])
def test_ordered_effects_of_a_loop_happen_in_the_order_of_its_body(stage: Any) -> None:
    """Also where the loop is called without jit."""
    seen: list[str] = []

    def step(i: Any, x: Any) -> Any:
        debug.callback(lambda i: seen.append(f"i{i}"), i, ordered=True)
        debug.callback(lambda x: seen.append(f"x{x}"), x, ordered=True)
        return x + 1

    stage(lambda x: lax.fori_loop(0, 3, step, x))(5)
    assert seen == ["i0", "x5", "i1", "x6", "i2", "x7"]
    seen.clear()
    stage(lambda x: lax.cond(x > 0, step, step, x, x))(5)
    assert seen == ["i5", "x5"]


def test_ordered_effects_have_one_order() -> None:
    """Debugging, input and output, eager calls and compiled ones."""
    seen: list[int] = []

    def double(x: effx.Array) -> effx.Array:
        seen.append(2)
        return x * 2

    @effx.jit
    def f(x: Any) -> effx.Array:
        debug.callback(lambda: seen.append(1), ordered=True)
        y: effx.Array = io_callback(double, SCALAR, x, ordered=True)
        debug.callback(lambda y: seen.append(int(y)), y, ordered=True)
        return y

    f(1.5)
    io_callback(lambda: seen.append(4), None, ordered=True)
    f(2.5)
    assert seen == [1, 2, 3, 4, 1, 2, 5]


def test_conditions_print_too() -> None:
    def condition(c: effx.Array) -> effx.Array:
        debug.print("test {}", c, ordered=True)
        return c < 2

    def body(c: effx.Array) -> effx.Array:
        debug.print("body {}", c, ordered=True)
        return c + 1

    loop = effx.jit(lambda x: lax.while_loop(condition, body, x))
    assert printed(loop, 0) == ["test 0", "body 0", "test 1", "body 1", "test 2"]


Block = Any  # nested tuples of what a program does
BLOCKS: st.SearchStrategy[Block] = st.recursive(
    st.just("print"),
    lambda inner: st.lists(
        st.tuples(st.sampled_from(["scan", "while", "cond", "jit", "fori"]), inner) | st.just("print"),
        min_size=1,
        max_size=3,
    ).map(tuple),
    max_leaves=6,
)


def perform(block: Block, x: Any, say: Callable[[int, Any], None], compiled: bool, place: list[int]) -> Any:
    """Runs a program of blocks on a counter, in Python or in effx; prints have numbers by their place in the text."""
    if block == "print":
        place[0] += 1
        say(place[0], x)
        return x + 1
    if isinstance(block[0], str) and block[0] != "print":
        kind, inner = block
        start = place[0]

        def step(x: Any) -> Any:
            place[0] = start
            return perform(inner, x, say, compiled, place)

        if compiled:
            made: dict[str, Callable[[Any], Any]] = {
                "scan": lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=2)[0],
                "while": lambda x: lax.while_loop(
                    lambda c: c[1] < 2, lambda c: (step(c[0]), c[1] + 1), (x, enp.int32(0))
                )[0],
                "fori": lambda x: lax.fori_loop(0, 2, lambda i, c: step(c), x),
                "cond": lambda x: lax.cond(x % 2 == 0, step, lambda x: x + 1, x),
                "jit": effx.jit(step),
            }
            return made[kind](x)
        if kind == "cond":
            if x % 2 == 0:
                return step(x)
            place[0] = start + leaves(inner)
            return x + 1
        for _ in range(1 if kind == "jit" else 2):
            x = step(x)
        return x
    for part in block:
        x = perform(part, x, say, compiled, place)
    return x


def leaves(block: Block) -> int:
    return 1 if block == "print" else 0 if isinstance(block, str) else sum([leaves(part) for part in block])


@settings(max_examples=12, deadline=None, database=None)
@given(block=BLOCKS)
def test_order_is_that_of_python(block: Block) -> None:
    """In nested loops and branches, whatever they are."""
    expected: list[tuple[int, int]] = []
    last = perform(block, 0, lambda n, x: expected.append((n, int(x))), False, [0])
    seen: list[tuple[int, int]] = []

    def say(n: int, x: effx.Array) -> None:
        debug.callback(lambda x: seen.append((n, int(x))), x, ordered=True)

    y = effx.jit(lambda x: perform(block, x, say, True, [0]))(enp.int32(0))
    assert seen == expected
    assert int(y) == last


def test_only_ordered_effects_have_tokens() -> None:
    """Programs without them stay the objects that they are; those with them call by tokens only."""
    plain = effx.jit(lambda x: x * 2).trace(1.0).program
    loose = effx.jit(lambda x: debug.print("{}", x)).trace(1.0).program
    assert order_effects(plain) is plain
    assert order_effects(loose) is loose
    strict = effx.jit(lambda x: debug.print("{}", x, ordered=True))
    assert "(tensor<i32>, tensor<f32>) -> tensor<i32>" in strict.lower(1.0).as_text()
    assert [(e.name, e.ordered, e.droppable) for e in strict.trace(1.0).program.effects] == [  # type: ignore[attr-defined]  # labels
        ("ordered debug", True, False)
    ]


def test_handlers_take_callbacks() -> None:
    """A user's handler of the effect keeps what would be called, and answers itself."""

    @attrs.frozen
    class Quiet(InterceptHandler[effx.Array]):
        handles = frozenset({debug.DebugEffect, debug.OrderedDebugEffect})

        def initial(self) -> effx.Array:
            return enp.float32(0)

        def returns(self, result: Any, frame: Any) -> Any:
            return result, frame.state

    @Quiet.rule(PythonCallback)
    def _(site: Any, op: PythonCallback, *xs: effx.Array) -> tuple[()]:
        site.state = site.state + xs[0]
        return ()

    def step(i: effx.Array, x: effx.Array) -> effx.Array:
        debug.print("{}", x, ordered=True)
        debug.print("{}", x)
        return x + 1.0

    loop = effx.jit(lambda x: lax.fori_loop(0, 3, step, x))
    found: list[Any] = []
    assert printed(lambda: found.extend(Quiet().run(loop, 1.0))) == []
    assert [float(x) for x in found] == [4.0, 12.0]


def test_the_reference_calls_them() -> None:
    with handle(Reference()):
        y = effx.pure_callback(np.sin, SCALAR, enp.float32(1.0))
        assert float(y) == pytest.approx(math.sin(1.0))


def test_disable_jit() -> None:
    with effx.disable_jit(True):
        assert printed(effx.jit(partial(show, ordered=True)), 1) == ["1"]


def test_custom_derivatives() -> None:
    """Make callbacks differentiable."""

    @effx.custom_jvp
    def sine(x: effx.Array) -> effx.Array:
        result: effx.Array = effx.pure_callback(np.sin, like(x), x, vmap_method="expand_dims")
        return result

    @sine.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return sine(x), effx.pure_callback(np.cos, like(x), x, vmap_method="expand_dims") * dx

    xs = np.linspace(0, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(effx.jit(effx.vmap(effx.grad(sine)))(xs), np.cos(xs), rtol=1e-6)
    stopped = effx.grad(lambda x: x * effx.pure_callback(np.sin, SCALAR, lax.stop_gradient(x)))
    assert float(stopped(1.0)) == pytest.approx(math.sin(1.0))


# Several devices


def test_replicas_call_for_themselves() -> None:
    x = enp.arange(4.0)
    assert sorted(printed(effx.pmap(show), x)) == ["0.0", "1.0", "2.0", "3.0"]
    assert effx.pmap(lambda x: effx.pure_callback(lambda x: x + 1, SCALAR, x))(x).tolist() == [1, 2, 3, 4]
    assert effx.pmap(lambda x: io_callback(lambda x: x + 1, SCALAR, x))(x).tolist() == [1, 2, 3, 4]


def test_the_first_device_calls_for_all() -> None:
    def f(x: effx.Array) -> effx.Array:
        debug.print("before {}", x, ordered=True)
        y: effx.Array = effx.pmap(lambda x: x + 1)(x)
        debug.print("behind", ordered=True)
        return y

    assert printed(effx.jit(f), enp.arange(2.0)) == ["before [0. 1.]", "behind"]


# What functions raise


def raises(error: BaseException) -> Callable[..., Any]:
    def fails(*args: Any) -> Any:
        raise error

    return fails


@pytest.mark.parametrize(
    "wrap", [lambda f: f, effx.jit, effx.vmap, effx.pmap, lambda f: effx.jit(effx.jit(f))]
)
@pytest.mark.parametrize("error", [KeyError("boo"), ZeroDivisionError(), KeyboardInterrupt(), SystemExit(3)])
def test_errors_come_out_as_they_are(wrap: Any, error: BaseException) -> None:
    """With the lines of the callback and of the call; the next call works."""
    bad = [True]

    def host(x: effx.Array) -> effx.Array:
        if bad[0]:
            raise error
        return x

    f = wrap(lambda x: io_callback(host, SCALAR, x))
    x = enp.ones(1) if wrap in (effx.vmap, effx.pmap) else 1.0
    with pytest.raises(type(error)) as caught:
        f(x)
    assert caught.value is error
    lines = "".join(traceback.format_exception(caught.value))
    assert "in host" in lines
    assert "f(x)" in lines
    bad[0] = False
    np.testing.assert_array_equal(f(x), np.ones(np.shape(x)))


def test_an_error_ends_a_loop() -> None:
    """Nothing ordered happens behind it."""
    seen = []

    def host(i: effx.Array) -> None:
        if i == 2:
            raise LookupError("two")
        seen.append(int(i))

    def body(i: effx.Array, x: effx.Array) -> effx.Array:
        debug.callback(host, i, ordered=True)
        return x + 1

    loop = effx.jit(lambda x: lax.fori_loop(0, 5, body, x))
    for _ in range(2):
        with pytest.raises(LookupError, match="two"):
            loop(0)
    assert seen == [0, 1, 0, 1]


def test_threads_get_their_own_errors() -> None:
    """Of one program that several run at once."""

    def host(x: effx.Array) -> Any:
        raise ValueError(int(x))

    f = effx.jit(lambda x: io_callback(host, SCALAR, x))
    found: dict[int, int] = {}

    def call(n: int) -> None:
        for _ in range(5):
            with pytest.raises(ValueError, match=f"^{n}$"):
                f(float(n))
            found[n] = found.get(n, 0) + 1

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == dict.fromkeys(range(4), 5)


def checked(x: Any) -> Any:
    """A root, whose operand is checked: a program that seldom calls Python, and then at two operations."""

    def negative(x: effx.Array) -> effx.Array:
        raise ArithmeticError(float(x))

    def never(x: effx.Array) -> effx.Array:
        raise AssertionError("called after an error")

    def check(x: Any, host: Any) -> Any:
        return lax.cond(x < 0, lambda x: effx.pure_callback(host, SCALAR, x), lambda x: x, x)

    return {"root": enp.sqrt(check(x, negative)), "twice": (2.0 * check(x, never), None)}


@pytest.fixture
def seldom() -> Callable[[Any], Any]:
    """A function that checks its argument, which has run twice without an error."""
    f = effx.jit(checked)
    for _ in range(2):
        assert float(f(enp.float32(4.0))["root"]) == 2.0
    return f


def test_rare_calls_leave_a_program_to_cpp(seldom: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not run from Python, where it would be 30 us slower, until it is called under a flag."""

    def run(self: Executable, arrays: Any) -> Any:
        raise LookupError("Python was asked")

    monkeypatch.setattr(Executable, "run", run)
    found = seldom(enp.float32(9.0))
    assert (float(found["root"]), float(found["twice"][0]), found["twice"][1]) == (3.0, 18.0, None)
    with pytest.raises(LookupError), effx.default_matmul_precision("highest"):
        seldom(enp.float32(9.0))
    often = effx.jit(lambda x: effx.pure_callback(np.sqrt, SCALAR, x))
    monkeypatch.undo()
    often(1.0)
    monkeypatch.setattr(Executable, "run", run)
    with pytest.raises(LookupError):
        often(1.0)


def test_a_rare_error_comes_out_as_it_is(seldom: Any) -> None:
    """The first one, with the lines of the callback and of the call, and none of effx's; the next call works."""
    for _ in range(3):
        with pytest.raises(ArithmeticError, match=r"^-2\.0$") as caught:
            seldom(enp.float32(-2.0))
        assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][1:] == ["negative"]
        assert caught.value.__cause__ is None
        assert float(seldom(enp.float32(16.0))["root"]) == 4.0


def test_a_rare_error_of_inputs_that_are_not_ready(seldom: Any) -> None:
    """XLA calls in a thread of its own then."""
    slow = effx.jit(lambda x: (x @ x @ x)[0, 0] * 0 - 3)
    x = enp.ones((800, 800))
    slow(x).block_until_ready()
    for _ in range(3):
        with pytest.raises(ArithmeticError, match=r"^-3\.0$"):
            seldom(slow(x))
        assert float(seldom(-slow(x))["twice"][0]) == 6.0


def test_threads_get_their_own_rare_errors(seldom: Any) -> None:
    def call(n: int) -> None:
        for i in range(60):
            x = float(-n if i % 3 else n)
            try:
                assert float(seldom(enp.float32(x))["twice"][0]) == 2 * x
                assert x > 0
                right.append(n)
            except ArithmeticError as error:
                right.extend([n] * (error.args == (x,)))

    right: list[int] = []
    threads = [threading.Thread(target=call, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [right.count(n) for n in range(1, 5)] == [60] * 4


def twice(x: Any) -> Any:
    found = checked(x)
    return found["root"] ** 2 + found["twice"][0] / 2


@pytest.mark.parametrize(
    ("loop", "good"),
    [
        (
            lambda x: lax.while_loop(lambda x: x < 100.0, twice, x),  # waits for another result than zeros
            128.0,
        ),
        (lambda x: lax.while_loop(lambda x: x < 100.0, effx.jit(twice), x), 128.0),
        (lambda x: lax.scan(lambda x, _: (twice(x), None), x, None, length=3)[0], 8.0),
        (lambda x: effx.checkpoint(twice)(x), 2.0),
    ],
)
def test_rare_errors_end_loops(loop: Callable[[Any], Any], good: float) -> None:
    f = effx.jit(loop)
    for _ in range(3):
        assert float(f(enp.float32(1.0))) == good
        with pytest.raises(ArithmeticError, match=r"^-1\.0$"):
            f(enp.float32(-1.0))


def test_barrier_waits_for_other_threads() -> None:
    """But not inside of a callback."""
    begun, seen = threading.Event(), []

    def slow(x: effx.Array) -> None:
        begun.set()
        effx.effects_barrier()
        threading.Event().wait(0.2)
        seen.append(1)

    thread = threading.Thread(target=effx.jit(partial(debug.callback, slow)), args=(1.0,))
    thread.start()
    assert begun.wait(60)
    effx.effects_barrier()
    assert seen == [1]
    thread.join()


def test_functions_are_freed() -> None:
    """With the jitted function that calls them."""

    class Host:
        def __call__(self, x: effx.Array) -> effx.Array:
            return x

    def use(call: Callable[[Any], None]) -> Any:
        host = Host()
        call(host)
        return weakref.ref(host)

    uses: list[Callable[[Any], Any]] = [
        lambda host: effx.jit(lambda x: effx.pure_callback(host, SCALAR, x))(1.0),
        lambda host: effx.vmap(lambda x: io_callback(host, SCALAR, x))(enp.arange(2.0)),
        lambda host: lax.scan(lambda c, x: (io_callback(host, SCALAR, c), x), 0.0, enp.arange(3.0)),
        lambda host: debug.callback(host, 1.0, ordered=True),
        lambda host: effx.jit(
            lambda x: lax.cond(x < 0, lambda x: effx.pure_callback(host, SCALAR, x), lambda x: x, x)
        )(1.0),
    ]
    found = [use(call) for call in uses]
    gc.collect()
    assert [r() for r in found] == [None] * 5


def test_ahead_of_time() -> None:
    f = effx.jit(lambda x: debug.print("{}", x, ordered=True)).lower(1.0).compile()
    assert printed(f, 2.0) == ["2.0"]


def test_equal_texts_call_their_own_functions() -> None:
    """Though the text of their programs is one."""
    made = [effx.jit(lambda x, n=n: effx.pure_callback(lambda x: x + n, SCALAR, x)) for n in range(3)]
    assert [float(f(1.0)) for f in made] == [1.0, 2.0, 3.0]


def test_exit_waits() -> None:
    """The interpreter ends when what has begun is done, and an error is the process's."""
    code = (
        "import threading, effx\n"
        "f = effx.jit(lambda x: effx.debug.callback(lambda x: (threading.Event().wait(0.3), print('done', x)), x))\n"
        "threading.Thread(target=f, args=(1.0,)).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert done.stdout == "done 1.0\n"


# Printing


def test_formats() -> None:
    x = enp.arange(3.0)
    short, long = effx.random.key(7), effx.random.key(7, impl="rbg")
    cases: list[tuple[Any, str]] = [
        (lambda: debug.print("{} {a[1]:.1f} {a.shape}", 1, a=x), "1 1.0 (3,)"),
        (lambda: debug.print("{0}{1}{0}", 1, 2), "121"),
        (lambda: debug.print("{x!r:>40}", x=x), "      Array([0., 1., 2.], dtype=float32)"),
        (lambda: debug.print("{x:{w}}|{s}", x=x[1], w=6, s="text"), "   1.0|text"),
        (lambda: debug.print(ordered=True)("{{}} {:+}", x[2]), "{} +2.0"),
        (
            lambda: debug.print("{tree}", tree={"a": x, "b": None}),
            "{'a': Array([0., 1., 2.], dtype=float32), 'b': None}",
        ),
        (lambda: debug.print("{k}", k=short), "[0 7]"),
        (lambda: debug.print("{k}", k=long), "[0 7 0 7]"),
        (lambda: debug.print("{} {y}", 1, skip_format_check=True, y=2, z=3), "1 2"),
    ]
    for call, expected in cases:
        for form in (call, effx.jit(call)):
            assert printed(form)[0].startswith(expected), expected


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "effx.debug"):
        effx.jit(lambda x: debug.log("x is {}", x))(3)
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [
        ("effx.debug", "INFO", "x is 3")
    ]


def test_callback_keeps_what_is_no_array() -> None:
    seen = []
    effx.jit(lambda x: debug.callback()(lambda *a, **k: seen.append((a, k)), x, "s", None, f=math.sin))(1)
    ((args, kwargs),) = seen
    assert isinstance(args[0], effx.Array)
    assert (int(args[0]), args[1:], kwargs) == (1, ("s", None), {"f": math.sin})


# Errors of the call


def _sharded() -> Any:
    return effx.pure_callback(np.sin, SCALAR, 1.0, sharding="cpu")  # type: ignore[arg-type]  # wrong on purpose


def named(x: Any) -> Any:
    return x


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: effx.pure_callback(3, SCALAR),  # type: ignore[arg-type]  # wrong on purpose
        TransformError,
        "pure_callback: expected a function, got 3 of type int",
    ),
    (
        lambda: effx.pure_callback(named, SCALAR, "a"),
        DTypeError,
        (
            "pure_callback: argument 0 must be an array, a number, or a pytree of them, got 'a' of type str; an "
            "argument that is no array can be static in jit"
        ),
    ),
    (
        lambda: effx.pure_callback(named, 3.0, 1.0),
        DTypeError,
        "pure_callback: result_shape_dtypes must hold arrays or things with shape and dtype, got 3.0 of type float",
    ),
    (
        lambda: effx.pure_callback(named, SCALAR, 1.0, vmap_method="foo"),  # type: ignore[arg-type]  # wrong on purpose
        TransformError,
        (
            "pure_callback: vmap_method must be one of 'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', "
            "'legacy_vectorized' or None, got 'foo'"
        ),
    ),
    (_sharded, BackendError, "pure_callback: sharding must be a SingleDeviceSharding of a CPU, got 'cpu'"),
    (
        lambda: effx.vmap(lambda x: effx.pure_callback(named, SCALAR, x))(enp.ones(2)),
        NoRuleError,
        (
            "pure_callback: vmap needs to know what named does with a batch; give vmap_method, one of 'sequential', "
            "'sequential_unrolled', 'expand_dims', 'broadcast_all', 'legacy_vectorized'"
        ),
    ),
    (
        lambda: effx.vmap(lambda x: io_callback(named, SCALAR, x, ordered=True))(enp.ones(2)),
        TransformError,
        "io_callback: vmap has no order for the calls of named, which is ordered; use effx.lax.map, or ordered=False",
    ),
    (
        lambda: effx.vmap(lambda p: lax.cond(p, lambda: io_callback(lambda: None, None), lambda: None))(
            enp.array([True, False])
        ),
        NoRuleError,
        (
            "cond: vmap runs it for all elements of a batch where they decide differently, but it has an io_callback; use "
            "effx.lax.map, or decide outside of vmap"
        ),
    ),
    (
        lambda: effx.grad(lambda x: effx.pure_callback(named, SCALAR, x))(1.0),
        TransformError,
        (
            "pure_callback: effx cannot differentiate the Python function named; call it inside a function with a "
            "derivative of its own (effx.custom_jvp, effx.custom_vjp), or on effx.lax.stop_gradient of its arguments"
        ),
    ),
    (
        lambda: effx.pure_callback(lambda x: (x, x), {"a": SCALAR}, 1.0),
        TreeError,
        "pure_callback: <lambda> returned PyTreeDef((*, *)), but result_shape_dtypes is PyTreeDef({'a': *})",
    ),
    (
        lambda: effx.jit(
            lambda x: effx.pure_callback(lambda x: {"a": np.ones(3, np.float32)}, {"a": SCALAR}, x)
        )(1.0),
        ShapeError,
        "pure_callback: <lambda> returned result['a'] of shape (3,), but result_shape_dtypes says f32[]",
    ),
    (
        lambda: effx.jit(lambda x: io_callback(lambda x: np.int32(1), SCALAR, x))(1.0),
        DTypeError,
        "io_callback: <lambda> returned result of dtype int32, but result_shape_dtypes says f32[]",
    ),
    (
        lambda: effx.pure_callback(lambda x: 1.5, effx.ShapeDtypeStruct((), np.int32), 1.0),
        DTypeError,
        "pure_callback: <lambda> returned result of dtype float64, but result_shape_dtypes says i32[]",
    ),
    (
        lambda: effx.pmap(lambda x: debug.print("{}", x, ordered=True))(enp.ones(2)),
        BackendError,
        "pmap: the devices run at the same time, so there is no order for their effects; use ordered=False",
    ),
    (
        lambda: debug.print("{x} {y}", x=1),
        FormatFieldError,
        "debug.print: {y} names no argument, in '{x} {y}'",
    ),
    (
        lambda: debug.print("{} {}", 1),
        FormatFieldError,
        "debug.print: {} is argument 1, of 1 positional ones, in '{} {}'",
    ),
    (
        lambda: debug.print("{y=}", y=1),
        TransformError,
        "debug.print: {y=} is for f-strings; write y={y}, in '{y=}'",
    ),
    (
        lambda: debug.print("{x!z}", x=1),
        TransformError,
        "debug.print: unknown conversion !z, in '{x!z}'",
    ),
    (
        lambda: debug.print("1.0", 2, x=1),
        TransformError,
        (
            "debug.print: '1.0' does not use arguments 0, 'x'; an f-string would show tracers: write the names in braces, "
            "without f"
        ),
    ),
    (
        lambda: debug.print(ordered=True, x=1),  # type: ignore[call-overload]  # wrong on purpose
        TransformError,
        "debug.print: what comes first is the only thing that may be left out, got x=1",
    ),
    (lambda: debug.callback()(3), TransformError, "debug.callback: expected a function, got 3 of type int"),
]


@pytest.mark.unguarded  # some give what no annotation allows
@pytest.mark.parametrize("case", ERRORS, ids=range(len(ERRORS)))
def test_errors(case: tuple[Callable[[], Any], type[Exception], str]) -> None:
    call, kind, text = case
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == text  # type: ignore[attr-defined]  # effx's errors


def test_old_names_say_what_is_there_now() -> None:
    text = (
        "effx.experimental.host_callback does not exist; use effx.pure_callback, effx.experimental.io_callback or "
        "effx.debug.callback"
    )
    with pytest.raises(AttributeError) as caught:
        effx.experimental.host_callback  # noqa: B018 - asked for on purpose
    assert str(caught.value) == text
    with pytest.raises(ImportError) as missing:
        from effx.experimental import host_callback  # noqa: F401 - asked for on purpose
    assert str(missing.value) == text


def test_sharding_names_the_arguments_devices() -> None:
    device = local_devices()[-1]
    seen: list[Any] = []

    def host(x: Any) -> Any:
        seen.append(x.device)
        return x

    def f(x: Any) -> Any:
        return effx.pure_callback(host, SCALAR, x, sharding=SingleDeviceSharding(device))

    f(1.0)
    effx.jit(f)(1.0)
    assert seen == [device, device]


def test_handlers_without_a_rule_say_so() -> None:
    from effx.library.intervals import Interval, Intervals

    with pytest.raises(NoRuleError, match=r"^python_callback: "):
        Intervals().run(
            lambda x: effx.pure_callback(named, SCALAR, x), Interval(enp.float32(0), enp.float32(1))
        )


@pytest.mark.parametrize("wrap", [lambda f: f, effx.vmap])
def test_partitioned_calls_get_the_parts_of_devices(wrap: Any) -> None:
    """With `partitioned=True` each device calls with its own parts of arrays; without it there is one call for all."""
    mesh = effx.make_mesh((2, 2), ("i", "j"))
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    rows = effx.device_put(x, effx.sharding.NamedSharding(mesh, effx.sharding.PartitionSpec(None, "i")))
    parts: list[Any] = []
    effx.jit(wrap(lambda x: debug.callback(lambda a: parts.append(np.asarray(a)), x, partitioned=True)))(rows)
    effx.effects_barrier()
    halves = [x[:, :4], x[:, 4:]]
    want = halves if wrap is not effx.vmap else [row for half in halves for row in half]
    assert sorted([a.tolist() for a in parts]) == sorted([a.tolist() for a in want for _ in range(2)])
    whole: list[Any] = []
    effx.jit(lambda x: debug.callback(lambda a: whole.append(np.asarray(a)), x))(rows)
    effx.effects_barrier()
    np.testing.assert_array_equal(whole, [x])


def test_calls_in_maps_over_some_axes() -> None:
    """Where the partitioner shards along other axes than those of a shard_map, each device calls with the map's part."""
    mesh = effx.make_mesh((2, 2), ("i", "j"))
    P = effx.sharding.PartitionSpec
    parts: list[Any] = []

    def f(x: Any) -> Any:
        debug.callback(lambda a: parts.append(np.asarray(a).tolist()), x)
        return lax.mul(2.0, io_callback(lambda a: a + 1, effx.ShapeDtypeStruct(x.shape, x.dtype), x))

    mapped = effx.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(effx.jit(mapped)(x)), 2 * (x + 1))
    effx.effects_barrier()
    assert sorted(parts) == [[0, 1], [0, 1], [2, 3], [2, 3]]
