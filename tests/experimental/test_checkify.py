"""Run-time checks as values: what is checked, where, in which words, and what must be functionalized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import NoRuleError, TransformError
from effx.experimental import checkify

Model = Callable[..., Any]
STAGED = (
    "no handler takes the effect 'check'; a check raises a Python exception, so it cannot be staged (jit, scan, cond, "
    "pmap ...); functionalize the function with effx.experimental.checkify.checkify before it is staged"
)


def message(
    f: Model, *args: Any, errors: frozenset[checkify.ErrorCategory] = checkify.all_checks
) -> str | None:
    """The message of a run, without the place; the same with the checked function and with the function jitted."""
    found: set[str | None] = set()
    for g in (
        checkify.checkify(f, errors),
        effx.jit(checkify.checkify(f, errors)),
        checkify.checkify(effx.jit(f), errors),
    ):
        text = g(*args)[0].get()
        assert text is None or "test_checkify.py:" in text
        found.add(text and text.split(" (`check`")[0].split(" at test_")[0])
    assert len(found) == 1, found
    return found.pop()


def positive(x: Any) -> Any:
    checkify.check(
        x > 0, "{} of {n:d}, {v[0]} and {v[1]:.2f}", x, n=enp.int32(7), v=(enp.stack([x, 2 * x]), x / 4)
    )
    return enp.sin(x)


@effx.custom_jvp
def custom(x: Any) -> Any:
    return positive(x)


custom.defjvp(lambda xs, dxs: (custom(*xs), enp.cos(xs[0]) * dxs[0]))


@effx.custom_vjp
def with_backward(x: Any) -> Any:
    return enp.sin(x)


def backward(x: Any, ct: Any) -> tuple[Any]:
    positive(x)
    return (ct * enp.cos(x),)


with_backward.defvjp(lambda x: (enp.sin(x), x), backward)

FORMS: dict[str, Callable[[Model], Model]] = {
    "plain": lambda f: f,
    "jit": effx.jit,
    "scan": lambda f: lambda x: lax.scan(lambda c, v: (c, f(v)), x, enp.stack([abs(x), x]))[1],
    "fori": lambda f: lambda x: lax.fori_loop(0, 3, lambda _, y: y + 0 * f(y), x),
    "while": lambda f: (
        lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] + 0 * f(x)), (0, x))[1]
    ),
    "condition": lambda f: lambda x: lax.while_loop(lambda c: f(x) > 2, lambda c: c, x),
    "cond": lambda f: lambda x: lax.cond(x < 9, f, lambda y: y, x),
    "switch": lambda f: lambda x: lax.switch(enp.int32(1), [lambda y: y, f], x),
    "map": lambda f: lambda x: lax.map(f, enp.stack([abs(x), x])),
    "checkpoint": effx.checkpoint,
    "vmap": lambda f: lambda x: effx.vmap(f)(enp.stack([abs(x), x, 2 * x])),
    "vmap twice": lambda f: lambda x: effx.vmap(effx.vmap(f))(enp.stack([abs(x), x, 2 * x, x]).reshape(2, 2)),
    "vmap of scan": lambda f: lambda x: effx.vmap(FORMS["scan"](f))(enp.stack([abs(x), x])),
    "grad": effx.grad,
    "grad of scan": lambda f: effx.grad(lambda x: enp.sum(FORMS["scan"](f)(x))),
    "grad of grad": lambda f: effx.grad(effx.grad(f)),
    "vmap of grad": lambda f: lambda x: effx.vmap(effx.grad(f))(enp.stack([abs(x), x])),
    "jvp": lambda f: lambda x: effx.jvp(f, (x,), (x,))[1],
    "custom": lambda f: effx.grad(lambda x: custom(x) if f is positive else f(x)),
    "backward": lambda f: effx.jit(effx.grad(with_backward if f is positive else f)),
    "pmap": lambda f: lambda x: effx.pmap(f)(enp.stack([abs(x), x])),
    "nested": lambda f: FORMS["scan"](FORMS["cond"](FORMS["fori"](FORMS["jit"](f)))),
}


@pytest.mark.parametrize("form", FORMS)
def test_checks_inside_programs(form: str) -> None:
    """A check with values of several shapes gives one message wherever it stands; what holds gives none."""
    f = FORMS[form](positive)
    assert message(f, enp.float32(-1.5)) == "-1.5 of 7, [-1.5 -3. ] and -0.38"
    assert message(f, enp.float32(1.5)) is None
    np.testing.assert_array_equal(
        checkify.checkify(f)(enp.float32(1.5))[1], FORMS[form](enp.sin)(enp.float32(1.5))
    )


EAGER = {"plain", "grad", "grad of grad", "jvp", "vmap", "vmap twice", "vmap of grad", "custom"}


@pytest.mark.parametrize("form", [f for f in FORMS if f not in EAGER])
def test_staged_checks_are_refused(form: str) -> None:
    """Outside checkify what is staged must not check, whether the check would hold or not; under disable_jit it may."""
    with pytest.raises(NoRuleError) as error:
        FORMS[form](positive)(enp.float32(1.5))
    assert STAGED in str(error.value)


def test_eager_checks() -> None:
    """Outside checkify a check raises at once, eagerly under handlers too; a debug check does nothing."""
    text = r"^-1.5 of 7, \[-1.5 -3. \] and -0.38 \(`check` failed at test_checkify.py:\d+ in positive\)"
    for form in EAGER:
        f = FORMS[form](positive)
        f(enp.float32(1.5))
        with pytest.raises(checkify.JaxRuntimeError, match=text):
            f(enp.float32(-1.5))
    with effx.disable_jit(), pytest.raises(ValueError, match=text):
        effx.jit(positive)(enp.float32(-1.5))
    checks: list[Model] = [
        lambda x: checkify.check(x > 0, "{}", x, debug=True),
        lambda x: checkify.debug_check(x > 0, "{}", x),
    ]
    for debug in checks:
        debug(-1.0)
        effx.jit(debug)(-1.0)
        lax.map(debug, -enp.ones(2))
        assert message(debug, -1.0) == "-1.0"
        assert message(debug, 1.0) is None


def outside(shape: tuple[int, ...], index: int, axis: int) -> str:
    return (
        f"out-of-bounds indexing for array of shape {shape}: index {index} is out of bounds for axis {axis} with size "
        f"{shape[axis]}"
    )


@pytest.mark.parametrize(
    ("indices", "index", "axis"),
    [
        (((1, 20), (3, 4)), 3, 1),  # the first pair is outside along its second axis
        (((1, 20), (1, 4)), 20, 0),
        (((0, 0, 9), (2, -4, 0)), -1, 1),
        ((9, 9), 9, 0),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_the_first_index_outside_is_named(indices: Any, index: int, axis: int, write: bool) -> None:
    """In the order of the elements that are read or written, along whichever axis it is outside."""
    at = tuple([np.array(i) for i in indices])
    f = (lambda x: x.at[at].add(1.0)) if write else (lambda x: x[at])
    with effx.check_static_indices(False):
        assert message(f, enp.ones((2, 3)), errors=checkify.index_checks) == outside((2, 3), index, axis)


@pytest.mark.parametrize(
    ("at", "index", "axis", "nearest"),
    [
        (5, 5, 0, 1),
        ((1, 7), 7, 1, (1, 2)),
        ((..., -9), -6, 1, (..., 0)),
        ((-4, slice(None)), -2, 0, (0,)),
        (2**40, 2**31 - 1, 0, 1),
    ],
)
def test_static_indices_that_are_not_checked_are_reported(
    at: Any, index: int, axis: int, nearest: Any
) -> None:
    """Where an int out of range reads the nearest element and writes nothing, as under effx.compat."""
    x = enp.arange(6.0).reshape(2, 3)
    with effx.check_static_indices(False):
        for f in (lambda x: x[at], lambda x: x.at[at].set(0.0)):
            assert message(f, x, errors=checkify.index_checks) == outside((2, 3), index, axis)
        np.testing.assert_array_equal(x[at], x[nearest])
        np.testing.assert_array_equal(x.at[at].set(9.0), x)
        assert message(lambda x: x[nearest], x, errors=checkify.index_checks) is None


def rootless(x: Any) -> Any:
    return enp.sqrt(x) * 0.0


MANY = np.array([1, 2, 9, 12])
AUTOMATIC: dict[str, tuple[frozenset[checkify.ErrorCategory], Model, tuple[Any, ...], str | None]] = {
    "nan": (checkify.nan_checks, enp.sin, (enp.inf,), "nan generated by primitive: sin, with the result f32[]~"),
    "nan that came in": (
        checkify.nan_checks, enp.sin, (enp.nan,), "nan generated by primitive: sin, from a nan in an operand",
    ),
    "no nan": (checkify.nan_checks, enp.sin, (1.0,), None),
    "infinity": (checkify.nan_checks, lambda x, y: x / y, (1.0, 0.0), None),
    "division": (checkify.div_checks, lambda x, y: x / y, (1.0, 0.0), "division by zero"),
    "division of integers": (checkify.div_checks, lax.div, (enp.int32(1), enp.int32(0)), "division by zero"),
    "remainder": (checkify.div_checks, lax.rem, (enp.int32(1), enp.int32(0)), "division by zero"),
    "both": (checkify.float_checks, lambda x, y: x / y, (0.0, 0.0), "division by zero"),
    "index": (checkify.index_checks, lambda x, i: x[i], (enp.ones((3, 4)), 5), outside((3, 4), 5, 0)),
    "second axis": (checkify.index_checks, lambda x, i: x[0, i], (enp.ones((3, 4)), 5), outside((3, 4), 5, 1)),
    "negative": (checkify.index_checks, lambda x, i: x[i], (enp.ones((3, 4)), -5), outside((3, 4), -2, 0)),
    "first of many": (checkify.index_checks, lambda x, i: x[i, i], (enp.ones((3, 4)), MANY), outside((3, 4), 9, 0)),
    "set": (checkify.index_checks, lambda x, i: x.at[i].set(0.0), (enp.ones(3), 7), outside((3,), 7, 0)),
    "drop": (checkify.index_checks, lambda x, i: x.at[i].add(0.0, mode="drop"), (enp.ones(3), 7), outside((3,), 7, 0)),
    "take": (checkify.index_checks, enp.take, (enp.ones(3), 7), outside((3,), 7, 0)),
    "wrap": (checkify.index_checks, lambda x, i: enp.take(x, i, mode="wrap"), (enp.ones(3), 7), None),
    "slice": (
        checkify.index_checks, lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (enp.ones(3), 2),
        outside((3,), 2, 0) + " for a slice of 2",
    ),
    "inside": (checkify.index_checks, lambda x, i: x[i], (enp.ones((3, 4)), -3), None),
    "another kind": (checkify.user_checks, enp.sin, (enp.inf,), None),
    "not the user's": (checkify.automatic_checks, lambda x: checkify.check(x > 0, "x"), (-1.0,), None),
    "gradient": (checkify.float_checks, effx.grad(rootless), (0.0,), "division by zero"),
}  # fmt: skip


@pytest.mark.parametrize("name", AUTOMATIC)
def test_automatic_checks(name: str) -> None:
    """Each category finds its errors and no others; so does the union of all that are automatic."""
    errors, f, args, text = AUTOMATIC[name]
    assert message(f, *args, errors=errors) == text
    if text is not None:
        assert message(f, *args) == text


def test_sets_of_checks() -> None:
    """Sets are those of jax, and their unions are sets; only user checks are on by default."""
    assert checkify.float_checks == checkify.nan_checks | checkify.div_checks
    assert checkify.automatic_checks == checkify.float_checks | checkify.index_checks
    assert checkify.all_checks == checkify.automatic_checks | checkify.user_checks
    assert len(checkify.all_checks) == 4
    assert checkify.checkify(enp.log)(-1.0)[0].get() is None


def test_the_guide() -> None:
    """The examples of jax's guide: checks and the three automatic ones in one function, the first of them first."""

    def f(x: Any, i: Any) -> Any:
        checkify.check(i >= 0, "index needs to be non-negative, got {i}", i=i)
        return enp.sin(x[i])

    checked = checkify.checkify(
        f, errors=checkify.user_checks | checkify.index_checks | checkify.float_checks
    )
    for x, i, text in (
        (enp.ones(5), 100, "out-of-bounds indexing for array of shape (5,): index 100"),
        (enp.ones(5), -1, "index needs to be non-negative, got -1"),
        (enp.ones(5), -100, "index needs to be non-negative, got -100"),
        (enp.array([enp.inf, 1.0]), 0, "nan generated by primitive: sin"),
    ):
        error, _ = checked(x, i)
        with pytest.raises(ValueError, match=f"^{text}".replace("(", r"\(").replace(")", r"\)")):
            error.throw()
    for mapped in (effx.vmap, effx.pmap):
        lines = (mapped(checked)(enp.ones((3, 5)), enp.array([-1, 2, 100]))[0].get() or "").split("\n")
        assert [line.split(",")[0] for line in lines] == [
            "at mapped index 0: index needs to be non-negative",
            "at mapped index 2: out-of-bounds indexing for array of shape (5",
        ]
    error, z = checked(enp.array([5.0, 1.0]), 0)
    error.throw()
    assert str(error) == "Error(None)"
    np.testing.assert_allclose(z, np.sin(5.0), rtol=1e-6)


