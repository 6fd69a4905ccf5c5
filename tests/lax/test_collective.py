"""Collectives under vmap agree with NumPy, pmap does the same, and transposes are adjoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx import lax
from effx.dtypes import bfloat16

N = 4
GROUPS = [[0, 2], [3, 1]]
Data = np.ndarray[Any, Any]
Replica = Callable[[Any], Any]


def by_group(reduce: Callable[[Data], Data]) -> Callable[[Data], Data]:
    """Applies a reference to each group's replicas."""

    def whole(x: Data) -> Data:
        parts = {i: part for g in GROUPS for i, part in zip(g, reduce(x[np.array(g)]), strict=True)}
        return np.stack([parts[i] for i in range(N)])

    return whole


def tiled_exchange(x: Data, split: int, concat: int) -> Data:
    """all_to_all as it is defined."""
    n = len(x)
    return np.stack([np.concatenate([np.split(y, n, split)[i] for y in x], concat) for i in range(n)])


def everywhere(y: Data) -> Data:
    return np.stack([y] * N)


# (name, what a replica does, what all replicas do on [replica, 4, 8], whether it is linear)
CASES: list[tuple[str, Replica, Callable[[Data], Data], bool]] = [
    ("psum", lambda x: lax.psum(x, "i"), lambda x: everywhere(x.sum(0)), True),
    ("pmean", lambda x: lax.pmean(x, "i"), lambda x: everywhere(x.mean(0)), True),
    ("pmax", lambda x: lax.pmax(x, "i"), lambda x: everywhere(x.max(0)), False),
    ("pmin", lambda x: lax.pmin(x, "i"), lambda x: everywhere(x.min(0)), False),
    ("pbroadcast", lambda x: lax.pbroadcast(x, "i", 1), lambda x: everywhere(x[1]), True),
    ("all_gather", lambda x: lax.all_gather(x, "i"), everywhere, True),
    (
        "all_gather axis",
        lambda x: lax.all_gather(x, "i", axis=-1),
        lambda x: everywhere(np.moveaxis(x, 0, -1)),
        True,
    ),
    (
        "all_gather tiled",
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
        lambda x: everywhere(np.concatenate(list(x), 1)),
        True,
    ),
    ("psum_scatter", lambda x: lax.psum_scatter(x, "i"), lambda x: x.sum(0), True),
    (
        "psum_scatter tiled",
        lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        lambda x: np.stack(np.split(x.sum(0), N, 1)),
        True,
    ),
    ("all_to_all", lambda x: lax.all_to_all(x, "i", 0, 1), lambda x: x.transpose(1, 2, 0), True),
    (
        "all_to_all tiled",
        lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
        lambda x: tiled_exchange(x, 1, 0),
        True,
    ),
    (
        "all_to_all one axis",
        lambda x: lax.all_to_all(x, "i", 1, 1, tiled=True),
        lambda x: tiled_exchange(x, 1, 1),
        True,
    ),
    ("pswapaxes", lambda x: lax.pswapaxes(x, "i", 0), lambda x: x.swapaxes(0, 1), True),
    (
        "ppermute",
        lambda x: lax.ppermute(x, "i", [(0, 2), (3, 1)]),
        lambda x: np.stack([0 * x[0], x[3], x[0], 0 * x[0]]),
        True,
    ),
    ("ppermute none", lambda x: lax.ppermute(x, "i", []), lambda x: 0 * x, True),
    ("pshuffle", lambda x: lax.pshuffle(x, "i", [2, 0, 3, 1]), lambda x: x[[2, 0, 3, 1]], True),
    (
        "axis_index",
        lambda x: x + lax.axis_index("i").astype(x.dtype),
        lambda x: x + np.arange(N).reshape(N, 1, 1).astype(x.dtype),
        False,
    ),
    (
        "psum groups",
        lambda x: lax.psum(x, "i", axis_index_groups=GROUPS),
        by_group(lambda x: np.stack([x.sum(0)] * 2)),
        True,
    ),
    (
        "pmax groups",
        lambda x: lax.pmax(x, "i", axis_index_groups=GROUPS),
        by_group(lambda x: np.stack([x.max(0)] * 2)),
        False,
    ),
    (
        "all_gather groups",
        lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS, axis=1),
        by_group(lambda x: np.stack([np.stack(list(x), 1)] * 2)),
        True,
    ),
    (
        "psum_scatter groups",
        lambda x: lax.psum_scatter(x, "i", axis_index_groups=GROUPS, tiled=True),
        by_group(lambda x: np.stack(np.split(x.sum(0), 2, 0))),
        True,
    ),
    (
        "all_to_all groups",
        lambda x: lax.all_to_all(x, "i", 0, 1, axis_index_groups=GROUPS, tiled=True),
        by_group(lambda x: tiled_exchange(x, 0, 1)),
        True,
    ),
]
IDS = [case[0] for case in CASES]

