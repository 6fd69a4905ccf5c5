"""Layouts of a custom order: what is computed from arrays does not depend on how they lie, and requests are honoured.

The oracle is NumPy, or the same function of arrays that lie row by row; how an array lies is read off XLA's own buffer.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import BackendError, EffxError, OptionError, ShapeError, ShardingError
from effx.experimental.layout import Format, Layout, with_layout_constraint
from effx.experimental.serialize_executable import deserialize_and_load, serialize
from effx.ir.ops.base import Elementwise
from effx.ir.ops.collective import Collective
from effx.lower.placement.layouts import read_layout
from effx.sharding import NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P
from tests.ops.rows import Row, Sample, host
from tests.ops.table import ROWS

HERE = SingleDeviceSharding(effx.devices()[0])
AUTO = Format(Layout.AUTO)
COLUMNS = Format(Layout((1, 0)), HERE)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def reverse(x: Any, sharding: Any = HERE) -> Any:
    """Lays an array out with its first axis fastest."""
    return effx.device_put(x, Format(Layout(range(np.ndim(x))[::-1]), sharding))


def order(x: Any) -> tuple[int, ...]:
    """How XLA's buffers of an array lie."""
    shards: list[Any] = [x] if len(x.devices()) == 1 else [s.data for s in x.addressable_shards]
    orders = {read_layout(s.buffer._pjrt_layout).major_to_minor for s in shards}
    assert orders == {x.format.layout.major_to_minor}
    return orders.pop()


def mesh_format(spec: P, layout: tuple[int, ...] = (1, 0)) -> Format:
    return Format(Layout(layout), NamedSharding(effx.make_mesh((4, 2), ("a", "b")), spec))


# --- to and from the host, other devices, other shardings ------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.int8, np.uint16, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2],
)
@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (0, 4), (1, 1)])
def test_values_come_back(dtype: Any, shape: tuple[int, ...]) -> None:
    data = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    x = reverse(data)
    np.testing.assert_array_equal(np.asarray(x), data)
    assert order(x) == (1, 0)
    assert x.dtype == dtype
    assert x.shape == shape
    np.testing.assert_array_equal(np.asarray(x + x), data + data)


def test_wide_types_and_keys() -> None:
    with effx.enable_x64(True):
        data = np.arange(6.0).reshape(2, 3)
        np.testing.assert_array_equal(np.asarray(reverse(data)), data)
        assert reverse(data).dtype == np.float64
    keys = effx.random.split(effx.random.key(0), (2, 3))
    turned = reverse(keys)
    assert order(turned) == (1, 0)
    np.testing.assert_array_equal(effx.random.key_data(turned), effx.random.key_data(keys))
    assert effx.random.bits(turned[1, 2]) == effx.random.bits(keys[1, 2])


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_every_order_of_three_axes(axes: tuple[int, ...]) -> None:
    data = np.arange(24).reshape(2, 3, 4)
    x = effx.device_put(data, Format(Layout(axes), HERE))
    assert order(x) == axes
    np.testing.assert_array_equal(np.asarray(x), data)
    np.testing.assert_array_equal(enp.cumsum(x, 1), np.cumsum(data, 1))
    # From one order to another.
    y = effx.device_put(x, Format(Layout(axes[::-1]), HERE))
    assert order(y) == axes[::-1]
    np.testing.assert_array_equal(np.asarray(y), data)


def test_scalars_and_vectors_lie_in_one_way() -> None:
    for data in (np.float32(2.5), np.arange(3)):
        x = reverse(data)
        assert x.format == Format(Layout(range(np.ndim(data))), HERE)
        np.testing.assert_array_equal(np.asarray(x), data)


