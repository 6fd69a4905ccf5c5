"""Names that programs import at their first lines, and what they do in effx."""

from __future__ import annotations

import importlib.util
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.composed import COMPOSED
from effx.compat.defined import Primitive
from effx.compat.modules import lax as jax_lax
from effx.compat.modules import make_jaxpr
from effx.compat.modules import numpy as jnp
from effx.compat.modules._src import traceback_util
from effx.compat.modules._src.core import Token
from effx.compat.modules.experimental.compute_on import compute_on
from effx.compat.modules.experimental.custom_partitioning import custom_partitioning
from effx.compat.modules.experimental.xla_metadata import fuse_limit, must_fuse_call, set_xla_metadata
from effx.compat.modules.extend import core
from effx.compat.modules.extend.mlir import dialects, ir
from effx.compat.modules.extend.source_info_util import user_context
from effx.compat.modules.interpreters import ad, batching, mlir, partial_eval
from effx.errors import CompatError, EffxError
from effx.lower.text.hlo import mlir_context

pytestmark = pytest.mark.unguarded
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [((24,), "int4"), ((24,), "uint2"), ((250, 260), "uint8"), ((-3, 200, 50), "int8"), ((-2, 2), "uint16")],
)
def test_integers_of_ranges_wrap(bounds: Any, dtype: str) -> None:
    """As JAX's do; NumPy's too, but for the first; effx.numpy refuses them."""
    expected = np.arange(*bounds).astype(effx.dtypes.canonicalize(dtype))
    arange: Any = jnp.arange
    strict: Any = enp.arange
    call = partial(arange, *bounds, dtype=dtype)
    for f in (call, effx.jit(call)):
        result = f()
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(OverflowError, match="arange: python int"):
        strict(*bounds, dtype=dtype)
    with pytest.raises(OverflowError):
        jnp.arange(2**31, 2**31 + 2)


def test_tokens() -> None:
    """They go through jit, loops and vmap as values do; what depends on them waits."""
    token = jax_lax.create_token(123)
    y, out = effx.jit(lambda x, t: (x + 1, jax_lax.after_all(t, jax_lax.create_token())))(X, token)
    np.testing.assert_array_equal(y, X + 1)
    assert isinstance(out, Token)
    assert out is not token
    assert isinstance(effx.jit(lambda x: (x, token))(X)[1], Token)
    assert isinstance(effx.jit(jax_lax.create_token)(1.0), Token)
    (y, out), _ = effx.lax.scan(lambda c, _: ((c[0] * 2, c[1]), None), (X, token), None, length=2)
    np.testing.assert_array_equal(y, X * 4)
    out.block_until_ready()
    with pytest.raises(EffxError) as caught:
        jax_lax.after_all(token, X[0, 0])
    assert caught.value.message == f"after_all: expected tokens, got {X[0, 0]!r} of type float32"
    assert "optimization_barrier" in effx.jit(jax_lax.after_all).lower(token, out).as_text()


# Primitive, operands, parameters, and what NumPy gives.
CALLS: list[tuple[str, list[Any], dict[str, Any], list[np.ndarray]]] = [
    ("add_jaxvals", [X, X], {}, [X + X]),
    ("reduce", [X, np.float32(1)], {"computation": lambda a, b: a * b, "dimensions": (0,)}, [X.prod(0)]),
    ("split", [X], {"sizes": (1, 2), "axis": 1}, [X[:, :1], X[:, 1:]]),
    ("squeeze", [X[:1]], {"dimensions": (0,)}, [X[0]]),
    ("stack", [X, X], {"axis": 1}, [np.stack([X, X], 1)]),
    ("tile", [X], {"reps": (2, 1)}, [np.tile(X, (2, 1))]),
    ("unstack", [X], {"axis": 0}, [X[0], X[1]]),
]


@pytest.mark.parametrize(("name", "operands", "params", "expected"), CALLS, ids=[call[0] for call in CALLS])
def test_composed_primitives(
    name: str, operands: list[Any], params: dict[str, Any], expected: list[np.ndarray]
) -> None:
    """They give what NumPy does, also staged, and say the types of it."""
    primitive = COMPOSED[name]

    def bind(*xs: Any) -> list[Any]:
        results: Any = primitive.bind(*xs, **params)
        return list(results) if primitive.multiple_results else [results]

    for results in (bind(*operands), effx.jit(bind)(*operands)):
        for y, e in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(y), e)
    types = primitive.types([effx.typeof(enp.asarray(x)) for x in operands], params)
    assert [(t.shape, t.dtype) for t in types] == [(e.shape, e.dtype) for e in expected]


def test_hints_change_nothing_and_say_so() -> None:
    with pytest.warns(UserWarning, match="set_xla_metadata has no effect on effx: XLA decides by itself"):
        context = set_xla_metadata(a="b")
    with context:
        np.testing.assert_allclose(enp.sin(X), np.sin(X), 1e-6)
    with pytest.warns(UserWarning, match="set_xla_metadata has no effect"):
        assert set_xla_metadata(X, a="b") is X
    with pytest.warns(UserWarning, match="fuse_limit has no effect"), fuse_limit():
        pass
    with pytest.warns(UserWarning, match="must_fuse_call has no effect"):
        assert must_fuse_call("1")(np.sin) is np.sin
    with pytest.warns(UserWarning, match="compute_on has no effect on effx: functions compute where"):
        on_host = compute_on(compute_type="device_host", out_memory_spaces=None)(enp.sin)
    np.testing.assert_allclose(on_host(X), np.sin(X), 1e-6)
    with pytest.raises(CompatError) as caught:
        compute_on(enp.sin, compute_type="moon")
    assert caught.value.message == (
        "compute_on: compute_type must be one of device, device_host, tpu_sparsecore or gpu_stream:n, got 'moon'"
    )


