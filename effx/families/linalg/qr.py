"""QR factorisation by Householder's reflections."""

from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, triangles
from effx.array.arithmetic import imag
from effx.array.promotion import convert, zeros
from effx.array.shaping import concatenate, expand_dims, matrix_transpose
from effx.errors import DTypeError, NoRuleError, ShapeError
from effx.families.linalg.lu import permute_rows
from effx.families.linalg.matrices import (
    Data,
    Factorization,
    MatrixOperation,
    adjoint,
    call_expanded,
    call_kernel,
    check_matrix,
    diagonal,
    emit_empty_results,
    emits_kernel,
    eye,
    kernel_name,
    multiply,
    names_with_types,
    sample_regular,
)
from effx.families.linalg.reflections import factorize_with_pivots
from effx.families.linalg.triangular import TriangularSolve
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Tangent,
    Var,
    array_type,
    decomposes,
    emits,
    jvp_rule,
    lapack_target,
    reference_rule,
)
from effx.ir.ops.base import Singleton, check_arity
from effx.ir.ops.shape import BroadcastInDim, Iota, Pad
from effx.ir.values.scalars import scalar
from effx.lower.text import sizes
from effx.lower.text.emit import emits_form

__all__ = ["Geqp3", "Geqrf", "HouseholderProduct", "Qr"]

UPPER_RIGHT = TriangularSolve(left_side=False, lower=False)


@final
class Geqrf(Singleton, Factorization):
    """Householder's reflections that make matrices `[*batch, m, n]` upper triangular.

    Results: r, with the reflections' vectors below its diagonal, and of min(m, n) reflections the factors `[*batch,
    k]`.
    """

    __slots__ = ()
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """One matrix for both, and a vector."""
        check_arity(self, types, 1)
        check_matrix(types[0], function_name=self.name)
        (t,) = types
        return t.strong(), array_type(t.dtype, (*t.shape[:-2], min(t.shape[-2:])))


@final
class Geqp3(Singleton, Factorization):
    """As `Geqrf`, of columns that are exchanged such that the diagonal of r decreases in size.

    Operands: a `[*batch, m, n]`, and `i32[*batch, n]`: 0 for columns that may be exchanged, other columns come first.
    Results: those of `Geqrf`, and the columns in their new order, `i32[*batch, n]`, counted from 1.
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """One matrix for both, a vector and indices."""
        check_arity(self, types, 2)
        a, columns = types
        check_matrix(a, "a", function_name=self.name)
        if columns is not array_type(dtypes.int32, (*a.shape[:-2], a.shape[-1])):
            raise ShapeError(
                f"geqp3: the columns' order must be i32, one for each column of a {a!r}, got {columns!r}"
            )
        return (*GEQRF.infer(a), columns)

    @staticmethod
    def domain(rng: np.random.Generator, t: ArrayType) -> Data:
        """Draws matrices, and columns that all may be exchanged."""
        return np.zeros(t.shape, t.dtype) if t.kind == "i" else sample_regular(rng, t)


@final
class HouseholderProduct(Singleton, MatrixOperation):
    """The first n columns of the product of k reflections, from vectors `[*batch, m, n]` and factors `[*batch, k]`,
    k <= n <= m.
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of the vectors."""
        check_arity(self, types, 2)
        a, taus = types
        check_matrix(a, "a", function_name=self.name)
        if taus.dtype != a.dtype:
            raise DTypeError(f"householder_product: operand dtypes differ: a is {a!r}, taus is {taus!r}")
        if a.shape[-2] < a.shape[-1]:
            raise ShapeError(f"householder_product: a must have at least as many rows as columns, got {a!r}")
        if taus.shape[:-1] != a.shape[:-2] or not taus.shape or taus.shape[-1] > a.shape[-1]:
            raise ShapeError(
                f"householder_product: taus must have a's batch axes and at most {a.shape[-1]} entries: "
                f"a is {a!r}, taus is {taus!r}"
            )
        return a.strong()

    @staticmethod
    def domain(rng: np.random.Generator, t: ArrayType) -> Data:
        """Draws vectors and factors of no orthogonal matrix: the product is defined for all."""
        data = rng.uniform(-1, 1, t.shape)
        return (data + 1j * rng.uniform(-1, 1, t.shape) if t.kind == "c" else data).astype(t.dtype)


@final
@attrs.frozen
class Qr(Factorization):
    """The factors with a = q r, q with orthonormal columns and r upper triangular, of a `[*batch, m, n]`.

    Results: q `[*batch, m, k]` and r `[*batch, k, n]`; with pivoting also the index in a of each column,
    `i32[*batch, n]`.

    Attributes:
        full: True for k = m, False for k = min(m, n).
        pivoting: True to exchange columns such that the diagonal of r decreases in size.
    """

    full: bool = False
    pivoting: bool = False
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Two matrices, and indices."""
        check_arity(self, types, 1)
        check_matrix(types[0], function_name=self.name)
        (t,) = types
        *batch, m, n = t.shape
        k = m if self.full else min(m, n)
        q, r = (array_type(t.dtype, (*batch, *s)) for s in ((m, k), (k, n)))
        return (q, r, array_type(dtypes.int32, (*batch, n))) if self.pivoting else (q, r)