RNG = np.random.default_rng(0)
WHOLE = RNG.integers(-5, 6, (N, N, 8)).astype(np.float32)


@pytest.mark.parametrize(("name", "replica", "reference", "linear"), CASES, ids=IDS)
def test_vmap_does_what_numpy_says(
    name: str, replica: Replica, reference: Callable[[Data], Data], linear: bool
) -> None:
    """Each replica gets what the definition gives it."""
    y = effx.vmap(replica, axis_name="i")(WHOLE)
    np.testing.assert_allclose(np.asarray(y), reference(WHOLE), rtol=1e-6)


@pytest.mark.parametrize(("name", "replica", "reference", "linear"), CASES, ids=IDS)
def test_pmap_does_what_vmap_does(
    name: str, replica: Replica, reference: Callable[[Data], Data], linear: bool
) -> None:
    """Replicas on devices of their own get the same, with a batch axis inside as well."""
    y = effx.pmap(replica, axis_name="i")(WHOLE)
    assert len(y.devices()) == N
    np.testing.assert_allclose(np.asarray(y), reference(WHOLE), rtol=1e-6)
    batch = np.stack([WHOLE, WHOLE[::-1], 2 * WHOLE])
    both = effx.vmap(effx.pmap(replica, axis_name="i"), in_axes=1, out_axes=2)(np.moveaxis(batch, 0, 1))
    np.testing.assert_allclose(np.moveaxis(np.asarray(both), 2, 0), [reference(b) for b in batch], rtol=1e-6)


@pytest.mark.parametrize("transform", [effx.vmap, effx.pmap], ids=["vmap", "pmap"])
@pytest.mark.parametrize(
    ("name", "replica", "reference", "linear"), [c for c in CASES if c[3]], ids=[c[0] for c in CASES if c[3]]
)
def test_transposes_are_adjoint(
    name: str, replica: Replica, reference: Callable[[Data], Data], linear: bool, transform: Any
) -> None:
    """<C x, y> = <x, C^T y>, where the products are summed over the replicas; on either side of the map."""
    y = RNG.integers(-5, 6, reference(WHOLE).shape).astype(np.float32)
    want = np.vdot(reference(WHOLE), y)

    def back(x: Any, ct: Any) -> Any:
        return effx.vjp(replica, x)[1](ct)[0]

    inside = transform(back, axis_name="i")(WHOLE, y)
    np.testing.assert_allclose(np.vdot(WHOLE, np.asarray(inside)), want, rtol=1e-5)
    (outside,) = effx.vjp(transform(replica, axis_name="i"), WHOLE)[1](y)
    np.testing.assert_allclose(np.asarray(outside), np.asarray(inside), rtol=1e-5)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.float16, bfloat16, np.float32, np.complex64, np.bool_], ids=str
)
def test_dtypes(dtype: Any) -> None:
    """Collectives keep dtypes, and pmap computes what vmap does in each of them."""
    x = np.abs(WHOLE).astype(dtype)

    def replica(a: Any) -> Any:
        moved = (lax.ppermute(a, "i", [(0, 1)]), lax.all_gather(a, "i"), lax.all_to_all(a, "i", 0, 0))
        added = (lax.psum(a, "i"), lax.psum_scatter(a, "i"))
        if np.dtype(dtype).kind == "c":
            return moved, added
        return moved, added, (lax.pmax(a, "i"), lax.pmin(a, "i"))

    got = effx.pmap(replica, axis_name="i")(x)
    want = effx.vmap(replica, axis_name="i")(x)
    for g, w in zip(effx.tree.leaves(got), effx.tree.leaves(want), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(np.asarray(g, np.complex64), np.asarray(w, np.complex64), rtol=1e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16], ids=str)
