"""Strategies of operations: an instance with operands that it takes, for every class of operations.

Register a class of your own with `register`.
"""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import dtypes, lax
from effx.array import Array
from effx.dtypes import DType
from effx.errors import TransformError
from effx.families.accuracy import FUNCTIONS, Accurate
from effx.flags import enable_x64
from effx.ir.catalogue import operation_classes
from effx.ir.ops import convert, elementwise, reduce, shape
from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Offload, Unpinned
from effx.ir.ops.control import Call, Cond, Scan, While
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.index import COMBINERS, Gather, Scatter
from effx.ir.ops.layout import ConstrainLayout
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.random import Threefry2x32
from effx.ir.ops.sharding import Constrain, Move, Release
from effx.ir.ops.sizes import SizeValue
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.text import parse_program
from effx.ir.types import ArrayType, Shape, array_type
from effx.laws import families as families
from effx.laws.arrays import DTYPES, array_shapes
from effx.laws.drawing import (
    BUILDERS,
    SINE,
    WIDE,
    AnyOperation,
    Drawn,
    ElementwiseBuilder,
    draw_operands,
    draw_type,
    draw_wide_float,
    i32,
    is_smooth,
    operand_domains,
    register,
)
from effx.laws.samples import plain_operations

for _op in (*plain_operations(1), *plain_operations(2)):
    register(type(_op))(ElementwiseBuilder(_op))


def _register_parametric(
    kind: type[AnyOperation],
    kinds: str,
    make: Callable[[st.DrawFn, ArrayType], AnyOperation],
    *forms: Shape,
) -> None:
    """Registers a class of operations of one operand, of one of some shapes; by default (2, 3)."""

    @register(kind)
    def _(draw: st.DrawFn, allowed: Sequence[DType]) -> Drawn:
        t = draw_type(draw, kinds, allowed, draw(st.sampled_from(forms or ((2, 3),))))
        op = make(draw, t)
        return op, (t,), operand_domains(op)


def _draw_axis(draw: st.DrawFn, t: ArrayType) -> int:
    return draw(st.integers(0, t.ndim - 1))


def _draw_axes(draw: st.DrawFn, t: ArrayType) -> tuple[int, ...]:
    return tuple(sorted(draw(st.sets(st.integers(0, t.ndim - 1)))))


def _register_arg_reduction(kind: "type[reduce.ArgMax | reduce.ArgMin]") -> None:
    _register_parametric(kind, "fiu", lambda draw, t: kind(_draw_axis(draw, t), i32), (2, 3), (2, 2))


def _register_reduction(kind: type[reduce.Reduction]) -> None:
    _register_parametric(kind, kind.kinds, lambda draw, t: kind(_draw_axes(draw, t)), (2, 3), (2, 2))


def _register_cumulative(kind: type[reduce.Cumulative]) -> None:
    _register_parametric(kind, kind.kinds, lambda draw, t: kind(_draw_axis(draw, t), draw(st.booleans())))


