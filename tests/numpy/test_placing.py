"""Functions that write in place in NumPy, files, and NumPy's own objects."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShapeError

A = np.arange(6, dtype=np.float32).reshape(2, 3)
TALL = np.zeros((7, 3), np.float32)
CUBE = np.zeros((2, 2, 2), np.int32)
V = np.array([5.0, 1.0, 3.0], np.float32)
M = A % 2 == 0

WRITES = [
    ("fill_diagonal", (A, 7)),
    ("fill_diagonal", (A, V[:2])),
    ("fill_diagonal", (TALL, 4)),
    ("fill_diagonal", (TALL, 4, True)),
    ("fill_diagonal", (CUBE, np.array([1, 2]))),
    ("put", (A, np.array([0, -1, 2]), V)),
    ("put", (A, np.array([0, 9, -9]), V, "clip")),
    ("put", (A, np.array([0, 9, -7]), V, "wrap")),
    ("put", (A, np.array([[4, 1], [0, 2]]), V[:2])),
    ("put_along_axis", (A, np.array([[1], [0]]), 5.0, 1)),
    ("put_along_axis", (A, np.array([[1, 0, 1]]), V, 0)),
    ("put_along_axis", (A, np.array([4, 0]), V[:2], None)),
    ("put_along_axis", (A, np.array([[-1], [-2]]), V[:1], 1)),
    ("place", (A, M, V)),
    ("place", (A, M, V[:2])),
    ("place", (A, A > 9, V)),
]


@pytest.mark.parametrize(("name", "arguments"), WRITES)
def test_writes(name: str, arguments: tuple[Any, ...]) -> None:
    """With inplace=False they return what NumPy leaves in the array, inside jit too."""
    first, *rest = arguments
    want = first.copy()
    if name == "put" and rest[2:] == ["clip"]:
        rest_np = [np.clip(np.where(rest[0] < 0, rest[0] + want.size, rest[0]), 0, want.size - 1), rest[1]]
    else:
        rest_np = rest
    getattr(np, name)(want, *rest_np)
    f = getattr(enp, name)
    np.testing.assert_array_equal(np.asarray(f(first, *rest, inplace=False)), want)
    np.testing.assert_array_equal(np.asarray(effx.jit(lambda x: f(x, *rest, inplace=False))(first)), want)
    with pytest.raises(TypeError, match=f"{name}: arrays are immutable; pass inplace=False"):
        f(first, *rest)


def test_put_drops() -> None:
    """Mode "drop" writes nothing where there is nothing."""
    assert enp.put(V, np.array([1, 7]), 9.0, "drop", inplace=False).tolist() == [5.0, 9.0, 3.0]


def test_insert_at_traced_indices() -> None:
    """Traced indices are trusted; the result has the shape that their number gives."""
    f = effx.jit(lambda at: enp.insert(A, at, -1, axis=1))
    np.testing.assert_array_equal(np.asarray(f(np.array([0, 3]))), np.insert(A, [0, 3], -1, axis=1))


def test_top_k() -> None:
    """The largest with NaN first, the smallest with NaN last, the earlier of equals first."""
    x = np.array([[3.0, np.nan, 5.0, 3.0]], np.float32)
    values, indices = enp.top_k(x, 3)
    np.testing.assert_array_equal(np.asarray(values), [[np.nan, 5.0, 3.0]])
    assert indices.tolist() == [[1, 2, 0]]
    values, indices = enp.top_k(x, 3, mode="smallest")
    assert (values.tolist(), indices.tolist()) == ([[3.0, 3.0, 5.0]], [[0, 3, 2]])
    values, indices = enp.top_k(x.T, 1, axis=0, mode="smallest", sorted=False)
    assert (values.tolist(), indices.tolist()) == ([[3.0]], [[0]])
    with pytest.raises(
        effx.errors.DTypeError, match="top_k: mode must be 'largest' or 'smallest', got 'most'"
    ):
        enp.top_k(x, 1, mode="most")


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16", "float16"])
def test_files(dtype: str) -> None:
    """What is saved is loaded, in the same dtype, and NumPy reads it."""
    x = enp.asarray([0, 1, 2]).astype(dtype)
    file = io.BytesIO()
    enp.save(file, x)
    file.seek(0)
    found = enp.load(file)
    assert found.dtype == x.dtype
    assert found.tolist() == x.tolist()


def test_archives_and_text(tmp_path: Path) -> None:
    """Archives open as NumPy's; bare files, text and iterators give vectors."""
    enp.savez(tmp_path / "both.npz", a=enp.arange(3), b=enp.ones(2))
    with enp.load(tmp_path / "both.npz") as archive:
        assert archive["a"].tolist() == [0, 1, 2]
    np.arange(4, dtype=np.int16).tofile(tmp_path / "bare")
    assert enp.fromfile(tmp_path / "bare", np.int16, 2, offset=2).tolist() == [1, 2]
    assert enp.fromfile(tmp_path / "bare", np.int16).dtype == np.int16
    assert enp.fromiter((i * i for i in range(3)), np.int32).tolist() == [0, 1, 4]
    assert enp.fromstring("1;2", np.float32, sep=";").tolist() == [1.0, 2.0]
    assert enp.frombuffer(b"\x01\x00\x02\x00", np.int16, 1, 2).tolist() == [2]


