"""Arguments that once ended in an error of the inside: empty ones, scalars, lists, names of NumPy's own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, ShapeError, TransformError

M = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.arange(3, dtype=np.float32)
plus = enp.frompyfunc(lambda a, b: a + b, 2, 1, identity=0)


def as_any(x: Any) -> Any:
    """An argument that type checkers do not look at: it is wrong on purpose."""
    return x


def double_sine(a: Any, b: Any) -> Any:
    return enp.sin(a) * b


VALUES: dict[str, tuple[Callable[[], Any], Any]] = {
    "reduce a size of 0": (lambda: plus.reduce(np.zeros((2, 0)), axis=0, initial=5.0), np.zeros(0)),
    "reduce along a size of 0": (lambda: plus.reduce(np.zeros((3, 0)), axis=1, initial=5.0), [5.0] * 3),
    "reduce all of a size of 0": (lambda: plus.reduce(np.zeros((0, 3)), axis=None, initial=5.0), 5.0),
    "reduce sizes of 0 over two axes": (
        lambda: plus.reduce(np.zeros((0, 2, 0)), axis=(0, 1), initial=1.0, keepdims=True),
        np.zeros((1, 1, 0)),
    ),
    "an argument named out": (lambda: enp.frompyfunc(lambda out, b: out + b, 2, 1)(1, 2), 3),
    "an argument named where, by its name": (
        lambda: enp.frompyfunc(lambda a, *, where: a + where, 2, 1)(1, where=2),
        3,
    ),
    "a vector's transpose": (lambda: enp.asarray(V).transpose(0), V),
    "a vector's transpose in jit": (lambda: effx.jit(lambda v: v.transpose(-1))(V), V),
    "enp.transpose by one axis": (lambda: enp.transpose(V, 0), V),
    "transpose by an array of axes": (lambda: enp.transpose(M, np.array([1, 0])), M.T),
    "a list of traced ints": (lambda: effx.jit(lambda i, j: enp.asarray(M)[[i, j], 0])(1, 0), M[[1, 0], 0]),
    "a nested list of traced ints": (
        lambda: effx.jit(lambda i: enp.asarray(M)[[[i], [0]], [0, 2]])(1),
        M[[[1], [0]], [0, 2]],
    ),
    "a list of traced ints to write at": (
        lambda: effx.jit(lambda i: enp.asarray(M).at[[i, 0], 0].set(9.0))(1),
        [[9, 1, 2], [9, 4, 5]],
    ),
    "a list of mapped ints": (
        lambda: effx.vmap(lambda i: enp.asarray(M)[[i, 0], 1])(np.array([0, 1])),
        [[1, 1], [4, 1]],
    ),
    "mgrid of nothing": (lambda: enp.mgrid[()], np.zeros(0, np.int32)),
    "trim_zeros of a scalar": (lambda: enp.trim_zeros(1.0), 1.0),
    "trim_zeros of zero": (lambda: enp.trim_zeros(0.0), 0.0),
    "checkpoint of some arguments": (
        lambda: effx.grad(effx.checkpoint(double_sine, prevent_cse=(True, False)))(1.0, 2.0),
        2 * np.cos(1.0, dtype=np.float32),
    ),
    "checkpoint of leaves": (
        lambda: effx.grad(
            effx.checkpoint(lambda d: enp.sin(d["a"]), prevent_cse=({"a": True},))
        )({"a": 1.0})["a"],
        np.cos(1.0, dtype=np.float32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_corner_has_a_value(case: str) -> None:
    """The corner gives what NumPy gives."""
    call, expected = VALUES[case]
    result = call()
    assert np.shape(result) == np.shape(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_ogrid_of_nothing_is_an_empty_list() -> None:
    """As in NumPy it has no axes."""
    assert enp.ogrid[()] == []


ZEROS = np.zeros((2, 3, 4), np.float32)
PREVENT = "checkpoint: prevent_cse must be a bool or a tuple of bools for the arguments, got "
REFUSALS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "checkpoint by a dict": (
        lambda: effx.checkpoint(double_sine, prevent_cse=as_any({"a": True})),
        TransformError,
        PREVENT + "{'a': True}",
    ),
    "checkpoint by ints": (
        lambda: effx.checkpoint(double_sine, prevent_cse=(1, 0)),
        TransformError,
        PREVENT + "(1, 0)",
    ),
    "None in": (
        lambda: as_any(None) in enp.asarray(V),
        DTypeError,
        "in: expected a number or an array, got None of type NoneType",
    ),
    "a string in": (
        lambda: as_any("a") in enp.asarray(V),
        DTypeError,
        "in: expected a number or an array, got 'a' of type str",
    ),
    "transpose of a matrix by one axis": (
        lambda: enp.asarray(M).transpose(0),
        ShapeError,
        "transpose: axes must name each of the 2 axes of f32[2,3] once, got (0,)",
    ),
    "transpose by a float": (
        lambda: enp.asarray(V).transpose(0.0),
        ShapeError,
        "transpose: an axis must be an int, got 0.0",
    ),
    "unsorted inserted axes": (
        lambda: lax.scatter_add(
            ZEROS, np.array([[0, 1]]), np.ones((1, 4)), lax.ScatterDimensionNumbers((1,), (1, 0), (0, 1))
        ),
        ShapeError,
        "scatter_add: inserted_window_dims must increase, got (1, 0)",
    ),
    "unsorted window axes": (
        lambda: lax.scatter(
            ZEROS, np.array([[0]]), np.ones((3, 4, 1)), lax.ScatterDimensionNumbers((1, 0), (0,), (0,))
        ),
        ShapeError,
        "scatter: update_window_dims must increase, got (1, 0)",
    ),
    "unsorted batch axes": (
        lambda: lax.scatter(
            ZEROS,
            np.zeros((3, 2, 1), int),
            np.ones((3, 2)),
            lax.ScatterDimensionNumbers((), (2,), (2,), (1, 0), (0, 1)),
        ),
        ShapeError,
        "scatter: operand_batching_dims must increase, got (1, 0)",
    ),
    "unsorted collapsed axes": (
        lambda: lax.gather(
            ZEROS, np.array([[0, 1]]), lax.GatherDimensionNumbers((1,), (1, 0), (0, 1)), (1, 1, 4)
        ),
        ShapeError,
        "gather: collapsed_slice_dims must increase, got (1, 0)",
    ),
    "unsorted offsets": (
        lambda: lax.gather(
            ZEROS, np.array([[0]]), lax.GatherDimensionNumbers((2, 1), (0,), (0,)), (1, 3, 4)
        ),
        ShapeError,
        "gather: offset_dims must increase, got (2, 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_corner_is_refused(case: str) -> None:
    """The error names the function, what it got and what it wants."""
    call, kind, message = REFUSALS[case]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).splitlines()[0] == message
