"""`xla_computation`: the reference's examples, what the computation computes, and each option.

Never: compares whole texts of HLO, in which XLA's versions name instructions differently.
"""

from __future__ import annotations

import re
import types
from typing import Any

import jaxlib._jax as _jax
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, random
from effx.errors import AxisNameError, EffxError, ShapeError, TransformError, TreeError
from effx.ir.types import array_type
from effx.lower.placement.concrete import to_concrete
from effx.lower.placement.shardings import grid_sharding, mesh_buffer_sharding
from effx.lower.text.hlo import XlaComputation

Data = np.ndarray[Any, Any]


def instructions(c: XlaComputation) -> list[str]:
    """Returns the instructions of the entry without their names' numbers."""
    entry = c.as_hlo_text(print_large_constants=True).split("ENTRY", 1)[1]
    return [
        re.sub(r"([A-Za-z_]\w*)\.\d+", r"\1", line.strip())
        for line in entry.splitlines()[1:]
        if " = " in line
    ]


def groups(c: XlaComputation) -> list[str]:
    """Returns the replica groups of the all-reduces, in order."""
    return [
        found[1]
        for line in instructions(c)
        if (found := re.search(r"all-reduce.*replica_groups=(\{.*\}\}),", line))
    ]


def execute(c: XlaComputation, arguments: list[Data], replicas: int = 1) -> list[list[Data]]:
    """Runs a computation on arguments with the replicas in front; returns for each result those of all replicas."""
    devices = tuple(effx.devices()[:replicas])
    options = _jax.CompileOptions()
    options.num_replicas = replicas
    options.executable_build_options.num_replicas = replicas
    text = _jax.mlir.xla_computation_to_mlir_module(c)
    loaded = devices[0].client.compile_and_load(text, _jax.DeviceList(devices), options)
    given = []
    for x in arguments:
        parts = [to_concrete(effx.device_put(part, d)).buffer for part, d in zip(x, devices, strict=True)]
        whole = mesh_buffer_sharding(grid_sharding(devices, (replicas,), ()), x.ndim - 1)
        given.append(
            parts[0]
            if replicas == 1
            else _jax.ArrayImpl(
                array_type(x.dtype, x.shape[1:]), whole, parts, committed=True, _skip_checks=True
            )
        )
    results = loaded.execute_sharded(given).disassemble_into_single_device_arrays()
    # `np.asarray` reads no 8-bit floats from jaxlib's arrays, unless jax is imported.
    return [[part._single_device_array_to_np_array_did_copy()[0] for part in parts] for parts in results]


# The reference's examples


def test_unary() -> None:
    """The first documented example: an argument, its cosine, the sine of that, and a tuple."""

    def f(x: Any) -> Any:
        return enp.sin(enp.cos(x))

    scalar = types.SimpleNamespace(shape=(), dtype=np.float32)
    for c in (effx.xla_computation(f)(3.0), effx.xla_computation(f)(scalar)):
        assert c.as_hlo_text().startswith("HloModule xla_computation_f")
        assert instructions(c) == [
            "Arg_0 = f32[] parameter(0)",
            "cos = f32[] cosine(Arg_0)",
            "sin = f32[] sine(cos)",
            "ROOT tuple = (f32[]) tuple(sin)",
        ]


def test_one_axis() -> None:
    """The second documented example: one group of all replicas."""
    c = effx.xla_computation(lambda x: x - lax.psum(x, "i"), axis_env=[("i", 4)])(2)
    assert groups(c) == ["{{0,1,2,3}}"]
    assert [line.split(", ")[0] for line in instructions(c)] == [
        "Arg_0 = s32[] parameter(0)",
        "psum = s32[] all-reduce(Arg_0)",
        "sub = s32[] subtract(Arg_0",
        "ROOT tuple = (s32[]) tuple(sub)",
    ]


def of_two_axes(x: Any) -> Any:
    """Sums over rows, over columns, and over all."""
    return lax.psum(x, "i"), lax.psum(x, "j"), lax.psum(x, ("i", "j"))


