"""Traces that libraries write: they see each operation, and what they give has the values that operations have."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.modules import core, lax
from effx.compat.modules.extend import core as extend_core
from effx.compat.primitives import Primitive
from effx.errors import EscapedBoxError, NoRuleError, TransformError

X = np.array([0.5, -1.0, 2.0], np.float32)


class Seen(core.Tracer):
    """A value that records how it was made."""

    def __init__(self, trace: "Watch", value: Any, how: str) -> None:
        super().__init__(trace, effx.typeof(value))
        self.value, self.how = value, how


class Watch(core.Trace):
    """Writes down which operation is performed on what."""

    def __init__(self, around: Any) -> None:
        self.around = around
        self.lines: list[str] = []

    def value(self, x: Any) -> Any:
        return x.value if isinstance(x, Seen) and x._trace is self else x

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: Any, /) -> Any:
        values = [self.value(t) for t in tracers]
        self.lines.append(f"{primitive} {' '.join([t.how if isinstance(t, Seen) else '.' for t in tracers])}")
        found = primitive.bind_with_trace(self.around, values, [effx.typeof(x) for x in values], params)
        if primitive.multiple_results:
            return [Seen(self, y, str(primitive)) for y in found]
        return Seen(self, found, str(primitive))

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Sequence[Any], /, **options: Any
    ) -> Any:
        self.lines.append(str(primitive))
        values = [self.value(t) for t in tracers]
        with extend_core.set_current_trace(self.around):
            *_, moved = jvp.call_wrapped(*values, *[enp.ones_like(v) for v in values])
            assert options == {"symbolic_zeros": False}
            return [Seen(self, moved, "moved")]

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Sequence[Any], /, **options: Any
    ) -> Any:
        self.lines.append(str(primitive))
        assert sorted(options) == ["out_trees", "symbolic_zeros"]
        for refused in (fwd.call_wrapped, bwd.call_wrapped, options["out_trees"]):
            with pytest.raises(TransformError) as caught:
                refused()
            assert caught.value.message == (
                "custom_vjp_call: the rules of a function for reverse mode are not handed to traces; write a handler "
                "(effx.handling)"
            )
        with extend_core.set_current_trace(self):
            return fun.call_wrapped(*tracers)


def watched(f: Callable[..., Any], *xs: Any) -> tuple[Any, list[str]]:
    """Calls a function of arrays under `Watch`, and returns its result and what was seen."""
    with extend_core.take_current_trace() as around:
        trace = Watch(around)
        with extend_core.set_current_trace(trace):
            result = f(*[Seen(trace, x, f"x{i}") for i, x in enumerate(xs)])
    return trace.value(result), trace.lines


def test_operations_are_seen() -> None:
    y, lines = watched(lambda x, y: enp.sin(x) * y + 1.0, X, 3.0)
    np.testing.assert_allclose(y, np.sin(X) * 3 + 1, rtol=1e-6)
    assert lines == ["sin x0", "mul sin x1", "add mul ."]
    assert not watched(lambda x: enp.ones(3), X)[0].aval.weak_type


def test_values_are_arrays() -> None:
    def f(x: Any) -> Any:
        assert isinstance(x, core.Tracer)
        assert isinstance(x, effx.Array)
        assert (x.shape, x.dtype, x.aval) == ((3,), np.dtype(np.float32), effx.typeof(X))
        assert isinstance(x, Seen)
        assert x.full_lower() is x
        with pytest.raises(effx.errors.TracerArrayConversionError, match="under Watch"):
            np.asarray(x)
        return x[1:].sum()

    np.testing.assert_allclose(watched(f, X)[0], 1.0)
    assert not isinstance(effx.jit(lambda x: isinstance(x, Seen))(X), Seen)
    assert not effx.jit(lambda x: isinstance(x, Seen))(X)


def _times_sine(x: Any) -> Any:
    return watched(lambda y: enp.sin(y) * x, x)[0]


@pytest.mark.parametrize("around", [effx.jit, effx.vmap, lambda f: lambda x: effx.jvp(f, (x,), (x,))[0]])
def test_under_transformations(around: Any) -> None:
    """What the trace performs goes to the handlers around it."""
    np.testing.assert_allclose(around(_times_sine)(X), np.sin(X) * X, rtol=1e-6)


def test_derivatives_of_what_is_watched() -> None:
    np.testing.assert_allclose(effx.grad(_times_sine)(2.0), np.sin(2) + 2 * np.cos(2), rtol=1e-6)


def test_transformations_within() -> None:
    """Handlers inside of the trace perform on its values."""

    def f(x: Any) -> Any:
        return enp.sin(x) * x

    y, lines = watched(effx.grad(f), 2.0)
    np.testing.assert_allclose(y, np.sin(2) + 2 * np.cos(2), rtol=1e-6)
    assert lines[:2] == ["sin x0", "cos x0"]
    np.testing.assert_allclose(watched(effx.vmap(f), X)[0], np.sin(X) * X, rtol=1e-6)


def test_calls_and_loops_are_one_operation() -> None:
    y, lines = watched(effx.jit(enp.sin), X)
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
    assert lines == ["jit x0"]
    total, lines = watched(lambda x: effx.lax.scan(lambda c, y: (c + y, y), 0.0, x)[0], X)
    np.testing.assert_allclose(total, X.sum())
    assert [line.split()[0] for line in lines] == ["scan"]
    # What the body closes over is an operand.
    y, lines = watched(lambda x: effx.jit(lambda z: z * x)(2.0), X)
    np.testing.assert_allclose(y, 2 * X)
    assert "x0" in lines[0]


def test_functions_with_rules() -> None:
    f = effx.custom_jvp(lambda x: enp.sin(x))
    f.defjvp(lambda p, t: (f(*p), 5 * t[0]))
    assert watched(f, 2.0) == (5.0, ["custom_jvp_call"])
    g = effx.custom_vjp(lambda x: enp.sin(x))
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (5 * ct,))
    y, lines = watched(g, 2.0)
    np.testing.assert_allclose(y, np.sin(2), rtol=1e-6)
    assert lines == ["custom_vjp_call", "sin x0"]


def test_primitives_of_a_library() -> None:
    p = Primitive("double")
    p.def_impl(lambda x: 2 * np.asarray(x))
    p.def_abstract_eval(lambda x: x)
    assert watched(p.bind, 3.0) == (6.0, ["double x0"])


def test_values_that_say_themselves_what_they_are() -> None:
    """A library need not call the constructor."""

    class Own(core.Tracer):
        def __init__(self, trace: Any, value: Any) -> None:
            self._trace, self.value = trace, value

        @property
        def aval(self) -> Any:
            return effx.typeof(self.value)

    class Doubling(core.Trace):
        def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: Any, /) -> Any:
            values = [t.value if isinstance(t, Own) else t for t in tracers]
            return Own(self, 2 * primitive.bind(*values, **params))

    trace = Doubling()
    with extend_core.set_current_trace(trace):
        y: Any = Own(trace, enp.asarray(3.0)) * 5
        with extend_core.set_current_trace(trace):
            y = y + 1
    assert y.value == 62
    assert y._trace is trace
    assert core.trace_state_clean()


def test_what_is_refused() -> None:
    class Silent(core.Trace):
        pass

    class Wrong(core.Trace):
        def process_primitive(self, *_: Any) -> Any:
            return 1.0

    with extend_core.set_current_trace(Silent()), pytest.raises(NoRuleError) as caught:
        enp.sin(X)
    assert caught.value.message == (
        "Silent: the trace does not say how to interpret this; override process_primitive"
    )
    f = effx.custom_jvp(lambda x: enp.sin(x))
    f.defjvp(lambda p, t: (f(*p), 5 * t[0]))
    with (
        extend_core.set_current_trace(Silent()),
        pytest.raises(NoRuleError, match="override process_custom_jvp_call"),
    ):
        f(2.0)
    with extend_core.set_current_trace(Wrong()), pytest.raises(TransformError) as wrong:
        effx.jit(enp.sin)(X)
    assert wrong.value.message == (
        "Wrong: jit has several results, so it must give a list or a tuple, got float"
    )
    kept: list[Any] = []

    def keeping(x: Any) -> Any:
        kept.append(x)
        return x

    watched(keeping, X)
    with pytest.raises(EscapedBoxError, match="belongs to Watch was used after that handler"):
        kept[0] + 1
    assert extend_core.TraceTag() != extend_core.TraceTag()
    assert lax.sin_p.bind_with_trace(extend_core.get_opaque_trace_state(), [0.0], [], {}) == 0
