"""Foreign functions: what they are given, how they are registered, and that a kernel in C++ works in every surrounding."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from jaxlib import _jax

import effx
import effx.numpy as enp
from effx import ffi, lax
from effx.errors import BackendError, TransformError
from effx.families.foreign import ForeignCall
from effx.handlers.staging.stage import stage
from effx.handling import ArrayType, TupleOperation, emits, lapack_target
from effx.ir.ops.host import FFI
from effx.ir.text import parse_program, print_program
from effx.lower.compile_options import compile_options
from effx.lower.text.foreign_calls import attribute_text

METHODS: tuple[Any, ...] = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)
F32 = np.dtype(np.float32)
KERNELS = (
    "RmsNorm",
    "RmsNormFwd",
    "RmsNormBwd",
    "AllAttributes",
    "RawCopy",
    "Bump",
    "BothSizes",
    "CountedCopy",
    "Refuses",
)


def struct(*shape: int, dtype: Any = np.float32) -> effx.ShapeDtypeStruct:
    return effx.ShapeDtypeStruct(shape, dtype)


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library of ffi_kernels.cc, compiled, its functions registered as `test_` and their names."""
    compiler = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    target = tmp_path_factory.mktemp("ffi") / "kernels.so"
    source = Path(__file__).with_name("ffi_kernels.cc")
    flags = ["-std=c++17", "-O0", "-w", "-fPIC", "-shared", "-I", ffi.include_dir()]
    subprocess.run([compiler, *flags, str(source), "-o", str(target)], check=True, timeout=300)
    library = ctypes.cdll.LoadLibrary(str(target))
    for name in KERNELS:
        ffi.register_ffi_target(f"test_{name}", ffi.pycapsule(getattr(library, name)))
    return library


# The kernel of JAX's tutorial: a norm, its derivative by two more kernels


def norm(x: Any, eps: float = 1e-5, method: Any = "broadcast_all") -> effx.Array:
    call = ffi.ffi_call("test_RmsNorm", struct(*x.shape), vmap_method=method)
    return call(x, eps=np.float32(eps))


def norm_numpy(x: Any, eps: float = 1e-5) -> Any:
    return x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + eps)


@partial(effx.custom_vjp, nondiff_argnums=(1,))
def smooth_norm(x: Any, eps: float = 1e-5) -> effx.Array:
    return norm(x, eps)


def norm_fwd(x: Any, eps: float = 1e-5) -> Any:
    out = (struct(*x.shape), struct(*x.shape[:-1]))
    y, r = ffi.ffi_call("test_RmsNormFwd", out, vmap_method="broadcast_all")(x, eps=np.float32(eps))
    return y, (r, x)


def norm_bwd(eps: float, saved: Any, ct: Any) -> Any:
    r, x = saved
    return (ffi.ffi_call("test_RmsNormBwd", struct(*ct.shape), vmap_method="broadcast_all")(r, x, ct),)


smooth_norm.defvjp(norm_fwd, norm_bwd)

ROWS = np.linspace(-0.5, 1.0, 15, dtype=np.float32).reshape(3, 5)
SURROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "eager": norm,
    "jit": effx.jit(norm),
    "vmap": effx.vmap(norm),
    "jit of vmap": effx.jit(effx.vmap(norm)),
    "scan": lambda x: lax.scan(lambda c, row: (c + 1.0, norm(row)), 0.0, x)[1],
    "map": lambda x: lax.map(norm, x),
    "cond": lambda x: lax.cond(x[0, 0] < 0, norm, lambda x: x, x),
    "while": lambda x: lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, norm(s[1])), (0, x))[1],
    "checkpoint": effx.checkpoint(norm),
    "pmap": effx.pmap(norm),
    "custom_vjp": smooth_norm,
    "vmap of sequential": effx.vmap(partial(norm, method="sequential")),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_a_kernel_in_every_surrounding(kernels: ctypes.CDLL, name: str) -> None:
    np.testing.assert_allclose(SURROUNDINGS[name](ROWS), norm_numpy(ROWS), rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (0, 2), (1, 1), (2, 3, 4)])
def test_all_shapes(kernels: ctypes.CDLL, shape: tuple[int, ...]) -> None:
    x = np.linspace(1, 2, math.prod(shape), dtype=np.float32).reshape(shape)
    want = norm_numpy(x) if x.size and x.ndim else x / np.sqrt(x * x + 1e-5)
    np.testing.assert_allclose(effx.jit(norm)(x), want, rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit, lambda f: lambda x: effx.vmap(f)(x[None])[0]])
