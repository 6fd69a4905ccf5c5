"""Strategies of operations: an instance with operands that it takes, for every class of operations.

Register a class of your own with `register`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import dtypes, lax
from effx.array import Array
from effx.dtypes import DType
from effx.effects import Operation
from effx.errors import TransformError
from effx.families.accuracy import FUNCTIONS, Accurate
from effx.families.composite import Composite
from effx.families.convolution import Convolution
from effx.families.fft import KINDS, Fft
from effx.families.incomplete import Betainc, BetaincGradA
from effx.families.linalg.cholesky import Cholesky
from effx.families.linalg.eigen import Eig, Eigh, Pinv, Svd
from effx.families.linalg.lu import Det, Lu, PivotsToPermutation, Slogdet, Solve
from effx.families.linalg.matrices import KERNEL_DTYPES
from effx.families.linalg.qr import Geqp3, Geqrf, HouseholderProduct, Qr
from effx.families.linalg.similarity import Hessenberg, Schur, Tridiagonal
from effx.families.linalg.triangular import TriangularSolve
from effx.families.linalg.tridiagonal import TridiagonalSolve
from effx.families.platform import PlatformIndex
from effx.families.ragged import GroupedMatmul, GroupedOuter
from effx.families.sort import Sort
from effx.families.windows import WindowArg, WindowReduction
from effx.flags import enable_x64
from effx.ir.catalogue import operation_classes
from effx.ir.ops import convert, elementwise, reduce, shape
from effx.ir.ops.base import Elementwise
from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Offload
from effx.ir.ops.control import Call, Cond, Scan, While
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.index import COMBINERS, Gather, Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.random import Threefry2x32
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.text import parse_program
from effx.ir.types import ArrayType, Shape, array_type
from effx.laws.arrays import DTYPES, array_shapes
from effx.laws.samples import Domain, data_of, plain_operations, sample_of, whole

AnyOperation = Operation[object]
Drawn = tuple[AnyOperation, tuple[ArrayType, ...], tuple[Domain, ...]]
Builder = Callable[[st.DrawFn, Sequence[DType]], Drawn]
"""From a draw function and the dtypes that are wanted to an operation, types and domains of its operands."""

WIDE = (dtypes.float64, dtypes.complex128)
i32 = dtypes.int32

BUILDERS: dict[type[AnyOperation], Builder] = {}


def register(kind: type[AnyOperation]) -> Callable[[Builder], Builder]:
    """Registers how instances of an operation class are drawn, for `operations` and the laws of operations.

    The decorated function gets hypothesis' `draw` and the dtypes asked for, and returns an instance, the
    types of its operands, and a domain for each to draw the elements from: an interval, or a function from
    NumPy's generator and a type to data. The last domain serves for the rest.

    Args:
        kind: the operation class.
    """

    def add(builder: Builder) -> Builder:
        BUILDERS[kind] = builder
        return builder

    return add


def operation_kinds() -> list[type[AnyOperation]]:
    """Lists the classes that `operations` draws from."""
    return list(BUILDERS)


def domains_of(op: AnyOperation) -> tuple[Domain, ...]:
    """Returns where operands of an operation are drawn from: what its sample says, or its class's `domain`."""
    if isinstance(op, Elementwise):
        return sample_of(type(op)).domains
    return (getattr(op, "domain", Elementwise.domain),)


def is_smooth(kind: type[AnyOperation]) -> bool:
    """Says whether the tangent of a class of operations is the slope."""
    if issubclass(kind, Elementwise):
        return sample_of(kind).smooth
    return kind not in (convert.Bitcast, Geqrf, Geqp3, HouseholderProduct, Hessenberg, Schur, Tridiagonal)


