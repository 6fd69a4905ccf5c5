"""Linear systems that are known by what the matrix does to vectors, solved by iteration.

The solvers work on one vector, into which pytrees are flattened. The result is differentiated implicitly: derivatives
solve linear systems by the same solver.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar, cast

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.arithmetic import absolute, conj, real, where
from effx.array.promotion import as_operand, convert, promote_dtypes, zeros
from effx.array.reducing import sum as total
from effx.errors import DTypeError, OptionError, ShapeError, TreeError, name_user_call
from effx.flatten_util import ravel_pytree
from effx.ir.values.scalars import scalar
from effx.lax.control.loops import fori_loop, while_loop
from effx.lax.control.solves import custom_linear_solve
from effx.lax.linalg import qr, triangular_solve
from effx.lax.operands import check_int
from effx.lazy import list_names
from effx.numpy.elementwise import sqrt
from effx.transforms.autodiff.core import linear_transpose
from effx.transforms.jit.jit import jit
from effx.tree.registry import PyTree, flatten

__all__ = ["bicgstab", "cg", "gmres"]
__dir__ = list_names(__all__)

X = TypeVar("X")
Vectors = Callable[[Array], Array]
# Takes the matrix, the right-hand side, the first guess, the bound of the residual's norm, and the preconditioner.
Solver = Callable[[Vectors, Array, Array, Array, Vectors], Array]


class SupportsMatmul(Protocol):
    """What multiplies vectors."""

    def __matmul__(self, x: Array, /) -> Array: ...


Matrix = Operand | SupportsMatmul | Callable[[X], X]


def _inner_product(x: Array, y: Array) -> Array:
    return total(conj(x) * y)


def _squared_norm(x: Array) -> Array:
    return real(_inner_product(x, x))


# --- what the arguments mean ----------------------------------------------------------------------


def _as_function(name: str, A: Matrix[X]) -> Callable[[PyTree], PyTree]:
    """Returns the linear function of a matrix."""
    if callable(A):
        return A
    if isinstance(A, np.ndarray | Array):
        matrix = as_operand(A)
        if matrix.type.ndim != 2 or matrix.type.shape[0] != matrix.type.shape[1]:
            raise ShapeError(f"{name_user_call()}: {name} must be a square matrix, got {matrix.type!r}")
        return lambda x: arithmetic.matmul(matrix, x, "highest")
    if hasattr(A, "__matmul__"):
        return lambda x: cast("SupportsMatmul", A) @ x
    raise DTypeError(f"{name_user_call()}: {name} must be a matrix or a function of a vector, got {A!r}")


def _check_like(name: str, value: PyTree, b: PyTree) -> list[Array]:
    """Returns the leaves of a tree that must be like the right-hand side."""
    (leaves, tree), (expected, expected_tree) = flatten(value), flatten(b)
    if tree != expected_tree:
        raise TreeError(
            f"{name_user_call()}: {name} must have the structure of b, {expected_tree}, got {tree}"
        )
    arrays = [as_operand(x) for x in leaves]
    for x, y in zip(arrays, expected, strict=True):
        if x.type.shape != y.type.shape:
            raise ShapeError(
                f"{name_user_call()}: {name} must have the shapes of b, {y.type!r}, got {x.type!r}"
            )
    return arrays


def _solve(
    A: Matrix[X],
    b: X,
    x0: X | None,
    tol: Operand,
    atol: Operand,
    M: Matrix[X] | None,
    solver: Solver,
    hermitian: bool,
) -> X:
    leaves, tree = flatten(b)
    rights = [arithmetic.to_inexact(as_operand(leaf)) for leaf in leaves]
    if not rights:
        return b
    matrices = [as_operand(m) for m in (A, M) if isinstance(m, np.ndarray | Array)]
    if matrices and len(rights) == 1:
        rights = [arithmetic.to_inexact(promote_dtypes(rights[0], *matrices)[0])]
    right = tree.unflatten([convert(x, x.type.dtype) for x in rights])
    vector, unravel = ravel_pytree(right)
    dtype = vector.type.dtype
    guess: Array = zeros(vector.type)
    if x0 is not None:
        start = _check_like("x0", x0, right)
        guess = convert(ravel_pytree(tree.unflatten(start))[0], dtype)

    def of_vectors(name: str, function: Callable[[PyTree], PyTree]) -> Vectors:
        def apply(v: Array) -> Array:
            product_leaves = _check_like(f"the result of {name}", function(unravel(v)), right)
            for y in product_leaves:
                if y.type.kind == "c" and not dtypes.is_complex(dtype):
                    raise DTypeError(
                        f"{name_user_call()}: the result of {name} must be real as b is, got {y.type!r}"
                    )
            return convert(ravel_pytree(tree.unflatten(product_leaves))[0], dtype)

        return apply

    def same(v: Array) -> Array:
        return v

    precondition = same if M is None else of_vectors("M", _as_function("M", M))

    def transposed_precondition(v: Array) -> Array:
        if M is None:
            return v
        result: Array = linear_transpose(precondition, v)(v)[0]
        return result

    def solve(matvec: Vectors, c: Array, m: Vectors) -> Array:
        length = sqrt(_squared_norm(c))
        bound = arithmetic.maximum(convert(as_operand(tol), length.type.dtype) * length, as_operand(atol))
        return solver(matvec, c, guess, convert(bound, length.type.dtype), m)

    symmetric = hermitian and not dtypes.is_complex(dtype)
    solution: Array = custom_linear_solve(
        of_vectors("A", _as_function("A", A)),
        vector,
        lambda matvec, c: solve(matvec, c, precondition),
        lambda matvec, c: solve(matvec, c, precondition if symmetric else transposed_precondition),
        symmetric,
    )
    result: X = unravel(solution)
    return result


# Matrices are operands of one program, which is compiled once; functions may be anything.
_solved_at_once = jit(_solve, static_argnames=("solver", "hermitian"))


def _prepare(
    A: Matrix[X],
    b: X,
    x0: X | None,
    tol: Operand,
    atol: Operand,
    M: Matrix[X] | None,
    solver: Solver,
    hermitian: bool,
) -> X:
    if isinstance(A, np.ndarray | Array) and (M is None or isinstance(M, np.ndarray | Array)):
        result: X = _solved_at_once(
            as_operand(A), b, x0, as_operand(tol), as_operand(atol), None if M is None else as_operand(M),
            solver, hermitian,
        )  # fmt: skip
        return result
    return _solve(A, b, x0, tol, atol, M, solver, hermitian)


def _check_maxiter(maxiter: int | None) -> int | None:
    if maxiter is None:
        return None
    count = check_int("maxiter", maxiter)
    if count < 0:
        raise ShapeError(f"{name_user_call()}: maxiter must not be negative, got {count}")
    return count


# --- conjugate gradients --------------------------------------------------------------------------


@attrs.frozen
class _ConjugateGradients:
    """Hestenes and Stiefel's method, preconditioned."""

    maxiter: int | None

    def __call__(self, A: Vectors, b: Array, x0: Array, bound: Array, M: Vectors) -> Array:
        limit = 10 * b.type.size if self.maxiter is None else self.maxiter

        def goes_on(state: tuple[Array, ...]) -> Array:
            _, r, _, _, k = state
            return (_squared_norm(r) > bound * bound) & (k < limit)

        def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
            x, r, p, gamma, k = state
            Ap = A(p)
            curve = _inner_product(p, Ap)
            # Products of tiny numbers vanish before these do.
            alpha = where(curve == 0, 0, gamma / where(curve == 0, 1, curve))
            x, r = x + alpha * p, r - alpha * Ap
            z = M(r)
            new = _inner_product(r, z)
            return x, r, z + where(gamma == 0, 0, new / where(gamma == 0, 1, gamma)) * p, new, k + 1

        r = b - A(x0)
        z = M(r)
        zero = scalar(0, dtypes.int32, weak=False)
        return while_loop(goes_on, step, (x0, r, z, _inner_product(r, z), zero))[0]


