"""Making arrays: what is accepted, weak types, dtype objects, and what is staged.

Never: tests values that NumPy also gives; `test_against_numpy` does.
"""

from __future__ import annotations

import array
import collections
import enum
import pickle
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import BackendError, DTypeError, EffxError, OptionError, ShapeError


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (3, "i32[]~"),
        (3.0, "f32[]~"),
        (1j, "c64[]~"),
        (True, "bool[]"),
        ([1, 2], "i32[2]"),
        ([1, 2.0], "f32[2]"),
        ([True, 2], "i32[2]"),
        ([], "f32[0]"),
        ([[1], [2]], "i32[2,1]"),
        ((1.0, 1j), "c64[2]"),
        ([np.float16(1), 2.0], "f16[2]"),
        ([np.int8(1), 2], "i8[2]"),
        (np.float32(1), "f32[]"),
        (np.float64(1), "f32[]"),
        (np.arange(3), "i32[3]"),
        (np.ones(2, ml_dtypes.bfloat16), "bf16[2]"),
        (memoryview(b"ab"), "u8[2]"),
        (range(2), "i32[2]"),
        ([np.ones(2), [3, 4]], "f32[2,2]"),
        ([[], []], "f32[2,0]"),
    ],
)
def test_type_of_what_is_converted(value: object, printed: str) -> None:
    """A bare number is weak; elements of lists promote to a strong dtype."""
    assert repr(enp.array(value).type) == printed
    assert repr(enp.asarray(value).type) == printed


def test_type_of_effx_arrays() -> None:
    """An array keeps its weakness, unless a dtype is given or it joins others in a list."""
    weak = enp.asarray(3.0)
    assert repr(enp.array(weak).type) == "f32[]~"
    assert repr(enp.array(weak, "float32").type) == "f32[]"
    assert repr(enp.array([weak, 2]).type) == "f32[2]"
    assert enp.asarray(weak) is weak
    assert enp.array(weak) is not weak
    assert repr(enp.array(3, "int8", ndmin=2).type) == "i8[1,1]"
    assert repr(enp.full((2,), 3.0).type) == "f32[2]~"
    assert repr(enp.zeros_like(weak).type) == "f32[]~"
    assert repr(enp.ones_like(weak, dtype=int).type) == "i32[]"
    assert repr(enp.zeros_like(effx.ShapeDtypeStruct((2,), "int8")).type) == "i8[2]"


def test_lists_of_traced_values() -> None:
    """Lists may hold traced scalars and arrays, nested, among numbers."""
    f = effx.jit(lambda a, b: enp.array([[a, 1.0], [b, a * b]]))
    assert f(2.0, 3.0).tolist() == [[2.0, 1.0], [3.0, 6.0]]
    assert effx.jit(lambda x: enp.asarray([x, x + 1], "int32"))(enp.arange(2.0)).tolist() == [[0, 1], [1, 2]]
    assert float(effx.grad(lambda x: enp.array([x, x * x]).sum())(3.0)) == 7.0


