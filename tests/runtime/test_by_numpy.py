"""The first calls of single operations, which NumPy answers: their bits are those of XLA's program."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import effx
import effx.lax as elax
import effx.numpy as enp
from effx.array import Array
from effx.handlers.evaluate import by_numpy as module
from effx.handlers.evaluate import handler
from effx.handlers.evaluate.by_numpy import MAX_NUMPY_SIZE, NUMPY_CALLS
from effx.handlers.evaluate.handler import _operation_kernel
from effx.ir.ops.elementwise import Mul
from effx.ir.program import Program
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.runtime.dispatch import FastFunction, has_fast_path

Case = Callable[[Array, Array], Array]
CASES: dict[str, Case] = {
    "neg": lambda x, y: -x,
    "abs": lambda x, y: abs(x),
    "square": lambda x, y: elax.square(x),
    "is_finite": lambda x, y: elax.is_finite(x),
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: elax.div(x, y),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "ge": lambda x, y: x >= y,
    "scalar": lambda x, y: x + 1,
    "reshape": lambda x, y: enp.reshape(x, (-1, 1)),
    "broadcast": lambda x, y: enp.broadcast_to(x, (2, *x.shape)),
    "transpose": lambda x, y: enp.stack([x, y]).T,
    "concatenate": lambda x, y: enp.concatenate([x, y]),
    "slice": lambda x, y: x[x.shape[0] // 2 :],
    "dynamic_slice": lambda x, y: elax.dynamic_slice(x, (97,), (x.shape[0] // 2,)),
    "select": lambda x, y: enp.where(enp.asarray(np.arange(x.shape[0]) % 2 == 0), x, y),
    "convert": lambda x, y: x.astype(enp.int32 if x.dtype.kind != "f" else enp.float16),
    "widen": lambda x, y: x.astype(enp.float32),
    "to bool": lambda x, y: x.astype(enp.bool_),
    "all": lambda x, y: enp.all(x == y),
    "any": lambda x, y: enp.any(x != y, keepdims=True),
    "xor": lambda x, y: (x == y) ^ (x < y),
    "not": lambda x, y: ~(x == y),
}
FLOATS_ONLY = {"div", "is_finite"}


def operands(dtype: str, size: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(size)
    if dtype.startswith("float"):
        x, y = rng.standard_normal((2, size)) * 10.0 ** rng.integers(-5, 5, (2, size))
        x[: size // 3] = np.round(x[: size // 3])
        y[: size // 4] = x[: size // 4]
    else:
        info = np.iinfo(dtype)
        x, y = rng.integers(info.min, info.max, (2, size), dtype, endpoint=True)
    return enp.asarray(x.astype(dtype)), enp.asarray(y.astype(dtype))


def bits(x: Array) -> tuple[np.dtype, bool, tuple[int, ...], bytes]:
    return x.dtype, x.weak_type, x.shape, np.asarray(x).tobytes()


@pytest.mark.parametrize("size", [0, 1, 37])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_the_bits_are_those_of_xla(dtype: str, size: int) -> None:
    x, y = operands(dtype, size)
    for name, f in CASES.items():
        if dtype == "float32" or name not in FLOATS_ONLY:
            assert bits(f(x, y)) == bits(effx.jit(f)(x, y)), name


@pytest.mark.parametrize("name", CASES)
def test_odd_floats(name: str) -> None:
    """XLA takes the smallest floats for zero, and chooses among NaNs: it is asked for these."""
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 1.2e-38, 3.4e38], "float32")
    x, y = [enp.asarray(a.ravel()) for a in np.meshgrid(odd, odd)]
    assert bits(CASES[name](x, y)) == bits(effx.jit(CASES[name])(x, y))


@pytest.mark.parametrize("number", [10.0, -7.0, 0.3, 3e38, 1.2e-38, 4.0, 0.0, np.inf])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 5)])
def test_quotients_by_one_number(shape: tuple[int, ...], number: float) -> None:
    """XLA multiplies by a number's reciprocal: so does NumPy, and no call has other bits than those before it."""
    effx.clear_caches()
    x = enp.asarray((np.random.default_rng(2).normal(size=shape) * 100).astype(np.float32))
    divisor = np.float32(number)
    found = {bits(elax.div(x, divisor)) for _ in range(NUMPY_CALLS + 2)}
    assert found == {bits(effx.jit(elax.div)(x, divisor))}