def cg(
    A: Matrix[X],
    b: X,
    x0: X | None = None,
    *,
    tol: Operand = 1e-5,
    atol: Operand = 0.0,
    maxiter: int | None = None,
    M: Matrix[X] | None = None,
) -> tuple[X, None]:
    """Solves A x = b by conjugate gradients, for a Hermitian positive definite A.

    Source: Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", 1952.

    Args:
        A: a function of x that gives A x, of the structure and shapes of b; or a matrix `[n, n]`, or what multiplies a
            vector by `@`.
        b: a pytree of arrays, which together are a vector.
        x0: the first guess; 0 by default.
        tol, atol: it ends where the residual's norm is at most `max(tol * norm(b), atol)`.
        maxiter: the largest number of iterations; by default ten times b's size.
        M: a preconditioner, given as A is: about A's inverse, Hermitian and positive definite.

    Returns:
        x, like b, and None. Derivatives with respect to b and what A closes over are those of the exact solution.

    Raises:
        ShapeError, TreeError: A's matrix is not square, or its result or x0 is not like b.
        DTypeError: A is neither a matrix nor a function.

    >>> x, _ = cg(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    >>> x.round(3).tolist()
    [1.0, 0.5]
    """
    solver = _ConjugateGradients(_check_maxiter(maxiter))
    return _prepare(A, b, x0, tol, atol, M, solver, True), None


