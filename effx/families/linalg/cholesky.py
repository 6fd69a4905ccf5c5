"""Cholesky's factorisation of positive definite matrices."""

import contextlib
from typing import final

import numpy as np

from effx.array import Array
from effx.array.arithmetic import conj
from effx.families.linalg.matrices import (
    Data,
    MatrixOperation,
    Options,
    call_kernel,
    check_matrix,
    emit_empty_results,
    emit_triangle_mask,
    emits_kernel,
    halve_diagonal,
    info_type,
    is_on_cpu,
    kernel_name,
    lapack_option,
    make_hermitian,
    multiply,
    nan_where_failed,
    sample_positive,
)
from effx.families.linalg.triangular import TriangularSolve
from effx.handling import ArrayType, Atom, Body, Var, emits, reference_rule, tangent_of
from effx.ir.ops.base import Singleton, check_arity

__all__ = ["Cholesky"]

SOLVE = TriangularSolve()
SOLVE_RIGHT = TriangularSolve(left_side=False, transpose_a=True)


@final
class Cholesky(Singleton, MatrixOperation):
    """The lower triangular L with a = L L^H, for Hermitian a `[*batch, n, n]` whose lower triangle is read.

    NaN in the lower triangle where a is not positive definite. A kernel on CPUs and GPUs, StableHLO's cholesky else.
    """

    __slots__ = ()
    domain = staticmethod(sample_positive)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        return types[0].strong()


@tangent_of(Cholesky)
def jvp_cholesky(op: Cholesky, da: Array, a: Array, factor: Array) -> Array:
    """Da = dL L^H + L dL^H, so L^-1 da L^-H is the sum of the triangular L^-1 dL and its adjoint."""
    both = SOLVE_RIGHT(conj(factor), SOLVE(factor, make_hermitian(da)))
    return multiply(factor, halve_diagonal(both))


@reference_rule(Cholesky)
def oracle_cholesky(op: Cholesky, a: Data) -> Data:
    """NumPy's factors, matrix by matrix."""
    factors = np.full(a.shape, np.nan, a.dtype)
    for index in np.ndindex(*a.shape[:-2]):
        with contextlib.suppress(np.linalg.LinAlgError):
            factors[index] = np.linalg.cholesky(a[index])
    return np.tril(factors)


@emits(Cholesky)
def emit_cholesky(body: Body, op: Cholesky, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    (a,), t = inputs, outputs[0].type
    factor = body.line(
        f'"stablehlo.cholesky"({body.name(a)}) <{{lower = true}}> : ({a.type.mlir}) -> {t.mlir}'
    )
    return emit_triangle_mask(body, "GE", factor, body.constant(0, t), t)


@emits_kernel(Cholesky)
def emit_cholesky_kernel(
    body: Body, op: Cholesky, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t, info = outputs[0].type, info_type(outputs[0].type)
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    options: Options = {"uplo": lapack_option("L")} if is_on_cpu(body) else {"lower": True}
    factor, failed = call_kernel(
        body, kernel_name(body, "potrf", "potrf", t), inputs, [t, info], options, {0: 0}
    )
    (checked_factor,) = nan_where_failed(body, [factor], [t], failed, info)
    return (emit_triangle_mask(body, "GE", checked_factor, body.constant(0, t), t),)