READS: dict[str, Callable[[Any], Any]] = {
    "tolist": lambda x: x.tolist(),
    "item": lambda x: [v.item() for row in x for v in row],
    "str": str,
    "repr": repr,
    "float": lambda x: float(x[1, 2]),
    "iteration": lambda x: [np.asarray(row) for row in x],
    "device_get": effx.device_get,
    "pickle": lambda x: np.asarray(pickle.loads(pickle.dumps(x))),
    "copy": lambda x: np.asarray(copy.deepcopy(x)),
    "enp.copy": lambda x: np.asarray(enp.copy(x)),
    "dlpack": np.from_dlpack,
    "dlpack copy": lambda x: np.from_dlpack(x, copy=True),
    "from_dlpack": lambda x: np.asarray(effx.dlpack.from_dlpack(x)),
    "shards": lambda x: np.asarray(x.addressable_shards[0].data),
    "callback": lambda x: np.asarray(
        effx.pure_callback(lambda v: v + 1, effx.ShapeDtypeStruct(x.shape, x.dtype), x)
    ),
    "unaliased": lambda x: np.asarray(effx.device_put(x, may_alias=False)),
    "another device": lambda x: np.asarray(effx.device_put(x, effx.devices()[1])),
    "another memory": lambda x: np.asarray(effx.device_put(x, effx.memory.Space.Host)),
    "a mesh": lambda x: np.asarray(effx.device_put(x, NamedSharding(effx.make_mesh((2,), ("a",)), P("a")))),
    "array of parts": lambda x: np.asarray(
        effx.make_array_from_single_device_arrays(
            (2, 3), NamedSharding(effx.make_mesh((1,), ("a",)), P("a")), [x]
        )
    ),
}


@pytest.mark.parametrize("read", READS)
def test_reading(read: str) -> None:
    np.testing.assert_array_equal(READS[read](reverse(X)), READS[read](effx.device_put(X, HERE)))


def test_the_buffers_of_a_mesh() -> None:
    data = np.arange(32, dtype=np.float32).reshape(8, 4)
    x = effx.device_put(data, mesh_format(P("a", "b")))
    assert order(x) == (1, 0)
    assert [s.data.format.layout.major_to_minor for s in x.addressable_shards] == [(1, 0)] * 8
    for s in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(s.data), data[s.index])
    np.testing.assert_array_equal(np.asarray(x), data)
    np.testing.assert_array_equal(x @ x.T, data @ data.T)
    for spec in (P("b"), P(None, "a"), P()):
        y = effx.device_put(x, NamedSharding(effx.make_mesh((4, 2), ("a", "b")), spec))
        assert y.sharding.spec == spec
        assert order(y) == (0, 1)
        np.testing.assert_array_equal(np.asarray(y), data)
        z = effx.device_put(y, mesh_format(P("a")))
        assert z.sharding.spec == P("a")
        assert order(z) == (1, 0)
        np.testing.assert_array_equal(np.asarray(z), data)
    np.testing.assert_array_equal(np.asarray(effx.device_put(x, effx.devices()[3])), data)
    np.testing.assert_array_equal(x.sum(0), data.sum(0))


def test_an_array_that_lies_so_is_not_copied() -> None:
    x = reverse(X)
    assert effx.device_put(x, COLUMNS) is x
    assert effx.device_put(x, HERE) is x  # a sharding leaves the layout open
    rows = effx.device_put(x, Format(Layout((0, 1)), HERE))
    assert order(rows) == (0, 1)
    assert effx.device_put(x, Format(None, HERE)) is x
    assert x.committed
    assert x.device == effx.devices()[0]
    assert x.sharding == HERE
    x.delete()
    with pytest.raises(EffxError, match="was donated to a computation or deleted"):
        np.asarray(x)


@pytest.mark.parametrize("spec", [None, P("a", "b"), P(), P("b")])
def test_copies_lie_as_the_array(spec: P | None) -> None:
    format = COLUMNS if spec is None else mesh_format(spec)
    data = np.arange(32, dtype=np.float32).reshape(8, 4)
    x = effx.device_put(data, format)
    for target in (None, format.sharding, format):
        y = effx.device_put(x, target, may_alias=False)
        assert y.format == format
        assert order(y) == (1, 0)
        np.testing.assert_array_equal(np.asarray(y), data)


def test_auto_is_one_value() -> None:
    for auto in (type(Layout.AUTO)(), pickle.loads(pickle.dumps(Layout.AUTO)), copy.deepcopy(Layout.AUTO)):
        assert Format(auto) == AUTO
        y = effx.jit(lambda x: x.T, in_shardings=Format(auto), out_shardings=Format(auto))(X)
        np.testing.assert_array_equal(np.asarray(y + 0), X.T)