def test_numpy_data_is_copied() -> None:
    """Writing to NumPy data afterwards changes no array that was made of it."""
    for make in (
        enp.array,
        enp.asarray,
        enp.ravel,
        enp.squeeze,
        enp.flip,
        enp.abs,
        enp.atleast_1d,
        lambda x: enp.full((2,), x),
    ):
        data = np.zeros(2, np.float32)
        made = make(data)
        data[:] = 7
        assert made.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: enp.array(None), DTypeError, "array: None is no number"),
        (lambda: enp.array([1, None]), DTypeError, "array: None is no number"),
        (lambda: enp.array("a"), DTypeError, "array: expected an array or a number, got 'a' of type str"),
        (
            lambda: enp.array(["a"]),
            DTypeError,
            "array: expected numbers or arrays in the list, got 'a' of type str",
        ),
        (lambda: enp.array([[1], [1, 2]]), ShapeError, "array: the nested lists differ in length"),
        (lambda: enp.zeros(-1), ShapeError, "zeros: sizes must not be negative, got [-1]"),
        (lambda: enp.zeros(1.5), ShapeError, "zeros: a shape must be an int or a sequence of ints, got 1.5"),
        (lambda: enp.arange(0, 3, 0), ShapeError, "arange: step must not be 0"),
        (lambda: enp.linspace(0, 1, -1), ShapeError, "linspace: num must not be negative, got -1"),
        (
            lambda: enp.linspace(0, 1, 2.5),  # type: ignore[call-overload]  # wrong on purpose
            ShapeError,
            "linspace: num must be an int, got 2.5",
        ),
        (lambda: enp.eye(-1), ShapeError, "eye: sizes must not be negative, got -1 and -1"),
        (lambda: enp.tril(np.ones(3)), ShapeError, "tril: needs at least two axes, got f32[3]"),
        (lambda: enp.meshgrid(np.ones((2, 2))), ShapeError, "meshgrid: takes vectors, got f32[2,2]"),
        (lambda: enp.vander(np.ones((2, 2))), ShapeError, "vander: takes a vector, got f32[2,2]"),
        (lambda: enp.array(1, order="F"), ShapeError, "array: order must be 'K' or 'C', got 'F'"),
        (lambda: enp.array(300, "uint8"), OverflowError, "Python integer 300 out of bounds for uint8"),
        (lambda: enp.array([2**40]), OverflowError, "Python integer 1099511627776 out of bounds for int32"),
    ],
)
def test_errors(make: object, error: type[Exception], text: str) -> None:
    """What cannot be made is refused with what was expected and what came."""
    with pytest.raises(error, match=re.escape(text)):
        make()  # type: ignore[operator]  # a lambda


def test_arange_needs_known_arguments() -> None:
    """The length of arange decides a shape."""
    text = (
        "arange: stop decides the result's shape and must be known; got the abstract i32[]~; "
        "mark it static, or scale and shift an arange of fixed length"
    )
    with pytest.raises(effx.errors.ConcretizationError, match=re.escape(text)):
        effx.jit(lambda n: enp.arange(n))(3)


def test_arange_is_exact_and_follows_its_arguments() -> None:
    """Floats are computed in double precision; a dtype comes from the arguments."""
    got = np.asarray(enp.arange(0.1, 100.0, 0.1))
    np.testing.assert_array_equal(got, np.arange(0.1, 100.0, 0.1).astype(np.float32))
    assert repr(enp.arange(np.int8(3)).type) == "i8[3]"
    assert repr(enp.arange(0, 3, np.float16(0.5)).type) == "f16[6]"
    assert repr(enp.arange(3, dtype="bfloat16").type) == "bf16[3]"
    with effx.enable_x64(True):
        assert repr(enp.arange(2).type) == "i64[2]"
        assert repr(enp.linspace(0, 1, 2).type) == "f64[2]"


def test_programs_hold_rules_and_not_numbers() -> None:
    """While a function is staged, constants are described and not stored."""
    made = effx.jit(
        lambda x: x + enp.arange(2, 1000002, 1).sum() + enp.zeros((1000, 1000)).sum() + enp.eye(1000).sum()
    )
    text = made.lower(1.0).as_text()
    assert len(text) < 8000
    assert "stablehlo.iota" in text


def test_dtype_objects() -> None:
    """They make arrays, compare as dtypes do, serve wherever a dtype is taken, and pickle."""
    assert repr(enp.float32(3)) == "Array(3., dtype=float32)"
    assert enp.int8([1, 2]).tolist() == [1, 2]  # type: ignore[arg-type]  # lists work, as with NumPy's types
    assert enp.float32 == np.dtype("float32")
    assert np.dtype("float32") == enp.float32
    assert enp.float32 != enp.float16
    assert enp.float32 == np.float32
    assert enp.float32 != "nonsense"
    assert {enp.int8: 1}[np.int8] == 1  # type: ignore[index]  # equal and of equal hash, as in jax
    assert enp.ones(2, enp.bfloat16).dtype == enp.bfloat16
    assert enp.ones(2).astype(enp.int8).dtype == np.int8
    assert enp.issubdtype(enp.bfloat16, enp.floating)
    assert enp.finfo(enp.bfloat16).bits == 16
    assert enp.iinfo(enp.int8).max == 127
    assert enp.promote_types(enp.int8, enp.uint8) == enp.int16
    assert enp.result_type(enp.ones(1), 1) == enp.float32
    assert enp.isdtype(enp.int8, "integral")
    assert not enp.isdtype(enp.int8, ("bool", enp.float32))
    assert repr(enp.bool_) == "effx.numpy.bool"
    assert enp.float64.__name__ == "float64"
    assert pickle.loads(pickle.dumps(enp.int8)) == enp.int8
    assert enp.float64(1.5).dtype == np.float32  # narrowed, as everywhere, unless enable_x64 is on
    assert isinstance(enp.ones(1), enp.ndarray)