def test_gradients_by_kernels(kernels: ctypes.CDLL, wrap: Any) -> None:
    """Through custom_vjp, against central differences of the formula in NumPy."""
    weights = np.arange(15, dtype=np.float64).reshape(3, 5)
    got = wrap(effx.grad(lambda x: enp.sum(smooth_norm(x) * weights.astype(np.float32))))(ROWS)
    wide, want = ROWS.astype(np.float64), np.zeros((3, 5))
    for i in np.ndindex(3, 5):
        step = np.zeros((3, 5))
        step[i] = 1e-6
        want[i] = np.sum((norm_numpy(wide + step) - norm_numpy(wide - step)) * weights) / 2e-6
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("transform", [effx.grad, lambda f: lambda x: effx.jvp(f, (x,), (x,))])
def test_derivatives_are_refused(kernels: ctypes.CDLL, transform: Any) -> None:
    with pytest.raises(TransformError) as caught:
        transform(lambda x: enp.sum(norm(x)))(ROWS)
    assert str(caught.value).splitlines()[0] == (
        "ffi_call: effx cannot differentiate the foreign function test_RmsNorm; call it inside a function with a "
        "derivative of its own (effx.custom_jvp, effx.custom_vjp), or on effx.lax.stop_gradient of its arguments"
    )


# What a function is given


@pytest.mark.parametrize(
    ("changes", "index", "want"),
    [
        ({}, 0, 1.0),
        ({"flag": np.bool_(False)}, 0, 0.0),
        ({"wide": -(2**53)}, 1, -(2.0**53)),
        ({}, 2, -4.0),
        ({}, 3, 200.0),
        ({"single": np.float32(1e-5)}, 4, float(np.float32(1e-5))),
        ({"single": np.array(3, np.float32)}, 4, 3.0),
        ({"real": 1e-7}, 5, 1e-7),
        ({"real": float("inf")}, 5, np.inf),
        ({"real": float("nan")}, 5, np.nan),
        ({"real": np.float64(-0.1)}, 5, -0.1),
        ({"text": 'a"\\\n\x00é'}, 6, 7.0),
        ({"longs": ()}, 7, 0.0),
        ({"longs": np.array([[4, 4], [4, 4]])}, 7, 4444.0),
        ({"longs": range(3)}, 7, 12.0),
        ({"floats": np.array([1.5, 2], np.float32)}, 8, 17.0),
        ({"words": np.array([2**32 - 1], np.uint32)}, 9, 2.0**32 - 1),
        ({"words": np.array([5, 5, 5], np.uint32)}, 9, 555.0),
        ({"words": np.array([], np.uint32)}, 9, 0.0),
        ({"nested": {"inner": 8, "another one": {"deep": "x"}}}, 10, 8.0),
    ],
)
def test_attributes(kernels: ctypes.CDLL, changes: dict[str, Any], index: int, want: float) -> None:
    """As the function in C++ reads them."""
    given: dict[str, Any] = {
        "flag": True,
        "wide": 3,
        "narrow": np.int32(-4),
        "small": np.uint8(200),
        "single": np.float32(0.5),
        "real": 0.25,
        "text": "abc",
        "longs": [1, 2, 3],
        "floats": np.array([1], np.float32),
        "words": np.array([7], np.uint32),
        "nested": {"inner": 7},
    }
    with effx.enable_x64(True):
        call = ffi.ffi_call("test_AllAttributes", struct(11, dtype=np.float64))
        assert np.array_equal(np.asarray(call(**{**given, **changes}))[index], want, equal_nan=True)


@pytest.mark.parametrize(
    "value", [1j, np.float16(1), object(), None, [1, 2.0], 2**63, [2**63], {1: 2}, {"x": None}]
)
def test_no_attributes(value: Any) -> None:
    with pytest.raises(BackendError) as caught:
        ffi.ffi_call("test_none", struct(3))(enp.ones(3), n=value)
    name, shown = ("n.x", None) if value == {"x": None} else ("n", value)
    assert str(caught.value).splitlines()[0] == (
        f"ffi_call: attribute {name!r} must be a bool, number, string, NumPy array, sequence of ints or of floats, or a "
        f"mapping of such, got {shown!r}"
    )


