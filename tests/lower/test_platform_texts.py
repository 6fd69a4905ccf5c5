"""The text for each platform, which need not be present: kernels that are called, and operations without a form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.dtypes import as_dtype, mlir_name
from effx.errors import BackendError, EffxError
from effx.export import export, symbolic_shape
from effx.lax import linalg
from effx.lower.text.emit import PLATFORMS
from effx.lower.text.hlo import mlir_module
from effx.lower.text.stablehlo.reduce import HAS_SCAN
from effx.sharding import NamedSharding, PartitionSpec


def struct(*shape: int, dtype: Any = np.float32) -> effx.ShapeDtypeStruct:
    """Returns a shape with a dtype."""
    return effx.ShapeDtypeStruct(shape, dtype)


def scanned(x: Any) -> Any:
    """A loop whose body is computed again."""
    return lax.scan(effx.checkpoint(lambda c, _: (enp.sin(c), None)), x, None, length=3)[0]


def lowered(fun: Callable[..., Any], arguments: tuple[Any, ...], platform: str) -> str:
    """Returns the text for a platform, which MLIR must know how to read."""
    text = effx.jit(fun).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    mlir_module(text)
    return text


M, V, X = struct(3, 3), struct(3), struct()

# The words for cpu, cuda, rocm and tpu.
Words = tuple[str, str, str, str]
SOLVE, LOOP = "stablehlo.triangular_solve", "stablehlo.while"
DIFFERENT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Words]] = {
    "triangular_solve": (
        lambda a, b: linalg.triangular_solve(a, b, left_side=True),
        (M, M),
        ("@lapack_strsm_ffi", SOLVE, SOLVE, SOLVE),
    ),
    "cholesky": (
        linalg.cholesky,
        (M,),
        ("@lapack_spotrf_ffi", "@cusolver_potrf_ffi", "@hipsolver_potrf_ffi", "stablehlo.cholesky"),
    ),
    "lu": (
        linalg.lu,
        (M,),
        ("@lapack_sgetrf_ffi", "@cusolver_getrf_ffi", "@hipsolver_getrf_ffi", "@LuDecomposition"),
    ),
    "permutation of lu": (
        lambda a: linalg.lu(a)[2],
        (M,),
        (
            "stablehlo.while",
            "@cu_lu_pivots_to_permutation",
            "@hip_lu_pivots_to_permutation",
            "@LuDecomposition",
        ),
    ),
    "geqrf": (linalg.qr, (M,), ("@lapack_sgeqrf_ffi", "@cusolver_geqrf_ffi", "@hipsolver_geqrf_ffi", "@Qr")),
    "householder_product": (
        linalg.qr,
        (M,),
        (
            "@lapack_sorgqr_ffi",
            "@cusolver_orgqr_ffi",
            "@hipsolver_orgqr_ffi",
            "@ProductOfElementaryHouseholderReflectors",
        ),
    ),
    "geqp3": (lambda a: linalg.qr(a, pivoting=True), (M,), ("@lapack_sgeqp3_ffi", LOOP, LOOP, LOOP)),
    "svd": (
        linalg.svd,
        (M,),
        ("@lapack_sgesdd_ffi", "@cusolver_gesvdj_ffi", "@hipsolver_gesvdj_ffi", "@Eigh"),
    ),
    "svd of large matrices": (
        linalg.svd,
        (struct(1025, 3),),
        ("@lapack_sgesdd_ffi", "@cusolver_gesvd_ffi", "@hipsolver_gesvd_ffi", "@Eigh"),
    ),
    "svd by QR": (
        lambda a: linalg.svd(a, algorithm=linalg.SvdAlgorithm.QR),
        (M,),
        ("@lapack_sgesvd_ffi", "@cusolver_gesvd_ffi", "@hipsolver_gesvd_ffi", "@Eigh"),
    ),
    "eigh": (
        linalg.eigh,
        (M,),
        ("@lapack_ssyevd_ffi", "@cusolver_syevd_ffi", "@hipsolver_syevd_ffi", "@Eigh"),
    ),
    "eig": (linalg.eig, (M,), ("@lapack_sgeev_ffi", "@cusolver_geev_ffi", LOOP, LOOP)),
    "schur": (linalg.schur, (struct(3, 3, dtype=np.complex64),), ("@lapack_cgees_ffi", LOOP, LOOP, LOOP)),
    "hessenberg": (linalg.hessenberg, (M,), ("@lapack_sgehrd_ffi", LOOP, LOOP, LOOP)),
    "tridiagonal": (
        linalg.tridiagonal,
        (M,),
        ("@lapack_ssytrd_ffi", "@cusolver_sytrd_ffi", "@hipsolver_sytrd_ffi", LOOP),
    ),
    "tridiagonal_solve": (
        linalg.tridiagonal_solve,
        (V, V, V, M),
        ("@lapack_sgtsv_ffi", "@cusparse_gtsv2_ffi", "stablehlo.divide", "stablehlo.divide"),
    ),
}


@pytest.mark.parametrize("place", range(4), ids=PLATFORMS)
@pytest.mark.parametrize("name", DIFFERENT)
def test_forms_of_platforms(name: str, place: int) -> None:
    """Each platform has its own form and no other's."""
    fun, arguments, words = DIFFERENT[name]
    platform, word = PLATFORMS[place], words[place]
    text = lowered(fun, arguments, platform)
    assert re.search(rf"{word}\b", text)
    assert not [w for w in words if w != word and re.search(rf"{w}\b", text)]


