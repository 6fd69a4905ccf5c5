"""What a program closes over stands in the text of one that calls Python, and is a hidden argument elsewhere."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, dtypes
from effx.lower.runtime.executables import LITTLE, Executable

DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int2", "int4", "uint4", "int8", "int32", "int64", "uint8", "uint64", "float8_e4m3fn"),
)
SHAPES = ((), (0,), (1,), (3,), (2, 0), (2, 3))


def python(x: Array) -> Array:
    """One, from Python."""
    y: Array = effx.pure_callback(lambda v: np.float32(v) * 0 + 1, effx.ShapeDtypeStruct((), np.float32), x)
    return y


def executable_of(fun: Callable[..., object], *args: object) -> Executable:
    found = effx.jit(fun).lower(*args).compile().executable
    assert isinstance(found, Executable)
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    with effx.enable_x64(True):
        values = np.asarray(rng.integers(0, 2, shape) if dtype == "bool" else rng.normal(size=shape) * 3)
        held = enp.asarray(values.astype(np.int8) if "int" in dtype else values).astype(dtype)
        found = effx.jit(lambda x: (held[...], x * python(x)))
        for _ in range(3):  # the third by C++
            y, z = found(np.float32(2))
            assert y.dtype == held.dtype
            assert y.shape == held.shape
            np.testing.assert_array_equal(np.asarray(y), np.asarray(held))
            assert z == 2


def test_keys() -> None:
    key = effx.random.key(7)
    found = effx.jit(lambda x: effx.random.uniform(key) * python(x))(np.float32(1))
    assert found == effx.random.uniform(key)


def test_where_constants_stand() -> None:
    small, large = enp.arange(3.0), enp.zeros(LITTLE // 4 + 1)
    x = np.float32(1)
    calling = executable_of(lambda x: small * python(x), x)
    assert (len(calling.constants), len(calling.written)) == (0, 1)
    assert len(calling.in_shardings) == 1
    both = executable_of(lambda x: (small * x, large * python(x)), x)
    assert (len(both.constants), len(both.written)) == (2, 0)
    plain = executable_of(lambda x: small * x, x)
    assert (len(plain.constants), len(plain.written)) == (1, 0)
    inner = executable_of(lambda x: effx.lax.cond(x > 0, lambda: small * python(x), lambda: small + x), x)
    assert (len(inner.constants), len(inner.written)) == (0, 1)


def test_donated_arguments_behind_them() -> None:
    held = enp.arange(4.0)
    found = effx.jit(lambda x: (x + held) * python(x[0]), donate_argnums=0)
    for _ in range(3):
        x = enp.ones(4)
        np.testing.assert_array_equal(found(x), np.arange(4) + 1)
        assert x.is_deleted()


def test_a_deleted_constant_is_an_error_at_the_next_call() -> None:
    held = enp.arange(4.0)
    found = effx.jit(lambda x: held * python(x))
    for _ in range(3):
        found(np.float32(1))
    held.delete()
    with pytest.raises(
        effx.errors.DonatedArrayError, match="closes over the array f32\\[4\\], which was donated"
    ):
        found(np.float32(1))


def test_a_dropped_function_frees_them() -> None:
    from effx.lower.placement.concrete import constant_counts

    held = enp.arange(4.0)
    found = effx.jit(lambda x: held * python(x))
    found(np.float32(1))
    key = id(held.buffer)  # type: ignore[attr-defined]  # a concrete array
    assert constant_counts[key] == 1
    del found
    gc.collect()
    assert key not in constant_counts


def test_with_derivatives_and_maps() -> None:
    rng = np.random.default_rng(1)
    held = enp.asarray(rng.normal(size=5).astype(np.float32))

    def loss(x: Array) -> Array:
        seen = effx.pure_callback(
            np.cos,
            effx.ShapeDtypeStruct((), dtypes.float32),
            effx.lax.stop_gradient(x[0]),
            vmap_method="expand_dims",
        )
        y: Array = (enp.sin(x * held) * seen).sum()
        return y

    xs = rng.normal(size=(3, 5)).astype(np.float32)
    h = np.asarray(held)
    expected = np.cos(xs * h) * h * np.cos(xs[:, :1])
    found = effx.jit(effx.vmap(effx.grad(loss)))
    for _ in range(3):
        np.testing.assert_allclose(found(xs), expected, rtol=2e-5, atol=1e-6)