def test_attributes_tell_calls_apart(kernels: ctypes.CDLL) -> None:
    """Equal numbers of different types are different attributes; 0.0 and -0.0 too."""
    texts = [attribute_text("a", v) for v in (1, True, 1.0, np.float32(1), np.int8(1), 0.0, -0.0)]
    assert len(set(texts)) == 7
    assert norm(ROWS, 1.0).tolist() != norm(ROWS, 2.0).tolist()


def test_layouts(kernels: ctypes.CDLL) -> None:
    """Memory is laid out as asked, also under vmap."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    call = partial(ffi.ffi_call, "test_RawCopy", struct(2, 3), vmap_method="broadcast_all")
    columns = x.T.reshape(2, 3)
    cases: list[tuple[dict[str, Any], Any]] = [
        ({}, x),
        ({"input_layouts": [(1, 0)]}, columns),
        ({"input_layouts": [[0, 1]], "output_layouts": None}, x),
        ({"input_layouts": [(1, 0)], "output_layouts": (1, 0)}, x),
        ({"output_layouts": np.array([1, 0]).tolist()}, x.reshape(3, 2).T),
    ]
    for options, want in cases:
        np.testing.assert_array_equal(call(**options)(x), want)
        batch = np.stack([x, x + 10])
        shift = np.array([0, 10], np.float32)[:, None, None]
        np.testing.assert_array_equal(effx.vmap(call(**options))(batch), want + shift)
        np.testing.assert_array_equal(
            effx.jit(effx.vmap(call(**options), 2, 1))(np.moveaxis(batch, 0, 2)),
            np.moveaxis(want + shift, 0, 1),
        )


def test_aliases(kernels: ctypes.CDLL) -> None:
    """The result takes the operand's memory, but never that of something that is needed."""
    out = (struct(3), struct(dtype=np.int32))
    call = ffi.ffi_call("test_Bump", out, input_output_aliases={0: 0}, vmap_method="broadcast_all")
    x = enp.ones(3)
    y, same = effx.jit(lambda x: call(x * 2.0))(x)
    assert (y.tolist(), int(same)) == ([3.0] * 3, 1)
    y, same = effx.jit(call)(x)
    assert (y.tolist(), x.tolist()) == ([2.0] * 3, [1.0] * 3)
    _, apart = ffi.ffi_call("test_Bump", out)(x)
    assert int(apart) == 0


def test_aliased_operands_are_whole_under_vmap() -> None:
    """An operand that all elements share gets the whole batch, since its memory takes the results of all."""
    t = struct(2)
    for method in METHODS[2:]:
        call = ffi.ffi_call("test_none", t, input_output_aliases={1: 0}, vmap_method=method)
        program = effx.make_jaxpr(effx.vmap(call, (0, None)))(enp.ones((4, 2)), enp.ones(2))
        assert "f32[4,2]" in str(program).splitlines()[-3]


@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        ("sequential", 203),
        ("sequential_unrolled", 203),
        ("expand_dims", 803),
        ("broadcast_all", 812),
        ("legacy_vectorized", 803),
    ],
)
def test_batches(kernels: ctypes.CDLL, method: Any, sizes: int) -> None:
    """What the function sees of a batch of 4 pairs, of 2 and of 3 numbers, the latter shared."""
    call = ffi.ffi_call("test_BothSizes", struct(dtype=np.int32), vmap_method=method)
    pairs = effx.vmap(call, (0, None))
    assert effx.jit(pairs)(enp.ones((4, 2)), enp.ones(3)).tolist() == [sizes] * 4
    swapped = {203: 302, 803: 308, 812: 1208}[sizes]
    assert effx.vmap(call, (None, 1))(enp.ones(3), enp.ones((2, 4))).tolist() == [swapped] * 4
    assert pairs(enp.ones((0, 2)), enp.ones(3)).shape == (0,)
    assert effx.vmap(pairs, (0, None))(enp.ones((5, 4, 2)), enp.ones(3)).shape == (5, 4)