# What is the same text everywhere.
SAME: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "arithmetic": (lambda x, y: enp.maximum(x @ y, 0.0) * 2.0, (M, V), "dot_general"),
    "fft": (enp.fft.fft, (struct(8, dtype=np.complex64),), "fft"),
    "sort": (enp.sort, (struct(8, dtype=np.int32),), "sort"),
    "branch": (lambda x: lax.cond(x > 0, enp.sin, enp.cos, x), (X,), "case"),
    "loop": (lambda x: lax.while_loop(lambda x: x < 1, lambda x: x * 2, x), (X,), "while"),
    "bits": (
        lambda k: lax.rng_bit_generator(k, (4,))[1],
        (struct(4, dtype=np.uint32),),
        "rng_bit_generator",
    ),
    "cumulative, short": (enp.cumsum, (struct(50),), "reduce_window"),
    "scatter": (lambda x, i: x.at[i].add(1.0), (V, struct(2, dtype=np.int32)), "scatter"),
    "convolution": (
        lambda x, y: lax.conv(x, y, (1, 1), "SAME"),
        (struct(1, 2, 8, 8), struct(3, 2, 3, 3)),
        "convolution",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_one_text_for_all(name: str) -> None:
    """Programs without kernels of a platform have one text."""
    fun, arguments, word = SAME[name]
    texts = {lowered(fun, arguments, platform) for platform in PLATFORMS}
    assert len(texts) == 1
    assert f"stablehlo.{word}" in texts.pop()


GOLDEN = """\
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.tanh %arg0 : tensor<3xf32>
    %1 = stablehlo.multiply %0, %arg1 : tensor<3xf32>
    %c0 = stablehlo.constant dense<1.0> : tensor<3xf32>
    %2 = stablehlo.add %1, %c0 : tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
"""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_whole_text(platform: str) -> None:
    """A small program, letter by letter."""

    def f(x: Any, y: Any) -> Any:
        return enp.tanh(x) * y + 1.0

    assert lowered(f, (V, V), platform) == GOLDEN


@pytest.mark.parametrize("reverse", [False, True])
def test_prefix_sums(reverse: bool) -> None:
    """A loop, in front of it rows of eight of many; a window that XLA cuts itself; a scan that it knows."""

    def words_of(n: int, platform: str, words: tuple[str, ...]) -> list[str]:
        text = lowered(lambda x: lax.cumsum(x, reverse=reverse), (struct(n),), platform)
        return [word for word in words if word in text]

    loop, window, scan = words = ("stablehlo.while", "stablehlo.reduce_window", "chlo.scan")
    # jaxlib 0.10 hands no TPU the scan.
    on_tpu = [scan] if HAS_SCAN else [loop, window]
    forms = {platform: words_of(1000, platform, words) for platform in PLATFORMS}
    assert forms == {"cpu": [loop, window], "cuda": [window], "rocm": [window], "tpu": on_tpu}
    has_rows = {platform: words_of(200_000, platform, ("stablehlo.select",)) != [] for platform in PLATFORMS}
    assert has_rows == {"cpu": True, "cuda": False, "rocm": False, "tpu": False}


def test_sorts() -> None:
    """As integers on CPUs, and by a comparator that XLA knows elsewhere."""
    for platform in PLATFORMS:
        text = lowered(lambda x, y: enp.lexsort((x, y)), (struct(8), struct(8)), platform)
        assert ("bitcast_convert" in text) == (platform == "cpu")
        assert ("TOTALORDER" in text) == (platform != "cpu")


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("fun", [enp.sin, scanned])
def test_barriers(fun: Callable[[Any], Any], platform: str) -> None:
    """What is computed again stays apart from what it repeats, on each platform."""

    @effx.checkpoint
    def twice(x: Any) -> Any:
        return fun(enp.sin(x))

    text = lowered(effx.grad(twice), (X,), platform)
    assert "stablehlo.optimization_barrier" in text


CALLS_OF_PYTHON = [lambda x: effx.pure_callback(np.sin, X, x), lambda x: effx.debug.print("{}", x)]


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm"])
@pytest.mark.parametrize("fun", CALLS_OF_PYTHON, ids=["pure_callback", "debug.print"])
def test_python_is_called_by_the_kernel_of_the_platform(fun: Callable[[Any], Any], platform: str) -> None:
    target = f"xla_ffi_python_{'cpu' if platform == 'cpu' else 'gpu'}_callback"
    assert f"@{target}(" in lowered(fun, (X,), platform)


@pytest.mark.parametrize("fun", CALLS_OF_PYTHON, ids=["pure_callback", "debug.print"])
def test_tpus_send_to_the_host_and_receive(fun: Callable[[Any], Any]) -> None:
    """Something is received also where a call has no results."""
    text = lowered(fun, (X,), "tpu")
    assert re.findall(r"stablehlo.(create_token|send|recv)", text) == ["create_token", "send", "recv"]
    assert "custom_call" not in text


def test_transfers_of_a_tpu_have_an_order() -> None:
    """Each has a channel, and comes after the one before; those in a loop after one another."""

    def f(x: Any) -> Any:
        effx.debug.print("before {}", x)
        y = effx.pure_callback(lambda x, y: (x, y), (X, X), x, x)[1]

        def body(c: Any, _: Any) -> Any:
            effx.debug.print("one {}", c)
            effx.debug.print("two {}", c)
            return c * 2, None

        y = lax.scan(body, y, None, length=3)[0]
        effx.debug.print("after")
        return y

    text = lowered(f, (X,), "tpu")
    channels = [int(c) for c in re.findall(r"channel_handle<handle = (\d+)", text)]
    assert sorted(channels) == list(range(2, 2 + 2 + 4 + 2 + 2 + 2))
    assert len(re.findall("create_token", text)) == 2
    for function in text.split("func.func"):
        tokens = re.findall(r'"stablehlo.(?:send|recv)"\((?:[^,()]*, )?(%[\w#]+)\)', function)
        assert len(set(tokens)) == len(tokens)


def test_channels_of_functions_that_are_called_twice() -> None:
    """A program that calls Python is written anew for each of its calls."""
    shown = effx.jit(lambda x: effx.pure_callback(np.sin, X, x) * 2)

    def f(x: Any) -> Any:
        x = shown(shown(x))
        return lax.scan(lambda c, _: (shown(c), None), x, None, length=5, unroll=2)[0]

    channels = re.findall(r"channel_handle<handle = (\d+)", lowered(f, (X,), "tpu"))
    assert len(channels) == len(set(channels)) >= 8


def test_parts_of_arrays_for_python_are_refused_on_tpus() -> None:
    mesh = effx.make_mesh((2,), ("x",), devices=effx.devices()[:2])
    cut = effx.ShapeDtypeStruct((4,), "float32", sharding=NamedSharding(mesh, PartitionSpec("x")))

    def f(x: Any) -> Any:
        effx.debug.print("{}", x, partitioned=True)
        return x

    with pytest.raises(BackendError) as caught:
        effx.jit(f).trace(cut).lower(lowering_platforms=("tpu",)).as_text()
    assert caught.value.message == (
        "python_callback: programs for TPUs call Python once for all devices, or in parallel maps over all axes; this call "
        "is for the parts of an array"
    )


@pytest.mark.parametrize("fun", CALLS_OF_PYTHON, ids=["pure_callback", "debug.print"])
def test_the_first_of_several_tpus_calls_python(fun: Callable[[Any], Any]) -> None:
    mesh = effx.make_mesh((2,), ("x",), devices=effx.devices()[:2])
    cut = effx.ShapeDtypeStruct((4,), "float32", sharding=NamedSharding(mesh, PartitionSpec("x")))

    def mapped(x: Any) -> Any:
        return fun(x.sum()), x * 2

    text = effx.jit(mapped).trace(cut).lower(lowering_platforms=("tpu",)).as_text()
    mlir_module(text)
    sends = [line for line in text.splitlines() if "stablehlo.send" in line or "stablehlo.recv" in line]
    assert len(sends) == 2
    assert all(["<@one, []>" in line for line in sends])


def test_algorithms_of_products() -> None:
    """An algorithm that CPUs lack is written for the others."""

    def f(x: Any, y: Any) -> Any:
        return lax.dot(x, y, precision=lax.DotAlgorithmPreset.TF32_TF32_F32_X3)

    for platform in PLATFORMS[1:]:
        assert "lhs_precision_type = tf32" in lowered(f, (M, M), platform)
    with pytest.raises(EffxError, match="XLA has no algorithm TF32_TF32_F32_X3 on CPUs, only F16_F16_F16"):
        lowered(f, (M, M), "cpu")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_products_of_bytes(platform: str) -> None:
    """XLA's compiler for CUDA ends the process on floating sums, and doubles sums of 3 terms: there are floats, or 4."""
    x = struct(2, 3, dtype=np.int8)
    forms = {np.float32: "xi8>", np.int32: "2x3xi8>"}
    on_gpu = {np.float32: "2x3xf32>", np.int32: "2x4xi8>"}
    for preferred, word in (on_gpu if platform in ("cuda", "rocm") else forms).items():

        def f(x: Any, preferred: Any = preferred) -> Any:
            return lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=preferred)

        (line,) = [line for line in lowered(f, (x,), platform).splitlines() if "dot_general" in line]
        assert word in line
        assert ("HIGHEST" in line) == ("xf32>, tensor" in line)