def operands_of(types: Sequence[ArrayType], domains: Sequence[Domain], seed: int) -> tuple[Array, ...]:
    """Draws generic operands: with few digits, and rarely equal."""
    found: list[Array] = []
    with enable_x64(True):
        for t, data in zip(types, data_of(domains, types, np.random.default_rng(seed)), strict=True):
            x = enp.asarray(data, t.dtype)
            found.append(convert.Convert(t.dtype, True)(x) if t.weak else x)
    return tuple(found)


def of_kinds(kinds: str, wanted: Sequence[DType]) -> list[DType]:
    """Returns the dtypes asked for of some kinds; the first of the kinds if there are none."""
    every = [d for k in "fiubc" if k in kinds for d in DTYPES[k]]
    return [d for d in every if d in wanted] or every


def typed(draw: st.DrawFn, kinds: str, wanted: Sequence[DType], form: Shape | None = None) -> ArrayType:
    """Draws the type of an operand."""
    dtype = draw(st.sampled_from(of_kinds(kinds, wanted)))
    return array_type(dtype, draw(array_shapes(2, 6)) if form is None else form)


def _elementwise(op: AnyOperation, kinds: str, arity: int) -> None:
    @register(type(op))
    def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
        t = typed(draw, kinds, wanted)
        scalar = t.with_shape(())
        types = [t, *[t if draw(st.booleans()) else scalar for _ in range(arity - 1)]]
        return op, tuple(types), domains_of(op)


for _op in (*plain_operations(1), *plain_operations(2)):
    _elementwise(_op, _op.kinds, _op.arity)


def _parametric(
    kind: type[AnyOperation],
    kinds: str,
    make: Callable[[st.DrawFn, ArrayType], AnyOperation],
    form: Shape = (2, 3),
) -> None:
    """Registers a class of operations of one operand, of a fixed shape."""

    @register(kind)
    def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
        t = typed(draw, kinds, wanted, form)
        op = make(draw, t)
        return op, (t,), domains_of(op)


def _axis(draw: st.DrawFn, t: ArrayType) -> int:
    return draw(st.integers(0, t.ndim - 1))


def _axes(draw: st.DrawFn, t: ArrayType) -> tuple[int, ...]:
    return tuple(sorted(draw(st.sets(st.integers(0, t.ndim - 1)))))


def _arg_reduction(kind: "type[reduce.ArgMax | reduce.ArgMin]") -> None:
    _parametric(kind, "fiu", lambda draw, t: kind(_axis(draw, t), i32))


def _reduction(kind: type[reduce.Reduction]) -> None:
    _parametric(kind, kind.kinds, lambda draw, t: kind(_axes(draw, t)))


def _cumulative(kind: type[reduce.Cumulative]) -> None:
    _parametric(kind, kind.kinds, lambda draw, t: kind(_axis(draw, t), draw(st.booleans())))


def _window(kind: type[WindowReduction]) -> None:
    @register(kind)
    def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
        t = typed(draw, "fi", wanted, (3, 2))
        near, far = [st.tuples(st.integers(low, 2), st.integers(low, 2)) for low in (1, -1)]
        op = kind(draw(near), draw(near), draw(far), draw(far), draw(near), draw(near))
        return op, (t, t.with_dtype(i32))[: 1 + issubclass(kind, WindowArg)], ((-2, 2),)