def test_devices() -> None:
    """Arrays can be made on a named device, and are committed to it."""
    device = effx.devices()[0]
    for made in (
        enp.zeros(2, device=device),
        enp.array([1], device=device),
        enp.full_like(np.ones(1), 2, device=device),
    ):
        assert made.devices() == {device}


NO_MEMORY = "{}: out of memory on cpu:0; the results ({}) take {} bytes"
IMPOSSIBLE = "{}: {} would have {} elements, which no memory can hold"


@pytest.mark.parametrize("run", [lambda f: f(), lambda f: effx.jit(f)()], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: enp.zeros(2**45),
            BackendError,
            NO_MEMORY.format("NAME", "f32[35184372088832]", 2**47),
        ),
        (
            lambda: enp.zeros((2**40, 2**40)),
            ShapeError,
            IMPOSSIBLE.format("NAME", "f32[1099511627776,1099511627776]", 2**80),
        ),
        (
            lambda: enp.zeros(2**63),
            ShapeError,
            IMPOSSIBLE.format("NAME", "f32[9223372036854775808]", 2**63),
        ),
        (
            lambda: enp.eye(2**30),
            ShapeError,
            IMPOSSIBLE.format("iota", "i32[1073741824,1073741824]", 2**60),
        ),
        (
            lambda: enp.arange(1e14),
            BackendError,
            "arange: 100000000000000 elements do not fit into the host's memory",
        ),
        (
            lambda: enp.arange(float("nan")),
            ShapeError,
            "arange: from 0 to nan in steps of 1 there is no number of elements",
        ),
        (
            lambda: enp.linspace(0, 1, 2**45),
            BackendError,
            f"linspace: {2**45} elements do not fit into the host's memory",
        ),
    ],
)
def test_sizes_beyond_memory(run: Any, make: Any, error: type[EffxError], text: str) -> None:
    """A mismatch is an error of effx with the request, not the compiler's."""
    with pytest.raises(error) as caught:
        run(make)
    names = (
        "zeros",
        "broadcast_in_dim",
        "_lambda_",
        "<lambda>",
    )  # once compiled, the operation or the program
    assert caught.value.message in [text.replace("NAME", name) for name in names]


def test_zeros_of_float0_are_tangents_of_integers() -> None:
    """No device holds them: they are NumPy's, and derivatives take them, inside of programs too."""
    float0 = effx.dtypes.float0
    for made in (enp.zeros((2,), float0), enp.zeros_like(np.zeros(2, float0)), enp.full((2,), 0, float0)):
        assert made.dtype == float0
        assert made.shape == (2,)
        n = enp.arange(2)
        _, tangent = effx.jvp(lambda x, n: x * n, (enp.ones(2), n), (enp.ones(2), made))
        assert tangent.tolist() == [0.0, 1.0]

    @effx.jit
    def slope(n: Any) -> Any:
        return effx.jvp(lambda x, n: x * n, (1.0, n), (1.0, enp.zeros((), float0)))[1]

    assert float(slope(3)) == 3.0


class Action(enum.IntEnum):
    LEFT = 0
    RIGHT = 2


class Count(int):
    """An int of a user's."""