# Operands, the sum that is asked for, operands and sum of the product that accelerators get: those compilers refuse the
# others, or end the process.
SUMS = [
    ("float64", "float32", "f64", "f64"),
    ("float64", "bfloat16", "f64", "f64"),
    ("complex128", "complex64", "complex<f64>", "complex<f64>"),
    ("complex64", "complex128", "complex<f64>", "complex<f64>"),
    ("float32", "complex64", "f32", "f32"),
    ("float64", "complex64", "f64", "f64"),
    ("bfloat16", "complex64", "bf16", "f32"),
    ("float32", "bfloat16", "f32", "bf16"),
    ("float32", "float64", "f32", "f64"),
    ("float32", "int32", "f32", "i32"),
]


@pytest.mark.parametrize(("operand", "preferred", "taken", "total"), SUMS)
@pytest.mark.parametrize("platform", PLATFORMS[1:])
def test_sums_of_products(platform: str, operand: str, preferred: str, taken: str, total: str) -> None:
    """Products are summed in a type that the platform has, and converted then."""

    def f(x: Any) -> Any:
        return lax.dot(x, x, preferred_element_type=as_dtype(preferred))

    with effx.enable_x64(True):
        text = lowered(f, (struct(4, 4, dtype=as_dtype(operand)),), platform)
    (line,) = [line for line in text.splitlines() if "dot_general" in line]
    assert line.endswith(f": (tensor<4x4x{taken}>, tensor<4x4x{taken}>) -> tensor<4x4x{total}>")
    assert f"-> (tensor<4x4x{mlir_name(as_dtype(preferred))}>)" in text


