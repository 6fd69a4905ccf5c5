"""Transposes of elementwise operations in their linear operands."""

from collections.abc import Sequence

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, known_value, rule
from effx.ir.ops import convert as v
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Elementwise
from effx.ir.ops.reduce import ReduceSum
from effx.ir.types import ArrayType
from effx.ir.values.scalars import scalar

MUL, DIV, NEG, SELECT = e.Mul(), e.Div(), e.Neg(), e.Select()


def sum_to_type(ct: Array, t: ArrayType) -> Array:
    """Sums the cotangent of an operand that was broadcast from rank 0."""
    if ct.type.shape == t.shape:
        return ct
    return ReduceSum(tuple(range(ct.type.ndim)))(ct)


def _cotangent_for(ct: Array, x: Operand) -> Cotangent:
    return sum_to_type(ct, x.type) if type(x) is LinearOperand else None


@rule(e.Add)
def transpose_add(op: e.Add, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    x, y = operands
    return _cotangent_for(ct, x), _cotangent_for(ct, y)


@rule(e.Sub)
def transpose_sub(op: e.Sub, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    x, y = operands
    return _cotangent_for(ct, x), sum_to_type(NEG(ct), y.type) if type(y) is LinearOperand else None


@rule(e.Neg)
def transpose_neg(op: e.Neg, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (NEG(ct),)


@rule(e.Mul)
def transpose_mul(op: e.Mul, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    x, y = operands
    if type(x) is LinearOperand:
        return sum_to_type(MUL(ct, known_value(y)), x.type), None
    return None, sum_to_type(MUL(ct, known_value(x)), y.type)


@rule(e.Div)
def transpose_div(op: e.Div, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    x, y = operands
    return sum_to_type(DIV(ct, known_value(y)), x.type), None


@rule(e.Select)
def transpose_select(op: e.Select, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    which = known_value(operands[0])
    zero = scalar(0, ct.type.dtype)
    results: list[Cotangent] = [None]
    for case_index, case in enumerate(operands[1:]):
        if type(case) is not LinearOperand:
            results.append(None)
            continue
        parts = [ct if i == case_index else zero for i in range(len(operands) - 1)]
        results.append(sum_to_type(SELECT(which, *parts), case.type))
    return tuple(results)


# Real and imag take complex numbers to real ones. JAX's convention pairs cotangents without
# conjugation, Re(ct z), so the transpose of imag is z -> -i ct.
@rule(e.Real)
def transpose_real(op: e.Real, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (e.Complex()(ct, scalar(0, ct.type.dtype, False)),)


@rule(e.Imag)
def transpose_imag(op: e.Imag, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (e.Complex()(scalar(0, ct.type.dtype, False), NEG(ct)),)


@rule(e.Complex)
def transpose_complex(op: e.Complex, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    re, im = operands
    return _cotangent_for(e.Real()(ct), re), sum_to_type(NEG(e.Imag()(ct)), im.type) if type(
        im
    ) is LinearOperand else None


@rule(e.Conj)
def transpose_conj(op: e.Conj, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (op(ct),)


@rule(v.Convert)
def transpose_convert(op: v.Convert, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    t = operands[0].type
    if ct.type.kind == "c" and not dtypes.is_complex(t.dtype):
        ct = e.Real()(ct)
    return (convert(ct, t.dtype, t.weak),)


@rule(v.Copy, v.ReducePrecision)
def transpose_identity(op: Elementwise, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (op(ct),)


@rule(v.OptimizationBarrier)
def transpose_optimization_barrier(
    op: v.OptimizationBarrier, cts: Sequence[Cotangent], operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    barrier_cts = iter(op(*[ct for ct in cts if ct is not None]))
    return tuple([None if ct is None else next(barrier_cts) for ct in cts])