def _register_all_parametric() -> None:
    e, s, v = elementwise, shape, convert
    _register_parametric(
        e.IntegerPow, "fc", lambda draw, t: e.IntegerPow(draw(st.sampled_from((2, 3, 0, -1))))
    )
    _register_parametric(
        v.ReducePrecision, "f", lambda draw, t: v.ReducePrecision(draw(st.integers(3, 8)), 7)
    )
    _register_parametric(
        Accurate, "f", lambda draw, t: Accurate(draw(st.sampled_from(tuple(FUNCTIONS))), highest=True)
    )
    _register_parametric(CheckpointName, "fiubc", lambda draw, t: CheckpointName("kept"))
    _register_parametric(Unpinned, "fiubc", lambda draw, t: Unpinned())
    _register_parametric(Offload, "fi", lambda draw, t: Offload("device", "pinned_host"))
    _register_parametric(
        Constrain,
        "fiubc",
        lambda draw, t: Constrain((("i", 2), ("j", 3)), (draw(st.sampled_from(((), (0,), None))), (1,))),
    )
    _register_parametric(
        ConstrainLayout, "fiubc", lambda draw, t: ConstrainLayout(draw(st.sampled_from(((0, 1), (1, 0)))))
    )
    _register_parametric(
        Release, "fiubc", lambda draw, t: Release(draw(st.sampled_from((("i",), ("i", "j")))))
    )
    _register_parametric(Move, "fiubc", lambda draw, t: Move(None))
    _register_parametric(
        s.Reshape, "fiubc", lambda draw, t: s.Reshape(draw(st.sampled_from(((3, 2), (6,), (1, 6)))))
    )
    _register_parametric(
        s.Transpose,
        "fiubc",
        lambda draw, t: s.Transpose(tuple(draw(st.permutations(range(t.ndim))))),
        (2, 1, 3),
    )
    _register_parametric(s.Reverse, "fiubc", lambda draw, t: s.Reverse(_draw_axes(draw, t)))
    _register_parametric(
        s.BroadcastInDim,
        "fiubc",
        lambda draw, t: s.BroadcastInDim(
            *draw(st.sampled_from((((2, 3), (0,)), ((2, 2), (1,)), ((2, 0, 2), (2,)))))
        ),
        (2,),
    )
    _register_parametric(
        s.Slice,
        "fiubc",
        lambda draw, t: s.Slice(
            (draw(st.integers(0, 1)), draw(st.integers(0, 2))), (2, 3), (1, draw(st.integers(1, 2)))
        ),
    )
    _register_parametric(
        v.Convert,
        "fi",
        # Only lossless conversions, so that the result can be differentiated.
        lambda draw, t: v.Convert(draw(st.sampled_from((dtypes.complex128, dtypes.float64)))),
    )
    _register_parametric(v.Bitcast, "iu", lambda draw, t: v.Bitcast(dtypes.uint8))
    for arg in (reduce.ArgMax, reduce.ArgMin):
        _register_arg_reduction(arg)
    for kind in operation_classes():
        if issubclass(kind, reduce.Reduction):
            _register_reduction(kind)
        elif issubclass(kind, reduce.Cumulative):
            _register_cumulative(kind)


_register_all_parametric()


@register(elementwise.Complex)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = array_type(
        draw(
            st.sampled_from([d for d in (dtypes.float64, dtypes.float32) if d in wanted] or [dtypes.float64])
        ),
        (3,),
    )
    return elementwise.Complex(), (t, t), ((-2, 2),)


@register(elementwise.Select)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fiubc", wanted, (3,))
    which = array_type(dtypes.bool_, draw(st.sampled_from(((3,), ()))))
    if draw(st.booleans()):
        return elementwise.Select(), (which.with_dtype(i32), t, t, t), ((0, 2), (-2, 2))
    return elementwise.Select(), (which, t, t), ((0, 1), (-2, 2))


@register(elementwise.Clamp)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fi", wanted, (4,))
    bound = t if draw(st.booleans()) else t.with_shape(())
    return elementwise.Clamp(), (bound, t, bound), ((-2, -1), (-3, 3), (1, 2))


@register(convert.OptimizationBarrier)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    types = [draw_type(draw, "fiubc", wanted) for _ in range(draw(st.integers(1, 2)))]
    return convert.OptimizationBarrier(), tuple(types), ((-2, 2),)


@register(Threefry2x32)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = array_type(dtypes.uint32, draw(array_shapes(2, 6)))
    key = t if draw(st.booleans()) else t.with_shape(())
    return Threefry2x32(), (key, key, t, t), ((0, 2**31),)


@register(shape.Concatenate)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fiubc", wanted, (2, 3))
    axis, sizes = draw(st.sampled_from((1, 0))), draw(st.lists(st.integers(0, 2), max_size=2))
    others = [t.with_shape((2, n) if axis else (n, 3)) for n in sizes]
    return shape.Concatenate(axis), (t, *others), ((-2, 2),)


@register(shape.Pad)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fiubc", wanted, (2, 3))
    ends = st.tuples(st.integers(-1, 2), st.integers(-1, 2))
    op = shape.Pad(draw(ends), draw(ends), draw(st.tuples(st.integers(0, 1), st.integers(0, 1))))
    return op, (t, t.with_shape(())), ((-2, 2),)