def test_functions_with_rules_for_cutting_give_their_values() -> None:
    scale = custom_partitioning(lambda x, by: x * by, static_argnums=(1,))
    with pytest.warns(UserWarning, match="custom_partitioning has no effect on effx: XLA's partitioner"):
        scale.def_partition(partition=None, sharding_rule="i j -> i j")
    np.testing.assert_array_equal(scale(X, 3), X * 3)
    np.testing.assert_array_equal(effx.vmap(lambda x: scale(x, 2))(X), X * 2)
    np.testing.assert_array_equal(effx.grad(lambda x: scale(x, 2).sum())(X), np.full_like(X, 2))


def test_inline_says_when() -> None:
    """Only JAX_EARLY shows in programs: XLA inlines whatever is called."""
    for inline in (*effx.Inline, True, False):
        inner = effx.jit(enp.sin, inline=inline)
        names = [e.op.name for e in effx.make_jaxpr(lambda x, f=inner: f(x) + 1)(X).equations]
        assert ("sin" in names) == (inline in (True, effx.Inline.JAX_EARLY))
        np.testing.assert_allclose(effx.jit(inner)(X), np.sin(X), 1e-6)


def test_reducers_have_rules_for_batches() -> None:
    total = Primitive("total")
    total.def_impl(lambda x, *, axes: np.asarray(x).sum(axes))
    total.def_abstract_eval(
        lambda x, *, axes: effx.ShapeDtypeStruct([n for i, n in enumerate(x.shape) if i not in axes], x.dtype)
    )
    batching.defreducer(total)
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for in_axis in range(3):
        y = effx.vmap(lambda x: total.bind(x, axes=(0,)), in_axis)(cube)
        np.testing.assert_array_equal(y, np.moveaxis(cube, in_axis, 0).sum(1))


def test_the_handlers_around() -> None:
    seen: list[tuple[bool, bool, list[Any], bool]] = []

    def look(x: Any) -> Any:
        seen.append(
            (
                core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
                core.unsafe_get_axis_names_DO_NOT_USE(),
                isinstance(x, partial_eval.DynamicJaxprTracer),
            )
        )
        return x

    look(X)
    effx.jit(look)(X)
    effx.vmap(look, axis_name="rows")(X)
    assert seen == [(False, False, [], False), (True, False, [], True), (False, True, ["rows"], False)]
    assert core.primal_dtype_to_tangent_dtype(np.float32) == np.float32
    assert core.primal_dtype_to_tangent_dtype(np.int32) == effx.dtypes.float0


def test_types_in_mlir() -> None:
    with mlir_context():
        assert str(mlir.aval_to_ir_type(effx.typeof(enp.asarray(X)))) == "tensor<2x3xf32>"
        assert str(mlir.dtype_to_ir_type(np.dtype(np.int8))) == "i8"
        assert ir.Type is not None
    assert dialects.stablehlo.AddOp is not None
    with pytest.raises(AttributeError, match="has no attribute 'no_such_dialect'"):
        _ = dialects.no_such_dialect


def test_an_evaluated_equation_has_its_own_position() -> None:
    closed = make_jaxpr(lambda x: enp.sin(x))(1.0)
    info = closed.jaxpr.eqns[0].source_info

    def evaluate(x: Any) -> Any:
        with user_context(info.traceback, name_stack="outer"):
            return enp.cos(x)

    again = make_jaxpr(evaluate)(1.0).jaxpr.eqns[0].source_info
    assert again.position == info.position
    assert again.name_stack.endswith("outer")


def test_what_takes_values_of_jax_alone_is_refused() -> None:
    for function in (ad.linearize, ad.backward_pass):
        with pytest.raises(EffxError, match=r"takes values that only JAX has; use jax\.linear"):
            function()


def test_paths_whose_frames_are_hidden(tmp_path: Path) -> None:
    """flax hides its frames in tracebacks, and shows them again, by the private list of paths."""
    path = tmp_path / "layers.py"
    path.write_text("def call(f):\n    return f()\n")
    spec = importlib.util.spec_from_file_location("layers", path)
    assert spec is not None
    assert spec.loader is not None
    layers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layers)

    def shown_files() -> set[str]:
        with pytest.raises(effx.errors.ShapeError) as caught:
            effx.jit(lambda x: layers.call(lambda: x + np.ones(3)))(np.ones(2))
        return {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}

    assert str(path) in shown_files()
    traceback_util.register_exclusion(str(path))
    assert str(path) in traceback_util._exclude_paths
    assert str(path) not in shown_files()
    traceback_util._exclude_paths.remove(str(path))
    assert str(path) in shown_files()
