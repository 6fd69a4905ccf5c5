"""LU factorization with row exchanges, and solutions of linear systems and determinants by it."""

from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, reducing, triangles
from effx.array.arithmetic import absolute, imag, real, where
from effx.array.promotion import broadcast_to, convert
from effx.array.shaping import concatenate, expand_dims, matrix_transpose
from effx.errors import DTypeError, ShapeError
from effx.families.linalg.matrices import (
    Axis,
    Data,
    Factorization,
    MatrixOperation,
    batch_systems,
    call_expanded,
    call_kernel,
    check_matrix,
    check_system,
    diagonal,
    emit_empty_results,
    emits_kernel,
    eye,
    info_type,
    is_on_cpu,
    kernel_name,
    multiply,
    names_with_types,
    nan_where_failed,
    real_type,
    sample_regular,
)
from effx.families.linalg.small_systems import (
    factorize_small_matrices,
    is_batch_of_small_matrices,
    solve_small_systems,
)
from effx.families.linalg.triangular import TriangularSolve
from effx.families.sort import Sort
from effx.handlers.jvp.handler import add_tangents
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Tangent,
    Var,
    Vmap,
    array_type,
    decomposes,
    emits,
    jvp_rule,
    reference_rule,
    tangent_of,
    vmap_rule,
)
from effx.ir.ops.base import Singleton, check_arity, check_int
from effx.ir.ops.elementwise import Log
from effx.ir.ops.index import Gather
from effx.ir.ops.shape import Iota
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import shard_leading_axes
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.values.scalars import scalar
from effx.lower.text import sizes
from effx.lower.text.emit import emit_decomposition, emit_form
from effx.lower.text.foreign_calls import custom_call_text
from effx.lower.text.stablehlo.control import BOOL, INDEX, Names, emit_while_loop

__all__ = [
    "Det",
    "Lu",
    "PivotsToPermutation",
    "Slogdet",
    "Solve",
    "inverse_permutation",
    "lu_solve",
    "permute_rows",
]

LOG = Log()
UNIT_LOWER, UPPER = TriangularSolve(unit_diagonal=True), TriangularSolve(lower=False)
UNIT_UPPER = TriangularSolve(lower=False, unit_diagonal=True)
UNIT_LOWER_TRANSPOSED = TriangularSolve(unit_diagonal=True, transpose_a=True)
UPPER_TRANSPOSED = TriangularSolve(lower=False, transpose_a=True)
UPPER_RIGHT = TriangularSolve(left_side=False, lower=False)