def test_side_effects(kernels: ctypes.CDLL) -> None:
    """A call counts only where it says so; then it is an effect of the program."""
    count = kernels.CountOfCalls
    for counts, calls in ((False, 0), (True, 3)):
        call = ffi.ffi_call("test_CountedCopy", struct(3), has_side_effect=counts)
        body = lambda c, _, call=call: (call(c), c)[1:] * 2  # noqa: E731
        before = count()
        f = effx.jit(lambda x, body=body: lax.scan(body, x, None, 3)[0])
        assert f(enp.ones(3)).tolist() == [1.0] * 3
        assert count() - before == calls
        assert (FFI in f.trace(enp.ones(3)).program.effects) == counts


def test_errors_of_a_kernel(kernels: ctypes.CDLL) -> None:
    """Its own words, and XLA's of what does not fit, with the name of the function that called it."""
    call = ffi.ffi_call("test_Refuses", struct(3))
    with pytest.raises(BackendError) as caught:
        effx.block_until_ready(call(enp.ones(3)))
    assert (
        caught.value.message == "foreign_call: failed on cpu:0: INVALID_ARGUMENT: the kernel has had enough"
    )
    with pytest.raises(BackendError, match="Wrong scalar data type: expected F32 but got F64"):
        effx.block_until_ready(ffi.ffi_call("test_RmsNorm", struct(3))(enp.ones(3), eps=1.0))


@pytest.mark.parametrize("wait", [effx.block_until_ready, np.asarray, lambda x: x.block_until_ready(), float])
def test_errors_that_come_later(kernels: ctypes.CDLL, wait: Callable[[Any], object]) -> None:
    """A program that has not run when its call returns fails where its result is waited for, in each call."""

    @effx.jit
    def train(x: Any) -> Any:
        for _ in range(3):
            x = x @ x
        return ffi.ffi_call("test_Refuses", struct(3))(x[0, :3])[0]

    for _ in range(2):
        with pytest.raises(BackendError) as caught:
            wait(train(enp.ones((300, 300))))
        assert caught.value.message == "train: failed on cpu:0: INVALID_ARGUMENT: the kernel has had enough"
        assert caught.value.error_code_string == "INVALID_ARGUMENT"


def test_nobody_registered(kernels: ctypes.CDLL) -> None:
    """XLA's refusal says which operation and line of the user's it is about, outermost or inside."""

    def step(c: Any, _: Any) -> Any:
        return ffi.ffi_call("test_nobody", struct(3))(enp.sin(c)), None

    line = step.__code__.co_firstlineno + 1

    def scanned(c: Any, _: Any) -> Any:
        return lax.scan(step, c, None, 3)

    for f in (step, effx.jit(step), scanned, effx.jit(scanned)):
        with pytest.raises(BackendError) as caught:
            f(enp.ones(3), None)
        assert str(caught.value).splitlines()[:2] == [
            (
                "compile: XLA refused foreign_call (f32[3]) -> (f32[3]): NOT_FOUND: No FFI handler registered for "
                "test_nobody on a platform Host (canonical host)"
            ),
            f"  at   test_ffi.py:{line} in step",
        ]


def test_a_state_between_stages(kernels: ctypes.CDLL) -> None:
    """A type of a state, and a target of two stages, which may be registered again."""
    kernels.OffsetId.restype = kernels.OffsetInfo.restype = ctypes.c_void_p
    registration: ffi.TypeRegistration = {
        "type_id": ffi.pycapsule(kernels.OffsetId()),
        "type_info": ffi.pycapsule(kernels.OffsetInfo()),
    }
    for _ in range(2):
        ffi.register_ffi_type("test_Offset", registration)
        ffi.register_ffi_target(
            "test_offset", {"instantiate": kernels.OffsetNew, "execute": ffi.pycapsule(kernels.OffsetAdd)}
        )
    f = effx.jit(lambda x: ffi.ffi_call("test_offset", struct(3))(x, offset=np.float32(2)))
    assert f(enp.ones(3)).tolist() == f(enp.ones(3)).tolist() == [3.0] * 3
    ffi.register_ffi_type_id("test_OffsetId", ffi.pycapsule(kernels.OffsetId()))


