"""XLA:CPU's library of kernels is used where it is faster: for long rows and batches, not for short sums in loops."""

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.lower.runtime.ynnpack import PRODUCTS, REDUCTIONS, SWITCH, reduction_gain, ynnpack_options

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return enp.asarray(RNG.standard_normal(shape).astype(np.float32))


def pulled(x: Array) -> Array:
    """Bodies that attract each other: sums of three elements, and along a middle axis, in a loop."""

    def turn(i: Array, x: Array) -> Array:
        gap = x[None] - x[:, None]
        distance = (gap * gap).sum(-1, keepdims=True) + 0.1
        return x + 0.01 * (gap / distance).sum(1)

    moved: Array = lax.fori_loop(0, 5, turn, x)
    return moved


def scanned(x: Array) -> Array:
    """As `pulled`, in a scan within a jitted function within a branch."""

    @effx.jit
    def steps(x: Array) -> Array:
        y: Array = lax.scan(lambda y, _: (y / y.sum(-1, keepdims=True), None), x, None, length=20)[0]
        return y

    chosen: Array = lax.cond(x[0, 0] > 100, lambda x: x, steps, x)
    return chosen


def layers(x: Array, w: Array) -> Array:
    for _ in range(9):
        x = enp.tanh(x @ w)
    return x


def chosen(f: Callable[..., Any], *args: Array) -> str | None:
    """Returns what the switch is set to for a program; None where XLA decides."""
    options = ynnpack_options(effx.make_jaxpr(f)(*args), ())
    assert [name for name, _ in options] in ([], [SWITCH])
    return str(options[0][1]) if options else None


def test_short_sums_in_loops_are_xlas_own() -> None:
    """The library would take 5 ns for each sum of three elements."""
    assert chosen(pulled, normal(64, 3)) == PRODUCTS
    assert chosen(scanned, normal(2000, 3)) == PRODUCTS


def test_long_rows_stay_with_the_library() -> None:
    """There it is several times as fast, and compiles in a third of the time."""
    for shape, axis in (((512, 512), -1), ((100_000,), 0), ((8, 30_000), 1), ((512, 512), None)):
        assert chosen(partial(enp.sum, axis=axis), normal(*shape)) is None, (shape, axis)
    assert chosen(effx.nn.softmax, normal(600, 50)) is None


def test_many_small_products_are_eigens() -> None:
    """Each would build a pipeline of its own at the first run; rows in the same program stay with the library."""

    def total(x: Array, w: Array) -> Array:
        return layers(x, w).sum()

    assert chosen(layers, normal(64, 64), normal(64, 64)) == REDUCTIONS
    assert chosen(effx.grad(total), normal(64, 64), normal(64, 64)) == REDUCTIONS


def test_products_that_the_library_runs_faster_stay_there() -> None:
    """Few of them, large ones, many matrices in a batch, small ones in a loop; others than of float32 are not its."""
    assert chosen(lambda x, w: x @ w, normal(64, 64), normal(64, 64)) is None
    assert chosen(layers, normal(128, 256), normal(256, 256)) is None
    assert chosen(layers, normal(16, 16, 16), normal(16, 16, 16)) is None

    def repeated(x: Array, w: Array) -> Array:
        last: Array = lax.fori_loop(0, 3, lambda i, x: layers(x, w), x)
        return last

    assert chosen(repeated, normal(16, 16), normal(16, 16)) is None
    narrow = normal(64, 64).astype(enp.float16)
    assert chosen(layers, narrow, narrow) is None


def test_several_devices_leave_products_to_the_library() -> None:
    program = effx.make_jaxpr(layers)(normal(64, 64), normal(64, 64))
    assert ynnpack_options(program, (), devices=2) == ()
    assert ynnpack_options(effx.make_jaxpr(pulled)(normal(64, 3)), (), devices=2) == ((SWITCH, PRODUCTS),)


def test_both_may_be_switched_off() -> None:
    """A program with short sums in a loop and many small products."""

    def both(x: Array, y: Array, w: Array) -> tuple[Array, Array]:
        return pulled(x), layers(y, w)

    assert chosen(both, normal(64, 3), normal(64, 64), normal(64, 64)) == ""