def test_extremes_keep_nan(dtype: Any) -> None:
    """One replica's NaN is everyone's, and infinities and zeros of either sign are compared as numbers."""
    x = np.array([[1, np.nan, np.inf, -0.0], [2, 0, -np.inf, -1], [np.nan, 1, 5, -2], [0, 2, 3, -3]]).astype(
        dtype
    )
    for collective in (lax.pmax, lax.pmin):
        got = effx.pmap(lambda a, c=collective: c(a, "i"), axis_name="i")(x)
        want = effx.vmap(lambda a, c=collective: c(a, "i"), axis_name="i")(x)
        np.testing.assert_array_equal(np.asarray(got, np.float32), np.asarray(want, np.float32))


SEVERAL: list[tuple[str, Replica]] = [
    ("psum", lambda x: lax.psum(x, ("r", "c"))),
    ("pmean", lambda x: lax.pmean(x, ("c", "r"))),
    ("pmax", lambda x: lax.pmax(x, ("r", "c"))),
    ("pbroadcast", lambda x: lax.pbroadcast(x, ("c", "r"), 5)),
    ("axis_index", lambda x: x + lax.axis_index(("r", "c"))),
    ("axis_size", lambda x: x * lax.axis_size(("r", "c"))),
    ("all_gather", lambda x: lax.all_gather(x, ("r", "c"))),
    ("all_gather tiled", lambda x: lax.all_gather(x, ("c", "r"), axis=1, tiled=True)),
    ("psum_scatter", lambda x: lax.psum_scatter(x, ("r", "c"))),
    ("psum_scatter tiled", lambda x: lax.psum_scatter(x, ("c", "r"), scatter_dimension=0, tiled=True)),
    ("all_to_all", lambda x: lax.all_to_all(x, ("r", "c"), 0, 1)),
    ("all_to_all tiled", lambda x: lax.all_to_all(x, ("r", "c"), 0, 1, tiled=True)),
    ("ppermute", lambda x: lax.ppermute(x, ("r", "c"), [(0, 5), (3, 2), (7, 0)])),
    ("pshuffle", lambda x: lax.pshuffle(x, ("r", "c"), [7, 6, 5, 4, 3, 2, 1, 0])),
]


@pytest.mark.parametrize(("name", "replica"), SEVERAL, ids=[c[0] for c in SEVERAL])
def test_several_names_are_one_axis(name: str, replica: Replica) -> None:
    """Two nested axes, the last name fastest, do what one axis of as many replicas does."""
    x = RNG.integers(-5, 6, (8, 8, 3)).astype(np.float32)
    grid = x.reshape(4, 2, 8, 3)
    nested = effx.vmap(effx.vmap(replica, axis_name="c"), axis_name="r")(grid)
    parallel = effx.pmap(effx.pmap(replica, axis_name="c"), axis_name="r")(grid)
    mixed = effx.pmap(effx.vmap(replica, axis_name="c"), axis_name="r")(grid)
    np.testing.assert_allclose(np.asarray(parallel), np.asarray(nested), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(mixed), np.asarray(nested), rtol=1e-6)


def test_order_of_names() -> None:
    """The last name runs fastest."""
    replica = lambda x: lax.axis_index(("r", "c"))  # noqa: E731
    got = effx.vmap(effx.vmap(replica, axis_name="c"), axis_name="r")(np.zeros((3, 2)))
    np.testing.assert_array_equal(np.asarray(got), np.arange(6).reshape(3, 2))


@pytest.mark.parametrize("transform", [effx.vmap, effx.pmap], ids=["vmap", "pmap"])
def test_numbers_are_the_same_for_all(transform: Any) -> None:
    """A bare number gives a number at once, so that the axis size is known to Python."""

    def replica(x: Any) -> Any:
        assert lax.psum(1, "i") == N
        assert type(lax.psum(1, "i")) is int
        assert lax.psum(1, "i", axis_index_groups=GROUPS) == 2
        assert lax.axis_size("i") == N
        return lax.psum((x, {"b": x > 2}, 2.0), "i")

    total, counted, number = transform(replica, axis_name="i", out_axes=(0, 0, None))(np.arange(4))
    np.testing.assert_array_equal(np.asarray(total), [6] * N)
    np.testing.assert_array_equal(np.asarray(counted["b"]), [1] * N)
    assert float(number) == 8.0