def test_from_dlpack() -> None:
    """Arrays of other libraries are taken over, with a copy where one is asked for."""
    x = np.arange(3, dtype=np.float32)
    assert enp.from_dlpack(x).tolist() == enp.from_dlpack(x, copy=True).tolist() == [0.0, 1.0, 2.0]


def test_numpys_own() -> None:
    """Printing, slices and casting rules serve effx arrays as they are."""
    x = enp.array([1.25, 2.0])
    assert enp.array_str(x) == "[1.25 2.  ]"
    with enp.printoptions(precision=1):
        assert enp.array_str(x) == "[1.2 2. ]"
    assert x[enp.s_[1:]].tolist() == [2.0]
    assert enp.index_exp[1:] == (slice(1, None, None),)
    assert enp.iterable(x)
    assert enp.can_cast(ml_dtypes.bfloat16, np.float32)
    path, report = enp.einsum_path("ij,jk,kl->il", A, A.T, A)
    assert path == [(0, 1), (0, 1)]
    assert "Complete contraction" in report


def test_padding_by_a_function() -> None:
    """The function sees a vector with zeros at its ends, its widths, the axis and the options, one axis after the other."""

    def fill(row: effx.Array, width: tuple[int, int], axis: int, options: dict[str, float]) -> effx.Array:
        return row.at[: width[0]].set(options["low"]).at[row.shape[0] - width[1] :].set(axis)

    def filled(row: np.ndarray, width: tuple[int, int], axis: int, options: dict[str, float]) -> None:
        row[: width[0]], row[row.shape[0] - width[1] :] = options["low"], axis

    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    widths = ((1, 2), (2, 1))
    want = np.pad(x, widths, filled, low=5.0)
    for function in (enp.pad, effx.jit(enp.pad, static_argnums=(1, 2))):
        np.testing.assert_array_equal(function(x, widths, fill, low=5.0), want)