GEQRF, GEQP3, PRODUCT = Geqrf(), Geqp3(), HouseholderProduct()


@decomposes(Qr)
def decompose_qr(op: Qr, a: Array) -> tuple[Array, ...]:
    *batch, m, n = a.type.shape
    k = m if op.full else min(m, n)
    order = array_type(dtypes.int32, (*batch, n))
    if 0 in a.type.shape:
        # No reflection: q has the first columns of the unit matrix.
        q = convert(triangles.band_mask((m, k), 0, "EQ"), a.type.dtype)
        spread = BroadcastInDim((*batch, m, k), (len(batch), len(batch) + 1))(q)
        r = zeros(a.type.strong().with_shape((*batch, k, n)))
        return (spread, r, Iota(order, len(batch))()) if op.pivoting else (spread, r)
    vectors, taus, *columns = GEQP3(a, zeros(order)) if op.pivoting else GEQRF(a)
    wide = vectors[..., : min(m, n)]
    if k > n:
        none = (0,) * (len(batch) + 1)
        wide = Pad((*none, 0), (*none, k - n), (*none, 0))(wide, scalar(0, a.type.dtype, False))
    return (PRODUCT(wide, taus), triangles.triu(vectors[..., :k, :]), *[c - 1 for c in columns])


@jvp_rule(Qr)
def jvp_qr(
    op: Qr, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """Of as many columns as q has, q^H da r^-1 is the sum of q^H dq, which is antihermitian, and dr r^-1, which is
    upper triangular with a real diagonal. The columns of r beyond follow from r = q^H a.
    """
    (a,), (da,) = primals, tangents
    assert da is not None
    q, r, *columns = op(a)
    *_, m, n = a.type.shape
    if op.full and m > n:
        raise NoRuleError(
            f"jvp: qr: not all columns of a square q are determined by {a.type!r}; use full_matrices=False"
        )
    k = min(m, n)
    if columns:
        da = matrix_transpose(permute_rows(matrix_transpose(da), columns[0]))
    corner = r[..., :k]
    scaled = UPPER_RIGHT(corner, da[..., :k])
    inner = multiply(adjoint(q), scaled)
    lower = triangles.tril(inner, -1)
    turn = lower - adjoint(lower)
    if a.type.kind == "c":
        turn = turn + 1j * expand_dims(imag(diagonal(inner)), -1) * eye(corner)
    dq = scaled + multiply(q, turn - inner)
    dr = multiply(inner - turn, corner)
    if n > k:
        beyond = multiply(adjoint(q), da[..., k:]) - multiply(turn, r[..., k:])
        dr = concatenate([dr, beyond], -1)
    return (q, r, *columns), (dq, triangles.triu(dr), *[None for _ in columns])


def householder_reflections(a: Data, pivoting: bool) -> tuple[Data, Data, Data]:
    """Reflects column after column, as LAPACK does: the diagonal of r becomes real."""
    vectors = np.array(a)
    m, n = a.shape
    taus, columns = np.zeros(min(m, n), a.dtype), np.arange(n, dtype=np.int32)
    for j in range(min(m, n)):
        if pivoting:
            p = j + int(np.argmax(np.linalg.norm(vectors[j:, j:], axis=0)))
            vectors[:, [j, p]], columns[[j, p]] = vectors[:, [p, j]], columns[[p, j]]
        x = vectors[j:, j].copy()
        if not np.any(x[1:]) and not x[0].imag:
            continue
        beta = -np.copysign(np.linalg.norm(x), x[0].real)
        taus[j] = (beta - x[0]) / beta
        v = x / (x[0] - beta)
        v[0] = 1
        rest = vectors[j:, j + 1 :]
        rest -= np.conj(taus[j]) * np.outer(v, np.conj(v) @ rest)
        vectors[j:, j] = v
        vectors[j, j] = beta
    return vectors, taus, columns


def reflect_batch(a: Data, pivoting: bool) -> tuple[Data, Data, Data]:
    """Reflects each matrix of a batch."""
    *batch, m, n = a.shape
    vectors, taus = np.array(a), np.zeros((*batch, min(m, n)), a.dtype)
    columns = np.zeros((*batch, n), np.int32)
    for index in np.ndindex(*batch):
        vectors[index], taus[index], columns[index] = householder_reflections(a[index], pivoting)
    return vectors, taus, columns


@reference_rule(Geqrf)
def oracle_geqrf(op: Geqrf, a: Data) -> tuple[Data, ...]:
    """Column by column."""
    return reflect_batch(a, False)[:2]


@reference_rule(Geqp3)
def oracle_geqp3(op: Geqp3, a: Data, columns: Data) -> tuple[Data, ...]:
    """The largest column first."""
    vectors, taus, order = reflect_batch(a, True)
    return vectors, taus, order + np.int32(1)


@reference_rule(HouseholderProduct)
def oracle_householder_product(op: HouseholderProduct, a: Data, taus: Data) -> Data:
    """The reflections' matrices, multiplied."""
    *batch, m, n = a.shape
    full_product = np.zeros((*batch, m, n), a.dtype)
    for index in np.ndindex(*batch):
        product = np.eye(m, dtype=a.dtype)
        for j, tau in enumerate(taus[index]):
            v = np.concatenate([np.zeros(j), [1], a[index][j + 1 :, j]]).astype(a.dtype)
            product = product @ (np.eye(m) - tau * np.outer(v, np.conj(v)))
        full_product[index] = product[:, :n]
    return full_product


@emits_kernel(Geqrf)
def emit_geqrf(body: Body, op: Geqrf, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    types = [v.type for v in outputs]
    if not types[0].size:
        return emit_empty_results(body, outputs)
    return call_kernel(body, kernel_name(body, "geqrf", "geqrf", types[0]), inputs, types, {}, {0: 0})


@emits_kernel(HouseholderProduct)
def emit_householder_product(
    body: Body, op: HouseholderProduct, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t = outputs[0].type
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    name = kernel_name(body, "ungqr" if t.kind == "c" else "orgqr", "orgqr", t)
    return call_kernel(body, name, inputs, [t], {}, {0: 0})


@emits(Geqrf, platform="tpu")
def emit_geqrf_on_tpu(
    body: Body, op: Geqrf, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    types = [v.type for v in outputs]
    if not types[0].size:
        return emit_empty_results(body, outputs)
    return call_expanded(body, "Qr", names_with_types(body, inputs), types)


@emits(HouseholderProduct, platform="tpu")
def emit_householder_product_on_tpu(
    body: Body, op: HouseholderProduct, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t = outputs[0].type
    if 0 in t.shape or 0 in inputs[1].type.shape:
        return emit_empty_results(body, outputs)
    return call_expanded(
        body, "ProductOfElementaryHouseholderReflectors", names_with_types(body, inputs), [t]
    )


@emits(Geqp3, platform="cpu")
def emit_geqp3(body: Body, op: Geqp3, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    vectors, taus, order = (v.type for v in outputs)
    if 0 in vectors.shape:
        first = sizes.iota(body, order, order.ndim - 1)
        counted = body.line(f"stablehlo.add {first}, {body.constant(1, order)} : {order.mlir}")
        return (*emit_empty_results(body, outputs[:2]), counted)
    results = call_kernel(
        body, lapack_target("geqp3", vectors.dtype), inputs, [vectors, order, taus], {}, {0: 0, 1: 1}
    )
    return results[0], results[2], results[1]


@emits_form(Geqp3, "cuda", "rocm", "tpu")
def factorize_column_by_column(op: Geqp3, a: Array, columns: Array) -> tuple[Array, ...]:
    """The form of platforms without a kernel."""
    return factorize_with_pivots(a, columns)
