"""ravel_pytree lays leaves one after another, and takes them apart again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
from effx.errors import DTypeError, ShapeError
from effx.flatten_util import ravel_pytree

TREE: dict[str, Any] = {
    "a": np.arange(6, dtype=np.int32).reshape(2, 3),
    "b": [2.5, np.float16(3)],
    "c": np.zeros((0, 2)),
}


def test_leaves_keep_shapes_and_dtypes() -> None:
    flat, unravel = ravel_pytree(TREE)
    assert flat.dtype == np.float32
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 2.5, 3]
    back = unravel(flat)
    assert [(x.dtype.name, x.shape) for x in effx.tree.leaves(back)] == [
        ("int32", (2, 3)), ("float32", ()), ("float16", ()), ("float32", (0, 2)),
    ]  # fmt: skip
    assert back["a"].tolist() == TREE["a"].tolist()
    flat, unravel = ravel_pytree((1 + 2j, 3.0))
    assert list(map(complex, unravel(flat))) == [1 + 2j, 3]


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "int32", "float32"])
def test_leaves_of_one_dtype_take_that_of_the_vector(dtype: str) -> None:
    flat, unravel = ravel_pytree({"a": np.ones(2, np.float32), "b": np.float32(3)})
    for function in (unravel, effx.jit(unravel)):
        back = function(flat.astype(dtype))
        assert (back["a"].dtype, back["b"].dtype) == (dtype, dtype)
        assert back["a"].astype("float32").tolist() == [1, 1]
        assert complex(back["b"]) == 3


@pytest.mark.parametrize("tree", [{}, [], None])
def test_no_leaves(tree: Any) -> None:
    flat, unravel = ravel_pytree(tree)
    assert (flat.shape, flat.dtype.name) == ((0,), "float32")
    assert unravel(flat) == tree


def test_transformations() -> None:
    """Both ways can be differentiated, compiled and batched."""
    tree = {"w": np.ones((2, 2), np.float32), "b": np.ones(2, np.float32)}
    flat, unravel = ravel_pytree(tree)

    def loss(v: Any) -> Any:
        p = unravel(v)
        return (p["w"] ** 2).sum() + (3 * p["b"]).sum()

    want = [3, 3, 2, 2, 2, 2]
    assert effx.jit(effx.grad(loss))(flat).tolist() == want
    assert effx.vmap(effx.grad(loss))(np.ones((3, 6), np.float32)).tolist() == [want] * 3
    slopes = effx.grad(lambda t: (ravel_pytree(t)[0] ** 2).sum())(tree)
    assert slopes["w"].tolist() == [[2, 2], [2, 2]]


@pytest.mark.unguarded  # a text where the annotation says an array
def test_refused() -> None:
    _, unravel = ravel_pytree(TREE)
    with pytest.raises(ShapeError) as caught:
        unravel(effx.numpy.zeros(3))
    assert str(caught.value).partition("\n")[0] == "unravel: takes a vector of shape [8], got f32[3]"
    with pytest.raises(DTypeError) as other:
        ravel_pytree({"a": effx.numpy.ones(2), "b": 3})[1](effx.numpy.zeros(3, int))
    assert str(other.value).partition("\n")[0] == "unravel: takes a vector of dtype f32, got i32[3]"
    with pytest.raises(DTypeError) as other:
        ravel_pytree({"a": "text"})
    assert str(other.value).partition("\n")[0] == (
        "ravel_pytree: expected an array or a number, got 'text' of type str"
    )


def test_functions_that_do_the_same_are_equal() -> None:
    """So jit with one of them as a static argument is staged once for all."""
    traces = 0

    def run(flat: Any, unravel: Any) -> Any:
        nonlocal traces
        traces += 1
        return unravel(flat + 1)

    jitted = effx.jit(run, static_argnums=1)
    for scale in (1.0, 2.0):
        flat, unravel = ravel_pytree((np.full(3, scale, np.float32), np.full((2, 2), scale, np.float32)))
        first, second = jitted(flat, unravel)
        assert first.tolist() == [scale + 1] * 3
        assert second.shape == (2, 2)
    assert traces == 1
    assert ravel_pytree(np.ones(3))[1] != ravel_pytree(np.ones(4))[1]