@register(shape.DynamicSlice)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t, start = draw_type(draw, "fiubc", wanted, (2, 3)), array_type(i32)
    sizes = (draw(st.integers(0, 2)), draw(st.integers(1, 3)))
    return shape.DynamicSlice(sizes), (t, start, start), ((-2, 2), (-2, 4))


@register(shape.DynamicUpdateSlice)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t, start = draw_type(draw, "fiubc", wanted, (2, 3)), array_type(i32)
    part = t.with_shape((draw(st.integers(1, 2)), draw(st.integers(1, 3))))
    return shape.DynamicUpdateSlice(), (t, part, start, start), ((-2, 2), (-2, 2), (-2, 4))


@register(SizeValue)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    return SizeValue(draw(st.integers(0, 9))), (), ()


@register(shape.Iota)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fiuc", wanted, (2, 3))
    return shape.Iota(t, draw(st.integers(0, 1))), (), ()


@register(DotGeneral)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    dtype = draw_type(draw, "fic", wanted, ())
    forms: tuple[tuple[DotGeneral, Shape, Shape], ...] = (
        (DotGeneral((1,), (0,)), (2, 3), (3, 2)),
        (DotGeneral((0,), (0,)), (3,), (3,)),
        (DotGeneral((2,), (1,), (0,), (0,)), (2, 1, 3), (2, 3, 2)),
        (DotGeneral((), ()), (2,), (2,)),
        (DotGeneral((1,), (0,)), (2, 0), (0, 2)),
    )
    op, x, y = draw(st.sampled_from(forms))
    return op, (dtype.with_shape(x), dtype.with_shape(y)), ((-1, 1),)


@register(Gather)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fiubc", wanted, (4, 3))
    forms = (
        (Gather((1,), (0,), (0,), (1, 3)), (2, 1)),
        (Gather((0, 1), (), (0,), (2, 2)), (1,)),
        (Gather((), (0, 1), (1, 0), (1, 1)), (2, 2)),
        (Gather((1,), (0,), (0,), (1, 3)), (0, 1)),
    )
    op, starts = draw(st.sampled_from(forms))
    return op, (t, array_type(i32, starts)), ((-2, 2), (-2, 5))


@register(Scatter)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fi", wanted, (4, 3))
    # One start, or updates that are summed: overlapping updates that replace or multiply have no unique
    # result.
    how = draw(st.sampled_from(COMBINERS))
    if how == "add":
        return (
            Scatter((1,), (0,), (0,), how),
            (t, array_type(i32, (2, 1)), t.with_shape((2, 3))),
            ((-2, 2), (-2, 5), (-2, 2)),
        )
    return (
        Scatter((0,), (0,), (0,), how),
        (t, array_type(i32, (1,)), t.with_shape((3,))),
        ((0.5, 2), (-2, 5), (0.5, 2)),
    )


SQUARE = "square(a: {0}[3], b: {0}[]) {{\n  c: {0}[3] = mul a a\n  d: {0}[] = mul b b\n  return c, d\n}}"
SMALL = "small(a: {0}[], b: {0}[]) {{\n  c: bool[] = lt b a\n  return c\n}}"
BODY = "body(a: {0}[], b: {0}[]) {{\n  c: {0}[] = mul b 2.0:{0}\n  d: {0}[] = add c 1.0:{0}\n  return d\n}}"
STEP = (
    "step(a: {0}[], b: {0}[2], c: {0}[]) {{\n  d: {0}[2] = sin b\n  e: {0}[2] = mul d a\n"
    "  f: {0}[2] = add e c\n  g: {0}[2] = mul f b\n  return f, g\n}}"
)


@register(Call)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = draw_wide_float(draw, wanted)
    return Call(parse_program(SINE.format(name)), draw(st.booleans())), (t.with_shape((3,)), t), ((-2, 2),)


@register(Checkpoint)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = draw_wide_float(draw, wanted)
    return Checkpoint(parse_program(SQUARE.format(name))), (t.with_shape((3,)), t), ((-2, 2),)