# --- stabilized biconjugate gradients -------------------------------------------------------------


@attrs.frozen
class _StabilizedBiconjugateGradients:
    """Van der Vorst's method, preconditioned from the right."""

    maxiter: int | None

    def __call__(self, A: Vectors, b: Array, x0: Array, bound: Array, M: Vectors) -> Array:
        limit = 10 * b.type.size if self.maxiter is None else self.maxiter
        shadow = b - A(x0)

        def goes_on(state: tuple[Array, ...]) -> Array:
            _, r, *_, broken, k = state
            return (_squared_norm(r) > bound * bound) & (k < limit) & ~broken

        def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
            x, r, p, v, alpha, omega, rho, _, k = state
            new = _inner_product(shadow, r)
            p = r + (new / rho) * (alpha / omega) * (p - omega * v)
            towards = M(p)
            v = A(towards)
            projected = _inner_product(shadow, v)
            # Where a product vanishes there is no next step: x stays as it is.
            stuck = (new == 0) | (projected == 0)
            alpha = where(stuck, 0, new / where(stuck, 1, projected))
            s = r - alpha * v
            half = M(s)
            t = A(half)
            length = _squared_norm(t)
            flat = length == 0
            omega = where(flat, 0, _inner_product(t, s) / where(flat, 1, length))
            done = _squared_norm(s) <= bound * bound
            omega = where(done | stuck, 0, omega)
            x = x + where(stuck, 0, alpha * towards) + omega * half
            return x, where(stuck, r, s - omega * t), p, v, alpha, omega, new, stuck | (omega == 0), k + 1

        one = scalar(1, b.type.dtype, weak=False)
        nothing = zeros(b.type.strong())
        start = (x0, shadow, nothing, nothing, one, one, one)
        broken, zero = scalar(False, dtypes.bool_, weak=False), scalar(0, dtypes.int32, weak=False)
        return while_loop(goes_on, step, (*start, broken, zero))[0]


def bicgstab(
    A: Matrix[X],
    b: X,
    x0: X | None = None,
    *,
    tol: Operand = 1e-5,
    atol: Operand = 0.0,
    maxiter: int | None = None,
    M: Matrix[X] | None = None,
) -> tuple[X, None]:
    """Solves A x = b by the stabilized method of biconjugate gradients, for any A.

    Source: van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG for the solution of nonsymmetric
    linear systems", 1992.

    Arguments, result and errors are those of `cg`; M need not be Hermitian. Where the method breaks down it returns
    what it has.

    >>> x, _ = bicgstab(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0]))
    >>> x.round(3).tolist()
    [1.0, 1.0]
    """
    solver = _StabilizedBiconjugateGradients(_check_maxiter(maxiter))
    return _prepare(A, b, x0, tol, atol, M, solver, False), None