VALUES = [
    True, 3, -2.5, np.float32(0.1),
    1 - 2j, np.int8(-3), np.uint8(200), np.int16(-300), np.uint32(4_000_000_000), np.float16(1.5),
    np.arange(6, dtype=np.int8).reshape(2, 3), np.zeros((0, 3), np.float32), np.array([1 + 2j], np.complex64),
    np.array([True, False]), [np.float32(1), {"a": np.int32(2), "b": None}],
]  # fmt: skip


def test_values_in_messages() -> None:
    """Values of every dtype and shape come back as they were, several in one message; so do 64-bit ones and keys."""

    def f(*xs: Any) -> None:
        checkify.check(False, "|".join(["{}"] * len(xs)), *xs)

    expected = effx.tree.map(lambda x: np.asarray(x)[()], VALUES)
    assert message(f, *VALUES) == "|".join([str(x) for x in expected])
    assert message(f, enp.bfloat16(0.5), enp.array([0.25], enp.float8_e4m3fn)) == "0.5|[0.25]"
    assert message(f, effx.random.key(7)) == "[0 7]"
    with effx.enable_x64():
        wide = (np.float64(0.1), np.int64(-(2**40)), np.uint64(2**63), np.complex128(0.1 + 0.2j))
        assert message(f, *wide) == "|".join([str(x) for x in wide])
        assert message(lambda x, i: x[i], enp.ones(3), 2**40) == outside((3,), 2**40, 0)


