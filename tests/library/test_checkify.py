"""Errors as values: each kind, inside every kind of program, with the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import TransformError
from effx.library.autocast import autocast
from effx.library.checkify import CheckError, Message, check, checkify, number_of
from effx.library.nan_guard import NanError, nan_guard

Model = Callable[..., Any]


def log(x: Any) -> Any:
    return enp.log(x)


FORMS: dict[str, Callable[[Model], Model]] = {
    "plain": lambda f: f,
    "jit": effx.jit,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, length=3)[1][-1],
    "cond": lambda f: lambda x: lax.cond(x < 9, f, lambda y: y, x),
    "while": lambda f: lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
    "checkpoint": effx.checkpoint,
    "vmap": lambda f: lambda x: effx.vmap(f)(enp.stack([enp.abs(x), x]))[1],
    "pmap": lambda f: lambda x: effx.pmap(f)(enp.stack([enp.abs(x), x]))[1],
    "value and grad": lambda f: lambda x: effx.value_and_grad(f)(x)[0],
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_nan(form: str, jitted: bool) -> None:
    """A NaN is reported with operation and line, where it is made; without one there is no error."""
    f = checkify(FORMS[form](log), errors=["nan"])
    if jitted:
        f = effx.jit(f)
    error, y = f(enp.float32(-1.0))
    text = error.get()
    assert text is not None
    assert text.startswith("log: nan in the result f32[")
    assert " at test_checkify.py:" in text
    assert text.split("]")[-1].strip(" ~").endswith("in log")
    assert bool(enp.isnan(y))
    error, y = f(enp.float32(2.0))
    assert error.get() is None
    error.throw()
    np.testing.assert_allclose(y, np.log(2.0), rtol=1e-6)


INDEXING: dict[str, tuple[Model, str]] = {
    "gather": (lambda x, i: x[i], "dynamic_slice: index 7 is out of bounds, the last is 4"),
    "gather rows": (lambda x, i: x[enp.stack([0, i])], "gather: index 7 is out of bounds, the last is 4"),
    "set": (lambda x, i: x.at[i].set(1.0), "scatter: index 7 is out of bounds, the last is 4"),
    "slice": (
        lambda x, i: lax.dynamic_slice(x, (i,), (2,)),
        "dynamic_slice: index 7 is out of bounds, the last is 3",
    ),
    "update": (
        lambda x, i: lax.dynamic_update_slice(x, enp.zeros(2), (i,)),
        "dynamic_update_slice: index 7 is out of bounds, the last is 3",
    ),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indices(name: str) -> None:
    """An index out of bounds is reported with the index and the last valid one; what is inside is not."""
    f, text = INDEXING[name]
    checked = effx.jit(checkify(f))
    x = enp.arange(5.0)
    found = checked(x, 7)[0].get()
    assert found is not None
    assert found.startswith(text)
    for i in (0, 3, -1) if name.startswith(("gather", "set")) else (0, 3):
        assert checked(x, i)[0].get() is None, i


def test_division() -> None:
    """Division by zero, of floats and integers, where it is asked for."""
    zero = enp.float32(0.0)
    f = checkify(effx.jit(lambda x, y: x / y))
    assert (f(1.0, zero)[0].get() or "").startswith("div: division by zero at test_checkify.py:")
    assert checkify(lambda x, y: x / y, errors=["index"])(1.0, zero)[0].get() is None
    assert (checkify(lambda x, y: x % y)(enp.int32(3), enp.int32(0))[0].get() or "").startswith(
        "rem: division"
    )


def test_user_checks() -> None:
    """The first check that fails counts, with its numbers; without checkify nothing is checked."""

    def f(x: Any) -> Any:
        check(x > 0, "x must be positive, got {}", x)
        check(x < 5, "x must be less than {:.0f}, got {:.2f}", 5, x)
        return x

    checked = effx.jit(checkify(f, errors=["user"]))
    assert checked(1.0)[0].get() is None
    assert (checked(-2.0)[0].get() or "").startswith("x must be positive, got -2.0 at test_checkify.py:")
    assert (checked(7.25)[0].get() or "").startswith("x must be less than 5, got 7.25 at")
    assert float(effx.jit(f)(-1.0)) == -1.0
    with pytest.raises(CheckError, match=r"^checkify: x must be positive, got -2.0 at test_checkify.py"):
        checked(-2.0)[0].throw()
    errors, _ = effx.vmap(checked)(enp.array([1.0, -2.0, -3.0]))
    assert (errors.get() or "").endswith("(batch element 1)")
    inside = checkify(effx.vmap(f))(enp.array([1.0, 8.0]))[0].get()
    assert (inside or "").startswith("x must be less than 5, got 8.00")


def test_branches_not_taken_are_silent() -> None:
    """What would fail in another branch is not reported."""
    f = checkify(effx.jit(lambda x: lax.cond(x > 0, log, lambda y: y, x)))
    assert f(-1.0)[0].get() is None


def test_gradients_pass() -> None:
    """Checking changes neither values nor gradients."""
    f = lambda x: checkify(log)(x)[1]  # noqa: E731
    assert float(effx.grad(f)(2.0)) == 0.5
    assert float(effx.jit(effx.grad(effx.grad(f)))(2.0)) == -0.25


def test_wrong_arguments() -> None:
    """Unknown kinds, and more numbers than a message takes."""
    with pytest.raises(
        TransformError, match=r"^checkify: errors must be among nan, index, div, user, got 'inf'"
    ):
        checkify(log, errors=["inf"])  # type: ignore[list-item]  # wrong on purpose
    assert checkify(log, errors="nan")(2.0)[0].get() is None
    with pytest.raises(TransformError, match=r"^check: a message takes at most 2 numbers, got 3"):
        check(True, "", 1, 2, 3)


@pytest.mark.parametrize("form", [f for f in FORMS if f != "pmap"])
def test_nan_guard(form: str) -> None:
    """The guard raises at the operation, with its operands and line; without NaN it changes nothing."""
    f = nan_guard(FORMS[form](log))
    with pytest.raises(
        NanError, match=r"^log: nan in the result f32\[2?\]~? of \(.*-1.*\), at test_checkify.py:\d+ in log"
    ):
        f(enp.float32(-1.0))
    np.testing.assert_allclose(f(enp.float32(2.0)), np.log(2.0), rtol=1e-6)


def test_nan_guard_in_backward_passes() -> None:
    """A NaN of the gradient alone is found: 0 times infinity."""
    f = lambda x: enp.sum(enp.where(x > 0, enp.sqrt(x), 0.0))  # noqa: E731
    x = enp.array([0.0, 1.0])
    assert bool(enp.isnan(effx.grad(f)(x)[0]))
    with pytest.raises(NanError, match=r"nan in the result"):
        nan_guard(effx.jit(effx.grad(f)))(x)


def test_nan_guard_looks_for_infinities() -> None:
    """On request; a NaN that comes in is no error; low precision is looked at too."""
    zero = enp.float32(0.0)
    assert bool(enp.isinf(nan_guard(lambda x: 1.0 / x)(zero)))
    with pytest.raises(NanError, match=r"^div: infinity in the result"):
        nan_guard(lambda x: 1.0 / x, infinities=True)(zero)
    assert bool(enp.isnan(nan_guard(lambda x: x + 1.0)(enp.float32(enp.nan))))
    with pytest.raises(NanError, match=r"^log: nan in the result bf16\[\]"):
        nan_guard(enp.log)(enp.bfloat16(-1.0))


def test_nan_of_sums_of_products_and_of_windows() -> None:
    """Infinities of both signs meet."""
    x = enp.array([enp.inf, -enp.inf, 1.0])
    sums = checkify(lambda x: lax.reduce_window(x, 0.0, lax.add, (2,)))(x)[0].get() or ""
    assert sums.startswith("reduce_window_sum: nan in the result f32[2] at test_checkify.py:")
    products = (
        checkify(lambda x: lax.conv(x[None, None], enp.ones((1, 1, 2)), (1,), "VALID"))(x)[0].get() or ""
    )
    assert products.startswith("convolution: nan in the result f32[1,1,2] at test_checkify.py:")


def test_what_came_in_and_what_was_made() -> None:
    """A NaN among the arguments is told from one that is made; choosing and copying are no computations."""
    found = checkify(lambda x: x + 1.0)(enp.array([enp.nan]))[0].get()
    assert (found or "").startswith("add: nan in an operand at test_checkify.py:")
    chosen = checkify(effx.jit(lambda x: enp.where(x > 2, x, enp.nan)))(enp.array([1.0, 3.0]))[0]
    assert chosen.get() is None
    assert checkify(enp.nansum)(enp.array([enp.nan, 1.0]))[0].get() is None
    assert (checkify(enp.log)(enp.bfloat16(-1))[0].get() or "").startswith("log: nan in the result bf16[]")
    assert (checkify(lambda z: enp.log(z) * 0)(enp.complex64(0))[0].get() or "").startswith("mul: nan")


def test_numbers_are_exact() -> None:
    """Indices that float32 does not hold, small and unsigned index dtypes, 64-bit numbers, bools."""
    x = enp.zeros(20_000_000, enp.int8)
    found = checkify(lambda x, i: x[i])(x, enp.array([33_554_433]))[0].get()
    assert (found or "").startswith("gather: index 33554433 is out of bounds, the last is 19999999 at")
    y = enp.arange(300.0)
    for dtype in ("int8", "uint8", "int16", "uint32"):
        indices = enp.array([100, 7], dtype)
        assert checkify(lambda y, i: y[i])(y, indices)[0].get() is None
        short = checkify(lambda y, i: y[i])(y[:50], indices)[0].get()
        assert (short or "").startswith("gather: index 100 is out of bounds, the last is 49 at"), dtype
    message = "{} {:d}"
    inside = checkify(lambda a, b: check(False, message, a, b))
    assert (inside(True, 123456789)[0].get() or "").startswith("True 123456789 at")
    with effx.enable_x64():
        assert (inside(np.float64(1.23456789012345), np.uint8(7))[0].get() or "").startswith(
            "1.23456789012345 7 at"
        )
    assert checkify(lambda x, i: x[i])(enp.zeros((0, 3)), enp.zeros(0, enp.int32))[0].get() is None


def test_powers_of_zero() -> None:
    """A negative power of zero divides by zero."""
    zero = enp.zeros(2)
    assert (checkify(lambda x: x**-2)(zero)[0].get() or "").startswith("integer_pow: division by zero")
    assert (checkify(lambda x, p: x**p)(zero, enp.array([1.0, -0.5]))[0].get() or "").startswith(
        "pow: division by zero"
    )
    assert checkify(lambda x, p: x**p)(zero, enp.array([1.0, 0.5]))[0].get() is None


def test_the_first_of_many() -> None:
    """In a long loop, forward or backward, the first iteration that fails counts, as the first element of a batch does."""

    def step(c: Any, v: Any) -> Any:
        check(v < 2.5, "{} is too much", v)
        return c, None

    for reverse, first in ((False, "3.0"), (True, "999.0")):
        f = effx.jit(checkify(lambda xs, r=reverse: lax.scan(step, 0.0, xs, reverse=r)[0]))
        assert (f(enp.arange(1000.0))[0].get() or "").startswith(f"{first} is too much at")
    rows = effx.vmap(effx.vmap(checkify(log)))(enp.array([[1.0, 2.0], [-1.0, 3.0]]))[0]
    assert (rows.get() or "").endswith("(batch element 2)")
    elements = effx.vmap(checkify(lambda x: lax.cond(x > 2, log, lambda y: y, x - 2.0)))(
        enp.array([1.0, 3.0])
    )[0]
    assert elements.get() is None


def test_handlers_of_handlers() -> None:
    """Checks inside mixed precision and the other way round, and twice."""
    f = lambda x: enp.log(x @ x)  # noqa: E731
    x = enp.array([[0.0, 1.0], [-1.0, 0.0]])
    for g in (checkify(autocast(f)), autocast(checkify(f)), effx.jit(autocast(checkify(f)))):
        assert (g(x)[0].get() or "").startswith("log: nan in the result f32[2,2]")
    outer, (inner, _) = checkify(checkify(f))(x)
    assert outer.get() == inner.get() is not None


def test_messages_are_kept_once() -> None:
    """A check that runs again does not add a message."""
    f = checkify(log)
    f(1.0)
    before = number_of(Message("a message that no other test has", "", ""))
    for _ in range(3):
        f(1.0)
        effx.jit(checkify(log))(2.0)
    assert number_of(Message("another one", "", "")) == before + 1


@pytest.mark.unguarded
def test_wrong_messages() -> None:
    """Messages and numbers that do not fit are refused where the check stands."""
    with pytest.raises(TransformError, match=r"^check: the message 'a {} {}' does not fit f32\[\]~"):
        check(True, "a {} {}", 1.0)
    with pytest.raises(TransformError, match=r"^check: the message '{:d}' does not fit f32\[\]~"):
        check(True, "{:d}", 1.0)
    with pytest.raises(TransformError, match=r"^check: the message 3 does not fit no numbers"):
        check(True, 3)  # type: ignore[arg-type]  # wrong on purpose
    for number, shown in ((1j, r"c64\[\]~"), (enp.ones(2), r"f32\[2\]")):
        with pytest.raises(
            TransformError, match=r"^check: the numbers of a message are real scalars, got " + shown
        ):
            check(True, "{}", number)


def test_nan_guard_explains_infinities_apart() -> None:
    """A NaN made of infinities is new, though these are bad too; in jit and inside vmap there is nothing to see."""
    inf = enp.float32(enp.inf)
    with pytest.raises(NanError, match=r"^sub: nan in the result f32\[\] of \(inf, inf\)"):
        nan_guard(lambda x: x - x, infinities=True)(inf)
    assert bool(enp.isinf(nan_guard(lambda x: x + 1.0, infinities=True)(inf)))
    with pytest.raises(NanError, match=r"^log: nan in the result f32\[2\] of \(\[ 1. -1.\]\)"):
        nan_guard(effx.pmap(enp.log))(enp.array([1.0, -1.0]))
    for f in (effx.jit(nan_guard(enp.log)), effx.vmap(nan_guard(enp.log))):
        assert bool(enp.isnan(f(enp.array([-1.0]))[0]))


@pytest.mark.parametrize("jitted", [False, True])
def test_checks_in_conditions(jitted: bool) -> None:
    """What a loop's condition checks counts, from the first time that it is asked to the last."""

    def f(x: Any, limit: Any) -> Any:
        def goes_on(c: Any) -> Any:
            check(c < limit, "{} is too large", c)
            return enp.log(c) < 2.0

        return lax.while_loop(goes_on, lambda c: c + 1.0, x)

    checked = effx.jit(checkify(f)) if jitted else checkify(f)
    for x, limit, text in (
        (1.0, 99.0, None),
        (1.0, 7.5, "8.0 is"),
        (50.0, 7.5, "50.0 is"),
        (-1.0, 99.0, "log: nan"),
    ):
        error, y = checked(x, limit)
        found = error.get()
        assert (found is None) if text is None else (found is not None and found.startswith(text)), found
        np.testing.assert_array_equal(y, f(x, 99.0))
    errors, _ = effx.vmap(checkify(f), (0, None))(enp.array([1.0, 50.0]), 20.0)
    assert errors.code.tolist()[0] == 0 != errors.code.tolist()[1]
