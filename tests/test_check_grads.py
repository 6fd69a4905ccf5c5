"""check_grads accepts right derivatives and refuses wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array
from effx.errors import TransformError
from effx.test_util import Tolerance, check_grads, check_jvp, check_vjp


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("f", "args"),
    [
        (enp.sin, (0.3,)),
        (lambda x, y: enp.tanh(x @ y), (np.ones((2, 3), "f4") * 0.3, np.ones(3, "f4"))),
        (lambda t: {"a": t["x"] * t["n"], "n": t["n"]}, ({"x": np.float32(0.5), "n": np.int32(3)},)),
        (lambda z: enp.exp(z) * z, (np.array([0.3 + 0.2j, -0.1j], np.complex64),)),
        (enp.abs, (np.array([0.6 + 0.8j], np.complex64),)),
        (lambda x: x, (np.zeros((0, 2), "f4"),)),
    ],
)
def test_right_derivatives_pass(f: Any, args: Any, order: int) -> None:
    """Trees, integers, complex numbers, nothing at all."""
    check_grads(f, args, order)


def test_double_precision_is_checked_closely() -> None:
    """A relative error of 1e-3 does not pass in f64."""
    with effx.enable_x64(True):
        x = np.float64(0.5)
        check_grads(enp.sin, (x,), 2)
        with pytest.raises(AssertionError):
            check_jvp(enp.sin, lambda p, t: (enp.sin(p[0]), enp.cos(p[0]) * t[0] * 1.001), (x,))


def test_wrong_derivatives_fail() -> None:
    """Values and derivatives, forward and backward."""
    with pytest.raises(AssertionError, match="the tangent"):
        check_jvp(enp.sin, lambda p, t: (enp.sin(p[0]), 2.0 * enp.cos(p[0]) * t[0]), (0.3,))
    with pytest.raises(AssertionError, match="the value"):
        check_jvp(enp.sin, lambda p, t: (enp.cos(p[0]), enp.cos(p[0]) * t[0]), (0.3,))
    with pytest.raises(AssertionError, match="the pairing"):
        check_vjp(enp.sin, lambda x: (enp.sin(x), lambda ct: (-enp.cos(x) * ct,)), (0.3,))


def test_modes() -> None:
    """Only the two."""
    check_grads(enp.sin, (0.3,), 1, modes=["rev"])
    with pytest.raises(TransformError) as error:
        check_grads(enp.sin, (0.3,), 1, modes=["forward"])
    assert error.value.message == "check_grads: modes are 'fwd' and 'rev', got 'forward'"


def test_tolerances_by_dtype() -> None:
    """The loosest of the dtypes at hand counts; dtypes that are not named keep theirs."""

    @effx.custom_jvp
    def wrong(x: Array) -> Array:
        return enp.sin(x)

    wrong.defjvp(lambda primals, tangents: (enp.sin(primals[0]), tangents[0] * (enp.cos(primals[0]) + 0.4)))
    x = enp.array([0.5, 1.0], "float32")
    check_grads(wrong, (x,), 1, modes=["fwd"], atol={np.float32: 0.5}, rtol={"float32": 0.5})
    tight: list[Tolerance] = [{np.float64: 0.5}, {"float32": 1e-3}, None]
    for loose in tight:
        with pytest.raises(AssertionError):
            check_grads(wrong, (x,), 1, modes=["fwd"], atol=loose, rtol=loose)


def test_jumps_and_poles_near_the_point() -> None:
    """Right derivatives pass 1e-3 away from a jump and a pole, and where a value stays infinite; wrong ones fail."""
    near = np.array([2.001, 2.999, 3.5], "f4")
    check_grads(enp.floor, (near,), 1)
    check_grads(lambda x: x % 1.0, (near,), 1)
    check_grads(enp.log, (np.array([1e-3, 1.0], "f4"),), 1)
    check_grads(lambda x: enp.where(np.array([True, False, False]), -np.inf, x), (near,), 1)
    with pytest.raises(AssertionError, match="the tangent"):
        check_jvp(enp.log, lambda p, t: (enp.log(p[0]), 1.1 * t[0] / p[0]), (np.array([1e-3, 1.0], "f4"),))


def test_the_step_that_is_given_is_the_only_one() -> None:
    """A step across a jump fails, though smaller ones would not."""
    near = np.array([2.001], "f4")
    with pytest.raises(AssertionError, match="the tangent"):
        check_grads(enp.floor, (near,), 1, eps=0.1)
    check_grads(enp.floor, (near,), 1, eps=1e-4)
