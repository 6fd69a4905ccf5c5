"""What some elements of a batch run in vain neither loops for ever nor reports errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.library.checkify import check, checkify

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "jit": effx.jit,
    "checkpoint": effx.checkpoint,
}


def loop_for_ever(x: Any) -> Any:
    """Ends for numbers of at least 10 only."""
    return lax.while_loop(lambda v: v < 10, lambda v: v * 1.0, x)


# An element of the batch is 10 or more where its branch or iteration loops, and less where it runs in vain.
BRANCHES: dict[str, Callable[[Any], Any]] = {
    "loop": loop_for_ever,
    "jit": effx.jit(loop_for_ever),
    "cond": lambda x: lax.cond(x > -100, loop_for_ever, lambda x: x, x),
    "scan": lambda x: lax.scan(lambda c, _: (loop_for_ever(c), None), x, None, length=2)[0],
    "loop in a loop": lambda x: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, loop_for_ever(s[1])), (0, x))[1],
    "condition": lambda x: lax.while_loop(lambda v: loop_for_ever(v) < 11, lambda v: v + 1, x),
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_that_is_not_taken_ends(name: str, transform: str) -> None:
    branch, x = BRANCHES[name], np.array([1.0, 10.0, 2.0], "f4")
    function = TRANSFORMS[transform](effx.vmap(lambda x: lax.cond(x < 10, lambda x: x, branch, x)))
    want = [1.0, float(branch(10.0)), 2.0]
    np.testing.assert_array_equal(function(x), want)
    switched = effx.vmap(lambda i, x: lax.switch(i, [lambda x: x, branch, lambda x: -x], x))
    np.testing.assert_array_equal(TRANSFORMS[transform](switched)(np.arange(3), x), [1.0, want[1], -2.0])


def test_an_iteration_after_the_last_one_ends() -> None:
    """Elements that are done run the body with their last values, for which its inner loop may not be meant."""

    def climb(x: Any) -> Any:
        return lax.while_loop(
            lambda s: s < 10,
            lambda s: s + lax.while_loop(lambda v: (v < 3) | (s >= 10), lambda v: v + 1, s * 0),
            x,
        )

    np.testing.assert_array_equal(effx.jit(effx.vmap(climb))(np.array([0.0, 20.0, 5.0])), [12.0, 20.0, 11.0])


def test_derivatives() -> None:
    def f(p: Any, x: Any) -> Any:
        return lax.cond(
            p, lambda x: x, lambda x: lax.while_loop(lambda v: v < 10, lambda v: v * 2, x, max_steps=8), x
        )

    p, x = np.array([True, False, False]), np.array([-1.0, 2.0, 4.0], "f4")
    np.testing.assert_array_equal(effx.vmap(f)(p, x), [-1.0, 16.0, 16.0])
    np.testing.assert_array_equal(effx.vmap(effx.grad(f, 1))(p, x), [1.0, 8.0, 4.0])
    np.testing.assert_array_equal(effx.grad(lambda x: effx.vmap(f)(p, x).sum())(x), [1.0, 8.0, 4.0])
    tangents = effx.jvp(lambda x: effx.vmap(f)(p, x), (x,), (np.ones(3, "f4"),))[1]
    np.testing.assert_array_equal(tangents, [1.0, 8.0, 4.0])


def test_checks_of_a_branch_that_is_not_taken() -> None:
    def check_positive(x: Any) -> Any:
        check(x > 0, "{x} is not positive", x=x)
        return x

    def f(p: Any, x: Any) -> Any:
        return lax.cond(p, effx.jit(check_positive), lambda x: -x, x)

    for transform in (lambda f: f, effx.jit):
        checked = transform(checkify(effx.vmap(f)))
        assert checked(np.array([True, False]), np.array([1.0, -1.0]))[0].get() is None
        assert "-1.0 is not positive" in str(checked(np.array([True, True]), np.array([1.0, -1.0]))[0].get())


def test_checks_of_elements_that_have_ended() -> None:
    def count(n: Any) -> Any:
        def step(i: Any) -> Any:
            check(i < n, "{i} is too large", i=i)
            return i + 1

        return lax.while_loop(lambda i: i < n, step, 0)

    def count_beyond(n: Any) -> Any:
        def step(i: Any) -> Any:
            check(i < 2, "{i} is too large", i=i)
            return i + 1

        return lax.while_loop(lambda i: i < n, step, 0)

    error, result = checkify(effx.vmap(count))(np.array([1, 3]))
    assert error.get() is None
    assert result.tolist() == [1, 3]
    assert checkify(effx.vmap(count_beyond))(np.array([1, 2]))[0].get() is None
    assert "2 is too large" in str(checkify(effx.vmap(count_beyond))(np.array([1, 3]))[0].get())
    # As of each element alone.
    assert effx.vmap(checkify(count))(enp.array([1, 3]))[0].get() is None