class Rows:
    """No list, but as one to read from."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return self.rows[i]


@pytest.mark.parametrize(
    ("x", "dtype", "numbers"),
    [
        (Action, "int32", [0, 2]), ([Action.LEFT, Action.RIGHT], "int32", [0, 2]), (Action.RIGHT, "int32", 2),
        ([Count(3), 4], "int32", [3, 4]), (collections.deque([1, 2]), "int32", [1, 2]),
        (array.array("d", [1, 2]), "float32", [1, 2]), (array.array("i", []), "int32", []),
        (Rows(1.0, 2.0), "float32", [1, 2]), (Rows(), "float32", []), ([collections.deque([1, 2])], "int32", [[1, 2]]),
        (Rows([1, 2], Rows(3, True)), "int32", [[1, 2], [3, 1]]),
    ],
)  # fmt: skip
def test_sequences_that_are_no_lists(x: Any, dtype: str, numbers: Any) -> None:
    for make in (enp.array, enp.asarray):
        y = make(x)
        assert y.dtype == dtype
        assert y.tolist() == numbers
    assert enp.array(x, "float16").dtype == "float16"
    assert effx.jit(lambda: enp.array(x))().tolist() == numbers


def test_sequences_of_traced_numbers() -> None:
    y = effx.jit(lambda a: enp.array(Rows(a, 2.0)) + enp.array(collections.deque([a, a])))(1.0)
    assert y.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("x", ["ab", b"ab", {"a": 1}, [{"a": 1}], ["a"], object(), [Rows("a")]])
def test_what_are_no_sequences_of_numbers(x: Any) -> None:
    with pytest.raises(DTypeError):
        enp.array(x)


@pytest.mark.parametrize("arguments", [(1j,), (0, 5 + 0j), (0, 5, 1 + 1j), (np.complex64(3),)])
def test_ranges_of_complex_numbers(arguments: Any) -> None:
    """They are refused, since complex numbers have no order; a complex dtype is none of the numbers."""
    with pytest.raises(
        OptionError, match=r"^arange: start, stop and step must be real numbers, got .*; dtype may be"
    ):
        enp.arange(*arguments)
    np.testing.assert_array_equal(enp.arange(3, dtype=complex), np.arange(3, dtype=np.complex64))


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (0, 3), (1, 1)])
@pytest.mark.parametrize("name", ["eye", "tri"])
def test_bands_of_an_abstract_diagonal(name: str, shape: tuple[int, int]) -> None:
    """The diagonal's number may be abstract, of any integer dtype."""
    made, expected = getattr(enp, name), getattr(np, name)
    for k in (-3, -1, 0, 1, 5):
        for number in (k, np.int8(k)):
            band = effx.jit(lambda k: made(*shape, k, "int16"))(number)
            assert band.dtype == "int16"
            np.testing.assert_array_equal(band, expected(*shape, k))
    bands = effx.vmap(lambda k: made(*shape, k))(np.arange(-1, 2))
    np.testing.assert_array_equal(bands, np.stack([expected(*shape, k) for k in range(-1, 2)]))


@pytest.mark.parametrize("k", [1.5, np.ones(2, int)])
def test_bands_of_no_diagonal(k: Any) -> None:
    """An abstract number of a diagonal is an integer of rank 0."""
    with pytest.raises(DTypeError, match=r"^eye: k must be an int or an integer array of rank 0, got "):
        effx.jit(lambda k: enp.eye(3, 3, k))(k)


def test_grids_without_an_end() -> None:
    """As in NumPy, a slice without an end counts up to its start."""
    for name in ("mgrid", "ogrid"):
        for part in (slice(None), slice(3, None)):
            np.testing.assert_array_equal(getattr(enp, name)[part], getattr(np, name)[part])


def test_lists_as_types_are_no_sequences() -> None:
    """`list[int]` has the attributes of `list` and no elements."""
    with pytest.raises(DTypeError, match=r"^array: expected an array or a number, got list\[int\]"):
        enp.array(list[int])


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("bounds", [(3.0,), (2, 9, 2.0), (9.0, 2, -3), (5.0, 5), (5, 2.0), (0.0, 200)])
def test_ranges_of_whole_floats_are_counted_in_programs(name: str, bounds: Any) -> None:
    """A program holds an iota and no numbers; the elements are NumPy's."""
    make: Any = enp.arange
    with effx.enable_x64(name == "float64"):
        program = effx.make_jaxpr(lambda: make(*bounds, dtype=name))()
        assert not program.constants or name == "bfloat16"
        result = effx.jit(lambda: make(*bounds, dtype=name))()
        assert result.dtype.name == name
        np.testing.assert_array_equal(np.asarray(result, float), np.arange(*bounds))