def _all_parametric() -> None:
    e, s, v = elementwise, shape, convert
    _parametric(e.IntegerPow, "fc", lambda draw, t: e.IntegerPow(draw(st.sampled_from((2, 3, 0, -1)))))
    _parametric(v.ReducePrecision, "f", lambda draw, t: v.ReducePrecision(draw(st.integers(3, 8)), 7))
    _parametric(
        Accurate, "f", lambda draw, t: Accurate(draw(st.sampled_from(tuple(FUNCTIONS))), highest=True)
    )
    _parametric(CheckpointName, "fiubc", lambda draw, t: CheckpointName("kept"))
    _parametric(Offload, "fi", lambda draw, t: Offload())
    _parametric(s.Reshape, "fiubc", lambda draw, t: s.Reshape(draw(st.sampled_from(((3, 2), (6,), (1, 6))))))
    _parametric(
        s.Transpose,
        "fiubc",
        lambda draw, t: s.Transpose(tuple(draw(st.permutations(range(t.ndim))))),
        (2, 1, 3),
    )
    _parametric(s.Reverse, "fiubc", lambda draw, t: s.Reverse(_axes(draw, t)))
    _parametric(
        s.BroadcastInDim,
        "fiubc",
        lambda draw, t: s.BroadcastInDim(
            *draw(st.sampled_from((((2, 3), (0,)), ((2, 2), (1,)), ((2, 0, 2), (2,)))))
        ),
        (2,),
    )
    _parametric(
        s.Slice,
        "fiubc",
        lambda draw, t: s.Slice(
            (draw(st.integers(0, 1)), draw(st.integers(0, 2))), (2, 3), (1, draw(st.integers(1, 2)))
        ),
    )
    _parametric(
        v.Convert,
        "fi",
        # Only lossless conversions, so that the result can be differentiated.
        lambda draw, t: v.Convert(draw(st.sampled_from((dtypes.complex128, dtypes.float64)))),
    )
    _parametric(v.Bitcast, "iu", lambda draw, t: v.Bitcast(dtypes.uint8))
    for arg in (reduce.ArgMax, reduce.ArgMin):
        _arg_reduction(arg)
    for kind in operation_classes():
        if issubclass(kind, reduce.Reduction):
            _reduction(kind)
        elif issubclass(kind, reduce.Cumulative):
            _cumulative(kind)
        elif issubclass(kind, WindowReduction):
            _window(kind)


_all_parametric()


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
    t = typed(draw, "fiubc", wanted, (3,))
    which = array_type(dtypes.bool_, draw(st.sampled_from(((3,), ()))))
    if draw(st.booleans()):
        return elementwise.Select(), (which.with_dtype(i32), t, t, t), ((0, 2), (-2, 2))
    return elementwise.Select(), (which, t, t), ((0, 1), (-2, 2))


@register(Betainc)
@register(BetaincGradA)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = typed(draw, "f", wanted, (4,))
    op = draw(st.sampled_from((Betainc(), BetaincGradA())))
    return op, (t, t, t), sample_of(type(op)).domains


@register(elementwise.Clamp)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = typed(draw, "fi", wanted, (4,))
    bound = t if draw(st.booleans()) else t.with_shape(())
    return elementwise.Clamp(), (bound, t, bound), ((-2, -1), (-3, 3), (1, 2))


@register(convert.OptimizationBarrier)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    types = [typed(draw, "fiubc", wanted) for _ in range(draw(st.integers(1, 2)))]
    return convert.OptimizationBarrier(), tuple(types), ((-2, 2),)


@register(Threefry2x32)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = array_type(dtypes.uint32, draw(array_shapes(2, 6)))
    key = t if draw(st.booleans()) else t.with_shape(())
    return Threefry2x32(), (key, key, t, t), ((0, 2**31),)


@register(shape.Concatenate)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = typed(draw, "fiubc", wanted, (2, 3))
    others = [t.with_shape((2, n)) for n in draw(st.lists(st.integers(0, 2), max_size=2))]
    return shape.Concatenate(1), (t, *others), ((-2, 2),)


@register(shape.Pad)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = typed(draw, "fiubc", wanted, (2, 3))
    ends = st.tuples(st.integers(-1, 2), st.integers(-1, 2))
    op = shape.Pad(draw(ends), draw(ends), draw(st.tuples(st.integers(0, 1), st.integers(0, 1))))
    return op, (t, t.with_shape(())), ((-2, 2),)


@register(shape.DynamicSlice)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t, start = typed(draw, "fiubc", wanted, (2, 3)), array_type(i32)
    sizes = (draw(st.integers(0, 2)), draw(st.integers(1, 3)))
    return shape.DynamicSlice(sizes), (t, start, start), ((-2, 2), (-2, 4))


