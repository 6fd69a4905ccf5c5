"""How the results of families' operations are cut along Explicit axes, and that cuts change no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import ShardingError
from effx.families.ragged import GroupedMatmul, GroupedOuter
from effx.families.topk import TopIndices
from effx.sharding import AxisType, NamedSharding
from effx.sharding import PartitionSpec as P
from effx.transforms.placement.out_sharding import apply_with_sharding
from effx.tree_util import tree_leaves

MESH = effx.make_mesh((4, 2), ("X", "Y"), AxisType.Explicit)
RNG = np.random.default_rng(0)

A = RNG.standard_normal((8, 4, 6)).astype(np.float32)
SQUARE = RNG.standard_normal((4, 2, 3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
POSITIVE = (SQUARE @ SQUARE.swapaxes(-1, -2)).astype(np.float32)
SIDES = RNG.standard_normal((4, 2, 3, 2)).astype(np.float32)
IMAGES = RNG.standard_normal((4, 2, 6)).astype(np.float32)
KERNEL = RNG.standard_normal((8, 2, 3)).astype(np.float32)
COMPLEX = (A[..., :4] + 1j).astype(np.complex64)
BOUNDS = np.array([[0, 3, 6]] * 8, np.int32)
MATRICES = A[:2, 0].reshape(1, 2, 6, 1)
PIVOTS = np.array([[1, 2, 3]] * 8, np.int32)
BY_BATCH = P("X", "Y")


@attrs.frozen
class Case:
    """A call, the operands with how they lie, and the results' types."""

    call: Callable[..., Any]
    operands: tuple[tuple[Any, P], ...]
    types: tuple[str, ...]


def of(call: Callable[..., Any], operands: Any, *types: str) -> Case:
    return Case(call, tuple(operands), types)


def twice(x: Array) -> Array:
    return x * 2


