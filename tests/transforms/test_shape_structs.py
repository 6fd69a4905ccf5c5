"""ShapeDtypeStruct: a value that does not change, compares by shape, dtype and sharding, and is a leaf."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import effx
from effx.errors import DTypeError
from effx.ir.types import ArrayType

X = effx.ShapeDtypeStruct((2, 3), np.float32, weak_type=True)


def test_equal_ones_are_one_key() -> None:
    """Lists and names of dtypes say the same; weak types and shardings do not."""
    assert {X: 1}[effx.ShapeDtypeStruct([2, 3], "float32", weak_type=True)] == 1
    lies = effx.sharding.SingleDeviceSharding(effx.devices()[0])
    others = [X.update(weak_type=False), X.update(shape=()), X.update(dtype="int8"), X.update(sharding=lies)]
    assert len({X, *others}) == 5
    assert ((2, 3), np.float32) != X


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_64_bits_count_where_it_is_used(dtype: str) -> None:
    """A struct, as a type, says the dtype that it got. A function is staged for the narrower one unless 64 bits are on."""
    with effx.enable_x64(False):
        s, t = effx.ShapeDtypeStruct((2,), dtype), ArrayType((2,), dtype)
        assert s.dtype == t.dtype == dtype
        narrow = effx.dtypes.canonicalize(dtype)
        for x in (s, t):
            assert effx.eval_shape(lambda x: x, x).dtype == narrow
            assert effx.jit(lambda x: x).lower(x).compile()(np.ones(2, narrow)).dtype == narrow
            assert effx.ShapeDtypeStruct.like(x).dtype == narrow
        with effx.explicit_x64_dtypes("allow"):
            assert effx.eval_shape(lambda x: x, s).dtype == effx.eval_shape(lambda x: x, t).dtype == dtype
    with effx.enable_x64(True):
        assert effx.eval_shape(lambda x: x, s).dtype == effx.eval_shape(lambda x: x, t).dtype == dtype


@pytest.mark.parametrize("dtype", [np.bytes_, np.dtype("S3"), np.object_, np.dtype("datetime64[s]")])
def test_what_is_no_array_of_effx_may_be_described(dtype: Any) -> None:
    """Containers of metadata hold what NumPy has; it is refused where an array is needed."""
    s = effx.ShapeDtypeStruct((2, 3), dtype)
    assert (s.dtype, s.size, s.ndim) == (np.dtype(dtype), 6, 2)
    assert s == effx.ShapeDtypeStruct((2, 3), dtype) != effx.ShapeDtypeStruct((2, 3), "int8")
    with pytest.raises(DTypeError, match="eval_shape: got"):
        effx.eval_shape(lambda x: x, s)
    with pytest.raises(DTypeError, match="ShapeDtypeStruct: got"):
        effx.ShapeDtypeStruct((), "S3")


def test_copies_are_equal() -> None:
    """By copy and pickle."""
    assert copy.deepcopy(X) == copy.copy(X) == pickle.loads(pickle.dumps(X)) == X


@pytest.mark.unguarded  # no annotation allows the wrong name
def test_update_replaces_what_it_names() -> None:
    """The rest stays."""
    y = X.update(shape=[4], dtype=np.int8)
    assert (y.shape, y.dtype.name, y.weak_type) == ((4,), "int8", True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shap'"):
        X.update(shap=(1,))  # type: ignore[call-arg]  # that is the test


@pytest.mark.unguarded  # no annotation allows the text
def test_like() -> None:
    """Of arrays, tracers, numbers, and what has shape and dtype."""
    assert effx.ShapeDtypeStruct.like(np.ones(2, np.int8)) == effx.ShapeDtypeStruct((2,), "int8")
    assert effx.ShapeDtypeStruct.like(1.5) == effx.ShapeDtypeStruct((), "float32", weak_type=True)
    assert effx.ShapeDtypeStruct.like(X) == X
    x = effx.numpy.ones(3)
    assert effx.ShapeDtypeStruct.like(x) == effx.ShapeDtypeStruct((3,), "float32", sharding=x.sharding)
    seen = []
    effx.jit(lambda y: seen.append(effx.ShapeDtypeStruct.like(y)))(x)
    assert [s.shape for s in seen] == [(3,)]
    with pytest.raises(DTypeError, match=r"ShapeDtypeStruct\.like: expected an array or a number, got 'a'"):
        effx.ShapeDtypeStruct.like("a")


def test_it_does_not_change() -> None:
    """Neither by setting nor by deleting."""
    with pytest.raises(AttributeError, match=r"is set once; x\.update\(shape=\.\.\.\) makes another"):
        X.shape = ()  # type: ignore[misc]  # that is the test
    with pytest.raises(AttributeError, match="dtype of a ShapeDtypeStruct cannot be deleted"):
        del X.dtype
    assert X.shape == (2, 3)


def test_libraries_of_trees_take_it_for_a_leaf() -> None:
    """It is none of the containers that they look for: dataclass, attrs class, namedtuple, sequence, mapping."""
    kinds = ("__attrs_attrs__", "__dataclass_fields__", "_fields", "__getitem__", "keys")
    assert not [name for name in kinds if hasattr(X, name)]