@pytest.mark.parametrize("transform", [effx.vmap, effx.pmap])
@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_sums_over_groups_of_several_sizes(transform: Any, dtype: str) -> None:
    """Each index gets its own group's sum, and cotangents go back to the group; a number counts its members."""
    groups = [[0, 2, 3], [1]]
    x = np.array([[1, 0], [2, 3], [4, 5], [0, 7]]).astype(dtype)
    total, count = transform(lambda x: lax.psum((x, 1), "i", axis_index_groups=groups), axis_name="i")(x)
    sums = x[[0, 2, 3]].sum(0)
    np.testing.assert_array_equal(total, [sums, x[1], sums, sums])
    np.testing.assert_array_equal(count, [3, 1, 3, 3])
    if dtype != "float32":
        return
    weights = np.array([1.0, 10.0, 100.0, 1000.0], dtype)

    def loss(x: Any) -> Any:
        y = transform(lambda x: lax.psum(x, "i", axis_index_groups=groups), axis_name="i")(x)
        return (weights[:, None] * y).sum()

    np.testing.assert_array_equal(
        effx.grad(loss)(x), np.array([[1101.0], [10.0], [1101.0], [1101.0]]) * np.ones(2)
    )


ERRORS: list[tuple[Replica, type[Exception], str]] = [
    (
        lambda x: lax.psum(x, "j"),
        effx.errors.AxisNameError,
        "psum: axis name 'j' is not bound by vmap, pmap or shard_map; names in scope: 'i'",
    ),
    (lambda x: lax.psum(x, ()), effx.errors.TransformError, "psum: needs at least one axis name"),
    (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]),
        effx.errors.ShapeError,
        "psum: axis_index_groups must name each of the 4 indices of 'i' once, got [[0, 1], [2]]",
    ),
    (
        lambda x: lax.pmax(x, "i", axis_index_groups=[[0, 1, 3], [2]]),
        effx.errors.ShapeError,
        "pmax: axis_index_groups must be of one size, got groups of [3, 1]",
    ),
    (
        lambda x: lax.ppermute(x, "i", zip([0], [1], strict=True)),  # type: ignore[arg-type]  # wrong on purpose
        effx.errors.DTypeError,
        "ppermute: perm must be a list or a tuple of pairs, got zip, which can be read once",
    ),
    (
        lambda x: lax.ppermute(x, "i", [(0, 4)]),
        effx.errors.ShapeError,
        "ppermute: destination 4 is out of range for an axis of size 4",
    ),
    (
        lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]),
        effx.errors.ShapeError,
        "ppermute: perm repeats a source: [(0, 1), (0, 2)]",
    ),
    (
        lambda x: lax.pshuffle(x, "i", [0, 1, 1, 2]),
        effx.errors.ShapeError,
        "pshuffle: perm must be a permutation of the 4 indices, got [0, 1, 1, 2]",
    ),
    (
        lambda x: lax.pbroadcast(x, "i", 4),
        effx.errors.ShapeError,
        "pbroadcast: source must be from 0 to 3, got 4",
    ),
    (
        lambda x: lax.all_to_all(x, "i", 1, 0),
        effx.errors.ShapeError,
        (
            "all_to_all: split_axis 1 of f32[4,8] must have the size of the named axis, 4; "
            "use tiled=True to cut it into parts"
        ),
    ),
    (
        lambda x: lax.psum_scatter(x[:3], "i", tiled=True),
        effx.errors.ShapeError,
        "psum_scatter: scatter_dimension 0 of f32[3,8] must be divisible by 4, the axis size",
    ),
    (
        lambda x: lax.all_gather(x, "i", axis=4),
        effx.errors.ShapeError,
        "all_gather: axis 4 is out of range for the 3 axes of f32[4,8,1]",
    ),
]


@pytest.mark.parametrize(("replica", "kind", "text"), ERRORS, ids=[e[2][:30] for e in ERRORS])
@pytest.mark.parametrize("transform", [effx.vmap, effx.pmap], ids=["vmap", "pmap"])
def test_errors(replica: Replica, kind: type[Exception], text: str, transform: Any) -> None:
    """Errors have the same text under either map."""
    with pytest.raises(kind) as caught:
        transform(replica, axis_name="i")(WHOLE)
    assert str(caught.value).splitlines()[0] == text
