"""Eigenvalues and eigenvectors, and singular values and vectors."""

from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, reducing
from effx.array.arithmetic import absolute, conj, imag, real, where
from effx.array.promotion import broadcast_to, convert, zeros
from effx.array.shaping import concatenate, expand_dims
from effx.array.triangles import band_mask
from effx.errors import NoRuleError, ShapeError
from effx.families.linalg.lu import Solve
from effx.families.linalg.matrices import (
    Data,
    Factorization,
    MatrixOperation,
    Options,
    adjoint,
    call_expanded,
    call_kernel,
    check_matrix,
    diagonal,
    emit_empty_results,
    emit_triangle_mask,
    emits_kernel,
    eye,
    info_type,
    is_on_cpu,
    kernel_name,
    lapack_option,
    make_hermitian,
    multiply,
    nan_where_failed,
    real_type,
    sample_positive,
    sample_regular,
)
from effx.families.linalg.polar import compute_polar_factor
from effx.families.linalg.qr import Qr
from effx.families.linalg.qr_iteration import compute_eigenvectors, normalize_columns
from effx.families.sort import Sort
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
from effx.ir.ops.base import check_arity
from effx.ir.ops.elementwise import Complex
from effx.ir.ops.shape import Iota, Reverse
from effx.lower.text import sizes
from effx.lower.text.emit import emit_form, emits_form
from effx.lower.text.stablehlo.reduce import reduce_line

__all__ = ["Eig", "Eigh", "Pinv", "Svd"]


def inverse_gaps(x: Array, y: Array) -> Array:
    """Returns 1 / (y_j - x_i) off the diagonal, and 0 on it; infinite for values that are equal."""
    n = x.type.shape[-1]
    on = broadcast_to(band_mask((n, n), 0, "EQ"), (*x.type.shape, n))
    difference = expand_dims(y, -2) - expand_dims(x, -1)
    return where(on, 0.0, 1.0 / where(on, 1.0, difference))


def as_column_factors(x: Array) -> Array:
    """Returns numbers as a factor of columns."""
    return expand_dims(x, -2)


@final
@attrs.frozen
class Eigh(Factorization):
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices `[*batch, n, n]`.

    Results: the eigenvalues `[*batch, n]`, real, and with vectors orthonormal ones as columns, `[*batch, n, n]`. The
    tangents of vectors are determined for simple eigenvalues only, and are infinite or NaN otherwise; those of complex
    vectors v are orthogonal to v.

    Attributes:
        lower: True to read the lower triangle, False for the upper one.
        vectors: True for eigenvectors too.
    """

    lower: bool = True
    vectors: bool = True
    domain = staticmethod(sample_positive)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Real numbers, and a matrix."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        (t,) = types
        values = real_type(t, t.shape[-1])
        return (values, t.strong()) if self.vectors else (values,)


@jvp_rule(Eigh)
def jvp_eigh(
    op: Eigh, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """First-order perturbation: in the basis of eigenvectors, da has the dw on its diagonal, and v^H dv times gaps of
    eigenvalues off it.
    """
    (a,), (da,) = primals, tangents
    assert da is not None
    w, v = attrs.evolve(op, vectors=True)(a)
    inner = multiply(adjoint(v), multiply(make_hermitian(da, op.lower), v))
    dw = real(diagonal(inner))
    if not op.vectors:
        return (w,), (dw,)
    return (w, v), (dw, multiply(v, convert(inverse_gaps(w, w), v.type.dtype) * inner))


@reference_rule(Eigh)
def oracle_eigh(op: Eigh, a: Data) -> tuple[Data, ...]:
    """NumPy's function."""
    w, v = np.linalg.eigh(a, "L" if op.lower else "U")
    return (w, v) if op.vectors else (w,)


