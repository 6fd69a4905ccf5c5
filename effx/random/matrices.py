"""Samplers of vectors with a covariance, and of orthogonal matrices. The bits are those of JAX's normal numbers."""

from effx.array import Array, Operand, arithmetic, indexing
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, convert, refuse_mixed_dtypes
from effx.array.shaping import expand_dims
from effx.dtypes import DTypeLike
from effx.errors import OptionError, ShapeError, name_user_call
from effx.numpy import linalg
from effx.numpy.linear import matvec
from effx.random.arguments import ShapeLike, can_broadcast, check_key, check_sizes, floating_dtype
from effx.random.continuous import normal
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = ["multivariate_normal", "orthogonal"]


def multivariate_normal(
    key: Operand,
    mean: Operand,
    cov: Operand,
    shape: "ShapeLike | None" = None,
    dtype: "DTypeLike | None" = None,
    method: str = "cholesky",
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws vectors of normal numbers with a mean and a covariance: the mean plus a root of the covariance times
    independent ones.

    Args:
        key: a key, not to be used again.
        mean: `[*batch, n]`.
        cov: `[*batch, n, n]`, symmetric and positive semidefinite; definite for "cholesky".
        shape: of the batch of results; by default what those of `mean` and `cov` broadcast to.
        dtype: a floating dtype.
        method: of the root: "cholesky", "eigh" or "svd".
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        `[*shape, n]` numbers.

    Raises:
        DTypeError: another method, or a dtype that is not floating.
        ShapeError: mean, covariance and shape do not fit.

    >>> from effx.random import PRNGKey
    >>> import numpy as np
    >>> multivariate_normal(PRNGKey(0), np.zeros(2), np.eye(2), (3,)).shape
    (3, 2)
    """
    refuse_mixed_dtypes(mean, cov)
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, multivariate_normal, key, mean, cov, shape, dtype, method)
    sample_dtype = floating_dtype(dtype)
    if method not in ("cholesky", "eigh", "svd"):
        raise OptionError(f"{name_user_call()}: method must be 'cholesky', 'eigh' or 'svd', got {method!r}")
    center, covariance = (
        convert(as_operand(mean), sample_dtype),
        convert(as_operand(cov), sample_dtype),
    )
    n = center.type.shape[-1:]
    if not n or covariance.type.shape[-2:] != n * 2:
        raise ShapeError(
            f"{name_user_call()}: the mean must be [..., n] and the covariance [..., n, n], got {center.type!r} and "
            f"{covariance.type!r}"
        )
    batch = broadcast_shapes(center.type.shape[:-1], covariance.type.shape[:-2])
    sizes = batch if shape is None else check_sizes(shape)
    if not can_broadcast(batch, sizes):
        raise ShapeError(f"{name_user_call()}: the shape {list(sizes)} does not hold the batch {list(batch)}")
    if method == "cholesky":
        root = linalg.cholesky(covariance)
    else:
        if method == "svd":
            vectors, values, _ = linalg.svd(covariance)
        else:
            values, vectors = linalg.eigh(covariance)
        root = vectors * expand_dims(arithmetic.maximum(values, 0.0) ** 0.5, -2)
    samples = normal(check_key(key), (*sizes, *n), sample_dtype)
    return broadcast_to(center + matvec(root, samples), (*sizes, *n))


def orthogonal(
    key: Operand,
    n: int,
    shape: ShapeLike = (),
    dtype: "DTypeLike | None" = None,
    m: int | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws orthogonal matrices, unitary ones for complex dtypes, all of them equally often.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups", 2007.

    Args:
        key: a key, not to be used again.
        n: the number of rows.
        shape: of the batch.
        dtype: floating or complex.
        m: the number of columns; n by default. The rows or columns beyond are removed from a square matrix.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        `[*shape, n, m]` with orthonormal rows or columns, whichever are fewer.

    Raises:
        DTypeError: a dtype that is neither floating nor complex.

    >>> from effx.random import PRNGKey
    >>> q = orthogonal(PRNGKey(0), 2)
    >>> [[round(abs(x), 3) for x in row] for row in (q @ q.T).tolist()]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, orthogonal, key, n, shape, dtype, m)
    sample_dtype = floating_dtype(dtype, "fc")
    rows, columns = n, n if m is None else m
    size = (max(rows, columns), min(rows, columns))
    samples = normal(check_key(key), (*check_sizes(shape), *size), sample_dtype)
    q, r = linalg.qr(samples)
    # Made positive, the diagonal of r leaves no choice, which makes the distribution uniform.
    diagonal = indexing.diagonal(r, 0, -2, -1)
    q = q * expand_dims(diagonal / abs(diagonal), -2)
    return q.mT if rows < columns else q