# --- every operation ------------------------------------------------------------------------------

TURNED = [
    row
    for row in ROWS
    if not issubclass(row.kind, Collective)
    and any([t.ndim > 1 and t.size for sample in row.samples for t in sample.types])
]


def sample_with_axes(row: Row) -> Sample:
    return next(s for s in row.samples if any([t.ndim > 1 and t.size for t in s.types]))


def is_slow(row: Row) -> bool:
    """Says whether an operation is elementwise, so that its layout cannot matter much, and takes XLA a second."""
    return issubclass(row.kind, Elementwise) and row.kind.__module__.startswith("effx.families")


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.deep] if is_slow(row) else []) for row in TURNED],
    ids=[row.kind.__name__ for row in TURNED],
)
def test_operations_do_not_depend_on_layouts(row: Row) -> None:
    """The operands lie with their first axis fastest; what is computed is what is computed of rows."""
    sample = sample_with_axes(row)
    with sample.settings():
        arrays = [effx.device_put(x, HERE) for x in sample.arrays(sample.draw())]
        turned = [reverse(x) for x in arrays]
        for y, z in zip(sample.apply(turned), sample.apply(arrays), strict=True):
            assert y.type == z.type
            if y.type.kind in "fc":
                np.testing.assert_allclose(host(y), host(z), rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(host(y), host(z))


# --- jit ------------------------------------------------------------------------------------------


def test_a_compiled_function_distinguishes_layouts() -> None:
    f = effx.jit(lambda x: x * 2)
    for x in (reverse(X), effx.device_put(X, HERE), reverse(X), enp.asarray(X), reverse(X)):
        np.testing.assert_array_equal(f(x), 2 * X)


def test_results_in_a_layout() -> None:
    f = effx.jit(lambda x: {"a": x + 1, "b": x.sum()}, out_shardings={"a": COLUMNS, "b": HERE})
    for x in (enp.asarray(X), reverse(X)):
        for _ in range(2):  # C++ makes the second
            y = f(x)
            assert order(y["a"]) == (1, 0)
            assert y["a"].sharding == HERE
            assert y["b"].sharding == HERE
            np.testing.assert_array_equal(y["a"], X + 1)
    on_mesh = effx.jit(lambda x: x * 2, out_shardings=mesh_format(P("b", "a")))
    y = on_mesh(np.arange(32).reshape(8, 4))
    assert order(y) == (1, 0)
    assert y.sharding.spec == P("b", "a")
    np.testing.assert_array_equal(y, 2 * np.arange(32).reshape(8, 4))


def test_arguments_in_a_layout() -> None:
    f = effx.jit(lambda x: x * 2, in_shardings=COLUMNS)
    for x in (X, enp.asarray(X), reverse(X)):  # what nobody placed is laid out
        np.testing.assert_array_equal(f(x), 2 * X)
    with pytest.raises(ShardingError) as error:
        f(effx.device_put(X, HERE))
    assert (
        "<lambda>: argument 0 of type f32[2,3] has the layout Layout(major_to_minor=(0, 1), tiling=None, "
        "sub_byte_element_size_in_bits=0), but in_shardings asks for Layout(major_to_minor=(1, 0), tiling=None, "
        "sub_byte_element_size_in_bits=0); move it with device_put, or leave the layout out"
    ) in str(error.value)
    rows = effx.jit(lambda x: x * 2, in_shardings=Format(Layout((0, 1)), HERE))
    with pytest.raises(ShardingError, match="asks for Layout"):
        rows(reverse(X))
    np.testing.assert_array_equal(rows(X), 2 * X)
    # A sharding, or a Format without layout, takes arrays as they lie.
    np.testing.assert_array_equal(effx.jit(lambda x: x * 2, in_shardings=HERE)(reverse(X)), 2 * X)
    np.testing.assert_array_equal(effx.jit(lambda x: x * 2, in_shardings=Format())(reverse(X)), 2 * X)


def test_the_text_says_the_layouts() -> None:
    lowered = effx.jit(lambda x, y: x @ y, in_shardings=(COLUMNS, None), out_shardings=COLUMNS).lower(X, X.T)
    text = lowered.as_text()
    assert text.count('mhlo.layout_mode = "{0,1}"') == 2
    compiled = lowered.compile()
    assert "f32[2,3]{0,1} parameter(0)" in compiled.as_text()
    assert [f.layout.major_to_minor for f in compiled.input_formats[0]] == [(1, 0), (0, 1)]
    assert compiled.output_formats == COLUMNS
    assert compiled.output_shardings == HERE
    np.testing.assert_allclose(compiled(X, X.T), X @ X.T)
    rows = Format(Layout((0, 1)), HERE)
    assert (
        "layout_mode" not in effx.jit(lambda x: x, in_shardings=rows, out_shardings=rows).lower(X).as_text()
    )


def test_xla_chooses() -> None:
    transpose = effx.jit(lambda x: x.T, out_shardings=AUTO)
    y = transpose(X)
    np.testing.assert_array_equal(y, X.T)
    compiled = effx.jit(lambda x: x.T, in_shardings=AUTO, out_shardings=AUTO).lower(X).compile()
    chosen, result = compiled.input_formats[0][0], compiled.output_formats
    z = compiled(effx.device_put(X, chosen))
    assert z.format == result
    np.testing.assert_array_equal(z, X.T)
    on_mesh = effx.jit(lambda x: x.T, in_shardings=Format(Layout.AUTO, mesh_format(P("a")).sharding))
    np.testing.assert_array_equal(on_mesh(np.arange(32).reshape(8, 4)), np.arange(32).reshape(8, 4).T)


def test_structs_ask_for_layouts() -> None:
    struct = effx.ShapeDtypeStruct((2, 3), "float32", sharding=COLUMNS)
    assert struct.sharding == HERE
    assert struct.format == COLUMNS
    assert struct.update(dtype="int32").format == COLUMNS
    assert struct != effx.ShapeDtypeStruct((2, 3), "float32", sharding=HERE)
    assert repr(struct).startswith(
        "ShapeDtypeStruct(shape=(2, 3), dtype=float32, sharding=Format(layout=Layout("
    )
    compiled = effx.jit(lambda x: x + 1).lower(struct).compile()
    assert compiled.input_formats[0][0] == COLUMNS
    np.testing.assert_array_equal(compiled(reverse(X)), X + 1)
    auto = effx.ShapeDtypeStruct((2, 3), "float32", sharding=AUTO)
    assert isinstance(effx.jit(lambda x: x + 1).lower(auto).compile().input_formats[0][0].layout, Layout)
    assert effx.jit(lambda x: x + 1).lower(reverse(X)).compile().input_formats[0][0] == COLUMNS


def test_closed_over_donated_and_unread_arguments() -> None:
    x = reverse(X)
    np.testing.assert_array_equal(effx.jit(lambda y: x @ y)(X.T), X @ X.T)
    np.testing.assert_array_equal(effx.jit(lambda a, b: b * 2)(x, x), 2 * X)
    donated = reverse(X)
    result = effx.jit(lambda x: x * 2, donate_argnums=0, out_shardings=COLUMNS)(donated)
    assert donated.is_deleted()
    assert order(result) == (1, 0)
    np.testing.assert_array_equal(result, 2 * X)
    # Memory of another layout does not fit, and is given up all the same.
    donated = reverse(X)
    np.testing.assert_array_equal(effx.jit(lambda x: x * 2, donate_argnums=0)(donated), 2 * X)
    assert donated.is_deleted()


def test_serialized_programs_keep_layouts() -> None:
    compiled = effx.jit(lambda x: x + 1, in_shardings=COLUMNS, out_shardings=COLUMNS).lower(X).compile()
    loaded = deserialize_and_load(*serialize(compiled))
    assert loaded.input_formats == compiled.input_formats
    assert loaded.output_formats == COLUMNS
    y = loaded(reverse(X))
    assert order(y) == (1, 0)
    np.testing.assert_array_equal(y, X + 1)


# --- transformations ------------------------------------------------------------------------------


def constrain(x: Any) -> Any:
    return with_layout_constraint(x, Layout(range(np.ndim(x))[::-1]))


def test_constraints_are_identities() -> None:
    x = enp.asarray(X)
    assert order(constrain(x)) == (1, 0)
    assert with_layout_constraint({"a": x}, Layout((1, 0)))["a"].format == COLUMNS
    f = effx.jit(lambda x: constrain(x) * 2)
    assert "@LayoutConstraint" in f.lower(x).as_text()
    assert "f32[2,3]{0,1}" in f.lower(x).compile().as_text()
    np.testing.assert_array_equal(f(x), 2 * X)
    np.testing.assert_array_equal(effx.grad(lambda x: (constrain(x) ** 2).sum())(x), 2 * X)
    np.testing.assert_array_equal(effx.jit(effx.grad(lambda x: (constrain(x) ** 2).sum()))(x), 2 * X)
    np.testing.assert_array_equal(effx.jvp(constrain, (x,), (x,))[1], X)
    np.testing.assert_array_equal(
        effx.vmap(constrain, in_axes=1, out_axes=1)(enp.ones((2, 3, 4))), np.ones((2, 3, 4))
    )
    text = effx.jit(effx.vmap(constrain, in_axes=1)).lower(enp.ones((2, 3, 4))).as_text()
    assert "result_layouts = [dense<[0, 2, 1]>" in text  # the batch runs slowest
    final, _ = effx.jit(lambda x: lax.scan(lambda c, _: (constrain(c) + 1, None), x, None, length=3))(x)
    np.testing.assert_array_equal(final, X + 3)
    np.testing.assert_array_equal(
        effx.jit(lambda x: lax.cond(x[0, 0] < 1, constrain, lambda x: x * 2, x))(x), X
    )


def test_constraints_of_trees() -> None:
    x, v = enp.asarray(X), enp.arange(3)
    turned, same = with_layout_constraint((x, v), layouts=(Layout((1, 0)), None))
    assert turned.format == COLUMNS
    assert same is v
    # What lies so already is left where it is, and is not committed.
    assert with_layout_constraint(x, Layout((0, 1))) is x
    assert not x.committed
    placed = lax.with_sharding_constraint(x, COLUMNS)
    np.testing.assert_array_equal(placed, X)
    assert (
        "@LayoutConstraint" in effx.jit(lambda x: lax.with_sharding_constraint(x, COLUMNS)).lower(x).as_text()
    )
    exported = effx.export.export(effx.jit(constrain_columns))(effx.ShapeDtypeStruct((2, 3), "float32"))
    np.testing.assert_array_equal(exported.call(x), 2 * X)


def constrain_columns(x: Any) -> Any:
    return with_layout_constraint(x, Layout((1, 0))) * 2


def test_a_choice_of_rows_commits_nothing() -> None:
    f = effx.jit(lambda v, w: (v + 1, w + 1), in_shardings=(AUTO, None))
    assert [y.committed for y in f(enp.asarray(X), enp.asarray(X))] == [False, False]


def test_device_put_inside_of_transformations() -> None:
    x = enp.asarray(X)
    np.testing.assert_array_equal(effx.grad(lambda x: (effx.device_put(x, COLUMNS) ** 2).sum())(x), 2 * X)
    f = effx.jit(lambda x: effx.device_put(x, COLUMNS) * 2)
    assert "@LayoutConstraint" in f.lower(x).as_text()
    np.testing.assert_array_equal(f(x), 2 * X)
    inner = effx.jit(lambda x: x * 2, out_shardings=COLUMNS)
    assert "@LayoutConstraint" in effx.jit(lambda x: inner(x) + 1).lower(x).as_text()
    np.testing.assert_array_equal(effx.vmap(inner)(enp.ones((4, 2, 3))), np.full((4, 2, 3), 2))


def test_transformations_of_arrays_in_layouts() -> None:
    x = reverse(X)
    loss = lambda x: (enp.sin(x) ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(effx.grad(loss)(x), np.sin(2 * X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(effx.jit(effx.grad(loss))(x), np.sin(2 * X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(effx.vmap(enp.sum)(x), X.sum(1))
    np.testing.assert_allclose(effx.vmap(enp.sum, in_axes=1)(x), X.sum(0))
    carry, rows = lax.scan(lambda c, row: (c + row, c), enp.zeros(3), x)
    np.testing.assert_allclose(carry, X.sum(0))
    np.testing.assert_allclose(rows, np.stack([np.zeros(3), X[0]]))
    np.testing.assert_allclose(lax.while_loop(lambda x: x.sum() < 100, lambda x: x * 2, x), X * 8)
    np.testing.assert_allclose(effx.hessian(lambda v: (v @ x).sum())(enp.ones(2)), np.zeros((2, 2)))
    np.testing.assert_allclose(effx.pmap(lambda row: row * 2)(x), 2 * X)


# --- wrong input ----------------------------------------------------------------------------------

ERRORS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a negative tile": (
        lambda: Layout((1, 0), ((-1,),)),
        ShapeError,
        (
            "Layout: sizes of tiles and of elements must be positive, got Layout(major_to_minor=(1, 0), tiling=((-1,),), "
            "sub_byte_element_size_in_bits=0)"
        ),
    ),
    "a negative size": (lambda: Layout((1, 0), None, -3), ShapeError, "must be positive, got Layout("),
    "another rank of a struct": (
        lambda: effx.ShapeDtypeStruct((4,), "float32", sharding=COLUMNS),
        ShapeError,
        (
            "ShapeDtypeStruct: Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0) is for arrays "
            "of 2 axes, got (4,)"
        ),
    ),
    "no permutation": (
        lambda: Layout((0, 0)),
        ShapeError,
        "Layout: major_to_minor must be a permutation of the axes 0 to n - 1, got (0, 0)",
    ),
    "no layout": (
        lambda: Format((1, 0), HERE),  # type: ignore[arg-type]  # on purpose
        OptionError,
        "Format: layout must be a Layout, Layout.AUTO or None, got (1, 0)",
    ),
    "no sharding": (
        lambda: Format(None, "cpu"),  # type: ignore[arg-type]  # on purpose
        OptionError,
        "Format: sharding must be a sharding or None, got 'cpu'",
    ),
    "a layout alone": (
        lambda: Format(Layout((1, 0))),
        ShardingError,
        (
            "Format: Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0) needs a sharding, which "
            "says on which devices"
        ),
    ),
    "another rank": (
        lambda: effx.device_put(1.0, COLUMNS),
        ShapeError,
        (
            "device_put: Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0) is for arrays of 2 "
            "axes, got f32[]"
        ),
    ),
    "another rank of a result": (
        lambda: effx.jit(lambda x: x.sum(), out_shardings=COLUMNS)(X),
        ShapeError,
        (
            "<lambda>: Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0) is for arrays of 2 axes, "
            "got f32[]"
        ),
    ),
    "nothing to choose": (
        lambda: effx.device_put(X, AUTO),
        OptionError,
        (
            "device_put: Layout.AUTO is for a compiler to choose; take the layout from "
            "jit(f, in_shardings=Format(Layout.AUTO)).lower(...).compile().input_formats"
        ),
    ),
    "the host's memory": (
        lambda: effx.device_put(X, Format(Layout((1, 0)), HERE.with_memory_kind("pinned_host"))),
        BackendError,
        (
            "device_put: in the memory 'pinned_host' arrays lie row by row, got Layout(major_to_minor=(1, 0), tiling=None, "
            "sub_byte_element_size_in_bits=0)"
        ),
    ),
    "a constraint by a format": (
        lambda: with_layout_constraint(X, COLUMNS),
        OptionError,
        "with_layout_constraint: layouts must hold Layouts and None, got Format(",
    ),
    "tiles in a program": (
        lambda: effx.jit(lambda x: with_layout_constraint(x, Layout((0, 1), ((8, 128),))))(X),
        BackendError,
        (
            "with_layout_constraint: XLA takes the order of axes inside of programs only, got Layout(major_to_minor=(0, 1), "
            "tiling=((8, 128),), sub_byte_element_size_in_bits=0)"
        ),
    ),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors(what: str) -> None:
    call, kind, text = ERRORS[what]
    with pytest.raises(kind) as error:
        call()
    assert text in str(error.value)