@pytest.mark.parametrize(
    ("sizes", "axis"), [((4, 5), 0), ((3, 5), 1), ((5,), 1), ((2, 4, 5), 0), ((3, 3, 5), 1), ((), 2)]
)
def test_trapezoid_with_many_distances(sizes: tuple[int, ...], axis: int) -> None:
    """The distances broadcast against the parts of the integral, and points stand along the axis."""
    rng = np.random.default_rng(0)
    y, dx = rng.normal(size=(3, 4, 5)).astype("f4"), rng.normal(size=sizes).astype("f4")
    trapezoid: Any = np.trapezoid
    np.testing.assert_allclose(
        enp.trapezoid(y, dx=dx, axis=axis), trapezoid(y, dx=dx, axis=axis), rtol=1e-5, atol=1e-6
    )
    for x in (np.sort(rng.normal(size=y.shape[axis])), np.sort(rng.normal(size=y.shape), axis)):
        x = x.astype("f4")
        np.testing.assert_allclose(
            enp.trapezoid(y, x, axis=axis), trapezoid(y, x, axis=axis), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("axis", [(1, 2), (2, 0), (0, 1, 2), (2, 1, 0), (2,), (-1, 0)])
def test_average_with_weights_of_axes(axis: tuple[int, ...]) -> None:
    """Weights may have the sizes of the axes, in the order in which these are named."""
    rng = np.random.default_rng(0)
    x: Any = rng.normal(size=(2, 3, 4)).astype("f4")
    w: Any = rng.random([x.shape[i] for i in axis]).astype("f4")
    for keepdims in (False, True):
        for mine, numpys in zip(
            enp.average(x, axis, w, returned=True, keepdims=keepdims),
            np.average(x, axis, w, returned=True, keepdims=keepdims),
            strict=True,
        ):
            np.testing.assert_allclose(mine, numpys, rtol=1e-5)


SOURCES = ["bool", "uint8", "int16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("target", ["bool", "uint8", "int16", "float32", "uint64", "complex64", "complex128"])
@pytest.mark.parametrize("source", SOURCES)
def test_views(source: str, target: str) -> None:
    """Every dtype reads the bytes of every other, where NumPy does: bools are bytes, complex numbers pairs."""
    rng = np.random.default_rng(0)
    with effx.enable_x64():
        for shape in ((), (4,), (2, 8), (0,), (3, 0)):
            data = np.asarray(rng.integers(0, 2, shape).astype(source))
            if data.dtype.kind == "c":
                data = np.asarray(data + np.asarray(1j * rng.normal(size=shape), source))
            try:
                expected = data.view(target)
            except ValueError:
                with pytest.raises(ShapeError, match=r"^view: "):
                    enp.asarray(data).view(target)
                continue
            expected = data.view("u1") != 0 if target == "bool" else expected
            result = np.asarray(effx.jit(lambda x: x.view(target))(data))
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            assert result.tobytes() == expected.tobytes()


def test_sums_that_drop_imaginary_parts() -> None:
    """A real dtype of a sum, product or mean takes real parts, as astype does."""
    z = enp.array([1 + 2j, 3 - 1j])
    assert [f(z, dtype="float32").item() for f in (enp.sum, enp.prod, enp.mean)] == [4.0, 3.0, 2.0]


@pytest.mark.parametrize("f", [enp.sum, enp.prod])
def test_initial_values_are_scalars(f: Any) -> None:
    """An array is refused, and does not broadcast."""
    with pytest.raises(ShapeError) as caught:
        f(enp.ones((2, 3)), 1, initial=np.ones(2, "f4"))
    assert caught.value.message == f"{f.__name__}: initial must be a scalar, got f32[2]"


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_transforms_of_no_points(shape: tuple[int, ...]) -> None:
    """A transform over an axis of size 0 is empty, where NumPy refuses it; that of real numbers has the one sum of none."""
    axis = shape.index(0)
    x = np.zeros(shape, np.float32)
    for name in ("fft", "ifft", "fftn"):
        for f in (getattr(enp.fft, name), effx.jit(getattr(enp.fft, name))):
            y = f(x) if name == "fftn" or axis == len(shape) - 1 else getattr(enp.fft, name)(x, axis=axis)
            assert (y.shape, y.dtype) == (shape, np.dtype("complex64"))
    half = enp.fft.rfft(x, axis=axis)
    assert half.shape == tuple([1 if i == axis else n for i, n in enumerate(shape)])
    assert not half.any()
    back = enp.fft.irfft(half, axis=axis)
    assert (back.shape, back.dtype) == (shape, np.dtype("float32"))
    np.testing.assert_array_equal(enp.fft.fft(x, 4, axis), np.fft.fft(x, 4, axis))


@pytest.mark.parametrize("values", [[1, "a", None], ["ab", "c"], [b"ab"]])
def test_files_of_what_is_no_element(values: list[Any]) -> None:
    """Objects and strings are loaded as NumPy's arrays."""
    saved = np.array(values, object if None in values else None)
    file = io.BytesIO()
    np.save(file, saved)
    file.seek(0)
    loaded = enp.load(file, allow_pickle=True)
    assert type(loaded) is np.ndarray
    assert (loaded.dtype, loaded.tolist()) == (saved.dtype, values)
