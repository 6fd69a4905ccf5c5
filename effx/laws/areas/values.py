"""Laws of pytrees and arrays: structure is preserved, and arrays are values."""

import numpy as np
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import tree
from effx.array import Array
from effx.ir.types import ArrayType, array_type
from effx.laws.arrays import array_types, arrays, pytrees
from effx.laws.comparing import comparable_data, same
from effx.laws.registry import law
from effx.tree.registry import PyTree

AREA = "trees and arrays"
TREES = st.tuples(pytrees(arrays("float64", (2,))))


@law(AREA, "unflatten(flatten t) = t", TREES)
def trees_flatten(t: PyTree) -> None:
    leaves, structure = tree.flatten(t)
    again = structure.unflatten(leaves)
    assert tree.structure(again) == structure
    assert all([a is b for a, b in zip(tree.leaves(again), leaves, strict=True)])


@law(AREA, "map(g . f, t) = map(g, map(f, t)), and map(id, t) = t", TREES)
def trees_are_functors(t: PyTree) -> None:
    same(tree.map(lambda x: enp.sin(x * 2.0), t), tree.map(enp.sin, tree.map(lambda x: x * 2.0, t)), 0.0)
    assert tree.structure(tree.map(lambda x: x, t)) == tree.structure(t)


@law(AREA, "jit(t -> t) = t, and vmap, grad and jvp keep the structure", TREES)
def transformations_keep_structure(t: PyTree) -> None:
    same(effx.jit(lambda s: s)(t), t, 0.0)
    assert tree.structure(effx.jit(lambda s: s)(t)) == tree.structure(t)
    if tree.leaves(t):

        def total(s: PyTree) -> Array:
            return sum([(x * x).sum() for x in tree.leaves(s)], enp.zeros(()))

        same(effx.grad(total)(t), tree.map(lambda x: 2.0 * x, t))
        same(effx.vmap(lambda s: s)(t), t, 0.0)
        same(effx.jvp(lambda s: s, (t,), (t,)), (t, t), 0.0)


@law(
    AREA,
    "array_type is interned: equal dtype, shape and weakness are one object",
    st.tuples(array_types(weak=True)),
)
def types_are_interned(t: ArrayType) -> None:
    assert array_type(t.dtype, list(t.shape), t.weak) is t
    assert t.strong().matches(t)


@law(
    AREA,
    "asarray(numpy(x)) = x, bit by bit, NaN and zeros of both signs too",
    st.tuples(arrays(special=True)),
)
def arrays_go_to_numpy_and_back(x: Array) -> None:
    data = np.asarray(x)
    again = enp.asarray(data)
    assert again.type is x.type.strong()
    assert np.asarray(again).tobytes() == data.tobytes()
    with_printed = enp.asarray(np.asarray(x).tolist(), x.dtype) if 0 not in x.type.shape else x
    np.testing.assert_array_equal(comparable_data(with_printed), comparable_data(x))