def test_earlier_interfaces(kernels: ctypes.CDLL) -> None:
    for name in ("Doubled", "Scaled"):
        ffi.register_ffi_target(f"test_{name}", getattr(kernels, name), api_version=0)
    doubled = ffi.ffi_call("test_Doubled", struct(3), custom_call_api_version=1)
    assert doubled(enp.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
    scaled = ffi.ffi_call("test_Scaled", struct(3), custom_call_api_version=3, legacy_backend_config="2.5")
    assert effx.jit(scaled)(enp.arange(3.0)).tolist() == [0.0, 2.5, 5.0]
    with pytest.raises(BackendError) as caught:
        scaled(enp.arange(3.0), factor=2)
    assert str(caught.value).splitlines()[0] == (
        "ffi_call: test_Scaled has custom_call_api_version=3, which has no attributes; legacy_backend_config is the "
        "string that it is given"
    )


PARTS = """module attributes {{mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @m = <["i"=4]>
  func.func public @main(%arg0: tensor<4x6xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"i"}}, {{}}]>}})
      -> (tensor<4x6xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"i"}}, {{}}]>}}) {{
    %0 = stablehlo.custom_call @{name}(%arg0) {{api_version = 4 : i32, backend_config = {{eps = 1.0e-05 : f32}},
        operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>],
        mhlo.frontend_attributes = {{num_batch_dims = "1"}}}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }}
}}"""


def test_batch_partitionable(kernels: ctypes.CDLL) -> None:
    """XLA's partitioner then leaves the rows where they are."""
    ffi.register_ffi_target("test_Parts", kernels.RmsNorm)
    ffi.register_ffi_target_as_batch_partitionable("test_Parts")
    devices = tuple(effx.devices()[:4])
    for name, whole in (("test_RmsNorm", True), ("test_Parts", False)):
        options = compile_options(devices, ())
        loaded = devices[0].client.compile_and_load(
            PARTS.format(name=name), _jax.DeviceList(devices), options
        )
        assert ("= f32[4,6]" in loaded.hlo_modules()[0].to_string()) == whole


# Without a compiler: LAPACK's functions, which come with jaxlib


def cholesky(a: Any, method: Any = "broadcast_all", **options: Any) -> effx.Array:
    target = lapack_target("potrf", F32)
    batch = tuple(range(a.ndim - 2))
    columns = (*batch, a.ndim - 1, a.ndim - 2)
    call = ffi.ffi_call(
        target,
        [struct(*a.shape), struct(*a.shape[:-2], dtype=np.int32)],
        input_layouts=[columns],
        output_layouts=[columns, None],
        input_output_aliases={0: 0},
        vmap_method=method,
        **options,
    )
    found = call(a, uplo=np.uint8(ord("L")))
    assert type(found) is list
    return enp.tril(found[0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(3,), (0,), (1,), (2, 3)])
def test_lapack_in_batches(method: Any, shape: tuple[int, ...]) -> None:
    """A batch equals NumPy's loop, with column-major layouts and an alias, and vmap of vmap."""
    a = np.random.default_rng(0).normal(size=(*shape, 4, 4)).astype(np.float32)
    a = a @ np.swapaxes(a, -1, -2) + 4 * np.eye(4, dtype=np.float32)
    f: Any = partial(cholesky, method=method)
    for _ in shape:
        f = effx.vmap(f)
    np.testing.assert_allclose(effx.jit(f)(a), np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)


def test_results_have_the_structure_that_was_asked_for() -> None:
    target = lapack_target("potrf", F32)
    one = (struct(2, 2), struct(dtype=np.int32))
    uplo = np.uint8(ord("L"))
    assert type(ffi.ffi_call(target, one)(enp.eye(2), uplo=uplo)) is tuple
    assert type(ffi.ffi_call(target, list(one))(enp.eye(2), uplo=uplo)) is list
    program = effx.make_jaxpr(ffi.ffi_call("test_none", struct(2)))(1)
    assert program.out_types[0].shape == (2,)


def test_stablehlo() -> None:
    """The whole call."""
    out = (struct(2, 3), struct(dtype=np.int32))
    call = ffi.ffi_call(
        "my.kernel",
        out,
        has_side_effect=True,
        input_layouts=[(1, 0), None],
        output_layouts=[(1, 0), None],
        input_output_aliases={0: 0},
    )
    f = effx.jit(lambda x, y: call(x, y, eps=np.float32(1e-5), axes=(0, 1), on=True, name="a")[0])
    text = f.lower(enp.ones((2, 3)), enp.ones(4)).as_text()
    (line,) = [line.strip() for line in text.splitlines() if "custom_call" in line]
    assert line == (
        '%0:2 = stablehlo.custom_call @"my.kernel"(%arg0, %arg1) {api_version = 4 : i32, backend_config = {axes = '
        'array<i64: 0, 1>, eps = 9.999999747378752e-06 : f32, name = "a", on = true}, operand_layouts = [dense<[0, 1]> : '
        "tensor<2xindex>, dense<[0]> : tensor<1xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : "
        "tensor<0xindex>], has_side_effect = true, output_operand_aliases = [#stablehlo.output_operand_alias<"
        "output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]} : (tensor<2x3xf32>, tensor<4xf32>) "
        "-> (tensor<2x3xf32>, tensor<i32>)"
    )


def test_printed_programs_parse_back() -> None:
    call = ffi.ffi_call(
        "test_none",
        (struct(2, 3), struct(2, 3)),
        input_layouts=[(1, 0)],
        output_layouts=[(1, 0), None],
        input_output_aliases={0: 0},
        vmap_method="sequential",
        has_side_effect=True,
    )
    program = stage(
        lambda xs: list(call(*xs, eps=np.float32(1e-5), s='a "é')), [enp.ones((2, 3)).type]
    ).program
    text = print_program(program)
    parsed = parse_program(text)
    assert print_program(parsed) == text
    assert parsed.equations[0].op == program.equations[0].op
    assert isinstance(parsed.equations[0].op, ForeignCall)


@attrs.frozen
class Potrf(TupleOperation):
    """A factor of a matrix, by LAPACK."""

    uplo: np.uint8

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        return types[0], types[0].with_shape(()).with_dtype(np.dtype(np.int32))


def test_lowering_rules() -> None:
    """The fields of an operation are attributes; layouts list the fastest axis first; configuration stands before them."""
    target = lapack_target("potrf", F32)
    a = np.array([[4.0, 1.0], [2.0, 5.0]], np.float32)
    rows, columns = [[2.0, 0.0], [1.0, 2.0]], [[2.0, 0.0], [2.0, math.sqrt(4.75)]]
    cases: list[tuple[dict[str, Any], Any]] = [
        ({}, rows),
        ({"operand_layouts": [(0, 1)], "result_layouts": [(0, 1), ()]}, columns),
        ({"operand_output_aliases": {0: 0}}, rows),
        ({"skip_ffi_layout_processing": True, "has_side_effect": True}, rows),
    ]
    for options, want in cases:
        kind = attrs.make_class("Factor", [], bases=(Potrf,), frozen=True)
        emits(kind)(ffi.ffi_lowering(target, **options))
        op = kind(np.uint8(ord("U")))
        f = effx.jit(lambda x, op=op: op(x)[0])
        np.testing.assert_allclose(np.tril(f(a)), want, rtol=1e-6)
        text = f.lower(a).as_text()
        assert ("operand_layouts" in text) != ("skip_ffi_layout_processing" in options)
        assert ("has_side_effect = true" in text) == ("has_side_effect" in options)
    kind = attrs.make_class("Configured", [], bases=(Potrf,), frozen=True)
    write = ffi.build_ffi_lowering_function(target, backend_config={"n": 1, "uplo": 2})
    emits(kind)(lambda body, op, inputs, outputs: write(body, inputs, outputs, uplo=op.uplo))
    text = effx.jit(lambda x: kind(np.uint8(3))(x)[0]).lower(a).as_text()
    assert "backend_config = {n = 1 : i64, uplo = 3 : ui8}" in text
    write = ffi.build_ffi_lowering_function("old", api_version=2, backend_config='a"b')
    old = attrs.make_class("Old", [], bases=(Potrf,), frozen=True)
    emits(old)(lambda body, op, inputs, outputs: write(body, inputs, outputs))
    text = effx.jit(lambda x: old(np.uint8(3))(x)[0]).lower(a).as_text()
    assert 'api_version = 2 : i32, backend_config = "a\\22b"' in text


def test_other_platforms_are_handed_to_their_plugins() -> None:
    """jaxlib keeps what is registered until the plugin asks for it."""
    from jaxlib import xla_client

    asked: list[tuple[Any, ...]] = []
    capsule = ffi.pycapsule(ctypes.pythonapi.Py_IncRef)
    ffi.register_ffi_target("test_there", capsule, platform="rocm", traits=1)
    xla_client.register_custom_call_handler("ROCM", lambda *args: asked.append(args))
    assert ("test_there", capsule, "ROCM", 1) in [args[:4] for args in asked]