def test_two_axes() -> None:
    """The third documented example: groups over the first axis, over the second, and over both at once."""
    c = effx.xla_computation(of_two_axes, axis_env=[("i", 4), ("j", 2)])(5.0)
    assert groups(c) == ["{{0,2,4,6},{1,3,5,7}}", "{{0,1},{2,3},{4,5},{6,7}}", "{{0,1,2,3,4,5,6,7}}"]
    assert instructions(c)[-1] == "ROOT tuple = (f32[], f32[], f32[]) tuple(psum, psum, psum)"


# What is computed


def test_replicas_compute_what_vmap_does() -> None:
    """Replicas that run the computation get what batch elements get."""

    def f(x: Any) -> Any:
        sums = of_two_axes(x)
        turned = lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)])
        return *sums, turned, lax.all_gather(x, "j"), lax.axis_index("i"), lax.pmax(x, ("i", "j"))

    x = np.arange(8, dtype=np.float32) ** 2
    c = effx.xla_computation(f, axis_env=[("i", 4), ("j", 2)])(5.0)
    got = execute(c, [x], 8)
    want = effx.vmap(effx.vmap(f, axis_name="j"), axis_name="i")(x.reshape(4, 2))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.stack(g), np.asarray(w).reshape(8, *w.shape[2:]))


def test_parallel_map_inside() -> None:
    """A parallel map in the function adds its replicas, as the innermost axis."""

    def f(x: Any) -> Any:
        return lax.psum(effx.pmap(lambda y: y * lax.psum(y, "k"), axis_name="k")(x), "i")

    c = effx.xla_computation(f, axis_env=[("i", 2)])(np.ones(2, np.float32))
    assert set(re.findall(r"replica_groups=(\S+),", c.as_hlo_text())) == {"{{0,2},{1,3}}", "{{0,1},{2,3}}"}
    x = np.array([[1, 2], [1, 2], [3, 4], [3, 4]], np.float32)
    (got,) = execute(c, [x], 4)
    np.testing.assert_allclose(np.stack(got), [[24, 34]] * 4)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(20.0, dtype=np.float32),
        np.array([[0.0, -0.0], [np.nan, np.inf]], np.float32),
        np.array([True, False, True]),
        np.zeros((2, 0), np.int32),
        np.array(7, np.uint8),
        np.array([1 + 2j, -3j], np.complex64),
        np.arange(-8, 8).astype(effx.dtypes.int4),
        np.array([0.5, -448], effx.dtypes.float8_e4m3fn),
    ],
    ids=lambda v: f"{v.dtype}-{v.shape}",
)
def test_constants(value: Data) -> None:
    """What a function closes over stands in the computation, bit by bit."""
    held = enp.array(value)
    c = effx.xla_computation(lambda x: (x, held))(1.0)
    assert len(c.program_shape().parameter_shapes()) == 1
    if value.dtype == np.dtype(effx.dtypes.int4):
        assert "s4[16]" in c.as_hlo_text()
        return  # buffers of bits are packed differently
    got = execute(c, [np.ones(1, np.float32)])[1][0]
    assert got.dtype == value.dtype
    assert got.tobytes() == value.tobytes()


def test_keys_as_constants() -> None:
    """A key that is closed over gives the same numbers."""
    key = random.key(3)
    c = effx.xla_computation(lambda n: random.bits(key, (3,)) + n)(np.uint32(1))
    np.testing.assert_array_equal(
        execute(c, [np.ones(1, np.uint32)])[0][0], np.asarray(random.bits(key, (3,))) + 1
    )


# Options


def test_static_arguments_and_shapes() -> None:
    """Static arguments are part of the computation; shapes come in the structure of the result."""

    def f(x: Any, n: int, *, y: Any) -> Any:
        return {"a": x**n, "b": [y]}

    make = effx.xla_computation(f, static_argnums=(1,), return_shape=True)
    c, shape = make(np.ones((2, 3), np.float32), 2, y=1)
    assert shape == {
        "a": effx.ShapeDtypeStruct((2, 3), "float32"),
        "b": [effx.ShapeDtypeStruct((), "int32", weak_type=True)],
    }
    assert [s.dimensions() for s in c.program_shape().parameter_shapes()] == [(2, 3), ()]
    assert c.program_shape().result_shape().is_tuple()
    assert make.__name__ == "f"