@register(shape.DynamicUpdateSlice)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t, start = typed(draw, "fiubc", wanted, (2, 3)), array_type(i32)
    part = t.with_shape((draw(st.integers(1, 2)), draw(st.integers(1, 3))))
    return shape.DynamicUpdateSlice(), (t, part, start, start), ((-2, 2), (-2, 2), (-2, 4))


@register(shape.Iota)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = typed(draw, "fiuc", wanted, (2, 3))
    return shape.Iota(t, draw(st.integers(0, 1))), (), ()


@register(DotGeneral)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    dtype = typed(draw, "fic", wanted, ())
    forms: tuple[tuple[DotGeneral, Shape, Shape], ...] = (
        (DotGeneral((1,), (0,)), (2, 3), (3, 2)),
        (DotGeneral((0,), (0,)), (3,), (3,)),
        (DotGeneral((2,), (1,), (0,), (0,)), (2, 1, 3), (2, 3, 2)),
        (DotGeneral((), ()), (2,), (2,)),
        (DotGeneral((1,), (0,)), (2, 0), (0, 2)),
    )
    op, x, y = draw(st.sampled_from(forms))
    return op, (dtype.with_shape(x), dtype.with_shape(y)), ((-1, 1),)


@register(Convolution)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    dtype = typed(draw, "fic", wanted, ())
    near, far = st.integers(1, 2).map(lambda n: (n,)), st.integers(-1, 2).map(lambda n: (n,))
    features, batches = draw(st.sampled_from(((1, 1), (2, 1), (1, 2))))
    a, b, c = [tuple(draw(st.permutations((0, 1, 2)))) for _ in range(3)]
    op = Convolution(draw(near), draw(far), draw(far), draw(near), draw(near), a, b, c, features, batches)
    lhs, rhs = (2, features, draw(st.integers(2, 3))), (2, 1, *draw(near))
    shapes = [tuple([sizes[axes.index(i)] for i in range(3)]) for sizes, axes in ((lhs, a), (rhs, b))]
    return op, (dtype.with_shape(shapes[0]), dtype.with_shape(shapes[1])), ((-1, 1),)


@register(Sort)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = typed(draw, "fiu", wanted, (2, 4))
    more = draw(st.integers(0, 1))
    return (
        Sort(draw(st.integers(0, 1)), num_keys=draw(st.integers(1, 1 + more))),
        (t,) * (1 + more),
        ((-3, 3),),
    )


