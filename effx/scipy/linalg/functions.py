"""Functions of matrices."""

import math
from typing import Literal, overload

from effx import dtypes
from effx.array import Array, Operand, arithmetic, reducing, shaping, triangles
from effx.array.arithmetic import absolute, conj, where
from effx.array.promotion import broadcast_to, convert
from effx.array.triangles import band_mask
from effx.errors import ShapeError
from effx.families.linalg.eigen import Svd
from effx.families.linalg.lu import Solve
from effx.families.linalg.matrices import adjoint, check_matrix, multiply
from effx.families.linalg.qr import Qr
from effx.ir.ops.elementwise import Ceil, Log
from effx.ir.ops.shape import Pad
from effx.ir.values.scalars import scalar
from effx.lax import linalg
from effx.lax.control.loops import fori_loop
from effx.lax.convert import stop_gradient
from effx.numpy.linalg.operands import kernel_operands
from effx.transforms.autodiff.core import jvp

__all__ = ["expm", "expm_frechet", "hessenberg", "polar", "qr_multiply", "schur"]

LOG, CEIL = Log(), Ceil()

# Coefficients of diagonal Padé approximants, and the 1-norm up to which each has the precision of its dtype:
# Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, 2005.
SINGLE = (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.925724783138660
DOUBLE = (
    (
        64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
        10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
    ),
    5.371920351148152,
)  # fmt: skip


def expm(A: Operand, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """Returns the exponentials of matrices, by scaling, a Padé approximant and repeated squaring (Higham, 2005).

    Args:
        A: `[*batch, n, n]`.
        upper_triangular: True promises that A is upper triangular.
        max_squarings: NaN where more would be needed, for matrices whose norm is about `2 ** (max_squarings + 2)`.

    Raises:
        ShapeError: A is not of square matrices.

    >>> import numpy as np
    >>> expm(np.array([[0., 1.], [0., 0.]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    (x,), back = kernel_operands(A)
    check_matrix(x.type, "A", square=True)
    t = x.type
    coefficients, bound = DOUBLE if dtypes.real_dtype(t.dtype) == dtypes.float64 else SINGLE
    if 0 in t.shape:
        return back(x)
    norms = reducing.max(reducing.sum(absolute(stop_gradient(x)), -2), -1)
    needed = CEIL(LOG(where(norms > bound, norms, bound) / bound) / math.log(2.0))
    count = shaping.expand_dims(needed, (-2, -1))
    scaled = x * convert(arithmetic.power(0.5, where(count <= max_squarings, count, 0.0)), t.dtype)
    unit = broadcast_to(convert(band_mask(t.shape[-2:], 0, "EQ"), t.dtype), t.shape)
    square, power = multiply(scaled, scaled), unit
    even, odd = unit * coefficients[0], unit * coefficients[1]
    for i in range(2, len(coefficients), 2):
        power = multiply(power, square)
        even, odd = even + power * coefficients[i], odd + power * coefficients[i + 1]
    odd = multiply(scaled, odd)
    if upper_triangular:
        approximant = linalg.triangular_solve(even - odd, even + odd, left_side=True)
    else:
        approximant = Solve()(even - odd, even + odd)

    def squared(i: Array, y: Array) -> Array:
        return where(convert(i, needed.type.dtype) < count, multiply(y, y), y)

    result = fori_loop(0, max_squarings, squared, approximant)
    return back(where(count <= max_squarings, result, math.nan))


@overload
def expm_frechet(
    A: Operand, E: Operand, *, method: str | None = None, compute_expm: Literal[True] = True
) -> tuple[Array, Array]: ...
@overload
def expm_frechet(
    A: Operand, E: Operand, *, method: str | None = None, compute_expm: Literal[False]
) -> Array: ...
@overload
def expm_frechet(
    A: Operand, E: Operand, *, method: str | None = None, compute_expm: bool
) -> Array | tuple[Array, Array]: ...
def expm_frechet(
    A: Operand, E: Operand, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """Returns the exponentials of matrices, and their derivatives along other matrices.

    Args:
        A: `[*batch, n, n]`.
        E: the directions, of A's shape.
        method: changes nothing: the derivative is that of `expm`.
        compute_expm: False for the derivatives alone.

    Raises:
        ShapeError: A is not of square matrices, or E has another shape.

    >>> import numpy as np
    >>> expm_frechet(np.zeros((2, 2)), np.eye(2), compute_expm=False).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    (x, dx), back = kernel_operands(A, E)
    if x.type.shape != dx.type.shape:
        raise ShapeError(f"expm_frechet: A and E must have the same shape, got {x.type!r} and {dx.type!r}")
    y, dy = jvp(expm, (x,), (dx,))
    return (back(y), back(dy)) if compute_expm else back(dy)


def schur(a: Operand, output: str = "real") -> tuple[Array, Array]:
    """Returns Schur's form of matrices, a = z t z^H. There is no derivative.

    Args:
        a: `[*batch, n, n]`.
        output: "real" for a real t with blocks of two rows for pairs of complex eigenvalues, "complex" for a triangular
            one; of complex matrices it is triangular in any case.

    Returns:
        t, upper triangular but for such blocks, and z, unitary.

    Raises:
        ShapeError: a is not of square matrices, or there is no such output.

    >>> import numpy as np
    >>> schur(np.array([[1., 2.], [0., 3.]]))[0].tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    if output not in ("real", "complex"):
        raise ShapeError(f"schur: output must be 'real' or 'complex', got {output!r}")
    (x,), back = kernel_operands(a)
    if output == "complex" and x.type.kind != "c":
        form, vectors = linalg.schur(convert(x, dtypes.complex_dtype(x.type.dtype)))
        return form, vectors
    form, vectors = linalg.schur(x)
    return back(form), back(vectors)


@overload
def hessenberg(
    a: Operand, *, calc_q: Literal[False] = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array: ...
@overload
def hessenberg(
    a: Operand, *, calc_q: Literal[True], overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]: ...
@overload
def hessenberg(
    a: Operand, *, calc_q: bool, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]: ...
def hessenberg(
    a: Operand, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """Returns Hessenberg's form of matrices, a = q h q^H. There is no derivative.

    Args:
        a: `[*batch, n, n]`.
        calc_q: True for q.
        overwrite_a, check_finite: change nothing.

    Returns:
        h, with zeros below the diagonal under the main one, and q, unitary.

    Raises:
        ShapeError: a is not of square matrices.

    >>> import numpy as np
    >>> hessenberg(np.ones((2, 2))).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    (x,), back = kernel_operands(a)
    form, taus = linalg.hessenberg(x)
    h = back(triangles.triu(form, -1))
    if not calc_q:
        return h
    n, t = x.type.shape[-1], x.type
    if n == 0:
        return h, back(x)
    inner = linalg.householder_product(form[..., 1:, :-1], taus)
    # The first row and column are those of the unit matrix.
    none = (0,) * (t.ndim - 2)
    zero, one = (
        broadcast_to(scalar(v, t.dtype, False), shape) for v, shape in ((0, ()), (1, (*t.shape[:-2], 1, 1)))
    )
    below = Pad((*none, 1, 1), (*none, 0, 0), (*none, 0, 0))(inner, zero)
    return h, back(below + Pad((*none, 0, 0), (*none, n - 1, n - 1), (*none, 0, 0))(one, zero))


def qr_multiply(
    a: Operand,
    c: Operand,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Returns the product of a matrix and the Q of a = Q R, and R.

    Args:
        a: `[*batch, m, n]`.
        c: `[*batch, p, m]`, or for the other side `[*batch, k, p]`, k = min(m, n); or a vector.
        mode: "right" for c Q, "left" for Q c.
        pivoting: True to exchange the columns of a so that the diagonal of R decreases in size.
        conjugate: True for the conjugate of Q.
        overwrite_a, overwrite_c: change nothing.

    Returns:
        The product, R `[*batch, k, n]`, and with pivoting `i32[*batch, n]`, the index in the operand of each column.

    Raises:
        ShapeError: sizes do not fit, or there is no such mode.

    >>> import numpy as np
    >>> [x.shape for x in qr_multiply(np.ones((3, 2)), np.ones((4, 3)))]
    [(4, 2), (2, 2)]
    """
    if mode not in ("right", "left"):
        raise ShapeError(f"qr_multiply: mode must be 'right' or 'left', got {mode!r}")
    (x, y), back = kernel_operands(a, c)
    check_matrix(x.type, "a")
    q, r, *columns = Qr(False, pivoting)(x)
    q = conj(q) if conjugate else q
    moved = back(y @ q if mode == "right" else q @ y)
    return (moved, back(r), columns[0]) if pivoting else (moved, back(r))


def polar(
    a: Operand,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Returns the polar decomposition a = u p, or a = p u: u has orthonormal columns or rows, p is Hermitian and has no
    negative eigenvalues. It is computed from singular values, whatever the method; so there are no iterations to bound.

    Args:
        a: `[*batch, m, n]`.
        side: "right" for a = u p, "left" for a = p u.
        method: "qdwh" or "svd".
        eps, max_iterations: change nothing.

    Returns:
        u `[*batch, m, n]`, and p `[*batch, n, n]`, or `[*batch, m, m]` for the left side.

    Raises:
        ShapeError: a is not of matrices, or there is no such side or method.

    >>> import numpy as np
    >>> [x.tolist() for x in polar(np.array([[-2., 0.], [0., 3.]]))]
    [[[-1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 3.0]]]
    """
    if side not in ("right", "left"):
        raise ShapeError(f"polar: side must be 'right' or 'left', got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ShapeError(f"polar: method must be 'qdwh' or 'svd', got {method!r}")
    (x,), back = kernel_operands(a)
    s, u, vh = Svd()(x)
    basis = adjoint(vh) if side == "right" else u
    stretched = multiply(basis * convert(shaping.expand_dims(s, -2), x.type.dtype), adjoint(basis))
    return back(multiply(u, vh)), back(stretched)