@pytest.mark.parametrize(
    ("count", "tuple_args", "wanted"), [(2, False, 2), (2, True, 1), (2, None, 2), (101, None, 1)]
)
def test_tuple_args(count: int, tuple_args: bool | None, wanted: int) -> None:
    """One argument for all if asked for, or where there are more than 100."""
    c = effx.xla_computation(lambda *xs: sum(xs), tuple_args=tuple_args)(*[1.0] * count)
    assert len(c.program_shape().parameter_shapes()) == wanted


def test_donation() -> None:
    """The memory of a donated argument is that of a result like it; else it is free."""
    x = np.ones((3,), np.float32)
    text = effx.xla_computation(lambda a, b: a + b, donate_argnums=1)(x, x).as_hlo_text()
    assert "input_output_alias={ {0}: (1, {}, may-alias) }" in text
    text = effx.xla_computation(lambda a, b: (a + b).sum(), donate_argnums=(0,))(x, x).as_hlo_text()
    assert "buffer_donor={ (0, {}) }" in text


def test_parts() -> None:
    """Each array has its partitioning; None in a prefix is for all arrays below."""
    x, y = np.ones((4, 6), np.float32), {"p": np.ones(4, np.float32), "q": np.ones(4, np.float32)}

    def f(x: Any, y: Any) -> Any:
        return x.sum(1) + y["p"] * y["q"], y

    c = effx.xla_computation(f, in_parts=((2, 1), None), out_parts=((2,), {"p": None, "q": (2,)}))(x, y)
    text = "\n".join(instructions(c))
    assert "Arg_0 = f32[4,6]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}" in text
    assert (
        text.count("parameter(1), sharding={replicated}")
        == text.count("parameter(2), sharding={replicated}")
        == 1
    )
    assert instructions(c)[-1].endswith("sharding={{devices=[2]<=[2]}, {replicated}, {devices=[2]<=[2]}}")
    assert c.as_serialized_hlo_module_proto()
    whole = effx.xla_computation(f)(x, y)
    assert "sharding" not in whole.as_hlo_text()


def test_platforms() -> None:
    """A computation may be for a platform that is not here."""

    def f(x: Any) -> Any:
        return enp.argsort(x)

    x = np.ones(3, np.float32)
    assert effx.xla_computation(f, backend="cpu")(x).as_hlo_text() == effx.xla_computation(f)(x).as_hlo_text()
    for platform in ("gpu", "tpu", "cuda", "rocm"):
        assert "sort(" in effx.xla_computation(f, backend=platform)(x).as_hlo_text()


def test_forms() -> None:
    """The computation in its other forms."""
    sin: Any = enp.sin
    c = effx.xla_computation(sin, instantiate_const_outputs=True)(3.0)
    assert c.name() == "xla_computation_sin"
    assert c.as_hlo_dot_graph().startswith("digraph")
    again = XlaComputation(c.as_serialized_hlo_module_proto())
    assert again.as_hlo_text() == c.as_hlo_text()
    assert repr(c.program_shape()) == "(p0: f32[]) -> (f32[])"


def test_inside_other_transformations() -> None:
    """Under a handler, constants of the surroundings are constants; its own values cannot be."""

    @effx.jit
    def inside(x: Any) -> Any:
        held = enp.arange(3.0)
        c = effx.xla_computation(lambda y: y + 2.0)(held)
        assert "add(" in c.as_hlo_text()
        effx.xla_computation(lambda y: y + x)(held)
        return x

    with pytest.raises(TransformError, match=r"closes over a value of jit, which a computation cannot hold"):
        inside(1.0)


def _f(x: Any) -> Any:
    return x


X = np.ones((4, 2), np.float32)