@pytest.mark.parametrize("bounds", [(0.5,), (0, 1, 0.25), (2.0**30 - 9, 2.0**30), (-(2.0**25), 0, 2.0**23)])
def test_other_ranges_of_floats_are_rounded_once(bounds: Any) -> None:
    """Where float32 has not all of the numbers they are computed in double precision."""
    result = effx.jit(lambda: enp.arange(*bounds))()
    np.testing.assert_array_equal(result, np.arange(*bounds).astype(np.float32))


def test_isscalar_of_what_becomes_an_array() -> None:
    """An object with `__jax_array__` is asked for its array."""

    class Wrapped:
        def __init__(self, shape: tuple[int, ...]) -> None:
            self.shape = shape

        def __jax_array__(self) -> object:
            return enp.ones(self.shape)

    assert [enp.isscalar(Wrapped(shape)) for shape in ((), (1,), (0,))] == [True, False, False]


@pytest.mark.parametrize("run", [lambda f: f(), lambda f: effx.jit(f)()])
def test_lists_of_what_becomes_an_array(run: Any) -> None:
    """Objects with `__jax_array__` stand in lists as their arrays would."""

    class Wrapped:
        def __init__(self, value: object) -> None:
            self.value = value
            self.dtype = np.dtype(np.float32)

        def __jax_array__(self) -> object:
            return enp.asarray(self.value)

    one, row = Wrapped(1.5), Wrapped([1.0, 2.0])
    np.testing.assert_array_equal(run(lambda: enp.array(((one, 2), [3, one]))), [[1.5, 2], [3, 1.5]])
    np.testing.assert_array_equal(run(lambda: enp.array([row, [one, 0]])), [[1, 2], [1.5, 0]])
    assert run(lambda: enp.array([one, one], "int32")).tolist() == [1, 1]


def test_grids_of_several_dtypes_under_strict_promotion() -> None:
    """The user has passed no arrays, so axes of integers and floats have a common dtype as ever."""
    with effx.numpy_dtype_promotion("strict"):
        dense, (rows, columns) = enp.mgrid[0:2, 0:1:3j], enp.ogrid[0:2, 0:1:3j]
    np.testing.assert_array_equal(dense, np.mgrid[0:2, 0:1:3j])
    assert (dense.dtype, rows.dtype, columns.dtype) == (np.float32, np.float32, np.float32)
    np.testing.assert_array_equal(rows, [[0], [1]])


@pytest.mark.parametrize("repeats", [3, [3], [1, 0, 2]])
def test_known_repeats_while_staging(repeats: Any) -> None:
    """An array that is known from outside says how often, one number for all elements too."""
    counts = enp.array(repeats)
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(
        effx.jit(lambda x: enp.repeat(x, counts, axis=1))(x), np.repeat(x, repeats, axis=1)
    )


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "float32", "complex64"])
@pytest.mark.parametrize(
    "exponent", [np.int32(3), np.int8(0), enp.int32(3), enp.array(2), np.array(4), enp.int8(1)]
)
def test_powers_with_known_exponents(dtype: str, exponent: Any) -> None:
    """One multiplication chain, not one step for each bit; the result has the dtype of the promotion."""
    x = enp.array([1, 2, 3]).astype(dtype)
    want = np.array([1, 2, 3]) ** int(exponent)
    for call in (enp.power, lambda x, y: x**y):
        staged = effx.make_jaxpr(lambda x, call=call: call(x, exponent))(x)
        assert len(staged.equations) <= 2
        result = effx.jit(lambda x, call=call: call(x, exponent))(x)
        assert result.dtype == call(x, exponent).dtype == enp.result_type(x, exponent)
        np.testing.assert_array_equal(result, want.astype(result.dtype))
    np.testing.assert_array_equal(effx.jit(lambda x: x ** enp.int32(-1))(enp.array([1, 2, -1])), [1, 0, -1])
