"""Strategies of the operations of effx.families."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from effx import dtypes
from effx.dtypes import DType
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
from effx.families.order_statistics import OrderStatistics
from effx.families.platform import PlatformIndex
from effx.families.ragged import GroupedMatmul, GroupedOuter
from effx.families.sort import Sort
from effx.families.topk import ApproximateTopK, TopIndices, TopK
from effx.families.windows import WindowArg, WindowReduction
from effx.ir.catalogue import operation_classes
from effx.ir.text import parse_program
from effx.ir.types import Shape, array_type
from effx.laws.drawing import (
    SINE,
    AnyOperation,
    Drawn,
    draw_type,
    draw_wide_float,
    i32,
    operand_domains,
    register,
)
from effx.laws.samples import Domain, draw_whole_numbers, sample_of


def _register_window(kind: type[WindowReduction]) -> None:
    @register(kind)
    def _(draw: st.DrawFn, allowed: Sequence[DType]) -> Drawn:
        t = draw_type(draw, "fi", allowed, (3, 2))
        near, far = [st.tuples(st.integers(low, 2), st.integers(low, 2)) for low in (1, -1)]
        op = kind(draw(near), draw(near), draw(far), draw(far), draw(near), draw(near))
        return op, (t, t.with_dtype(i32))[: 1 + issubclass(kind, WindowArg)], ((-2, 2),)


@register(Betainc)
@register(BetaincGradA)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "f", wanted, (4,))
    op = draw(st.sampled_from((Betainc(), BetaincGradA())))
    return op, (t, t, t), sample_of(type(op)).domains


@register(Convolution)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    dtype = draw_type(draw, "fic", wanted, ())
    near, far = st.integers(1, 2).map(lambda n: (n,)), st.integers(-1, 2).map(lambda n: (n,))
    features, batches = draw(st.sampled_from(((1, 1), (2, 1), (1, 2))))
    a, b, c = [tuple(draw(st.permutations((0, 1, 2)))) for _ in range(3)]
    op = Convolution(draw(near), draw(far), draw(far), draw(near), draw(near), a, b, c, features, batches)
    lhs, rhs = (2, features, draw(st.integers(2, 3))), (2, 1, *draw(near))
    shapes = [tuple([sizes[axes.index(i)] for i in range(3)]) for sizes, axes in ((lhs, a), (rhs, b))]
    return op, (dtype.with_shape(shapes[0]), dtype.with_shape(shapes[1])), ((-1, 1),)


@register(Sort)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    t = draw_type(draw, "fiu", wanted, (2, 4))
    more = draw(st.integers(0, 1))
    return (
        Sort(draw(st.integers(0, 1)), num_keys=draw(st.integers(1, 1 + more))),
        (t,) * (1 + more),
        ((-3, 3),),
    )


@register(Fft)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    kind, lengths = draw(st.sampled_from(KINDS)), draw(st.sampled_from(((3,), (4,), (2, 3))))
    t = draw_type(draw, "f" if kind == "RFFT" else "c", [d for d in wanted if d.itemsize > 2], (2, *lengths))
    if kind == "IRFFT":
        t = t.with_shape((*t.shape[:-1], t.shape[-1] // 2 + 1))
    return Fft(kind, lengths), (t,), ((-2, 2),)


def _register_linalg(*ops: AnyOperation, kinds: str = "fc", forms: tuple[Shape, ...]) -> None:
    @register(type(ops[0]))
    def _(draw: st.DrawFn, allowed: Sequence[DType]) -> Drawn:
        exact = [d for d in allowed if d in KERNEL_DTYPES]
        dtype = draw_type(draw, kinds, exact or [dtypes.float64, dtypes.complex128], ())
        batch = draw(st.sampled_from(((), (2,))))
        op = draw(st.sampled_from(ops))
        return op, tuple([dtype.with_shape((*batch, *form)) for form in forms]), operand_domains(op)


_register_linalg(TriangularSolve(), TriangularSolve(True, False, True), forms=((3, 3), (3, 2)))
_register_linalg(Solve(), forms=((3, 3), (3, 2)))
for _square in (Cholesky(), Det(), Slogdet(), Eigh(vectors=False), Eig(right=False)):
    _register_linalg(_square, forms=((3, 3),))
for _reduced in (Hessenberg(), Schur(), Tridiagonal()):
    _register_linalg(_reduced, forms=((3, 3),))
for _whole in (Lu(), Geqrf(), Qr()):
    _register_linalg(_whole, forms=((3, 2),))
# The phases of complex vectors are no smooth functions.
_register_linalg(Svd(), kinds="f", forms=((2, 3),))
_register_linalg(HouseholderProduct(), forms=((3, 2), (2,)))


def _register_grouped(kind: type[AnyOperation], lhs: Shape, rhs: Shape) -> None:
    @register(kind)
    def _(draw: st.DrawFn, allowed: Sequence[DType]) -> Drawn:
        t, bounds = draw_type(draw, "fic", allowed, lhs), array_type(i32, (2, 3))
        rising: Domain = lambda rng, t: np.sort(draw_whole_numbers(rng, t))  # noqa: E731
        return kind(), (t, t.with_shape(rhs), bounds), ((-1, 1), (-1, 1), rising)


_register_grouped(GroupedMatmul, (2, 3, 2), (1, 2, 2, 3))
_register_grouped(GroupedOuter, (2, 3, 2), (2, 3, 1))
register(PlatformIndex)(lambda draw, wanted: (PlatformIndex((("cuda",), ("cpu",), ())), (), ()))


@register(Composite)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    name, t = draw_wide_float(draw, wanted)
    return Composite(parse_program(SINE.format(name)), "my.sine"), (t.with_shape((3,)), t), ((-2, 2),)


@register(TridiagonalSolve)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    exact = [d for d in wanted if d in KERNEL_DTYPES]
    t = draw_type(draw, "fc", exact or [dtypes.float64, dtypes.complex128], (3,))
    return TridiagonalSolve(), (t, t, t, t.with_shape((3, 2))), ((-1, 1), (4, 5), (-1, 1))


@register(Pinv)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    dtype = draw(
        st.sampled_from([d for d in (dtypes.float32, dtypes.float64) if d in wanted] or [dtypes.float64])
    )
    return Pinv(), (array_type(dtype, (3, 2)), array_type(dtype)), operand_domains(Pinv())


@register(PivotsToPermutation)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    op = PivotsToPermutation(3)
    return op, (array_type(i32, (draw(st.integers(0, 3)),)),), operand_domains(op)


@register(Geqp3)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    return Geqp3(), (array_type(dtypes.float64, (3, 2)), array_type(i32, (2,))), operand_domains(Geqp3())


for _kind in operation_classes():
    if issubclass(_kind, WindowReduction):
        _register_window(_kind)


@register(TopIndices)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    return TopIndices(draw(st.integers(0, 4))), (array_type(dtypes.float32, (2, 4)),), ((-2, 2),)


@register(TopK)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    return TopK(draw(st.integers(0, 4))), (draw_type(draw, "fiu", wanted, (2, 4)),), ((-3, 3),)


@register(ApproximateTopK)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    op = ApproximateTopK(draw(st.integers(0, 4)), smallest=draw(st.booleans()))
    return op, (draw_type(draw, "f", wanted, (2, 4)),), ((-3, 3),)


@register(OrderStatistics)
def _(draw: st.DrawFn, wanted: Sequence[DType]) -> Drawn:
    ranks = array_type(i32, (2, draw(st.integers(0, 3))))
    return OrderStatistics(), (draw_type(draw, "fiu", wanted, (2, 4)), ranks), ((-3, 3), (0, 3))