def test_means_stay_the_same() -> None:
    effx.clear_caches()
    x = effx.random.normal(effx.random.key(0), (10, 5))
    assert len({bits(enp.mean(x, 0)) for _ in range(NUMPY_CALLS + 2)}) == 1


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call of an operation that NumPy may answer whether it did."""
    found: list[bool] = []

    def by_numpy(*given: object) -> ConcreteArray | None:
        result: ConcreteArray | None = module.evaluate_by_numpy(*given)  # type: ignore[arg-type]  # as they come
        found.append(result is not None)
        return result

    effx.clear_caches()  # else operations that were met often before are C++'s
    monkeypatch.setattr("effx.handlers.evaluate.handler.evaluate_by_numpy", by_numpy)
    return found


def test_xla_compiles_what_is_asked_for_often(answered: list[bool]) -> None:
    x = enp.asarray(np.arange(12345 % 541, dtype="float32"))
    found = [x * x for _ in range(NUMPY_CALLS + 3)]
    assert answered == [True] * NUMPY_CALLS
    assert bits(found[-1]) == bits(effx.jit(lambda x: x * x)(x))


def test_what_is_met_often_is_run_by_cpp(answered: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """For other types too; and C++ finds what it runs, where it would ask for ever if the first answer were NumPy's."""
    x = enp.asarray(np.ones(157, "float32"))
    kernel = _operation_kernel(Mul())
    for _ in range(NUMPY_CALLS):
        x * x
        assert not isinstance(kernel.run, FastFunction)
    asked: list[str] = []
    run = handler._run_first_time

    def first_run(program: Program, *rest: Any) -> Any:
        asked.append(str(program.in_types[0]))
        return run(program, *rest)

    monkeypatch.setattr(handler, "_run_first_time", first_run)
    y = enp.asarray(np.ones(158, "float32"))
    for _ in range(4):
        x * x
        y * y
    assert isinstance(kernel.run, FastFunction)
    assert answered == [True] * NUMPY_CALLS
    if has_fast_path:
        assert asked == ["f32[157]", "f32[158]"]


def test_types_that_numpy_leaves_to_xla_are_met_too(answered: list[bool]) -> None:
    x = enp.asarray(np.ones(MAX_NUMPY_SIZE + 1, "float32"))
    kernel = _operation_kernel(Mul())
    for _ in range(NUMPY_CALLS + 1):
        x * x
    assert isinstance(kernel.run, FastFunction)
    assert answered == []


def test_large_arrays_are_xla_s(answered: list[bool]) -> None:
    x = enp.asarray(np.ones(MAX_NUMPY_SIZE + 1, "float32"))
    x + x
    assert answered == []


def test_committed_arrays_are_xla_s(answered: list[bool]) -> None:
    x = effx.device_put(enp.asarray(np.ones(173, "float32")), effx.devices()[0])
    assert (x + x).committed
    assert answered == [False]


def test_nothing_waits_long() -> None:
    """An operand that is being computed is left to XLA's queue."""
    for ready in (False, True):
        operand: Any = SimpleNamespace(buffer=SimpleNamespace(is_ready=lambda ready=ready: ready))
        assert module._wait_until_ready((operand,)) is ready


def test_the_result_does_not_share_memory(answered: list[bool]) -> None:
    x = enp.asarray(np.arange(191.0, dtype="float32"))
    y = x.reshape(191, 1)
    z = effx.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert answered == [True]
    np.testing.assert_array_equal(np.asarray(y)[:, 0] + 1, np.asarray(z))


def test_a_failed_operand_fails_as_before(answered: list[bool]) -> None:
    x = enp.asarray(np.ones(193, "float32"))
    x.delete()
    with pytest.raises(effx.errors.DonatedArrayError, match=r"^add: the array f32\[193\] was donated"):
        x + x
    assert answered == []
