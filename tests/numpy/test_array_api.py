"""`effx.numpy` follows the Python array API standard, 2025.12: names, signatures, dtypes, special cases."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ArrayApiError, BackendError, ExchangeError

# The standard's signatures; the types and the words are left out.
UNARY = """
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc
"""
BINARY = """
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply
nextafter not_equal pow remainder subtract
"""
OTHERS = """
__array_namespace_info__()
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
argsort(x, /, *, axis=-1, descending=False, stable=True)
asarray(obj, /, *, dtype=None, device=None, copy=None)
astype(x, dtype, /, *, copy=True, device=None)
broadcast_arrays(*arrays)
broadcast_shapes(*shapes)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
clip(x, /, min=None, max=None)
concat(arrays, /, *, axis=0)
count_nonzero(x, /, *, axis=None, keepdims=False)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
expand_dims(x, /, axis)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
finfo(type, /)
flip(x, /, *, axis=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
iinfo(type, /)
isdtype(dtype, kind)
isin(x1, x2, /, *, invert=False)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
matmul(x1, x2, /)
matrix_transpose(x, /)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
meshgrid(*arrays, indexing='xy')
min(x, /, *, axis=None, keepdims=False)
moveaxis(x, source, destination, /)
nonzero(x, /)
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
permute_dims(x, /, axes)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
result_type(*arrays_and_dtypes)
roll(x, /, shift, *, axis=None)
searchsorted(x1, x2, /, *, side='left', sorter=None)
sort(x, /, *, axis=-1, descending=False, stable=True)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
tensordot(x1, x2, /, *, axes=2)
tile(x, repetitions, /)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
unstack(x, /, *, axis=0)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
vecdot(x1, x2, /, *, axis=-1)
where(condition, x1, x2, /)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eig(x, /)
linalg.eigh(x, /)
linalg.eigvals(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
""".strip().splitlines()
SIGNATURES = [
    *[f"{name}(x, /)" for name in UNARY.split()],
    *[f"{name}(x1, x2, /)" for name in BINARY.split()],
    *OTHERS,
]
# Which defaults mean the same by another value.
SAME_DEFAULTS = {
    ("arange", "step"), ("argmax", "keepdims"), ("argmin", "keepdims"), ("astype", "copy"), ("std", "correction"),
    ("var", "correction"), *[(f"fft.{name}", "norm") for name in dir(enp.fft)],
}  # fmt: skip
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]

X = np.array([[3.0, 1.0, 2.0], [-1.0, 0.0, 5.0]], np.float32)


def found(name: str) -> Any:
    """Returns a function of the namespace by its dotted name."""
    value: Any = enp
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("text", SIGNATURES, ids=lambda text: text.partition("(")[0])
def test_signatures(text: str) -> None:
    """Each call of the standard is a call of the function that is here, and leaves the same undone."""
    name, _, parameters = text.partition("(")
    tree = ast.parse(f"def f({parameters}: pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    wanted, here = tree.args, inspect.signature(found(name))
    given = {a.arg: d for a, d in zip(wanted.kwonlyargs, wanted.kw_defaults, strict=True)}
    positional = [*wanted.posonlyargs, *wanted.args]
    here.bind(*positional, *["rest"] * (2 * (wanted.vararg is not None)), **given)
    # What may be named, can be named; and nothing else must be given.
    required = len(positional) - len(wanted.defaults)
    here.bind(*wanted.posonlyargs, **{a.arg: None for a in wanted.args}, **given)
    here.bind(*positional[:required])
    defaults = [d for d in [*wanted.defaults, *wanted.kw_defaults] if d is not None]
    optional = [*positional[required:], *wanted.kwonlyargs]
    by_name = [a.arg for a in [*wanted.args, *wanted.kwonlyargs]]
    for argument, default in zip(optional, defaults, strict=True):
        if argument.arg in by_name and (name, argument.arg) not in SAME_DEFAULTS:
            assert here.parameters[argument.arg].default == ast.literal_eval(default), argument.arg


def test_constants_and_dtypes() -> None:
    """The standard's constants and dtypes are there, and dtypes compare with those of arrays."""
    assert (enp.e, enp.pi, enp.inf, enp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(enp.nan)
    with effx.enable_x64(True):
        for name in ("bool", *INTEGERS, *FLOATS, *COMPLEX):
            dtype = getattr(enp, name)
            assert enp.zeros(1, dtype=dtype).dtype == dtype
            assert enp.isdtype(enp.zeros(1, dtype=dtype).dtype, dtype)


def test_namespace() -> None:
    """Arrays name the namespace, traced ones too; revisions that are not known are refused."""
    x, seen = enp.asarray(X), list[ModuleType]()

    def f(v: effx.Array) -> effx.Array:
        seen.append(v.__array_namespace__())
        assert v.device is None
        assert v.to_device(effx.devices()[0]) is v
        return v.sum()

    effx.jit(f)(x)
    effx.vmap(f)(x)
    effx.grad(f)(x)
    seen.append(x.__array_namespace__(api_version="2024.12"))
    seen.append(x.__array_namespace__(api_version=enp.__array_api_version__))
    assert all(namespace is enp for namespace in seen)
    assert len(seen) == 5
    with pytest.raises(ArrayApiError) as caught:
        x.__array_namespace__(api_version="2020.12")
    assert caught.value.message == (
        "__array_namespace__: api_version must be one of 2021.12, 2022.12, 2023.12, 2024.12, 2025.12, got '2020.12'"
    )


def test_information() -> None:
    """The namespace says what it can do, and the dtypes that are there by kind."""
    info = enp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": False,
        "data-dependent shapes": False,
        "max dimensions": 64,
    }
    assert info.default_device() is None
    assert info.devices() == (None, *effx.devices())
    for x64 in (False, True):
        with effx.enable_x64(x64):
            defaults = info.default_dtypes(device=effx.devices()[0])
            assert defaults["real floating"] == enp.ones(1).dtype
            assert defaults["complex floating"] == enp.asarray(1j).dtype
            assert defaults["integral"] == enp.arange(1).dtype
            assert defaults["indexing"] == enp.argmax(X).dtype == enp.nonzero(X)[0].dtype
            wide = set() if x64 else {"int64", "uint64", "float64", "complex128"}
            all_of = [name for name in ("bool", *INTEGERS, *FLOATS, *COMPLEX) if name not in wide]
            assert sorted(info.dtypes()) == sorted(all_of)
            for kind in (
                "bool",
                "signed integer",
                "unsigned integer",
                "integral",
                "real floating",
                "numeric",
            ):
                wanted = {n: np.dtype(n) for n in all_of if np.isdtype(np.dtype(n), kind)}
                assert info.dtypes(kind=kind) == wanted
            both = info.dtypes(kind=("bool", "complex floating"), device=None)
            assert sorted(both) == ["bool", *(["complex128"] if x64 else []), "complex64"]
    with pytest.raises(ArrayApiError) as caught:
        info.dtypes(kind="float")
    assert caught.value.message == (
        "dtypes: kind must be one of bool, signed integer, unsigned integer, integral, real floating, complex floating, "
        "numeric, got 'float'"
    )


def test_devices() -> None:
    """Arrays say their device and are copied to others; functions that make arrays take a device."""
    x, device = enp.asarray(X), effx.devices()[-1]
    assert x.to_device(device).device == device
    assert x.to_device(x.device).device == x.device
    with pytest.raises(BackendError) as caught:
        x.to_device(device, stream=1)
    assert caught.value.message == "x.to_device(): stream must be None, got 1"
    made: list[Callable[[], effx.Array]] = [
        lambda: enp.arange(3, device=device), lambda: enp.asarray(X, device=device),
        lambda: enp.astype(x, enp.int32, device=device), lambda: enp.empty(2, device=device),
        lambda: enp.empty_like(x, device=device), lambda: enp.eye(2, device=device),
        lambda: enp.from_dlpack(X, device=device), lambda: enp.full(2, 1, device=device),
        lambda: enp.full_like(x, 1, device=device), lambda: enp.linspace(0, 1, 3, device=device),
        lambda: enp.ones(2, device=device), lambda: enp.ones_like(x, device=device),
        lambda: enp.zeros(2, device=device), lambda: enp.zeros_like(x, device=device),
        lambda: enp.fft.fftfreq(3, device=device), lambda: enp.fft.rfftfreq(3, device=device),
    ]  # fmt: skip
    for make in made:
        assert make().device == device


def standard_promotion(a: str, b: str) -> str | None:
    """Returns the dtype that two dtypes promote to by the standard's tables, None where they say nothing."""
    if a == b:
        return a
    kinds = {np.dtype(d).kind for d in (a, b)}
    if kinds <= {"i", "u"}:
        wide = np.promote_types(a, b)
        return None if wide.kind == "f" else wide.name
    if kinds <= {"f", "c"}:
        return np.promote_types(a, b).name
    return None


def test_promotion() -> None:
    """Dtypes of one kind promote by the standard's tables, numbers take the array's dtype."""
    names = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
    with effx.enable_x64(True):
        for a in names:
            for b in names:
                want = standard_promotion(a, b)
                if want is not None:
                    assert enp.result_type(getattr(enp, a), np.dtype(b)) == want
                    assert enp.result_type(enp.zeros(1, a), getattr(enp, b)) == want
                assert enp.can_cast(enp.dtype(a), enp.dtype(b)) == np.can_cast(a, b)
        for a in names:
            x = enp.zeros(1, a)
            assert enp.result_type(x, True) == a
            assert enp.can_cast(x, x.dtype)
            if x.dtype.kind != "b":
                assert enp.add(x, 1).dtype == enp.add(1, x).dtype == (x + 1).dtype == a
            if x.dtype.kind in "fc":
                assert enp.multiply(x, 1.5).dtype == a
                assert (x * 1j).dtype == ("complex64" if a in ("float32", "complex64") else "complex128")
        # Sums and products of small integers have the default integer's dtype, of its sign.
        for a in INTEGERS:
            want = "uint64" if a.startswith("u") else "int64"
            for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
                assert getattr(enp, name)(enp.ones(2, a)).dtype == want, (name, a)
            assert enp.linalg.trace(enp.ones((2, 2), a)).dtype == want
        for a in (*FLOATS, *COMPLEX):
            for name in ("sum", "prod", "cumulative_sum", "cumulative_prod", "mean"):
                assert getattr(enp, name)(enp.ones(2, a)).dtype == a, (name, a)


def test_isdtype() -> None:
    """Kinds are those of the standard; a tuple is any of them."""
    for name in ("bool", *INTEGERS, *FLOATS, *COMPLEX):
        for kind in (
            "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
            ("bool", "integral"), ("real floating", np.dtype("int8")),
        ):  # fmt: skip
            assert enp.isdtype(np.dtype(name), kind) == np.isdtype(np.dtype(name), kind), (name, kind)

    for kind in ("floating", ("bool", "floating")):
        with pytest.raises(ArrayApiError) as caught:
            enp.isdtype(np.dtype("int8"), kind)
        assert caught.value.message == (
            "isdtype: kind must be one of bool, signed integer, unsigned integer, integral, real floating, "
            "complex floating, numeric, or a dtype, got 'floating'"
        )


def test_exchange() -> None:
    """Arrays are handed to other libraries: of all dtypes, on their device, or copied to the CPU."""
    for dtype in ("bool", "int8", "uint32", "float32", "complex64"):
        x = enp.ones((2, 3), dtype)
        for taken in (np.from_dlpack(x), np.from_dlpack(x, copy=True), np.from_dlpack(x, device="cpu")):
            assert taken.dtype == dtype
            same(x, taken)
        same(enp.from_dlpack(x), x)
    x = enp.asarray(X)
    here = x.__dlpack_device__()
    assert (
        type(x.__dlpack__(dl_device=here, max_version=(1, 0), stream=None, copy=None)).__name__ == "PyCapsule"
    )
    with pytest.raises(ExchangeError) as caught:
        x.__dlpack__(dl_device=(13, 0))
    assert caught.value.message == (
        f"x.__dlpack__(): dl_device must be {here}, or (1, 0) with a copy, got (13, 0)"
    )
    assert isinstance(caught.value, BufferError)


def same(x: object, want: object) -> None:
    np.testing.assert_array_equal(np.asarray(x), np.asarray(want))


def test_elementwise_cases() -> None:
    """Bounds may be left out, NaN spreads, and numbers stand for arrays."""
    x = enp.asarray([1.0, np.nan, -3.0, np.inf])
    same(enp.clip(x), x)
    same(enp.clip(x, None, None), x)
    same(enp.clip(x, min=0), [1.0, np.nan, 0.0, np.inf])
    same(enp.clip(x, max=0), [0.0, np.nan, -3.0, 0.0])
    same(enp.clip(x, np.nan, 1), [np.nan] * 4)
    same(enp.clip(enp.asarray([1, 5]), enp.asarray([2, 2]), 3), [2, 3])
    same(enp.reciprocal(enp.asarray([2.0, -0.0, np.inf])), [0.5, -np.inf, 0.0])
    one = enp.asarray(1.0)
    same(enp.nextafter(one, 2.0), np.nextafter(np.float32(1), np.float32(2)))
    same(enp.nextafter(enp.asarray(0.0), enp.asarray(-0.0)), -0.0)
    assert bool(enp.signbit(enp.nextafter(enp.asarray(0.0), enp.asarray(-0.0))))
    same(enp.remainder(enp.asarray([-5.0, 5.0, -0.0]), 3.0), [1.0, 2.0, 0.0])
    same(enp.remainder(enp.asarray([5, -5]), enp.asarray([-3, 3])), [-1, 1])
    same(enp.floor_divide(enp.asarray([-5, 5]), 3), [-2, 1])
    same(enp.round(enp.asarray([0.5, 1.5, -2.5])), [0.0, 2.0, -2.0])
    for name in ("floor", "ceil", "trunc", "round", "real", "conj"):
        result = getattr(enp, name)(enp.asarray([1, 2]))
        assert result.dtype == "int32", name
        same(result, [1, 2])
    same(enp.sign(enp.asarray([3 + 4j, 0])), np.array([0.6 + 0.8j, 0], np.complex64))
    same(enp.bitwise_invert(enp.asarray([True, False])), [False, True])
    same(enp.atan2(enp.asarray([0.0, -0.0]), -1.0), np.array([np.pi, -np.pi], np.float32))
    same(enp.logaddexp(enp.asarray([-np.inf]), -np.inf), [-np.inf])
    same(enp.pow(enp.asarray([0.0, 1.0, np.nan]), enp.asarray([0.0, np.nan, 0.0])), [1.0, 1.0, 1.0])


def test_manipulation() -> None:
    """Several axes at once, negative ones, and the standard's results."""
    x = enp.asarray(X)
    assert enp.expand_dims(x, axis=(0, -1)).shape == (1, 2, 3, 1)
    assert enp.expand_dims(x, axis=-1).shape == (2, 3, 1)
    with pytest.raises((IndexError, ValueError), match="expand_dims"):
        enp.expand_dims(x, axis=4)
    assert enp.permute_dims(x, axes=(-1, 0)).shape == (3, 2)
    assert enp.moveaxis(enp.zeros((2, 3, 4)), (0, 1), (-1, 0)).shape == (3, 4, 2)
    assert enp.broadcast_shapes() == ()
    assert enp.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ValueError, match="shapes do not fit"):
        enp.broadcast_shapes((2,), (3,))
    arrays = enp.broadcast_arrays(x, enp.asarray(1))
    assert type(arrays) is tuple
    assert [a.dtype.name for a in arrays] == ["float32", "int32"]
    assert type(enp.meshgrid(x[0], x[1])) is tuple
    assert [a.shape for a in enp.unstack(x, axis=1)] == [(2,)] * 3
    assert type(enp.unstack(x)) is tuple
    same(enp.concat((x, x), axis=None), np.concatenate((X, X), axis=None))
    same(enp.concat([x, enp.asarray([[1, 2, 3]])]), np.concatenate([X, [[1, 2, 3]]]))
    same(enp.roll(x, (1, -1), axis=(0, 1)), np.roll(X, (1, -1), (0, 1)))
    same(enp.roll(x, 1, axis=(0, 1)), np.roll(X, 1, (0, 1)))
    same(enp.repeat(x, enp.asarray([1, 2]), axis=0), np.repeat(X, [1, 2], 0))
    same(enp.repeat(x, 2), np.repeat(X, 2))
    same(enp.tile(x, (2, 1, 2)), np.tile(X, (2, 1, 2)))
    same(enp.flip(x, axis=(0, -1)), X[::-1, ::-1])
    for copy in (None, True, False):
        same(enp.reshape(x, (3, -1), copy=copy), X.reshape(3, -1))
        same(enp.asarray(x, copy=copy), X)
        same(enp.from_dlpack(x, copy=copy), X)
    for flag in (False, True):
        same(enp.astype(x, enp.int32, copy=flag), X.astype(int))
    with pytest.raises((IndexError, ValueError), match="squeeze"):
        enp.squeeze(x, axis=0)


def test_searching_sorting_and_sets() -> None:
    """Indices are of the default index dtype, orders are stable both ways, sets keep each NaN."""
    x, v = enp.asarray(X), enp.asarray([1.0, 3.0, 5.0])
    same(enp.searchsorted(v, enp.asarray([[0.0, 1.0], [4.0, 9.0]]), side="right"), [[0, 1], [2, 3]])
    same(enp.searchsorted(v, 3), 1)
    same(enp.searchsorted(enp.asarray([5, 1, 3]), 3, sorter=enp.asarray([1, 2, 0])), 1)
    same(enp.take_along_axis(x, enp.asarray([[0], [-1]])), [[3.0], [5.0]])
    same(enp.take_along_axis(x, enp.asarray([[1, 0, 1]]), axis=0), [[-1.0, 1.0, 5.0]])
    same(enp.take(x, enp.asarray([-1, 0]), axis=1), X[:, [-1, 0]])
    same(enp.where(x > 0, 1, 0), X > 0)
    assert enp.where(x > 0, x, 0).dtype == "float32"
    assert enp.argmax(x, axis=1, keepdims=True).shape == (2, 1)
    same(enp.count_nonzero(x, axis=1), [3, 2])
    same(enp.count_nonzero(x, keepdims=True), [[5]])
    equal = enp.asarray([1, 0, 1, 0])
    same(enp.argsort(equal, descending=True, stable=True), [0, 2, 1, 3])
    same(enp.argsort(equal, stable=False, descending=False).sum(), 6)
    same(enp.sort(x, axis=0, descending=True), -np.sort(-X, 0))
    same(enp.isin(x, enp.asarray([1.0, 5.0]), invert=True), ~np.isin(X, [1.0, 5.0]))
    same(enp.isin(3, x), True)
    y = enp.asarray([[2.0, np.nan], [2.0, np.nan]])
    every = enp.unique_all(y)
    same(every.values, [2.0, np.nan, np.nan])
    same(every.indices, [0, 1, 3])
    same(every.inverse_indices, [[0, 1], [0, 2]])
    same(every.counts, [2, 1, 1])
    values, counts = enp.unique_counts(y)
    same(counts, [2, 1, 1])
    values, inverse = enp.unique_inverse(y)
    assert inverse.shape == y.shape
    assert enp.unique_values(y).shape == values.shape == (3,)


def test_statistics() -> None:
    """Sums begin with what nothing sums to, deviations take their correction, nothing has its own result."""
    x = enp.asarray(X)
    same(enp.cumulative_sum(x[0], include_initial=True), [0.0, 3.0, 4.0, 6.0])
    same(enp.cumulative_sum(x, axis=1, include_initial=True)[:, 0], [0.0, 0.0])
    same(enp.cumulative_prod(x, axis=-1, include_initial=True)[1], [1.0, -1.0, 0.0, 0.0])
    assert enp.cumulative_sum(x[0], dtype=enp.int32).dtype == "int32"
    np.testing.assert_allclose(enp.var(x, correction=1), X.var(ddof=1), rtol=1e-6)
    np.testing.assert_allclose(enp.std(x, axis=0, correction=0.5), X.std(0, ddof=0.5), rtol=1e-6)
    assert enp.mean(enp.asarray([1 + 1j, 3])).dtype == "complex64"
    same(enp.diff(x, axis=0, n=1, prepend=x[:1], append=x[:1]), np.diff(X, 1, 0, X[:1], X[:1]))
    empty = enp.zeros((0, 2))
    same(enp.sum(empty, axis=0), [0.0, 0.0])
    same(enp.prod(empty), 1.0)
    assert bool(enp.all(empty))
    assert not bool(enp.any(empty))
    assert enp.max(x, axis=(0, 1), keepdims=True).shape == (1, 1)
    same(enp.max(enp.asarray([1.0, np.nan])), np.nan)


def test_linear_algebra() -> None:
    """Results have the standard's fields, stacks of matrices are taken, and shapes are the standard's."""
    m = enp.asarray(np.array([[4.0, 1.0], [1.0, 3.0]], np.float32))
    stack = enp.stack([m, m + m])
    eig = enp.linalg.eigh(stack)
    assert (eig.eigenvalues.shape, eig.eigenvectors.shape) == ((2, 2), (2, 2, 2))
    assert enp.linalg.eig(m).eigenvalues.dtype == "complex64"
    q, r = enp.linalg.qr(stack, mode="complete")
    assert enp.linalg.qr(stack).Q.shape == q.shape == r.shape
    sign, logabsdet = enp.linalg.slogdet(stack)
    assert enp.linalg.slogdet(m).logabsdet.shape == ()
    assert sign.shape == logabsdet.shape == (2,)
    svd = enp.linalg.svd(X, full_matrices=False)
    assert (svd.U.shape, svd.S.shape, svd.Vh.shape) == ((2, 2), (2,), (2, 3))
    assert enp.linalg.solve(stack, enp.ones(2)).shape == (2, 2)
    assert enp.linalg.solve(stack, enp.ones((2, 3))).shape == (2, 2, 3)
    np.testing.assert_allclose(
        enp.linalg.cholesky(m, upper=True), np.linalg.cholesky(np.asarray(m)).T, rtol=1e-6
    )
    assert enp.linalg.matrix_norm(stack, keepdims=True).shape == (2, 1, 1)
    assert enp.linalg.matrix_norm(stack, ord="nuc").shape == (2,)
    np.testing.assert_allclose(enp.linalg.vector_norm(X, axis=(0, 1), ord=1), 12.0)
    assert enp.linalg.vector_norm(X, keepdims=True, ord=np.inf).shape == (1, 1)
    same(enp.linalg.diagonal(stack, offset=1), [[1.0], [2.0]])
    same(enp.linalg.trace(stack, offset=-1), [1.0, 2.0])
    same(enp.linalg.matrix_rank(stack, rtol=1e-5), [2, 2])
    assert enp.linalg.matrix_power(stack, -2).shape == stack.shape
    assert enp.linalg.pinv(stack, rtol=enp.asarray([0.1, 0.1])).shape == stack.shape
    same(enp.vecdot(enp.asarray([1j, 1]), enp.asarray([1j, 2])), 3 + 0j)
    same(enp.linalg.cross(X, X[::-1]), np.cross(X, X[::-1]))
    same(enp.tensordot(X, X.T, axes=((-1,), (0,))), np.tensordot(X, X, axes=((1,), (1,))))


def test_transforms() -> None:
    """Real input gives complex output of its precision, and the frequencies take a dtype."""
    x = enp.asarray(X)
    for name in ("fft", "ifft", "rfft", "ihfft", "fftn", "ifftn", "rfftn"):
        assert getattr(enp.fft, name)(x, norm="ortho").dtype == "complex64"
    for name in ("irfft", "hfft", "irfftn"):
        assert getattr(enp.fft, name)(enp.fft.fft(x), norm="forward").dtype == "float32"
    assert enp.fft.fft(x, n=5, axis=0).shape == (5, 3)
    assert enp.fft.fftn(x, s=(4, 4), axes=(0, 1)).shape == (4, 4)
    assert enp.fft.fftfreq(4, d=0.5, dtype=enp.float32).tolist() == [0.0, 0.5, -1.0, -0.5]
    assert enp.fft.rfftfreq(4, d=0.5).tolist() == [0.0, 0.5, 1.0]
    same(enp.fft.ifftshift(enp.fft.fftshift(x, axes=1), axes=1), x)