def test_whoever_sets_the_switch_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one function, or for the process."""
    program = effx.make_jaxpr(pulled)(normal(64, 3))
    assert ynnpack_options(program, ((SWITCH, REDUCTIONS),)) == ()
    assert ynnpack_options(program, (("xla_llvm_disable_expensive_passes", True),)) == ((SWITCH, PRODUCTS),)
    monkeypatch.setenv("XLA_FLAGS", f"--{SWITCH}=")
    assert ynnpack_options(program, ()) == ()


@pytest.mark.parametrize("f", [pulled, scanned])
def test_compiled_programs_follow(f: Callable[[Array], Array]) -> None:
    """The compiled program has no kernel of the library, and the values of one that has."""
    x = normal(200, 3) ** 2 + 0.1
    own = effx.jit(f)
    assert "ynn_fusion" not in own.lower(x).compile().as_text()
    theirs = effx.jit(lambda x: f(x), compiler_options={SWITCH: REDUCTIONS})
    np.testing.assert_allclose(own(x), theirs(x), rtol=1e-5, atol=1e-5)


def test_products_follow() -> None:
    """Against NumPy, with the gradient's by finite differences."""
    x, w = normal(64, 64), normal(64, 64) / 8
    program = effx.jit(layers)
    assert "ynn_fusion" not in program.lower(x, w).compile().as_text()
    expected = np.asarray(x, np.float64)
    for _ in range(9):
        expected = np.tanh(expected @ np.asarray(w, np.float64))
    np.testing.assert_allclose(program(x, w), expected, atol=1e-5)
    with effx.enable_x64():
        wide = effx.numpy.asarray(np.asarray(x, np.float64)), effx.numpy.asarray(np.asarray(w, np.float64))
        effx.test_util.check_grads(effx.jit(layers), wide, order=1)


@pytest.mark.parametrize(
    ("shape", "axes", "sign"),
    [
        ((30_000, 3), (1,), 1),
        ((64, 64, 3), (1,), 1),
        ((64, 64, 3), (2,), 1),
        ((8, 30_000), (0,), 1),
        ((100, 8, 64), (1,), 1),
        ((30_000, 3, 1), (1,), 1),
        ((30_000, 1, 3), (1, 2), 1),
        ((512, 512), (1,), -1),
        ((512, 512), (0, 1), -1),
        ((512, 512), (0,), -1),
        ((30_000, 16), (0,), -1),
        ((8, 30_000), (1,), -1),
        ((1, 100_000), (1,), -1),
        ((1, 100_000, 1), (1,), -1),
    ],
)
def test_the_estimate_agrees_with_what_was_measured(
    shape: tuple[int, ...], axes: tuple[int, ...], sign: int
) -> None:
    """Which of the two is faster, in loops of a hundred runs on two cores; axes of size 1 do not count."""
    assert np.sign(reduction_gain(shape, axes)) == sign


def multiply(x: Any, y: Any) -> Any:
    return lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32)


TRANSPOSED: dict[str, Callable[[Any, Any], Any]] = {
    "at once": lambda x, y: multiply(x, y).T,
    "einsum": lambda x, y: enp.einsum("mk,kn->nm", x, y, preferred_element_type=np.float32),
    "scaled": lambda x, y: (2 * multiply(x, y)).T / 2,
    "called": lambda x, y: effx.jit(multiply)(x, y).T,
    "in a map": lambda x, y: effx.vmap(lambda row: multiply(row[None], y)[0], out_axes=1)(x),
    "in a scan": lambda x, y: lax.scan(lambda c, _: (c, multiply(x, y).T), 0, None, length=1)[1][0],
    "converted": lambda x, y: multiply((x.astype("float32") * 1).astype(x.dtype), y).T,
}


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_products_of_short_floats(name: str, dtype: Any) -> None:
    """XLA multiplies in the other order for a transpose; jaxlib 0.12 has no kernel for all of these."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(6, 8)).astype(dtype), rng.normal(size=(8, 16)).astype(dtype)
    found = effx.jit(TRANSPOSED[name])(enp.asarray(x), enp.asarray(y))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, (x.astype(np.float64) @ y.astype(np.float64)).T, rtol=1e-5, atol=1e-5)
