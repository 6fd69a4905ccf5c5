"""`jax.eval_shape` of functions whose results are shapes in part."""

from __future__ import annotations

import pytest

import effx
import effx.numpy as enp
from effx.compat.shapes import eval_shape
from effx.errors import EscapedBoxError

GIVEN = effx.ShapeDtypeStruct((2,), "int32")


def test_shapes_in_a_result_stay_what_they_are() -> None:
    found = eval_shape(lambda x: {"a": enp.sum(x), "b": (GIVEN, x[:, None])}, enp.ones(3))
    assert found == {
        "a": effx.ShapeDtypeStruct((), "float32"),
        "b": (GIVEN, effx.ShapeDtypeStruct((3, 1), "float32")),
    }
    assert found["b"][0] is GIVEN


def test_nothing_of_it_is_taken_for_a_leak() -> None:
    """With `check_tracer_leaks`, under which a value that a user keeps is one."""
    kept: list[object] = []
    with effx.check_tracer_leaks():
        assert eval_shape(lambda x: (x + 1, GIVEN), enp.ones(3))[0].shape == (3,)
        with pytest.raises(EscapedBoxError, match="is held by list after the transformation has ended"):
            eval_shape(lambda x: kept.append(x + 1), enp.ones(3))