@register(Cond)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = draw_wide_float(draw, wanted)
    op = Cond((parse_program(SINE.format(name)), parse_program(SQUARE.format(name))))
    return op, (array_type(i32), t.with_shape((3,)), t), ((-1, 2), (-2, 2))


@register(While)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = draw_wide_float(draw, wanted)
    return (
        While(parse_program(SMALL.format(name)), parse_program(BODY.format(name)), 1),
        (t, t),
        ((5, 9), (0, 1)),
    )


@register(Scan)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = draw_wide_float(draw, wanted)
    length = draw(st.sampled_from((2, 1, 3, 0)))
    op = Scan(parse_program(STEP.format(name)), length, 1, 1, draw(st.booleans()), draw(st.integers(1, 2)))
    return op, (t, t.with_shape((2,)), t.with_shape((length,))), ((-1, 1),)


def _first_operation(
    kind: type[AnyOperation], f: Callable[..., object], types: Sequence[ArrayType]
) -> AnyOperation:
    """Returns the first operation of a class in a staged function."""
    program = effx.make_jaxpr(f)(*[effx.ShapeDtypeStruct(t.shape, t.dtype) for t in types])
    return next(e.op for e in program.equations if isinstance(e.op, kind))


@effx.custom_jvp
def _scaled_product(x: Array, y: Array) -> Array:
    return enp.sin(x) * y


@_scaled_product.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, y), (dx, dy) = primals, tangents
    return _scaled_product(x, y), enp.cos(x) * y * dx + enp.sin(x) * dy


@register(CustomCall)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_wide_float(draw, wanted)[1].with_shape((2,))
    with enable_x64(True):
        return _first_operation(CustomCall, _scaled_product, (t, t)), (t, t), ((-2, 2),)


@register(LinearSolve)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    def solved(a: Array, b: Array) -> object:
        return lax.custom_linear_solve(
            lambda x: a * x, b, lambda matvec, b: b / a, transpose_solve=lambda vecmat, b: b / a
        )

    t = draw_wide_float(draw, wanted)[1].with_shape((2,))
    with enable_x64(True):
        return _first_operation(LinearSolve, solved, (t, t)), (t, t), ((1, 2),)


@register(Root)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    def rooted(a: Array) -> object:
        return lax.custom_root(
            lambda x: x * x - a,
            a,
            lambda f, x: enp.sqrt(f(enp.zeros_like(x)) * -1.0),
            lambda g, y: y / g(enp.ones_like(y)),
        )

    t = draw_wide_float(draw, wanted)[1].with_shape((2,))
    with enable_x64(True):
        return _first_operation(Root, rooted, (t,)), (t, t), ((1, 2),)


EVERY = tuple([d for k in "fiubc" for d in DTYPES[k]])


@st.composite
def _draw_operations(
    draw: st.DrawFn, kinds: tuple[type[AnyOperation], ...], allowed: tuple[DType, ...]
) -> tuple[object, ...]:
    op, types, domains = BUILDERS[draw(st.sampled_from(kinds))](draw, allowed)
    return op, draw_operands(types, domains, draw(st.integers(0, 99)))


def operations(
    *kinds: type[AnyOperation], smooth: bool = False, dtypes: Sequence[DType] | None = None
) -> st.SearchStrategy[tuple[object, ...]]:
    """Draws an operation with operands that it takes: the arguments `(op, operands)` of laws of operations.

    Args:
        kinds: operation classes; all by default.
        smooth: True for operations with derivatives, on 64-bit operands.
        dtypes: the dtypes to draw from, where the class has the choice; all by default.

    Raises:
        TransformError: a class is not registered.

    >>> from hypothesis import find
    >>> from effx.handling.ops import Sin
    >>> find(operations(Sin), lambda case: True)
    (Sin(), (Array(2.46531, dtype=float32),))
    """
    for kind in kinds:
        if kind not in BUILDERS:
            raise TransformError(
                f"operations: nothing says how to draw {kind.__name__}; see effx.laws.register"
            )
    chosen = tuple(kinds) or tuple([k for k in BUILDERS if is_smooth(k) or not smooth])
    return _draw_operations(chosen, tuple(dtypes) if dtypes is not None else WIDE if smooth else EVERY)