@pytest.mark.unguarded
def test_wrong_arguments() -> None:
    """What is no scalar bool, no array, no format of the values, no category, no error."""
    for pred, got in ((1, "1"), (enp.float32(1.0), "f32[]"), (enp.ones(2, bool), "bool[2]"), (None, "None")):
        with pytest.raises(TypeError) as error:
            checkify.check(pred, "x")  # type: ignore[arg-type]  # wrong on purpose
        assert str(error.value).startswith(f"check: takes a scalar bool, got {got}\n")
    wrong_messages: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
        ("{} {}", (1.0,), {}, "does not fit f32[]~: tuple index out of range"),
        ("{a}", (), {"b": 1}, "does not fit i32[]~: 'a'"),
        ("{:.2f}", (enp.ones(2),), {}, "does not fit f32[2]: unsupported format string passed to numpy.ndarray.__format__"),
    ]  # fmt: skip
    for text, values, named, why in wrong_messages:
        with pytest.raises(TransformError) as wrong:
            checkify.check(True, text, *values, **named)
        assert str(wrong.value).startswith(f"check: the message {text!r} {why}\n")
    with pytest.raises(
        TransformError,
        match=r"^debug_check: the values of a message are pytrees of arrays, got 'a' of type str",
    ):
        checkify.debug_check(True, "{}", "a")
    with pytest.raises(
        TransformError, match=r"^checkify: errors must be among nan, index, div, user, got 'oob'"
    ):
        checkify.checkify(enp.sin, errors=frozenset({"oob"}))  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TransformError, match=r"^check_error: takes an Error, got 3 of type int"):
        checkify.check_error(3)  # type: ignore[arg-type]  # wrong on purpose