@register(Fft)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    kind, lengths = draw(st.sampled_from(KINDS)), draw(st.sampled_from(((3,), (4,), (2, 3))))
    t = typed(draw, "f" if kind == "RFFT" else "c", [d for d in wanted if d.itemsize > 2], (2, *lengths))
    if kind == "IRFFT":
        t = t.with_shape((*t.shape[:-1], t.shape[-1] // 2 + 1))
    return Fft(kind, lengths), (t,), ((-2, 2),)


def _linalg(*ops: AnyOperation, kinds: str = "fc", forms: tuple[Shape, ...]) -> None:
    @register(type(ops[0]))
    def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
        exact = [d for d in wanted if d in KERNEL_DTYPES]
        dtype = typed(draw, kinds, exact or [dtypes.float64, dtypes.complex128], ())
        batch = draw(st.sampled_from(((), (2,))))
        op = draw(st.sampled_from(ops))
        return op, tuple([dtype.with_shape((*batch, *form)) for form in forms]), domains_of(op)


_linalg(TriangularSolve(), TriangularSolve(True, False, True), forms=((3, 3), (3, 2)))
_linalg(Solve(), forms=((3, 3), (3, 2)))
for _square in (Cholesky(), Det(), Slogdet(), Eigh(vectors=False), Eig(right=False)):
    _linalg(_square, forms=((3, 3),))
for _reduced in (Hessenberg(), Schur(), Tridiagonal()):
    _linalg(_reduced, forms=((3, 3),))
for _whole in (Lu(), Geqrf(), Qr()):
    _linalg(_whole, forms=((3, 2),))
# The phases of complex vectors are no smooth functions.
_linalg(Svd(), kinds="f", forms=((2, 3),))
_linalg(HouseholderProduct(), forms=((3, 2), (2,)))


def _grouped(kind: type[AnyOperation], lhs: Shape, rhs: Shape) -> None:
    @register(kind)
    def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
        t, bounds = typed(draw, "fic", wanted, lhs), array_type(i32, (2, 3))
        rising: Domain = lambda rng, t: np.sort(whole(rng, t))  # noqa: E731
        return kind(), (t, t.with_shape(rhs), bounds), ((-1, 1), (-1, 1), rising)


_grouped(GroupedMatmul, (2, 3, 2), (1, 2, 2, 3))
_grouped(GroupedOuter, (2, 3, 2), (2, 3, 1))
register(PlatformIndex)(lambda draw, wanted: (PlatformIndex((("cuda",), ("cpu",), ())), (), ()))


@register(Composite)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = _name(draw, wanted)
    return Composite(parse_program(SINE.format(name)), "my.sine"), (t.with_shape((3,)), t), ((-2, 2),)


@register(TridiagonalSolve)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    exact = [d for d in wanted if d in KERNEL_DTYPES]
    t = typed(draw, "fc", exact or [dtypes.float64, dtypes.complex128], (3,))
    return TridiagonalSolve(), (t, t, t, t.with_shape((3, 2))), ((-1, 1), (4, 5), (-1, 1))


@register(Pinv)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    dtype = draw(
        st.sampled_from([d for d in (dtypes.float32, dtypes.float64) if d in wanted] or [dtypes.float64])
    )
    return Pinv(), (array_type(dtype, (3, 2)), array_type(dtype)), domains_of(Pinv())


@register(PivotsToPermutation)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    op = PivotsToPermutation(3)
    return op, (array_type(i32, (draw(st.integers(0, 3)),)),), domains_of(op)


@register(Geqp3)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    return Geqp3(), (array_type(dtypes.float64, (3, 2)), array_type(i32, (2,))), domains_of(Geqp3())


@register(Gather)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = typed(draw, "fiubc", wanted, (4, 3))
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
    t = typed(draw, "fi", wanted, (4, 3))
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


SINE = "sine(a: {0}[3], b: {0}[]) {{\n  c: {0}[3] = sin a\n  d: {0}[3] = mul c b\n  return d, b\n}}"
SQUARE = "square(a: {0}[3], b: {0}[]) {{\n  c: {0}[3] = mul a a\n  d: {0}[] = mul b b\n  return c, d\n}}"
SMALL = "small(a: {0}[], b: {0}[]) {{\n  c: bool[] = lt b a\n  return c\n}}"
BODY = "body(a: {0}[], b: {0}[]) {{\n  c: {0}[] = mul b 2.0:{0}\n  d: {0}[] = add c 1.0:{0}\n  return d\n}}"
STEP = (
    "step(a: {0}[], b: {0}[2], c: {0}[]) {{\n  d: {0}[2] = sin b\n  e: {0}[2] = mul d a\n"
    "  f: {0}[2] = add e c\n  g: {0}[2] = mul f b\n  return f, g\n}}"
)


def _name(draw: st.DrawFn, wanted: Sequence[DType]) -> tuple[str, ArrayType]:
    dtype = draw(
        st.sampled_from([d for d in (dtypes.float64, dtypes.float32) if d in wanted] or [dtypes.float64])
    )
    return {"float64": "f64", "float32": "f32"}[dtype.name], array_type(dtype)


@register(Call)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = _name(draw, wanted)
    return Call(parse_program(SINE.format(name)), draw(st.booleans())), (t.with_shape((3,)), t), ((-2, 2),)


@register(Checkpoint)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = _name(draw, wanted)
    return Checkpoint(parse_program(SQUARE.format(name))), (t.with_shape((3,)), t), ((-2, 2),)


@register(Cond)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = _name(draw, wanted)
    op = Cond((parse_program(SINE.format(name)), parse_program(SQUARE.format(name))))
    return op, (array_type(i32), t.with_shape((3,)), t), ((-1, 2), (-2, 2))


@register(While)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = _name(draw, wanted)
    return (
        While(parse_program(SMALL.format(name)), parse_program(BODY.format(name)), 1),
        (t, t),
        ((5, 9), (0, 1)),
    )


@register(Scan)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = _name(draw, wanted)
    length = draw(st.sampled_from((2, 1, 3, 0)))
    op = Scan(parse_program(STEP.format(name)), length, 1, 1, draw(st.booleans()), draw(st.integers(1, 2)))
    return op, (t, t.with_shape((2,)), t.with_shape((length,))), ((-1, 1),)


def _first(kind: type[AnyOperation], f: Callable[..., object], types: Sequence[ArrayType]) -> AnyOperation:
    """Returns the first operation of a class in a staged function."""
    program = effx.make_jaxpr(f)(*[effx.ShapeDtypeStruct(t.shape, t.dtype) for t in types])
    return next(e.op for e in program.equations if isinstance(e.op, kind))


@effx.custom_jvp
def _scaled(x: Array, y: Array) -> Array:
    return enp.sin(x) * y


@_scaled.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, y), (dx, dy) = primals, tangents
    return _scaled(x, y), enp.cos(x) * y * dx + enp.sin(x) * dy


@register(CustomCall)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = _name(draw, wanted)[1].with_shape((2,))
    with enable_x64(True):
        return _first(CustomCall, _scaled, (t, t)), (t, t), ((-2, 2),)


@register(LinearSolve)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    def solved(a: Array, b: Array) -> object:
        return lax.custom_linear_solve(
            lambda x: a * x, b, lambda matvec, b: b / a, transpose_solve=lambda vecmat, b: b / a
        )

    t = _name(draw, wanted)[1].with_shape((2,))
    with enable_x64(True):
        return _first(LinearSolve, solved, (t, t)), (t, t), ((1, 2),)


@register(Root)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    def rooted(a: Array) -> object:
        return lax.custom_root(
            lambda x: x * x - a,
            a,
            lambda f, x: enp.sqrt(f(enp.zeros_like(x)) * -1.0),
            lambda g, y: y / g(enp.ones_like(y)),
        )

    t = _name(draw, wanted)[1].with_shape((2,))
    with enable_x64(True):
        return _first(Root, rooted, (t,)), (t, t), ((1, 2),)


EVERY = tuple([d for k in "fiubc" for d in DTYPES[k]])


@st.composite
def _operations(
    draw: st.DrawFn, kinds: tuple[type[AnyOperation], ...], wanted: tuple[DType, ...]
) -> tuple[object, ...]:
    op, types, domains = BUILDERS[draw(st.sampled_from(kinds))](draw, wanted)
    return op, operands_of(types, domains, draw(st.integers(0, 99)))


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
    >>> from effx.ir.ops.elementwise import Sin
    >>> find(operations(Sin), lambda case: True)
    (Sin(), (Array(2.46531, dtype=float32),))
    """
    for kind in kinds:
        if kind not in BUILDERS:
            raise TransformError(
                f"operations: nothing says how to draw {kind.__name__}; see effx.laws.register"
            )
    chosen = tuple(kinds) or tuple([k for k in BUILDERS if is_smooth(k) or not smooth])
    return _operations(chosen, tuple(dtypes) if dtypes is not None else WIDE if smooth else EVERY)