CASES: dict[str, Case] = {
    "sort": of(lambda x: lax.sort(x, dimension=2), [(A, BY_BATCH)], "f32[8@X,4@Y,6]"),
    "sort of two": of(
        lambda x, y: lax.sort((x, y), dimension=0), [(A, P(None, "X")), (A, P(None, None, "Y"))],
        "f32[8,4@X,6@Y]", "f32[8,4@X,6@Y]",
    ),
    "argsort": of(lambda x: enp.argsort(x, 1), [(A, P("X", None, "Y"))], "i32[8@X,4,6@Y]"),
    "top_indices": of(TopIndices(2), [(A[:, 0], P("X"))], "i32[8@X,2]"),
    "fft": of(enp.fft.fft, [(COMPLEX, BY_BATCH)], "c64[8@X,4@Y,4]"),
    "rfft2": of(lambda x: lax.fft(x, "rfft", (4, 6)), [(A, P(("X", "Y")))], "c64[8@(X,Y),4,4]"),
    "irfft": of(lambda x: lax.fft(x, "irfft", (6,)), [(COMPLEX, BY_BATCH)], "f32[8@X,4@Y,6]"),
    "convolution": of(
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"), [(IMAGES, P("Y")), (KERNEL, P("X"))],
        "f32[4@Y,8@X,6]",
    ),
    "convolution, other order": of(
        lambda x, k: lax.conv_general_dilated(
            x, k, (2,), "VALID", dimension_numbers=("NHC", "HIO", "HNC")
        ),
        [(IMAGES, P("X")), (RNG.standard_normal((1, 6, 2)).astype("f"), P(None, None, "Y"))],
        "f32[1,4@X,2@Y]",
    ),
    "convolution in groups": of(
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", feature_group_count=2),
        [(IMAGES, P("X")), (KERNEL[:, :1], P())],
        "f32[4@X,8,6]",
    ),
    "reduce_window": of(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 3), (1, 2, 1), "VALID"), [(A, P("X"))],
        "f32[8@X,2,4]",
    ),
    "max pooling": of(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2), (1, 1, 2), "SAME"), [(A, P("Y", "X"))],
        "f32[8@Y,4@X,3]",
    ),
    "grouped_matmul": of(
        GroupedMatmul(),
        [(A.repeat(2, 1), P("X")), (MATRICES.repeat(2, 3), P(None, None, None, "Y")), (BOUNDS, P("X"))],
        "f32[8@X,8,2@Y]",
    ),
    "grouped_outer": of(
        GroupedOuter(), [(A, P("X", None, "Y")), (A, P()), (BOUNDS // 2, P("X"))], "f32[8@X,2,6@Y,6]"
    ),
    "rng_bit_generator": of(
        lambda k: lax.rng_bit_generator(k, (4,), algorithm=lax.RandomAlgorithm.RNG_PHILOX),
        [(np.arange(4, dtype=np.uint32), P("X"))],
        "u32[4]", "u32[4]",
    ),
    "cholesky": of(enp.linalg.cholesky, [(POSITIVE, BY_BATCH)], "f32[4@X,2@Y,3,3]"),
    "eigh": of(lambda x: lax.linalg.eigh(x, symmetrize_input=False), [(POSITIVE, BY_BATCH)],
               "f32[4@X,2@Y,3,3]", "f32[4@X,2@Y,3]"),
    "svd": of(lambda x: lax.linalg.svd(x, compute_uv=False), [(SIDES, BY_BATCH)], "f32[4@X,2@Y,2]"),
    "lu": of(lax.linalg.lu, [(SQUARE, BY_BATCH)], "f32[4@X,2@Y,3,3]", "i32[4@X,2@Y,3]", "i32[4@X,2@Y,3]"),
    "lu_pivots_to_permutation": of(
        lambda pivots: lax.linalg.lu_pivots_to_permutation(pivots, 5), [(PIVOTS, P(("X", "Y")))],
        "i32[8@(X,Y),5]",
    ),
    "qr": of(lambda x: lax.linalg.qr(x, full_matrices=False), [(SIDES, BY_BATCH)],
             "f32[4@X,2@Y,3,2]", "f32[4@X,2@Y,2,2]"),
    "triangular_solve": of(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        [(SQUARE, P("X")), (SIDES, P(None, "Y"))],
        "f32[4@X,2@Y,3,2]",
    ),
    "tridiagonal_solve": of(
        lax.linalg.tridiagonal_solve,
        [(SQUARE[..., 0] * 0.1, P("X")), (SQUARE[..., 1, :] * 0 + 2, P("X")), (SQUARE[..., 2] * 0.1, P()),
         (SIDES, P(None, "Y"))],
        "f32[4@X,2@Y,3,2]",
    ),
    "solve": of(enp.linalg.solve, [(SQUARE, BY_BATCH), (SIDES, BY_BATCH)], "f32[4@X,2@Y,3,2]"),
    "linear_solve": of(
        lambda b: lax.custom_linear_solve(lambda x: 2 * x, b, lambda _, b: b / 2, symmetric=True),
        [(A, BY_BATCH)], "f32[8@X,4@Y,6]",
    ),
    "root": of(
        lambda x: lax.custom_root(lambda x: 2 * x - 1, x, lambda _, x: x * 0 + 0.5, lambda _, y: y / 2),
        [(A, BY_BATCH)], "f32[8@X,4@Y,6]",
    ),
    "composite": of(lambda x: lax.composite(twice, "effx.twice")(x), [(A, BY_BATCH)], "f32[8@X,4@Y,6]"),
    "det": of(enp.linalg.det, [(SQUARE, BY_BATCH)], "f32[4@X,2@Y]"),
}  # fmt: skip


def put(x: Any, spec: P) -> Array:
    found: Array = effx.device_put(x, NamedSharding(MESH, spec))
    return found


@pytest.mark.parametrize("name", CASES)
def test_results_are_cut_where_operands_are(name: str) -> None:
    case = CASES[name]
    expected = tree_leaves(case.call(*[enp.asarray(x) for x, _ in case.operands]))
    operands = [put(x, spec) for x, spec in case.operands]
    found = tree_leaves(case.call(*operands))
    assert [repr(x.type) for x in found] == list(case.types)
    inside = tree_leaves(effx.jit(case.call)(*operands))
    assert [repr(x.type) for x in inside] == list(case.types)
    for x, y, z in zip(found, inside, expected, strict=True):
        assert x.sharding.is_equivalent_to(y.sharding, x.ndim)
        np.testing.assert_allclose(x, z, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)


DIFFERENTIATED = (
    "sort",
    "rfft2",
    "convolution",
    "reduce_window",
    "max pooling",
    "grouped_matmul",
    "cholesky",
    "qr",
    "triangular_solve",
)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_are_cut_as_what_they_are_of(name: str) -> None:
    case = CASES[name]

    def loss(*xs: Array) -> Array:
        return (
            enp.abs(enp.ravel(tree_leaves(case.call(*xs))[0], out_sharding=NamedSharding(MESH, P()))) ** 3
        ).sum()

    operands = [put(x, spec) for x, spec in case.operands]
    floats = tuple([i for i, x in enumerate(operands) if x.type.kind == "f"])
    found = effx.grad(loss, argnums=floats)(*operands)
    expected = effx.grad(loss, argnums=floats)(*[enp.asarray(x) for x, _ in case.operands])
    assert [x.type for x in found] == [operands[i].type for i in floats]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


REFUSED: dict[str, tuple[Case, str]] = {
    "sort": (
        of(lambda x: lax.sort(x, dimension=1), [(A, BY_BATCH)]),
        "sort of f32[8@X,4@Y,6]: axis 1 is sharded over 'Y', along which it sorts",
    ),
    "sort of two": (
        of(lambda x, y: lax.sort((x, y), dimension=2), [(A, P("X")), (A, P("Y"))]),
        "sort of f32[8@X,4,6], f32[8@Y,4,6]: axis 0 is sharded over 'X' and over 'Y'",
    ),
    "top_indices": (
        of(TopIndices(2), [(A[0], P("X", "Y"))]),
        "top_indices of f32[4@X,6@Y]: axis 1 is sharded over 'Y', of which it finds the largest",
    ),
    "fft": (
        of(enp.fft.fft, [(COMPLEX, P(None, None, "Y"))]),
        "fft of c64[8,4,4@Y]: axis 2 is sharded over 'Y', along which it transforms",
    ),
    "convolution": (
        of(lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"), [(IMAGES, P(None, "Y")), (KERNEL, P())]),
        "convolution of f32[4,2@Y,6], f32[8,2,3]: axis 1 is sharded over 'Y', over which it sums or moves",
    ),
    "convolution in groups": (
        of(
            lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", feature_group_count=2),
            [(IMAGES, P()), (KERNEL[:, :1], P("X"))],
        ),
        "convolution of f32[4,2,6], f32[8@X,1,3]: axis 0 is sharded over 'X', which comes in groups",
    ),
    "convolution by one axis twice": (
        of(lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"), [(IMAGES, P("X")), (KERNEL, P("X"))]),
        "convolution of f32[4@X,2,6], f32[8@X,2,3]: 'X' would shard two axes of the result",
    ),
    "reduce_window": (
        of(lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 1, 1), (1, 1, 1), "VALID"), [(A, P("X"))]),
        "reduce_window_sum of f32[8@X,4,6]: axis 0 is sharded over 'X', along which a window moves",
    ),
    "grouped_matmul": (
        of(GroupedMatmul(), [(A, P(None, None, "Y")), (MATRICES, P()), (BOUNDS // 2, P())]),
        ("grouped_matmul of f32[8,4,6@Y], f32[1,2,6,1], i32[8,3]: axis 2 is sharded over 'Y', "
         "in which groups lie, or over which it sums"),
    ),
    "cholesky": (
        of(
            lambda x: lax.linalg.cholesky(x, symmetrize_input=False),
            [(POSITIVE[:, :, :2, :2], P(None, None, "Y"))],
        ),
        "cholesky of f32[4,2,2@Y,2]: axis 2 is sharded over 'Y', and matrices must be whole",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_types_cannot_say_is_refused(name: str) -> None:
    case, words = REFUSED[name]
    with pytest.raises(ShardingError) as caught:
        case.call(*[put(x, spec) for x, spec in case.operands])
    assert caught.value.message == (
        f"{words}; change an operand's sharding with effx.reshard, or give the result's with out_sharding= or "
        f"effx.sharding.auto_axes"
    )


@pytest.mark.parametrize("name", REFUSED)
def test_an_out_sharding_is_not_refused(name: str) -> None:
    case, _ = REFUSED[name]
    whole = NamedSharding(MESH, P())
    found = apply_with_sharding(whole, case.call, *[put(x, spec) for x, spec in case.operands])
    expected = case.call(*[enp.asarray(x) for x, _ in case.operands])
    for x, y in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert x.sharding.is_fully_replicated
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