def two(x: Any) -> Any:
    checkify.check(x > 0, "not positive")
    checkify.check(x < 5, "{} of {}", x, enp.arange(3))
    return x


def test_batches_of_errors() -> None:
    """vmap outside gives an error for each element; inside, the first of the batch; one of a batch can be taken out."""
    xs = enp.array([1.0, -1.0, 7.0])
    errors, ys = effx.jit(effx.vmap(checkify.checkify(two)))(xs)
    lines = (errors.get() or "").split("\n")
    assert [line.split(" (`check`")[0] for line in lines] == [
        "at mapped index 1: not positive",
        "at mapped index 2: 7.0 of [0 1 2]",
    ]
    np.testing.assert_array_equal(ys, xs)
    for i, text in enumerate([None, "not positive", "7.0 of [0 1 2]"]):
        one = effx.tree.map(lambda x, i=i: x[i], errors).get()
        assert one is None if text is None else (one or "").startswith(text)
    assert message(effx.vmap(two), xs) == "not positive"
    assert message(effx.vmap(two), xs[::2]) == "7.0 of [0 1 2]"
    nested = effx.vmap(effx.vmap(checkify.checkify(two)))(enp.stack([abs(xs), -xs]))[0].get() or ""
    assert [line.split(":")[0] for line in nested.split("\n")] == [
        f"at mapped index {i}" for i in ("0, 2", "1, 0", "1, 2")
    ]
    assert effx.vmap(checkify.checkify(two))(enp.zeros(0))[0].get() is None
    with pytest.raises(
        checkify.JaxRuntimeError, match=r"^at mapped index 1: not positive .*\nat mapped index 2: 7.0"
    ):
        errors.throw()


