"""Systems of linear equations with tridiagonal matrices."""

from typing import final

import numpy as np

from effx.array import Array
from effx.array.promotion import broadcast_to
from effx.array.shaping import concatenate, expand_dims
from effx.errors import ShapeError
from effx.families.linalg.matrices import (
    Data,
    MatrixOperation,
    call_kernel,
    check_matrix,
    emit_empty_results,
    info_type,
    nan_where_failed,
)
from effx.handlers.jvp.handler import add_tangents
from effx.handlers.transpose.handler import Operand, known_value
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Cotangent,
    LinearOperand,
    Tangent,
    Var,
    emits,
    jvp_rule,
    lapack_target,
    reference_rule,
    transpose_rule,
)
from effx.ir.ops.base import Singleton, check_arity, types_text
from effx.ir.values.scalars import scalar
from effx.lower.text.emit import emit_form, emits_form

__all__ = ["TridiagonalSolve"]


@final
class TridiagonalSolve(Singleton, MatrixOperation):
    """The x with a x = b, for the diagonals of a below, on and above the main one, `[*batch, n]`, and b `[*batch, n,
    k]`.

    The first element below and the last one above are not read.
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of b."""
        check_arity(self, types, 4)
        *diagonals, b = types
        check_matrix(b, "b", function_name=self.name)
        for t in diagonals:
            if (t.dtype, t.shape) != (b.dtype, b.shape[:-1]):
                raise ShapeError(
                    "tridiagonal_solve: diagonals must have b's dtype and shape without the last axis, got "
                    f"{types_text(types)}"
                )
        return b.strong()


def shift_last_axis(x: Array, by: int) -> Array:
    """Returns x[i + by] along the last axis, 0 beyond its ends; `by` is 1 or -1."""
    zero = x[..., :1] * 0
    return concatenate([x[..., 1:], zero] if by > 0 else [zero, x[..., :-1]], -1)


def multiply_tridiagonal(lower: Array, main: Array, upper: Array, x: Array) -> Array:
    """Returns a x."""
    rows = [expand_dims(d, -1) for d in (lower, main, upper)]
    zero = x[..., :1, :] * 0
    before = concatenate([zero, x[..., :-1, :]], -2)
    after = concatenate([x[..., 1:, :], zero], -2)
    return rows[0] * before + rows[1] * x + rows[2] * after


@jvp_rule(TridiagonalSolve)
def jvp_tridiagonal_solve(
    op: TridiagonalSolve, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """From a x = b follows a dx = db - da x."""
    diagonals, moved, db = primals[:3], tangents[:3], tangents[3]
    x = op(*primals)
    side = db
    if any([d is not None for d in moved]) and x.type.size:
        filled = [p * 0 if d is None else d for p, d in zip(diagonals, moved, strict=True)]
        side = add_tangents(x, -multiply_tridiagonal(filled[0], filled[1], filled[2], x), db)
    return x, None if side is None else op(*diagonals, side)


@transpose_rule(TridiagonalSolve)
def transpose_tridiagonal_solve(
    op: TridiagonalSolve, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    """Linear in b: the system with the transposed matrix, whose outer diagonals are exchanged."""
    assert type(operands[3]) is LinearOperand
    lower, main, upper = (known_value(x) for x in operands[:3])
    if 0 in ct.type.shape:
        return None, None, None, ct
    return None, None, None, op(shift_last_axis(upper, -1), main, shift_last_axis(lower, 1), ct)


@reference_rule(TridiagonalSolve)
def oracle_tridiagonal_solve(op: TridiagonalSolve, lower: Data, main: Data, upper: Data, b: Data) -> Data:
    """NumPy's solver, for the whole matrix."""
    n = main.shape[-1]
    a = np.zeros((*main.shape, n), main.dtype)
    i = np.arange(n)
    a[..., i, i] = main
    a[..., i[1:], i[:-1]] = lower[..., 1:]
    a[..., i[:-1], i[1:]] = upper[..., :-1]
    return np.linalg.solve(a, b)


@emits(TridiagonalSolve, platform="cpu")
def emit_tridiagonal_solve_on_cpu(
    body: Body, op: TridiagonalSolve, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t, info = outputs[0].type, info_type(outputs[0].type)
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    types = [x.type.strong() for x in inputs]
    aliases = {i: i for i in range(4)}
    results = call_kernel(
        body, lapack_target("gtsv", t.dtype), inputs, [*types, info], {}, aliases, batch=t.ndim - 2
    )
    return nan_where_failed(body, results[3:4], [t], results[4], info)


SMALLEST_SYSTEM = 3  # cuSPARSE refuses smaller matrices


@emits(TridiagonalSolve, platform="cuda")
def emit_tridiagonal_solve_on_cuda(
    body: Body, op: TridiagonalSolve, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t = outputs[0].type
    if t.shape[-2] < SMALLEST_SYSTEM or 0 in t.shape:
        return emit_form(solve_by_cyclic_reduction, body, op, inputs, outputs)
    return call_kernel(body, "cusparse_gtsv2_ffi", inputs, [t], {}, {0: 3}, batch=t.ndim - 2)


@emits_form(TridiagonalSolve, "rocm", "tpu")
def solve_by_cyclic_reduction(
    op: TridiagonalSolve, lower: Array, main: Array, upper: Array, b: Array
) -> Array:
    """Eliminates from each row the unknowns of its neighbours, then of rows 2, 4, 8, … away, until each has its own alone.

    Nothing is exchanged, so matrices should be diagonally dominant, or positive definite.

    Source: Hockney and Jesshope, "Parallel computers", 1981.
    """
    n = main.type.shape[-1]
    lower, main, upper = [expand_dims(d, -1) for d in (lower, main, upper)]
    # The first element of lower and the last one of upper stand for nothing.
    lower, upper = shift_rows(shift_rows(lower, 1, 0), -1, 0), shift_rows(shift_rows(upper, -1, 0), 1, 0)
    step = 1
    while step < n:
        from_before = -lower / shift_rows(main, -step, 1)
        from_after = -upper / shift_rows(main, step, 1)
        b = b + from_before * shift_rows(b, -step, 0) + from_after * shift_rows(b, step, 0)
        main = main + from_before * shift_rows(upper, -step, 0) + from_after * shift_rows(lower, step, 0)
        lower, upper = from_before * shift_rows(lower, -step, 0), from_after * shift_rows(upper, step, 0)
        step *= 2
    return b / main


def shift_rows(x: Array, by: int, fill: int) -> Array:
    """Returns x[i + by] along the last axis but one, and a number beyond its ends; |by| is at most the axis' size."""
    rows, columns = x.type.shape[-2:]
    beyond = broadcast_to(scalar(fill, x.type.dtype, False), (*x.type.shape[:-2], abs(by), columns))
    if by > 0:
        return concatenate([x[..., by:, :], beyond], -2)
    return concatenate([beyond, x[..., : rows + by, :]], -2)
