"""Systems of linear equations with triangular matrices, solved by substitution."""

from typing import final

import attrs
import numpy as np

from effx.array import Array, triangles
from effx.array.shaping import matrix_transpose
from effx.errors import ShapeError
from effx.families.linalg.matrices import (
    Axis,
    Data,
    MatrixOperation,
    batch_systems,
    call_kernel,
    check_system,
    emit_empty_results,
    lapack_option,
    multiply,
    sample_regular,
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
    Vmap,
    emits,
    jvp_rule,
    lapack_target,
    reference_rule,
    transpose_rule,
    vmap_rule,
)

__all__ = ["TriangularSolve"]


@final
@attrs.frozen
class TriangularSolve(MatrixOperation):
    """The x with `op(a) x = b`, or `x op(a) = b`, for a triangular matrix a. StableHLO: triangular_solve.

    Operands: a `[*batch, n, n]`, of which the other triangle is not read, and b `[*batch, n, k]`, or `[*batch, k, n]`.

    Attributes:
        left_side: True for `op(a) x = b`.
        lower: True if a is lower triangular.
        transpose_a: True if op(a) is a's transpose.
        unit_diagonal: True to take the diagonal as ones, whatever its elements.
    """

    left_side: bool = True
    lower: bool = True
    transpose_a: bool = False
    unit_diagonal: bool = False
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of b."""
        a, b = check_system(self, types)
        if a.shape[:-2] != b.shape[:-2]:
            raise ShapeError(f"triangular_solve: batch axes differ: a is {a!r}, b is {b!r}")
        axis = b.ndim - 2 if self.left_side else b.ndim - 1
        if b.shape[axis] != a.shape[-1]:
            raise ShapeError(
                f"triangular_solve: axis {axis} of b must have the size of a, {a.shape[-1]}: a is {a!r}, b is {b!r}"
            )
        return b.strong()

    def triangle(self, a: Array) -> Array:
        """Returns the part of a that is read."""
        k = int(self.unit_diagonal)
        return triangles.tril(a, -k) if self.lower else triangles.triu(a, k)

    def product(self, a: Array, x: Array) -> Array:
        """Returns `op(a) x`, or `x op(a)`, for all of a, without a mask of its triangle."""
        a = matrix_transpose(a) if self.transpose_a else a
        return multiply(a, x) if self.left_side else multiply(x, a)


@jvp_rule(TriangularSolve)
def jvp_triangular_solve(
    op: TriangularSolve, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """From a x = b follows a dx = db - da x."""
    a, b = primals
    da, db = tangents
    x = op(a, b)
    by_a = None if da is None else -op(a, op.product(op.triangle(da), x))
    return x, add_tangents(x, by_a, None if db is None else op(a, db))


@transpose_rule(TriangularSolve)
def transpose_triangular_solve(
    op: TriangularSolve, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    """Linear in b: the system with the transposed matrix."""
    a, b = operands
    assert type(b) is LinearOperand
    return None, attrs.evolve(op, transpose_a=not op.transpose_a)(known_value(a), ct)


@vmap_rule(TriangularSolve)
def batch_triangular_solve(
    handler: Vmap, op: TriangularSolve, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    """One matrix for all batch elements: their right-hand sides are solved together."""
    return batch_systems(handler, op, values, axes, op.left_side)


@reference_rule(TriangularSolve)
def oracle_triangular_solve(op: TriangularSolve, a: Data, b: Data) -> Data:
    """NumPy's solver, on the triangle."""
    part = np.tril(a) if op.lower else np.triu(a)
    if op.unit_diagonal:
        part = part - part * np.eye(a.shape[-1], dtype=a.dtype) + np.eye(a.shape[-1], dtype=a.dtype)
    part = np.swapaxes(part, -1, -2) if op.transpose_a else part
    if op.left_side:
        return np.linalg.solve(part, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(part, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


@emits(TriangularSolve)
def emit_triangular_solve(
    body: Body, op: TriangularSolve, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> str:
    (a, b), t = inputs, outputs[0].type
    flags = {"left_side": op.left_side, "lower": op.lower, "unit_diagonal": op.unit_diagonal}
    shown = ", ".join([f"{name} = {str(flag).lower()}" for name, flag in flags.items()])
    transpose_option = "TRANSPOSE" if op.transpose_a else "NO_TRANSPOSE"
    return body.line(
        f'"stablehlo.triangular_solve"({body.name(a)}, {body.name(b)}) <{{{shown}, '
        f"transpose_a = #stablehlo<transpose {transpose_option}>}}> : ({a.type.mlir}, {b.type.mlir}) -> {t.mlir}"
    )


@emits(TriangularSolve, platform="cpu")
def emit_triangular_solve_on_cpu(
    body: Body, op: TriangularSolve, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t = outputs[0].type
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    options = {
        "side": lapack_option("L" if op.left_side else "R"),
        "uplo": lapack_option("L" if op.lower else "U"),
        "trans_x": lapack_option("T" if op.transpose_a else "N"),
        "diag": lapack_option("U" if op.unit_diagonal else "N"),
    }
    return call_kernel(body, lapack_target("trsm", t.dtype), inputs, [t], options, {0: 1})