@final
class Lu(Singleton, Factorization):
    """The factors with `a[permutation] = l u`.

    Operand: a `[*batch, m, n]`. Results: u, with what l has below its diagonal of ones, in one matrix `[*batch, m, n]`;
    of k = min(m, n) pivots `i32[*batch, k]` the rows that were exchanged with row 0, 1, …, in this order; the
    permutation `i32[*batch, m]`.
    """

    __slots__ = ()
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The types of both factors in one matrix, and of indices."""
        check_arity(self, types, 1)
        check_matrix(types[0], function_name=self.name)
        *batch, m, n = types[0].shape
        indices = [array_type(dtypes.int32, (*batch, size)) for size in (min(m, n), m)]
        return types[0].strong(), *indices


@final
@attrs.frozen
class PivotsToPermutation(MatrixOperation):
    """The permutation of rows that exchanges row 0, 1, … with those of the pivots `i32[*batch, k]`.

    Attributes:
        size: the number of rows.
    """

    size: int = attrs.field(validator=check_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """A permutation `i32[*batch, size]`."""
        check_arity(self, types, 1)
        (t,) = types
        if t.dtype != dtypes.int32:
            raise DTypeError(f"pivots_to_permutation: pivots must be i32, got {t!r}")
        if not t.ndim or t.shape[-1] > self.size:
            raise ShapeError(
                f"pivots_to_permutation: of {self.size} rows at most {self.size} have a pivot, got {t!r}"
            )
        return t.with_shape((*t.shape[:-1], self.size))

    @staticmethod
    def domain(rng: np.random.Generator, t: ArrayType) -> Data:
        """Draws rows at or below the one that they are exchanged with."""
        k = t.shape[-1]
        return rng.integers(np.arange(k), max(k, 1), t.shape).astype(t.dtype)


@sharding_rule(PivotsToPermutation)
def infer_permutation_sharding(
    op: PivotsToPermutation, shardings: OperandShardings
) -> list[DimensionShardings]:
    """Sharded along the batch axes only."""
    return shard_leading_axes(shardings.types[0].ndim - 1, shardings, "which holds the pivots")


def permute_rows(x: Array, permutation: Array) -> Array:
    """Returns the rows of matrices in another order."""
    if 0 in x.type.shape:
        return x
    batch = tuple(range(x.type.ndim - 2))
    k = len(batch)
    sizes = (*(1,) * (k + 1), x.type.shape[-1])
    return Gather((k + 1,), (k,), (k,), sizes, batch, batch)(x, expand_dims(permutation, -1))


def inverse_permutation(permutation: Array) -> Array:
    """Returns the inverse permutation: the new index of each row."""
    axis = permutation.type.ndim - 1
    return Sort(axis)(permutation, Iota(permutation.type, axis)())[1]


def lu_solve(factors: Array, permutation: Array, b: Array, transpose: bool = False) -> Array:
    """Returns the x with a x = b, or a^T x = b, from the factors of a."""
    if transpose:
        return permute_rows(
            UNIT_LOWER_TRANSPOSED(factors, UPPER_TRANSPOSED(factors, b)), inverse_permutation(permutation)
        )
    return UPPER(factors, UNIT_LOWER(factors, permute_rows(b, permutation)))


@jvp_rule(Lu)
def jvp_lu(
    op: Lu, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """Of the first k = min(m, n) rows and columns, l^-1 da u^-1 is the sum of l^-1 dl, which is strictly lower
    triangular, and du u^-1, which is upper triangular. The rows or columns beyond follow from a = l u.
    """
    (a,), (da,) = primals, tangents
    assert da is not None
    factors, pivots, permutation = op(a)
    k = min(a.type.shape[-2:])
    da = permute_rows(da, permutation)
    corner, top = factors[..., :k, :k], UNIT_LOWER(factors[..., :k, :k], da[..., :k, :])
    inner = UPPER_RIGHT(corner, top[..., :k])
    lower, upper = triangles.tril(inner, -1), triangles.triu(inner)
    unit_lower = triangles.tril(corner, -1)
    dl, du = multiply(unit_lower, lower) + lower, multiply(upper, triangles.triu(corner))
    moved = dl + du
    if a.type.shape[-1] > k:
        moved = concatenate([moved, top[..., k:] - multiply(lower, factors[..., :k, k:])], -1)
    if a.type.shape[-2] > k:
        below = UPPER_RIGHT(corner, da[..., k:, :] - multiply(factors[..., k:, :], du))
        moved = concatenate([moved, below], -2)
    return (factors, pivots, permutation), (moved, None, None)


@reference_rule(Lu)
def oracle_lu(op: Lu, a: Data) -> tuple[Data, ...]:
    """Elimination, column by column, with the largest remaining element as the pivot."""
    factors = np.array(a)
    *batch, m, n = a.shape
    pivots = np.zeros((*batch, min(m, n)), np.int32)
    permutation = np.zeros((*batch, m), np.int32)
    for index in np.ndindex(*batch):
        lu, order = factors[index], np.arange(m, dtype=np.int32)
        for j in range(min(m, n)):
            size = np.abs(lu[j:, j].real) + np.abs(lu[j:, j].imag)
            p = pivots[(*index, j)] = j + int(np.argmax(size))
            lu[[j, p]], order[[j, p]] = lu[[p, j]], order[[p, j]]
            lu[j + 1 :, j] /= lu[j, j]
            lu[j + 1 :, j + 1 :] -= np.outer(lu[j + 1 :, j], lu[j, j + 1 :])
        permutation[index] = order
    return factors, pivots, permutation


@jvp_rule(PivotsToPermutation)
def jvp_permutation(
    op: PivotsToPermutation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """Integers."""
    return op(*primals), None


@reference_rule(PivotsToPermutation)
def oracle_permutation(op: PivotsToPermutation, pivots: Data) -> Data:
    """Exchanges the rows one after the other."""
    permutation = np.broadcast_to(np.arange(op.size, dtype=np.int32), (*pivots.shape[:-1], op.size)).copy()
    for index in np.ndindex(*pivots.shape[:-1]):
        for i, j in enumerate(pivots[index]):
            permutation[index][[i, j]] = permutation[index][[j, i]]
    return permutation


# A GPU is asked after each step of a loop whether to go on: 20 ms for the pivots of 1,024 rows (H200, CUDA 13).
PERMUTATION_KERNELS = {"cuda": "cu_lu_pivots_to_permutation", "rocm": "hip_lu_pivots_to_permutation"}


def write_permutation(body: Body, pivots: str, t: ArrayType, size: int) -> str:
    """Writes a call of GPUs' kernel, or a loop over the pivots; masks exchange the rows, so that a batch needs no gather."""
    *batch, k = t.shape
    axis = len(batch)
    full_type, one, flat = (t.with_shape(s) for s in ((*batch, size), (*batch, 1), tuple(batch)))
    positions = sizes.iota(body, full_type, axis)
    if not k or 0 in full_type.shape:
        return positions
    kernel = PERMUTATION_KERNELS.get(body.module.platform)
    if kernel is not None:
        return body.line(custom_call_text(kernel, [pivots], [t], [full_type]))
    mask, zero = array_type(dtypes.bool_, full_type.shape), body.constant(0, INDEX)

    def entry(x: str, of: ArrayType, i: str) -> str:
        """Writes x[..., i], repeated along the rows."""
        starts = [(zero, INDEX)] * axis + [(i, INDEX)]
        element = sizes.dynamic_slice(body, x, of, starts, one)
        return sizes.broadcast_in_dim(body, element, one, full_type, range(axis + 1))

    def at(i: str) -> str:
        return body.line(
            f"stablehlo.compare EQ, {positions}, {i}, SIGNED : ({full_type.mlir}, {full_type.mlir}) -> {mask.mlir}"
        )

    def select(test: str, x: str, y: str) -> str:
        return body.line(f"stablehlo.select {test}, {x}, {y} : {mask.mlir}, {full_type.mlir}")

    def step(now: Names) -> Names:
        i, order, all_pivots = now
        first, second = at(body.broadcast(i, INDEX, full_type)), at(entry(all_pivots, t, i))
        chosen = select(second, order, body.constant(0, full_type))
        selected = body.line(
            f"stablehlo.reduce({chosen} init: {zero}) applies stablehlo.add across dimensions = [{axis}] "
            f": ({full_type.mlir}, {INDEX.mlir}) -> {flat.mlir}"
        )
        spread = sizes.broadcast_in_dim(body, selected, flat, full_type, range(axis))
        changed = select(first, spread, select(second, entry(order, full_type, i), order))
        return body.line(f"stablehlo.add {i}, {body.constant(1, INDEX)} : {INDEX.mlir}"), changed, all_pivots

    def more(now: Names) -> str:
        end = sizes.write_size(body, k)
        return body.line(
            f"stablehlo.compare LT, {now[0]}, {end}, SIGNED : ({INDEX.mlir}, {INDEX.mlir}) -> {BOOL.mlir}"
        )

    return emit_while_loop(body, (zero, positions, pivots), (INDEX, full_type, t), more, step)[1]