@pytest.mark.parametrize("platform", PLATFORMS[1:])
@pytest.mark.parametrize("operand", ["bool", "int8"])
def test_complex_sums_of_integers(platform: str, operand: str) -> None:
    x = struct(4, 4, dtype=as_dtype(operand))
    text = lowered(lambda x: lax.dot(x, x, preferred_element_type=np.complex64), (x,), platform)
    (line,) = [line for line in text.splitlines() if "dot_general" in line]
    taken = mlir_name(as_dtype(operand)) if platform == "tpu" else "f32"
    assert line.endswith(f"tensor<4x4x{taken}>) -> tensor<4x4xf32>")


def test_wide_integers_on_tpus() -> None:
    """Their compiler refuses products of 64-bit integers, or ends the process on them."""
    advice = (
        r"XLA sums no products of 64-bit integers on TPUs, got i64\[{}\]; convert them to int32 or float32"
    )
    with effx.enable_x64(True):
        x = struct(4, 4, dtype=np.int64)
        with pytest.raises(BackendError, match="dot_general: " + advice.format("4,4")):
            lowered(lambda x: x @ x, (x,), "tpu")
        with pytest.raises(BackendError, match="convolution: " + advice.format("1,1,4,4")):
            lowered(lambda x: lax.conv(x, x, (1, 1), "SAME"), (struct(1, 1, 4, 4, dtype=np.int64),), "tpu")