def test_errors_are_pytrees() -> None:
    """An error passes in and out of jit, scan and cond, and is one value there; no error is none."""
    checked = checkify.checkify(two)
    through = effx.jit(lambda error: error)(checked(7.0)[0])
    assert (through.get() or "").startswith("7.0 of [0 1 2]")
    scanned = lax.scan(lambda c, x: (c, checked(x)[0]), 0, enp.array([1.0, 9.0]))[1]
    assert (scanned.get() or "").startswith("at mapped index 1: 9.0 of")
    chosen = lax.cond(True, lambda x: checked(x)[0], lambda x: checked(-x)[0], 7.0)
    assert (chosen.get() or "").startswith("7.0 of")
    carried = lax.fori_loop(0, 3, lambda i, e: checked(5.0 + i)[0], checked(1.0)[0])
    assert (carried.get() or "").startswith("7.0 of")
    assert isinstance(checkify.init_error, checkify.Error)
    assert checkify.init_error.get() is None
    assert checkify.init_error.get_exception() is None
    checkify.init_error.throw()
    assert isinstance(through.get_exception(), checkify.JaxRuntimeError)
    assert str(through) == f"Error({through.get()})"
    assert "Error(code=Array(" in repr(through)
    seen = []
    effx.jit(lambda e: seen.append(repr(e)))(through)
    assert seen[0].startswith("Error(code=")
    unknown = checkify.Error(enp.int32(2_000_000_000), enp.zeros(1, enp.uint32)).get()
    assert unknown == "check 2000000000 failed, whose message only the process knows that staged it"