@emits(PivotsToPermutation)
def emit_permutation(
    body: Body, op: PivotsToPermutation, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> str:
    return write_permutation(body, body.name(inputs[0]), inputs[0].type, op.size)


@emits_kernel(Lu)
def emit_lu(body: Body, op: Lu, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    t, pivots_type, permutation_type = (v.type for v in outputs)
    if 0 in t.shape:
        factors, pivots = emit_empty_results(body, outputs[:2])
        return factors, pivots, write_permutation(body, pivots, pivots_type, t.shape[-2])
    if is_on_cpu(body) and body.module.devices == 1 and is_batch_of_small_matrices(t):
        return emit_form(_factorize_small, body, op, inputs, outputs)
    info = info_type(t)
    name = kernel_name(body, "getrf", "getrf", t)
    factors, pivots, failed = call_kernel(body, name, inputs, [t, pivots_type, info], {}, {0: 0})
    # Pivots count from 1. A positive info says that a pivot is 0, which is no failure.
    pivots = body.line(f"stablehlo.subtract {pivots}, {body.constant(1, pivots_type)} : {pivots_type.mlir}")
    (factors,) = nan_where_failed(body, [factors], [t], failed, info, "GE")
    return factors, pivots, write_permutation(body, pivots, pivots_type, permutation_type.shape[-1])


def _factorize_small(op: Lu, a: Array) -> tuple[Array, ...]:
    factors, pivots = factorize_small_matrices(a)
    return factors, pivots, PivotsToPermutation(a.type.shape[-1])(pivots)


@emits(Lu, platform="tpu")
def emit_lu_on_tpu(body: Body, op: Lu, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    t, pivots_type, permutation_type = (v.type for v in outputs)
    if 0 in t.shape:
        factors, pivots = emit_empty_results(body, outputs[:2])
        return factors, pivots, write_permutation(body, pivots, pivots_type, t.shape[-2])
    return call_expanded(
        body, "LuDecomposition", names_with_types(body, inputs), [t, pivots_type, permutation_type]
    )


@final
class Solve(Singleton, MatrixOperation):
    """The x with a x = b, for a `[*batch, n, n]` and b `[*batch, n, k]`."""

    __slots__ = ()
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of b."""
        a, b = check_system(self, types)
        if a.shape[:-1] != b.shape[:-1]:
            raise ShapeError(
                f"solve: batch axes and rows of a and b must be the same: a is {a!r}, b is {b!r}"
            )
        return b.strong()


@decomposes(Solve)
def decompose_solve(op: Solve, a: Array, b: Array) -> Array:
    factors, _, permutation = Lu()(a)
    return lu_solve(factors, permutation, b)


def _solve_small(op: Solve, a: Array, b: Array) -> Array:
    return solve_small_systems(a, b)


@emits(Solve, platform="cpu")
def emit_solve(body: Body, op: Solve, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    a, b = [x.type for x in inputs]
    is_small = not has_symbolic(b.shape) and is_batch_of_small_matrices(a, b.shape[-1])
    if is_small and b.size and body.module.devices == 1:
        return emit_form(_solve_small, body, op, inputs, outputs)
    return emit_decomposition(body, op, inputs, outputs)


@jvp_rule(Solve)
def jvp_solve(op: Solve, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    """From a x = b follows a dx = db - da x, which the same factors solve."""
    a, b = primals
    da, db = tangents
    factors, _, permutation = Lu()(a)
    x = lu_solve(factors, permutation, b)
    side = add_tangents(x, None if da is None else -multiply(da, x), db)
    return x, None if side is None else lu_solve(factors, permutation, side)


@vmap_rule(Solve)
def batch_solve(
    handler: Vmap, op: Solve, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    """One matrix for all batch elements: their right-hand sides are solved together."""
    return batch_systems(handler, op, values, axes, True)


@reference_rule(Solve)
def oracle_solve(op: Solve, a: Data, b: Data) -> Data:
    """NumPy's solver."""
    return np.linalg.solve(a, b)


@final
class Det(Singleton, MatrixOperation):
    """The determinants of matrices `[*batch, n, n]`."""

    __slots__ = ()
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> ArrayType:
        """A number for each matrix."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        return types[0].strong().with_shape(types[0].shape[:-2])


def permutation_sign(pivots: Array) -> Array:
    """Returns -1 or 1, in the default integer dtype: the sign of the pivots' permutation."""
    exchanges = reducing.sum(convert(pivots != Iota(pivots.type, pivots.type.ndim - 1)(), dtypes.int32), -1)
    return 1 - 2 * (exchanges % 2)


@decomposes(Det)
def decompose_det(op: Det, a: Array) -> Array:
    factors, pivots, _ = Lu()(a)
    return reducing.prod(diagonal(factors), -1) * convert(permutation_sign(pivots), a.type.dtype)


@tangent_of(Det)
def jvp_det(op: Det, da: Array, a: Array, det: Array) -> Array:
    """The trace of adj(a) da (Jacobi), with adj(a) = det(p) adj(u) l^-1 p for p a = l u: nothing is divided by a pivot,
    so that singular matrices of any rank have derivatives.
    """
    if a.type.shape[-1] == 0:
        return det * 0.0
    factors, pivots, permutation = Lu()(a)
    c = UNIT_LOWER(factors, permute_rows(da, permutation))
    trace = reducing.sum(_adjugate_of_upper(factors) * matrix_transpose(c), (-2, -1))
    return trace * convert(permutation_sign(pivots), a.type.dtype)


def _adjugate_of_upper(u: Array) -> Array:
    """Returns the adjugates of upper triangles, without a division by what is on their diagonals.

    With p on the diagonal, back substitution for u^-1 = x, x_ij = -sum_k u_ik x_kj / p_i, becomes for
    m_ij = x_ij p_i p_(i+1) … p_j a system m = 1 - w m of w_ik = u_ik p_(i+1) … p_(k-1), and
    adj(u)_ij = p_1 … p_(i-1) m_ij p_(j+1) … p_n. Rounding is that of back substitution: the two differ by a scaling.
    """
    n, p = u.type.shape[-1], diagonal(u)
    one = scalar(1, u.type.dtype, False)
    ones = broadcast_to(one, (*p.type.shape[:-1], 1))
    # In row i: p_(i+1) … p_k for columns k, then one column later.
    right = where(_is_above_diagonal(u), broadcast_to(expand_dims(p, -2), u.type.shape), one)
    products = concatenate([broadcast_to(one, (*p.type.shape, 1)), reducing.cumprod(right, -1)[..., :-1]], -1)
    w = triangles.triu(u, 1) * products
    m = UNIT_UPPER(w, broadcast_to(eye(u), u.type.shape))
    before = concatenate([ones, reducing.cumprod(p[..., : n - 1], -1)], -1)
    after = concatenate([reducing.cumprod(p[..., 1:], -1, reverse=True), ones], -1)
    return expand_dims(before, -1) * m * expand_dims(after, -2)


def _is_above_diagonal(x: Array) -> Array:
    return broadcast_to(~triangles.band_mask(x.type.shape[-2:], 0), x.type.shape)


@reference_rule(Det)
def oracle_det(op: Det, a: Data) -> Data:
    """NumPy's determinant."""
    return np.asarray(np.linalg.det(a))


@final
class Slogdet(Singleton, Factorization):
    """Signs, of absolute value 1, of the determinants of matrices `[*batch, n, n]`, and logarithms of their absolute
    values.

    Both `[*batch]`, the logarithms real; 0 and minus infinity for singular matrices.
    """

    __slots__ = ()
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Two numbers for each matrix."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        return types[0].strong().with_shape(types[0].shape[:-2]), real_type(types[0])


def sign_and_log(on_diagonal: Array, sign: Array) -> tuple[Array, Array]:
    """Returns sign and logarithm of products of diagonals with a sign in front."""
    dtype = on_diagonal.type.dtype
    sizes = absolute(on_diagonal)
    directions = where(sizes == 0, 0.0, on_diagonal / convert(where(sizes == 0, 1.0, sizes), dtype))
    return convert(sign, dtype) * reducing.prod(directions, -1), reducing.sum(LOG(sizes), -1)


@decomposes(Slogdet)
def decompose_slogdet(op: Slogdet, a: Array) -> tuple[Array, ...]:
    factors, pivots, _ = Lu()(a)
    return sign_and_log(diagonal(factors), permutation_sign(pivots))


@jvp_rule(Slogdet)
def jvp_slogdet(
    op: Slogdet, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """The tangent of the determinant's logarithm is the trace of a^-1 da: its real part, and the sign's angle."""
    (a,), (da,) = primals, tangents
    assert da is not None
    factors, pivots, permutation = Lu()(a)
    sign, log = sign_and_log(diagonal(factors), permutation_sign(pivots))
    moved = reducing.sum(diagonal(lu_solve(factors, permutation, da)), -1)
    sign_tangent = sign * (1j * imag(moved)) if a.type.kind == "c" else None
    return (sign, log), (sign_tangent, real(moved))


@reference_rule(Slogdet)
def oracle_slogdet(op: Slogdet, a: Data) -> tuple[Data, ...]:
    """NumPy's function."""
    return tuple([np.asarray(x) for x in np.linalg.slogdet(a)])