@pytest.mark.parametrize("platform", PLATFORMS[1:])
def test_sums_of_convolutions(platform: str) -> None:
    """As of products: complex sums of reals are real, and complex operands have the sum's precision."""

    def f(x: Any) -> Any:
        return lax.conv(x, x, (1, 1), "SAME", preferred_element_type=np.complex128)

    # On GPUs the real and imaginary parts are convolved: four products.
    on_gpu = platform != "tpu"
    forms = {np.float32: ("f64", 1), np.complex64: ("f64", 4) if on_gpu else ("complex<f64>", 1)}
    with effx.enable_x64(True):
        for dtype, (total, count) in forms.items():
            text = lowered(f, (struct(1, 1, 4, 4, dtype=dtype),), platform)
            lines = [line for line in text.splitlines() if "stablehlo.convolution" in line]
            assert len(lines) == count
            assert all([line.endswith(f"-> tensor<1x1x4x4x{total}>") for line in lines])


def test_bytes_along_axes_of_unknown_size() -> None:
    """Zeros cannot fill up a sum whose length is not known: on GPUs the operands are wider."""

    def f(x: Any) -> Any:
        return lax.dot(x, x.T, preferred_element_type=np.int32)

    rows, columns = symbolic_shape("n, m")
    for platform in PLATFORMS:
        exported = export(effx.jit(f), platforms=(platform,))(struct(rows, columns, dtype=np.int8))
        (line,) = [line for line in exported.mlir_module().splitlines() if "dot_general" in line]
        assert ("xi32>, tensor" in line) == (platform in ("cuda", "rocm"))