def test_check_error() -> None:
    """An error is raised again: at once, or as a value under another checkify; staged alone it is refused."""

    def outer(x: Any) -> Any:
        error, y = effx.jit(checkify.checkify(two))(x)
        checkify.check_error(error)
        return y + 1.0

    assert float(outer(1.0)) == 2.0
    for x, text in ((-1.0, "not positive"), (7.0, "7.0 of [0 1 2]")):
        with pytest.raises(ValueError, match=text.replace("[", r"\[")):
            outer(x)
        assert message(outer, x) == text
        assert message(lambda x: lax.scan(lambda c, _: (outer(c) - 1.0, None), x, length=2)[0], x) == text
    with pytest.raises(NoRuleError) as error:
        effx.jit(outer)(1.0)
    assert STAGED in str(error.value)
    checkify.check_error(checkify.init_error)
    errors = effx.vmap(checkify.checkify(two))(enp.array([1.0, 7.0, -1.0]))[0]
    with pytest.raises(ValueError, match=r"^at mapped index 1: 7.0 of \[0 1 2\] .*\nat mapped index 2: not"):
        checkify.check_error(errors)
    assert message(checkify.check_error, errors) == "7.0 of [0 1 2]"
    assert (
        message(lambda x: checkify.check_error(effx.vmap(checkify.checkify(two))(x)[0]), -enp.ones(2))
        == "not positive"
    )
    assert message(effx.vmap(outer), enp.array([1.0, 7.0])) == "7.0 of [0 1 2]"
    assert message(checkify.check_error, effx.vmap(checkify.checkify(two))(enp.zeros(0))[0]) is None


def test_inner_and_outer() -> None:
    """An inner checkify leaves nothing to the outer one but what it does not look for."""
    inner = checkify.checkify(lambda x: enp.log(two(x)), errors=checkify.user_checks)
    outer, (error, y) = effx.jit(checkify.checkify(inner, errors=checkify.nan_checks))(-1.0)
    assert (outer.get() or "").startswith("nan generated by primitive: log")
    assert (error.get() or "").startswith("not positive")
    assert bool(enp.isnan(y))


def test_branches_and_loops_that_do_not_run() -> None:
    """A check counts only where it is reached, and the first that fails in time."""
    cond = lambda x: lax.cond(x > 0, lambda y: y, positive, x)  # noqa: E731
    assert message(cond, enp.float32(2.0)) is None
    assert message(cond, enp.float32(-1.0)) == "-1.0 of 7, [-1. -2.] and -0.25"
    loop = lambda x: lax.while_loop(lambda c: c < 0, lambda c: two(c) - c, x)  # noqa: E731
    assert message(loop, 3.0) is None
    assert message(loop, -3.0) == "not positive"
    found = message(lambda xs: lax.scan(lambda c, x: (c, two(x)), 0, xs)[1], enp.array([1.0, 8.0, -1.0, 9.0]))
    assert found == "8.0 of [0 1 2]"
    each = effx.vmap(checkify.checkify(cond))(enp.array([2.0, -1.0]))[0].get() or ""
    assert each.startswith("at mapped index 1: -1.0 of 7")
    assert "\n" not in each


def test_a_static_argument_may_decide() -> None:
    """Under jit too: a number that is passed on stays known."""

    @checkify.checkify
    def f(x: Any, flag: Any) -> Any:
        return enp.log(x) if flag else x

    for flag, expected in ((True, 0.0), (False, 1.0)):
        error, y = effx.jit(f, static_argnums=1)(1.0, flag)
        assert error.get() is None
        assert float(y) == expected
