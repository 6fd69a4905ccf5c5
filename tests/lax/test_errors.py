"""lax is strict: what it refuses, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import effx
from effx import lax
from effx.errors import AxisNameError, DTypeError, EffxError, IndexingError, ShapeError, TreeError

F = np.ones((2, 3), np.float32)
G = np.ones((3, 2), np.float32)
J = np.ones((2, 3), np.int32)
GN = lax.GatherDimensionNumbers((), (0,), (0,))
SN = lax.ScatterDimensionNumbers((), (0,), (0,))

ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: lax.add(F, J),
        DTypeError,
        "add: operand dtypes differ: operand 0 is f32[2,3], operand 1 is i32[2,3]",
    ),
    (
        lambda: lax.add(J, 1.5),
        DTypeError,
        "add: operand dtypes differ: operand 0 is i32[2,3], operand 1 is f32[]~",
    ),
    (
        lambda: lax.mul(F, G),
        ShapeError,
        "mul: operand shapes differ: f32[2,3], f32[3,2]; only rank-0 operands broadcast",
    ),
    (
        lambda: lax.sub(F, np.ones(3, np.float32)),
        ShapeError,
        "sub: operand shapes differ: f32[2,3], f32[3]; only rank-0 operands broadcast",
    ),
    (lambda: lax.sin(J), DTypeError, "sin: operand must be floating or complex, got i32[2,3]"),
    (
        lambda: lax.neg(np.True_),
        DTypeError,
        "neg: operand must be integer, floating or complex, got bool[]",
    ),
    (lambda: lax.real(F), DTypeError, "real: operand must be complex, got f32[2,3]"),
    (
        lambda: lax.lt(1j, 2j),
        DTypeError,
        "lt: operand must be boolean, integer or floating, got c64[]~",
    ),
    (
        lambda: lax.add(F, [1.0]),  # type: ignore[arg-type]
        DTypeError,
        "add: expected an array or a number, got a list; lists are converted only by array and asarray",
    ),
    (lambda: lax.select(F, F, F), DTypeError, "select: the predicate must be bool, got f32[2,3]"),
    (lambda: lax.select(F > 0, F, J), DTypeError, "select: dtypes of the cases differ: i32[2,3], f32[2,3]"),
    (
        lambda: lax.select_n(F > 0, F, F, F),
        ShapeError,
        "select: a bool predicate chooses between 2 cases, got 3",
    ),
    (
        lambda: lax.select_n(np.True_),
        ShapeError,
        "select: takes a predicate and at least one case, got bool[]",
    ),
    (
        lambda: lax.round(F, "even"),  # type: ignore[arg-type]
        DTypeError,
        "round: rounding_method must be a RoundingMethod, got 'even'",
    ),
    (
        lambda: lax.integer_pow(J, -1),
        DTypeError,
        "integer_pow: integers have no negative powers: i32[2,3] to the power -1",
    ),
    (lambda: lax.pow(J, J), DTypeError, "pow: operand must be floating or complex, got i32[2,3]"),
    (
        lambda: lax.clamp(np.ones(3, np.float32), 1.0, 2.0),
        ShapeError,
        "clamp: bounds must have x's shape or rank 0: low, x, high are f32[3], f32[]~, f32[]~",
    ),
    (
        lambda: effx.eval_shape(lambda x: lax.top_k(x, 2), effx.ShapeDtypeStruct((2**31 + 1,), np.int8)),
        ShapeError,
        "top_k: axis 0 of i8[2147483649] is longer than the 2**31 elements that i32 indices reach",
    ),
    (lambda: lax.full((2,), F), ShapeError, "full: the fill value must be a scalar, got f32[2,3]"),
    (
        lambda: lax.broadcasted_iota(int, (2, 3), -1),
        ShapeError,
        "iota: axis -1 is out of range for i32[2,3], which has 2 axes",
    ),
    (
        lambda: lax.transpose(F, (-1, 0)),
        ShapeError,
        "transpose: perm (-1, 0) is no permutation of the 2 axes of f32[2,3]",
    ),
    (
        lambda: lax.reshape(F, (4,)),
        ShapeError,
        "reshape: sizes differ: f32[2,3] has 6 elements, shape [4] has 4",
    ),
    (lambda: lax.rev(F, (2,)), ShapeError, "reverse: axes 2 is out of range for f32[2,3], which has 2 axes"),
    (
        lambda: lax.concatenate([F, G], 0),
        ShapeError,
        "concatenate: sizes differ off axis 0: operand 0 is f32[2,3], operand 1 is f32[3,2]",
    ),
    (lambda: lax.concatenate([], 0), ShapeError, "concatenate: takes at least one operand, got none"),
    (
        lambda: lax.concatenate([F], 2),
        ShapeError,
        "concatenate: axis 2 is out of range for f32[2,3], which has 2 axes",
    ),
    (
        lambda: lax.pad(F, np.int32(0), [(0, 0, 0)] * 2),
        DTypeError,
        "pad: dtypes differ: x is f32[2,3], the padding value is i32[]",
    ),
    (
        lambda: lax.pad(F, 0.0, [(0, 0, 0)]),
        ShapeError,
        "pad: padding_config must have one triple for each axis of f32[2,3], got 1",
    ),
    (
        lambda: lax.pad(F, 0.0, [(0, 0), (0, 0)]),  # type: ignore[list-item]
        ShapeError,
        "pad: padding_config must hold triples (low, high, interior), got [(0, 0), (0, 0)]",
    ),
    (lambda: lax.squeeze(F, (0,)), ShapeError, "squeeze: axis 0 of f32[2,3] has size 2, not 1"),
    (lambda: lax.collapse(F, 1, 1), ShapeError, "collapse: f32[2,3] has no axes from 1 up to 1"),
    (lambda: lax.split(F, (1, 1), 1), ShapeError, "split: sizes [1, 1] do not add up to axis 1 of f32[2,3]"),
    (lambda: lax.transpose(F, 1), ShapeError, "transpose: permutation must be a sequence of ints, got 1"),  # type: ignore[arg-type]
    (
        lambda: lax.slice(F, (0, 0), (3, 3)),
        ShapeError,
        "slice: axis 0 of f32[2,3] has no slice from 0 to 3 in steps of 1",
    ),
    (
        lambda: lax.slice_in_dim(F, 0, 1, axis=2),
        ShapeError,
        "slice_in_dim: axis 2 is out of range for the 2 axes of f32[2,3]",
    ),
    (
        lambda: lax.index_in_dim(F, 2),
        ShapeError,
        "index_in_dim: index 2 is out of range for axis 0 of f32[2,3]",
    ),
    (
        lambda: lax.dynamic_slice(F, (0,), (1, 1)),
        ShapeError,
        "dynamic_slice: needs one start for each axis of f32[2,3], got 1",
    ),
    (
        lambda: lax.dynamic_slice(F, (0.0, 0), (1, 1)),
        DTypeError,
        "dynamic_slice: start indices must be integer scalars, got f32[]~",
    ),
    (
        lambda: lax.dynamic_slice(F, effx.device_put(J), (1, 1)),
        ShapeError,
        "dynamic_slice: start indices must be a sequence of scalars or one vector, got i32[2,3]",
    ),
    (
        lambda: lax.dynamic_slice(F, (0, 0), (3, 1)),
        ShapeError,
        "dynamic_slice: a block of sizes [3, 1] does not fit into f32[2,3]",
    ),
    (
        lambda: lax.dynamic_update_slice(F, J, (0, 0)),
        DTypeError,
        "dynamic_update_slice: dtypes differ: x is f32[2,3], the block is i32[2,3]",
    ),
    (
        lambda: lax.gather(F[0], np.zeros((2, 1)), GN, (1,)),
        DTypeError,
        "gather: indices must be integer, got f32[2,1]",
    ),
    (
        lambda: lax.gather(F[0], np.zeros((2, 1), int), GN, (1,), mode="wrap"),
        IndexingError,
        "gather: mode must be one of clip, fill, promise_in_bounds, one_hot, drop, got 'wrap'",
    ),
    (
        lambda: lax.scatter_add(F[0], np.zeros((2, 1), int), J[0], SN),
        DTypeError,
        "scatter: dtypes differ: x is f32[3], updates are i32[3]",
    ),
    (
        lambda: lax.scatter(F[0], np.zeros((2, 1), int), F[0], SN),
        ShapeError,
        "scatter: updates f32[3] fit neither x f32[3] nor indices i32[2,1]",
    ),
    (
        lambda: lax.dot_general(F, F, (((1,), (0,)), ((), ()))),
        ShapeError,
        "dot_general: contracting sizes differ: lhs f32[2,3] axis 1 is 3, rhs f32[2,3] axis 0 is 2",
    ),
    (
        lambda: lax.gather(F, np.zeros((1, 1), np.int32), None, (1, 1)),  # type: ignore[arg-type]
        IndexingError,
        "gather: dimension_numbers must be GatherDimensionNumbers, got NoneType",
    ),
    (
        lambda: lax.scatter_add(F, np.zeros((1, 1), np.int32), F, None),  # type: ignore[arg-type]
        IndexingError,
        "scatter_add: dimension_numbers must be ScatterDimensionNumbers, got NoneType",
    ),
    (
        lambda: lax.dot_general(F, G, ((1,), (0,))),  # type: ignore[arg-type]
        ShapeError,
        (
            "dot_general: dimension_numbers must be ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)), "
            "got ((1,), (0,))"
        ),
    ),
    (
        lambda: lax.dot(np.ones((2, 2, 2)), F),
        ShapeError,
        "dot: operands must have one or two axes, got f32[2,2,2] and f32[2,3]; use dot_general",
    ),
    (
        lambda: lax.batch_matmul(F, F[0]),
        ShapeError,
        "batch_matmul: operands must have equal ranks of at least 2, got f32[2,3] and f32[3]",
    ),
    (
        lambda: lax.dot(F, G, precision="exact"),
        DTypeError,
        "dot: precision must be 'default', 'high' or 'highest', an algorithm or its name, got 'exact'",
    ),
    (
        lambda: lax.reduce_sum(F, (-1,)),
        ShapeError,
        "reduce_sum: axes -1 is out of range for f32[2,3], which has 2 axes",
    ),
    (
        lambda: lax.reduce_and(F, (0,)),
        DTypeError,
        "reduce_and: operand must be boolean or integer, got f32[2,3]",
    ),
    (
        lambda: lax.reduce(F, 0.0, lambda x, y: (x, y), (0,)),
        TreeError,
        "reduce: <lambda> must return the structure of operand, PyTreeDef(*), got PyTreeDef((*, *))",
    ),
    (
        lambda: lax.reduce(F, F, lax.add, (0,)),
        ShapeError,
        "reduce: an initial value must be a scalar, got f32[2,3]",
    ),
    (
        lambda: lax.argmax(F, -1, int),
        ShapeError,
        "argmax: axis -1 is out of range for f32[2,3], which has 2 axes",
    ),
    (
        lambda: lax.argmax(F, 0, float),
        DTypeError,
        "argmax: index_dtype must be an integer dtype, got float32",
    ),
    (lambda: lax.cumsum(F, 2), ShapeError, "cumsum: axis 2 is out of range for f32[2,3], which has 2 axes"),
    (
        lambda: lax.cumlogsumexp(F, 2),
        ShapeError,
        "cumlogsumexp: axis 2 is out of range for f32[2,3], which has 2 axes",
    ),
    (lambda: lax.cumlogsumexp(J), DTypeError, "cumlogsumexp: the operand must be floating, got i32[2,3]"),
    (lambda: lax.sort((F, G)), ShapeError, "sort: operand shapes differ: f32[2,3], f32[3,2]"),
    (lambda: lax.sort(()), ShapeError, "sort: takes at least one operand, got none"),
    (lambda: lax.sort(np.float32(1)), ShapeError, "sort: axis -1 is out of range for the 0 axes of f32[]"),
    (
        lambda: lax.top_k(F, 4),
        ShapeError,
        "top_k: k must be from 0 to 3, the size of axis 1 of f32[2,3], got 4",
    ),
    (
        lambda: lax.psum(F, "i"),
        AxisNameError,
        "psum: axis name 'i' is not bound by vmap, pmap or shard_map; no axis names are in scope",
    ),
    (
        lambda: effx.vmap(lambda x: lax.psum(1, "j"), axis_name="i")(F),
        AxisNameError,
        "psum: axis name 'j' is not bound by vmap, pmap or shard_map; names in scope: 'i'",
    ),
    (
        lambda: lax.axis_size("i"),
        AxisNameError,
        "axis_size: axis name 'i' is not bound by vmap, pmap or shard_map; no axis names are in scope",
    ),
    (
        lambda: lax.axis_index("i"),
        AxisNameError,
        "axis_index: axis name 'i' is not bound by vmap, pmap or shard_map; no axis names are in scope",
    ),
    (
        lambda: effx.vmap(lambda x: lax.all_gather(x, "i", axis=3), axis_name="i")(F),
        ShapeError,
        "all_gather: axis 3 is out of range for the 2 axes of f32[3,1]",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "message"), ERRORS, ids=[f"{i}-{m.split(':')[0]}" for i, (_, _, m) in enumerate(ERRORS)]
)
def test_errors(call: Callable[[], object], kind: type[EffxError], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.at is not None
    assert "test_errors.py" in caught.value.at


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(OverflowError, match="python int 300 is out of bounds for u8"):
        lax.add(np.ones(2, np.uint8), 300)


def test_errors_name_the_handlers() -> None:
    with pytest.raises(DTypeError) as caught:
        effx.jit(effx.vmap(lambda x: lax.add(x, J[0])))(F)
    assert caught.value.handlers.startswith("jit > vmap(")


def test_names_that_no_member_binds() -> None:
    with pytest.raises(
        AxisNameError, match=r"pmax: axis name 'j' is not bound by vmap, pmap or shard_map"
    ) as caught:
        effx.vmap(lambda x: lax.pmax(x, "j"), axis_name="i")(F)
    assert "axis_name='i'" in caught.value.handlers