@emits_kernel(Eigh)
def emit_eigh(body: Body, op: Eigh, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    (a,), values = inputs, outputs[0].type
    t, info = a.type.strong(), info_type(a.type)
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    options: Options = (
        {"mode": lapack_option("V" if op.vectors else "N"), "uplo": lapack_option("L" if op.lower else "U")}
        if is_on_cpu(body)
        else {"lower": op.lower, "algorithm": np.uint8(0)}
    )
    name = kernel_name(body, "heevd" if t.kind == "c" else "syevd", "syevd", t)
    v, w, failed = call_kernel(body, name, inputs, [t, values, info], options, {0: 0})
    names, types = ([w, v], [values, t]) if op.vectors else ([w], [values])
    return nan_where_failed(body, names, types, failed, info)


# XLA's iteration on TPUs, of Jacobi's rotations in parallel, ends when what is off the diagonal is so small beside the
# matrix, or after so many sweeps.
SWEEPS, TOLERANCE = 100, "1e-6"
# Of so few rows its eigenvalues are a rounding away: 9e-8 of the largest one for 8, 4e-7 for 32.
REFINED_FROM = 16


@emits(Eigh, platform="tpu")
def emit_eigh_on_tpu(
    body: Body, op: Eigh, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t, values = inputs[0].type.strong(), outputs[0].type
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    zero = body.constant(0, t)
    triangle = emit_triangle_mask(body, "GE" if op.lower else "LE", body.name(inputs[0]), zero, t)
    scaled, size = _divide_by_largest_element(body, triangle, t)
    config = f"{int(op.lower)},1,{SWEEPS},{TOLERANCE}"  # 1: sorted
    v, w = call_expanded(body, "Eigh", [(scaled, t)], [t, values], config)
    if t.shape[-1] > REFINED_FROM:
        operands = Var(t), Var(t)
        body.names.update(zip(operands, (scaled, v), strict=True))
        (w,) = emit_form(compute_rayleigh_quotients, body, op, operands, (Var(values),))
    spread = sizes.broadcast_in_dim(body, size, values.with_shape(t.shape[:-2]), values, range(t.ndim - 2))
    w = body.line(f"stablehlo.multiply {w}, {spread} : {values.mlir}")
    return (w, v) if op.vectors else (w,)


def compute_rayleigh_quotients(op: Eigh, triangle: Array, v: Array) -> tuple[Array, ...]:
    """Returns v^H a v / v^H v of the columns of v, ascending; a triangle of a is given.

    The eigenvalues of Jacobi's iteration have an error for what is left off the diagonal, and for the roundings of all
    rotations: 4e-6 of the largest one for 300 x 300. Of approximate vectors these are exact to the square of their
    error: 1e-7.
    """
    # With the diagonal halved, a is t + t^H, and v^H a v is twice the real part of v^H t v.
    halved = triangle * (1.0 - 0.5 * eye(triangle))
    conjugate = conj(v)
    products, squares = [reducing.sum(real(conjugate * x), -2) for x in (multiply(halved, v), v)]
    quotients = 2.0 * products / squares
    return Sort(quotients.type.ndim - 1, stable=False)(quotients)


def _divide_by_largest_element(body: Body, x: str, t: ArrayType) -> tuple[str, str]:
    """Returns matrices divided by their largest absolute value, and that: the iteration squares, so 1e20 would overflow."""
    parts = real_type(t, *t.shape[-2:])
    magnitude = body.line(f"stablehlo.abs {x} : ({t.mlir}) -> {parts.mlir}")
    axes = (t.ndim - 2, t.ndim - 1)
    largest = reduce_line(body, magnitude, parts, axes, "maximum", 0.0)
    flat = parts.with_shape(t.shape[:-2])
    mask = array_type(dtypes.bool_, flat.shape).mlir
    zero, one = body.constant(0, flat), body.constant(1, flat)
    is_zero = body.line(
        f"stablehlo.compare EQ, {largest}, {zero}, FLOAT : ({flat.mlir}, {flat.mlir}) -> {mask}"
    )
    size = body.line(f"stablehlo.select {is_zero}, {one}, {largest} : {mask}, {flat.mlir}")
    divisor = body.convert(sizes.broadcast_in_dim(body, size, flat, parts, range(t.ndim - 2)), parts, t)
    return body.line(f"stablehlo.divide {x}, {divisor} : {t.mlir}"), size


@final
@attrs.frozen
class Svd(Factorization):
    """Singular values, descending, and singular vectors of matrices `[*batch, m, n]`: a = u diag(s) vh.

    Results: s `[*batch, k]`, real, k = min(m, n); with vectors orthonormal columns u `[*batch, m, k]` and rows vh
    `[*batch, k, n]`, or square ones. The tangents of vectors are determined for singular values that differ and are not
    0, and are infinite or NaN otherwise.

    Attributes:
        full: True for square u and vh.
        vectors: True for singular vectors too.
        driver: "gesdd" to divide and conquer, "gesvd" to iterate.
    """

    full: bool = False
    vectors: bool = True
    driver: str = attrs.field(default="gesdd", validator=attrs.validators.in_(("gesdd", "gesvd")))
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Real numbers, and two matrices."""
        check_arity(self, types, 1)
        check_matrix(types[0], function_name=self.name)
        (t,) = types
        *_, m, n = t.shape
        k = min(m, n)
        return (real_type(t, k), *self.vector_types(t)) if self.vectors else (real_type(t, k),)

    def vector_types(self, t: ArrayType) -> tuple[ArrayType, ArrayType]:
        """Returns the types of u and vh."""
        *batch, m, n = t.shape
        k = min(m, n)
        rows, columns = (m, n) if self.full else (k, k)
        return array_type(t.dtype, (*batch, m, rows)), array_type(t.dtype, (*batch, columns, n))


@jvp_rule(Svd)
def jvp_svd(
    op: Svd, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """For p = u^H da v, and antihermitian x = u^H du and y = v^H dv: p = x s + ds - s y. Beside the diagonal p and p^H
    determine x and y. On it, the imaginary part of p is shared by both.
    """
    (a,), (da,) = primals, tangents
    assert da is not None
    *_, m, n = a.type.shape
    if op.full and op.vectors and m != n:
        raise NoRuleError(
            f"jvp: svd: not all vectors of square factors are determined by {a.type!r}; use full_matrices=False"
        )
    s, u, vh = attrs.evolve(op, vectors=True, full=False)(a)
    v = adjoint(vh)
    uh_da = multiply(adjoint(u), da)
    p = multiply(uh_da, v)
    ds = real(diagonal(p))
    if not op.vectors:
        return (s,), (ds,)
    # Quotients of real numbers: the divisor of a complex one is squared, and may underflow.
    rows, cols = expand_dims(s, -1), as_column_factors(s)
    total = where(rows + cols == 0, 1.0, rows + cols)
    # 1 / (s_j^2 - s_i^2) in two factors, of which none over- or underflows where the s do not.
    f, first, second, inverse = [
        convert(z, a.type.dtype) for z in (inverse_gaps(s, s), rows / total, cols / total, 1.0 / cols)
    ]
    x = f * (p * second + first * adjoint(p))
    y = f * (first * p + adjoint(p) * second)
    if a.type.kind == "c":
        phase = imag(diagonal(p)) / (2.0 * s)
        on = convert(band_mask((s.type.shape[-1],) * 2, 0, "EQ"), a.type.dtype)
        x, y = x + 1j * expand_dims(phase, -1) * on, y - 1j * expand_dims(phase, -1) * on
    du, dv = multiply(u, x), multiply(v, y)
    if m > n:
        du = du + (multiply(da, v) - multiply(u, p)) * inverse
    if n > m:
        dv = dv + (adjoint(uh_da) - multiply(v, adjoint(p))) * inverse
    return (s, u, vh), (ds, du, adjoint(dv))


@reference_rule(Svd)
def oracle_svd(op: Svd, a: Data) -> tuple[Data, ...]:
    """NumPy's function."""
    if not op.vectors:
        return (np.linalg.svd(a, compute_uv=False),)
    u, s, vh = np.linalg.svd(a, full_matrices=op.full)
    return s, u, vh


# Up to this size one-sided Jacobi's iteration is faster on GPUs: 1,024 x 1,024 in 55 ms for 100 (H200, CUDA 13).
LARGEST_FOR_JACOBI = 1024


def call_jacobi_kernel(body: Body, op: Svd, a: Atom) -> tuple[str, ...]:
    """Calls the kernel of GPUs that rotates columns until they are orthogonal.

    Its factors are square, and it gives v instead of v^H.
    """
    t, info = a.type.strong(), info_type(a.type)
    *batch, m, n = t.shape
    k = min(m, n)
    square = t.with_shape((*batch, m, m)), t.with_shape((*batch, n, n))
    options: Options = {"full_matrices": True, "compute_uv": op.vectors}
    name = kernel_name(body, "", "gesvdj", t)
    work, s, u, v, failed = call_kernel(body, name, [a], [t, real_type(t, k), *square, info], options, {0: 0})
    if not op.vectors:
        return work, s, u, v, failed
    if t.kind == "c":
        parts = [real_type(t, n, n)] * 2
        real_part, imaginary = [
            body.line(f"stablehlo.{part} {v} : ({square[1].mlir}) -> {parts[0].mlir}")
            for part in ("real", "imag")
        ]
        negated = body.line(f"stablehlo.negate {imaginary} : {parts[1].mlir}")
        v = body.line(f"stablehlo.complex {real_part}, {negated} : {square[1].mlir}")
    axes = [*range(len(batch)), len(batch) + 1, len(batch)]
    vh = body.line(f"stablehlo.transpose {v}, dims = {axes} : ({square[1].mlir}) -> {square[1].mlir}")
    cut_u, cut_vh = op.vector_types(t)
    pairs = ((u, square[0], cut_u), (vh, square[1], cut_vh))
    u, vh = [
        x
        if full is cut
        else sizes.static_slice(
            body, x, full, cut, start=[0] * cut.ndim, limit=cut.shape, strides=[1] * cut.ndim
        )
        for x, full, cut in pairs
    ]
    return work, s, u, vh, failed


@emits_kernel(Svd)
def emit_svd(body: Body, op: Svd, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    (a,), values = inputs, outputs[0].type
    t, info = a.type.strong(), info_type(a.type)
    u, vh = op.vector_types(t)
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    if is_on_cpu(body):
        mode = "N" if not op.vectors else "A" if op.full else "S"
        name = lapack_target(op.driver, t.dtype)
        results = call_kernel(
            body, name, inputs, [t, values, u, vh, info], {"mode": lapack_option(mode)}, {0: 0}
        )
        names = list(results[1:4])
    elif max(t.shape[-2:]) <= LARGEST_FOR_JACOBI and op.driver == "gesdd":
        results = call_jacobi_kernel(body, op, a)
        names = list(results[1:4])
    else:
        # The kernel needs at least as many rows as columns: in row-major order, others are the transposed matrix.
        is_wide = t.shape[-2] < t.shape[-1]
        name = kernel_name(body, "", "gesvd", t)
        options: Options = {"full_matrices": op.full, "compute_uv": op.vectors, "transposed": is_wide}
        none = t.with_shape(())
        vectors = ((vh, u) if is_wide else (u, vh)) if op.vectors else (none, none)
        types = [t, values, *vectors, info]
        results = call_kernel(body, name, inputs, types, options, {0: 0}, column_major=not is_wide)
        names = [results[1], *(results[3:1:-1] if is_wide else results[2:4])]
    names, types = (names, [values, u, vh]) if op.vectors else (names[:1], [values])
    return nan_where_failed(body, names, types, results[4], info)


@emits_form(Svd, "tpu")
def decompose_by_polar_factor(op: Svd, a: Array) -> tuple[Array, ...]:
    """With a = p h, p unitary and h Hermitian, and h = v diag(s) v^H, a is (p v) diag(s) v^H.

    Source: Nakatsukasa and Higham, "Stable and efficient spectral divide and conquer algorithms for the symmetric
    eigenvalue decomposition and the SVD", 2013.
    """
    m, n = a.type.shape[-2:]
    if m < n:
        s, *vectors = decompose_by_polar_factor(op, adjoint(a))
        return s, *[adjoint(x) for x in reversed(vectors)]
    if n == 0:
        none = zeros(real_type(a.type, 0))
        if not op.vectors:
            return (none,)
        left_type, right_type = op.vector_types(a.type)
        unit = convert(band_mask(left_type.shape[-2:], 0, "EQ"), a.type.dtype)
        return none, broadcast_to(unit, left_type.shape), zeros(right_type)
    q = None
    if m > n:
        q, r = Qr(op.full and op.vectors)(a)
        a = r[..., :n, :]
    p = compute_polar_factor(a)
    h = multiply(adjoint(p), a)
    w, v = Eigh()((h + adjoint(h)) * 0.5)
    flip = Reverse((w.type.ndim - 1,))
    s = where(flip(w) < 0, 0.0, flip(w))
    if not op.vectors:
        return (s,)
    v = Reverse((v.type.ndim - 1,))(v)
    # The columns of u for singular values of 0 are far from orthonormal. QR completes them, and keeps the others but for
    # a factor of length 1, which is that of r's diagonal.
    u, r = Qr()(multiply(p, v))
    corner = diagonal(r)
    size = absolute(corner)
    is_zero = size == 0
    phase = where(is_zero, 1.0, corner / convert(where(is_zero, 1.0, size), corner.type.dtype))
    u = u * as_column_factors(phase)
    if q is not None:
        left = multiply(q[..., :n], u)
        u = concatenate([left, q[..., n:]], -1) if op.full else left
    return s, u, adjoint(v)


@final
@attrs.frozen
class Pinv(MatrixOperation):
    """The pseudo-inverses of matrices `[*batch, m, n]`: singular values at or below a fraction `[*batch]` of the
    largest count as 0.

    Attributes:
        hermitian: True to take eigenvalues of a Hermitian matrix, by its lower triangle.
    """

    hermitian: bool = False

    def infer(self, *types: ArrayType) -> ArrayType:
        """The transposed shape."""
        check_arity(self, types, 2)
        a, cutoff = types
        check_matrix(a, "a", square=self.hermitian, function_name=self.name)
        if cutoff.strong() is not real_type(a):
            raise ShapeError(f"pinv: the cutoff must be {real_type(a)!r} for a {a!r}, got {cutoff!r}")
        return a.strong().with_shape((*a.shape[:-2], a.shape[-1], a.shape[-2]))

    @staticmethod
    def domain(rng: np.random.Generator, t: ArrayType) -> Data:
        """Draws matrices, Hermitian if square, and cutoffs that leave all singular values."""
        if t.ndim < 2:
            return np.full(t.shape, 1e-6, t.dtype)
        return sample_positive(rng, t) if t.shape[-1] == t.shape[-2] else sample_regular(rng, t)


@decomposes(Pinv)
def decompose_pinv(op: Pinv, a: Array, cutoff: Array) -> Array:
    if op.hermitian:
        w, u = Eigh()(a)
        s, v = absolute(w), u * as_column_factors(convert(where(w < 0, -1.0, 1.0), a.type.dtype))
    else:
        s, u, vh = Svd()(a)
        v = adjoint(vh)
    bound = expand_dims(cutoff * reducing.max(s, -1, initial=0), -1)
    inverse = where(s > bound, 1.0 / where(s > bound, s, 1.0), 0.0)
    return multiply(v * as_column_factors(convert(inverse, a.type.dtype)), adjoint(u))


@jvp_rule(Pinv)
def jvp_pinv(op: Pinv, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    """P = a^+ of a matrix of constant rank: dp = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H p^H p."""
    (a, cutoff), (da, _) = primals, tangents
    p = op(a, cutoff)
    if da is None:
        return p, None
    if op.hermitian:  # one triangle is read
        a, da = make_hermitian(a), make_hermitian(da)
    ph, dah = adjoint(p), adjoint(da)
    left, right = multiply(multiply(p, ph), dah), multiply(dah, multiply(ph, p))
    moved = (
        left
        - multiply(multiply(left, a), p)
        + right
        - multiply(p, multiply(a, right))
        - multiply(p, multiply(da, p))
    )
    return p, moved


@reference_rule(Pinv)
def oracle_pinv(op: Pinv, a: Data, cutoff: Data) -> Data:
    """NumPy's function."""
    return np.linalg.pinv(a, cutoff, hermitian=op.hermitian)


@final
@attrs.frozen
class Eig(Factorization):
    """Eigenvalues and eigenvectors of matrices `[*batch, n, n]`, all complex.

    Results: the eigenvalues w `[*batch, n]`; with left the vectors l with l^H a = w l^H, with right the r with
    a r = w r, as columns, `[*batch, n, n]`, of length 1. The tangents of vectors r are determined for simple
    eigenvalues only, and keep r's length and its largest element real, as LAPACK returns it; so do those of left ones.
    On GPUs and TPUs left vectors come from the inverse of r: another phase, and infinite or NaN for defective matrices.

    Attributes:
        left, right: True for the eigenvectors of this side.
    """

    left: bool = False
    right: bool = True
    domain = staticmethod(sample_regular)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Complex numbers, and matrices."""
        check_arity(self, types, 1)
        check_matrix(types[0], square=True, function_name=self.name)
        (t,) = types
        vectors = array_type(dtypes.complex_dtype(t.dtype), t.shape)
        return (vectors.with_shape(t.shape[:-1]), *[vectors] * (self.left + self.right))


@jvp_rule(Eig)
def jvp_eig(
    op: Eig, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """In the basis r of right eigenvectors, da has the dw on its diagonal, and r^-1 dr times gaps beside it. Left vectors
    are right ones of a^H, whose eigenvalues are the conjugates.
    """
    (a,), (da,) = primals, tangents
    assert da is not None
    w, *vectors, r = Eig(op.left, right=True)(a)
    da = convert(da, w.type.dtype)
    inner = Solve()(r, multiply(da, r))
    dw = diagonal(inner)
    results, moved = [w], [dw]
    if op.left:
        (left,) = vectors
        results.append(left)
        moved.append(_differentiate_vectors(left, conj(w), Solve()(left, multiply(adjoint(da), left))))
    if op.right:
        results.append(r)
        moved.append(_differentiate_vectors(r, w, inner))
    return tuple(results), tuple(moved)


def _differentiate_vectors(r: Array, w: Array, inner: Array) -> Array:
    """Returns the tangents of eigenvectors, given r^-1 da r.

    They are determined up to multiples of r: its length is 1, and its largest element stays real.
    """
    dr = multiply(r, inverse_gaps(w, w) * inner)
    n = r.type.shape[-1]
    rows = Iota(array_type(dtypes.int32, (n, n)), 0)()
    largest_row = convert(expand_dims(reducing.argmax(absolute(r), -2), -2), dtypes.int32)
    largest = convert(
        broadcast_to(rows, r.type.shape) == broadcast_to(largest_row, r.type.shape), r.type.dtype
    )
    element, moved = reducing.sum(largest * r, -2), reducing.sum(largest * dr, -2)
    length = real(reducing.sum(conj(r) * dr, -2))
    turn = imag(moved * conj(element)) / where(element == 0, 1.0, absolute(element) ** 2)
    return dr - r * as_column_factors(Complex()(length, turn))


@reference_rule(Eig)
def oracle_eig(op: Eig, a: Data) -> tuple[Data, ...]:
    """SciPy's function, whose LAPACK XLA's kernel calls too: the order is left open, and NumPy's build differs in it."""
    from scipy.linalg import eig

    dtype, sides = dtypes.complex_dtype(a.dtype), op.left + op.right
    results = [np.zeros(a.shape[:-1], dtype), *[np.zeros(a.shape, dtype) for _ in range(sides)]]
    for index in np.ndindex(*a.shape[:-2]) if a.size else ():
        parts = eig(a[index], left=op.left, right=op.right)
        for result, part in zip(results, parts if sides else (parts,), strict=True):
            result[index] = part
    return tuple(results)


@emits(Eig, platform="cpu")
def emit_eig(body: Body, op: Eig, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    (a,), values = inputs, outputs[0].type
    t, info = a.type.strong(), info_type(a.type)
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    vectors = array_type(values.dtype, t.shape)
    parts = [values] if t.kind == "c" else [real_type(t, t.shape[-1])] * 2
    options = {"compute_left": lapack_option("NV"[op.left]), "compute_right": lapack_option("NV"[op.right])}
    name = lapack_target("geev", t.dtype)
    *w, left, right, failed = call_kernel(body, name, inputs, [*parts, vectors, vectors, info], options)
    eigenvalues = w[0] if t.kind == "c" else body.line(f"stablehlo.complex {w[0]}, {w[1]} : {values.mlir}")
    names = [eigenvalues, *[x for x, is_requested in ((left, op.left), (right, op.right)) if is_requested]]
    return nan_where_failed(body, names, [v.type for v in outputs], failed, info)


@emits(Eig, platform="cuda")
def emit_eig_on_cuda(
    body: Body, op: Eig, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    (a,), values = inputs, outputs[0].type
    t, info = a.type.strong(), info_type(a.type)
    if 0 in t.shape:
        return emit_empty_results(body, outputs)
    if op.left:
        return emit_form(derive_left_vectors, body, op, inputs, outputs)
    options: Options = {"left": False, "right": op.right}
    _, w, _, packed, failed = call_kernel(body, "cusolver_geev_ffi", inputs, [t, values, t, t, info], options)
    names = [w]
    if op.right:
        vectors = Var(outputs[-1].type)
        body.names[vectors] = packed if t.kind == "c" else _unpack_vectors(body, w, values, packed, t)
        names += emit_form(normalize_vectors, body, op, (vectors,), outputs[-1:])
    return nan_where_failed(body, names, [v.type for v in outputs], failed, info)


def normalize_vectors(op: Eig, vectors: Array) -> tuple[Array]:
    """The form of what cuSOLVER leaves open: its vectors have length 1, and any phase or sign, in each call another."""
    return (normalize_columns(vectors),)


@emits_form(Eig, "rocm", "tpu")
def iterate_to_eigenvectors(op: Eig, a: Array) -> tuple[Array, ...]:
    """The form of platforms without a kernel."""
    if op.left:
        return derive_left_vectors(op, a)
    w, r = compute_eigenvectors(a)
    return (w, r) if op.right else (w,)


def derive_left_vectors(op: Eig, a: Array) -> tuple[Array, ...]:
    """The form where right vectors r alone are computed, as by cuSOLVER: left ones are r^-H's columns, of length 1."""
    w, r = Eig(left=False, right=True)(a)
    left = normalize_columns(adjoint(Solve()(r, broadcast_to(eye(r), r.type.shape))))
    return (w, left, r) if op.right else (w, left)


def _unpack_vectors(body: Body, w: str, values: ArrayType, packed: str, t: ArrayType) -> str:
    """Returns complex vectors from LAPACK's real ones: of two conjugate eigenvalues, the first of which has a positive
    imaginary part, the vectors are x + i y and x - i y, with columns x and y.
    """
    batch, n = t.ndim - 2, t.shape[-1]
    row, mask = real_type(t, n), array_type(dtypes.bool_, t.shape)
    imaginary = body.line(f"stablehlo.imag {w} : ({values.mlir}) -> {row.mlir}")
    spread = sizes.broadcast_in_dim(body, imaginary, row, t, [*range(batch), batch + 1])
    zero, scalar_zero = body.constant(0, t), body.constant(0, t.with_shape(()))
    is_first, is_second = [
        body.line(f"stablehlo.compare {test}, {spread}, {zero}, FLOAT : ({t.mlir}, {t.mlir}) -> {mask.mlir}")
        for test in ("GT", "LT")
    ]

    def shift(by: int) -> str:
        low, high, interior = [[*[0] * (batch + 1), size] for size in (by, -by, 0)]
        return sizes.pad(body, packed, t, scalar_zero, t, low=low, high=high, interior=interior)

    def select(test: str, x: str, y: str) -> str:
        return body.line(f"stablehlo.select {test}, {x}, {y} : {mask.mlir}, {t.mlir}")

    negated = body.line(f"stablehlo.negate {packed} : {t.mlir}")
    real_part = select(is_second, shift(1), packed)
    imaginary_part = select(is_first, shift(-1), select(is_second, negated, zero))
    out = array_type(values.dtype, t.shape)
    return body.line(f"stablehlo.complex {real_part}, {imaginary_part} : {out.mlir}")