@pytest.mark.parametrize(
    ("options", "arguments", "kind", "message"),
    [
        (
            {"instantiate_const_outputs": False},
            (1.0,),
            TransformError,
            (
                "xla_computation: instantiate_const_outputs=False is not supported: results that do not depend on "
                "arguments are always part of the computation; leave it out"
            ),
        ),
        (
            {"axis_env": [("i", 2), ("i", 3)]},
            (1.0,),
            TransformError,
            "xla_computation: axis_env names an axis twice: [('i', 2), ('i', 3)]",
        ),
        (
            {"axis_env": [("i", 0)]},
            (1.0,),
            TransformError,
            "xla_computation: axis_env gives the axis 'i' the size 0; it must be positive",
        ),
        pytest.param(
            {"axis_env": ["i"]},
            (1.0,),
            TransformError,
            "xla_computation: axis_env must be a sequence of pairs of an axis name and a size, got ['i']",
            marks=pytest.mark.unguarded,
        ),
        (
            {"static_argnums": 0, "donate_argnums": 0},
            (1.0,),
            TransformError,
            "xla_computation: arguments cannot be both static and donated: [0]",
        ),
        (
            {"backend": "x"},
            (1.0,),
            TransformError,
            "xla_computation: backend must be one of gpu, cpu, cuda, rocm, tpu, got 'x'",
        ),
        (
            {"in_parts": ((2,),)},
            (X,),
            ShapeError,
            "xla_computation: in_parts must give a positive number of parts for each axis, got (2,) for f32[4,2]",
        ),
        (
            {"in_parts": ((2, 1),), "out_parts": (4, 1)},
            (X,),
            TransformError,
            "xla_computation: in_parts and out_parts must all have one number of partitions, got [2, 4]",
        ),
        (
            {"in_parts": ("a",)},
            (X,),
            TransformError,
            "xla_computation: in_parts must hold tuples of ints and None, got 'a'",
        ),
        (
            {"in_parts": (None, None)},
            (X,),
            TreeError,
            "xla_computation: in_parts is a tuple of length 2, the arguments a tuple of length 1",
        ),
    ],
)
def test_errors(
    options: dict[str, Any], arguments: tuple[Any, ...], kind: type[EffxError], message: str
) -> None:
    """Each wrong option is named."""
    make: Any = effx.xla_computation
    with pytest.raises(kind) as caught:
        make(_f, **options)(*arguments)
    assert caught.value.message == message


def test_unbound_axes() -> None:
    """A collective over an axis that is not in the environment is an error, which lists those that are."""
    with pytest.raises(AxisNameError, match="psum"):
        effx.xla_computation(lambda x: lax.psum(x, "j"), axis_env=[("i", 2)])(1.0)


def test_programs_with_axes() -> None:
    """`make_jaxpr` binds axes as well, and leaves them in the effect row."""
    program = effx.make_jaxpr(of_two_axes, axis_env=[("i", 4), ("j", 2)])(5.0)
    assert (
        str(program).splitlines()[0]
        == "of_two_axes(a: f32[]~) ! AxisEffect(axis='i'), AxisEffect(axis='j') {"
    )
    with pytest.raises(TransformError, match=r"^make_jaxpr: axis_env names an axis twice"):
        effx.make_jaxpr(_f, axis_env=[("i", 2), ("i", 3)])


def test_nested_parallel_maps_sum_once() -> None:
    """A sum over two axes of parallel maps around is one sum over the devices of both."""
    f = effx.pmap(effx.pmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")
    x = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    assert f.lower(x).as_text().count("stablehlo.all_reduce") == 1
    np.testing.assert_allclose(np.asarray(f(x)), np.full((4, 2), x.sum()))

    def both(x: Any) -> Any:
        of_column = lax.psum(x, "i")
        return of_column, lax.psum(of_column, "j")

    twice: Any = effx.pmap(effx.pmap(both, axis_name="j"), axis_name="i")
    got = twice(x)
    np.testing.assert_allclose(np.asarray(got[0]), np.broadcast_to(x.sum(0), (4, 2)))
    np.testing.assert_allclose(np.asarray(got[1]), np.full((4, 2), x.sum()))