# --- generalized minimal residuals ----------------------------------------------------------------


def _orthogonalize(V: Array, w: Array) -> tuple[Array, Array]:
    """Subtracts a vector's projections on rows of V, twice, so that rounding leaves none; returns them too."""
    first = arithmetic.matmul(conj(V), w, "highest")
    w = w - arithmetic.matmul(first, V, "highest")
    second = arithmetic.matmul(conj(V), w, "highest")
    return w - arithmetic.matmul(second, V, "highest"), first + second


def _extend_basis(A: Vectors, M: Vectors, V: Array, k: Array) -> tuple[Array, Array]:
    """Adds a row to an orthonormal basis; returns it with the column of coefficients, of one element more than V rows."""
    w = A(M(V[k]))
    before = sqrt(_squared_norm(w))
    w, h = _orthogonalize(V, w)
    length = sqrt(_squared_norm(w))
    # What rounding leaves of a vector in the space is no direction.
    eps = float(dtypes.finfo(length.type.dtype).eps)
    new = length > eps * before
    row = where(new, w / where(new, length, 1), 0)
    h = h.at[k + 1].set(convert(where(new, length, 0), h.type.dtype))
    return V.at[k + 1].set(row), h


@attrs.frozen
class _MinimalResiduals:
    """Saad and Schultz' method, restarted, preconditioned from the right: the residual is that of A x = b."""

    maxiter: int | None
    restart: int
    incremental: bool

    def __call__(self, A: Vectors, b: Array, x0: Array, bound: Array, M: Vectors) -> Array:
        n = b.type.size
        m = min(self.restart, n)
        limit = 10 * n if self.maxiter is None else self.maxiter
        round_ = self._solve_incremental if self.incremental else self._solve_batched

        def goes_on(state: tuple[Array, ...]) -> Array:
            _, r, stalled, k = state
            return (_squared_norm(r) > bound * bound) & (k < limit) & ~stalled

        def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
            x, r, _, k = state
            beta = sqrt(_squared_norm(r))
            V = zeros(b.type.with_shape((m + 1, n))).at[0].set(r / beta)
            V, y = round_(A, M, V, convert(beta, b.type.dtype), bound, m)
            new = x + M(arithmetic.matmul(y, V[:m], "highest"))
            left = b - A(new)
            # Where rounding leaves nothing to gain another round does not end either.
            better = _squared_norm(left) < _squared_norm(r)
            return where(better, new, x), where(better, left, r), ~better, k + 1

        stalled, zero = scalar(False, dtypes.bool_, weak=False), scalar(0, dtypes.int32, weak=False)
        return while_loop(goes_on, step, (x0, b - A(x0), stalled, zero))[0]

    def _solve_batched(
        self, A: Vectors, M: Vectors, V: Array, beta: Array, bound: Array, m: int
    ) -> tuple[Array, Array]:
        """Builds the whole basis, then solves the problem of least squares."""

        def extend(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            V, H = state
            V, h = _extend_basis(A, M, V, k)
            return V, H.at[:, k].set(h)

        H = zeros(V.type.with_shape((m + 1, m)))
        V, H = fori_loop(0, m, extend, (V, H))
        Q, R = qr(H, full_matrices=False)
        return V, _back_substitute(R, beta * conj(Q[0]))

    def _solve_incremental(
        self, A: Vectors, M: Vectors, V: Array, beta: Array, bound: Array, m: int
    ) -> tuple[Array, Array]:
        """Rotates each new column to upper triangular form; ends where the residual is small enough."""
        dtype = V.type.dtype

        def goes_on(state: tuple[Array, ...]) -> Array:
            _, _, _, _, rest, k = state
            return (absolute(rest[k]) > bound) & (k < m)

        def extend(state: tuple[Array, ...]) -> tuple[Array, ...]:
            V, R, cosines, sines, rest, k = state
            V, h = _extend_basis(A, M, V, k)

            def rotate(i: Array, h: Array) -> Array:
                c, s = cosines[i], sines[i]
                upper, lower = c * h[i] + s * h[i + 1], c * h[i + 1] - conj(s) * h[i]
                return where(i < k, h.at[i].set(upper).at[i + 1].set(lower), h)

            h = fori_loop(0, m, rotate, h)
            a, below = h[k], h[k + 1]
            size = sqrt(_squared_norm(a) + _squared_norm(below))
            flat = size == 0
            turn = where(absolute(a) == 0, 1, a / where(absolute(a) == 0, 1, absolute(a)))
            c = convert(where(flat, 1, absolute(a) / where(flat, 1, size)), dtype)
            s = where(flat, 0, turn * conj(below) / where(flat, 1, size))
            h = h.at[k].set(convert(turn * size, dtype)).at[k + 1].set(0)
            rest = rest.at[k + 1].set(-conj(s) * rest[k]).at[k].set(c * rest[k])
            return V, R.at[:, k].set(h), cosines.at[k].set(c), sines.at[k].set(s), rest, k + 1

        R = zeros(V.type.with_shape((m + 1, m)))
        row = zeros(V.type.with_shape((m,)))
        rest = zeros(V.type.with_shape((m + 1,))).at[0].set(beta)
        zero = scalar(0, dtypes.int32, weak=False)
        V, R, _, _, rest, k = while_loop(goes_on, extend, (V, R, row, row, rest, zero))
        used = as_operand(np.arange(m)) < k
        return V, _back_substitute(R[:m], where(used, rest[:m], 0))


def _back_substitute(R: Array, y: Array) -> Array:
    """Solves a triangular system, whose rows without a diagonal element get 0."""
    n = R.type.shape[0]
    at = np.arange(n)
    diagonal = absolute(R[at, at])
    eps = float(dtypes.finfo(diagonal.type.dtype).eps)
    flat = diagonal <= eps * diagonal.max()
    R = R.at[at, at].set(where(flat, 1, R[at, at]))
    return triangular_solve(R, where(flat, 0, y)[:, None], left_side=True)[:, 0]


def gmres(
    A: Matrix[X],
    b: X,
    x0: X | None = None,
    *,
    tol: Operand = 1e-5,
    atol: Operand = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Matrix[X] | None = None,
    solve_method: str = "batched",
) -> tuple[X, Array]:
    """Solves A x = b by generalized minimal residuals, for any A.

    Source: Saad and Schultz, "GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems",
    1986.

    Args:
        A, b, x0, tol, atol: as for `cg`, for any A.
        restart: the dimension of the space in which a solution is sought before a restart.
        maxiter: the largest number of restarts; by default ten times b's size.
        M: a preconditioner, given as A is: about A's inverse.
        solve_method: "batched" builds the whole space and then solves for least squares, "incremental" rotates each
            vector as it is added and ends before a restart where the residual is small enough.

    Returns:
        x, like b, and `i32[]`: 0, or -1 where x is not a number. Derivatives are those of the exact solution.

    Raises:
        ShapeError, TreeError: A's matrix is not square, or its result or x0 is not like b; `restart` is not positive.
        DTypeError: A is neither a matrix nor a function, or another method.

    >>> x, _ = gmres(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0]))
    >>> x.round(3).tolist()
    [1.0, 1.0]
    """
    if solve_method not in ("batched", "incremental"):
        raise OptionError(f"gmres: solve_method must be 'batched' or 'incremental', got {solve_method!r}")
    size = check_int("restart", restart)
    if size < 1:
        raise ShapeError(f"gmres: restart must be positive, got {size}")
    solver = _MinimalResiduals(_check_maxiter(maxiter), size, solve_method == "incremental")
    x = _prepare(A, b, x0, tol, atol, M, solver, False)
    leaves = [as_operand(leaf) for leaf in flatten(x)[0]]
    unknown = [(leaf != leaf).any() for leaf in leaves]
    bad = unknown[0] if unknown else as_operand(False)
    for other in unknown[1:]:
        bad = bad | other
    return x, where(bad, convert(as_operand(-1), dtypes.int32), convert(as_operand(0), dtypes.int32))
