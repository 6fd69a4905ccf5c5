"""Kernel density estimates."""

import math
from collections.abc import Callable
from typing import final

import attrs

from effx.array import Array, Operand, reducing
from effx.array.arithmetic import matmul, where
from effx.array.indexing import diagonal
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.array.shaping import expand_dims, reshape
from effx.errors import OptionError, ShapeError, name_user_call
from effx.lax.elementwise.exponential import exp, log
from effx.lax.linalg.factors import cholesky, triangular_solve
from effx.lazy import list_names
from effx.nn.exponentials import logsumexp
from effx.numpy.linalg.systems import inv
from effx.numpy.statistics import cov as covariance_of
from effx.random import normal, split
from effx.random.selection import choice
from effx.scipy.operands import real_floats
from effx.scipy.special.normals import ndtr
from effx.transforms.jit.jit import jit
from effx.tree.registry import register_record

__all__ = ["gaussian_kde"]
__dir__ = list_names(__all__)

Bandwidth = str | float | Array | Callable[["gaussian_kde"], Array | float] | None


@register_record
@final
@attrs.frozen(init=False, eq=False)
class gaussian_kde:
    """An estimate of a density: the mean of normal densities around points.

    It is a pytree, so that functions of it can be transformed, and by its points and weights be differentiated.

    Args:
        dataset: points, `[d, n]`, or `[n]` where d is 1.
        bw_method: the factor between the covariance of the points and that around each: "scott" or None for
            `neff^(-1 / (d + 4))`, "silverman" for `(neff (d + 2) / 4)^(-1 / (d + 4))`, a number, or a function that
            gets the estimate, which has no covariance yet, and returns the number.
        weights: not negative, `[n]`; equal by default.

    Attributes:
        neff: the effective number of points, one over the sum of the squared weights.
        dataset: the points, `[d, n]`.
        weights: with sum 1, `[n]`.
        covariance: of the normal density around each point, `[d, d]`.
        inv_cov: its inverse.

    Raises:
        DTypeError: operands are complex or no arrays, or the method is another.
        ShapeError: there are fewer than two points, or sizes do not fit.

    Source: Scott, "Multivariate density estimation", 1992; Silverman, "Density estimation for statistics and data
    analysis", 1986.

    >>> import numpy as np
    >>> f"{float(gaussian_kde(np.array([0.0, 1.0, 3.0]))(1.0)[0]):.4f}"
    '0.2149'
    """

    neff: Array
    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array

    def __init__(self, dataset: Operand, bw_method: Bandwidth = None, weights: Operand | None = None) -> None:
        (points,), _ = real_floats(dataset)
        points = reshape(points, (1, -1)) if points.type.ndim < 2 else points
        if points.type.ndim != 2 or points.type.shape[1] * points.type.shape[0] < 2:
            raise ShapeError(
                f"gaussian_kde: the dataset must be a vector or matrix of several elements, got {points.type!r}"
            )
        d, n = points.type.shape
        if weights is None:
            share = broadcast_to(convert(as_operand(1.0 / n), points.type.dtype), (n,))
        else:
            (points, weight_array), _ = real_floats(points, weights)
            if weight_array.type.shape != (n,):
                raise ShapeError(f"gaussian_kde: weights must have shape [{n}], got {weight_array.type!r}")
            share = weight_array / reducing.sum(weight_array)
        put = object.__setattr__
        put(self, "dataset", points)
        put(self, "weights", share)
        put(self, "neff", 1.0 / reducing.sum(share * share))
        if bw_method is None or isinstance(bw_method, str):
            if bw_method not in (None, "scott", "silverman"):
                raise OptionError(
                    "gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function, "
                    f"got {bw_method!r}"
                )
            ratio = (d + 2) / 4.0 if bw_method == "silverman" else 1.0
            factor: Array | float = (self.neff * ratio) ** (-1.0 / (d + 4))
        elif callable(bw_method):
            factor = bw_method(self)
        else:
            factor = as_operand(bw_method)
            if factor.type.ndim:
                raise ShapeError(f"gaussian_kde: bw_method must be a number, got {factor.type!r}")
        full_covariance = covariance_of(points, aweights=share)
        spread = convert(reshape(full_covariance, (d, d)) * (factor * factor), points.type.dtype)
        put(self, "covariance", spread)
        put(self, "inv_cov", inv(spread))

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return self.dataset.type.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.type.shape[1]

    def evaluate(self, points: Operand) -> Array:
        """The estimated density at points.

        Args:
            points: `[d, m]`, or `[m]` where d is 1, or `[d]` for one point.

        Returns:
            An array `[m]`.

        Raises:
            DTypeError: points are complex, or no array.
            ShapeError: they have another number of coordinates.
        """
        return exp(_log_density(self, self._points("gaussian_kde.evaluate", points)))

    def __call__(self, points: Operand) -> Array:
        """As `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: Operand) -> Array:
        """As `evaluate`."""
        return exp(_log_density(self, self._points("gaussian_kde.pdf", x)))

    def logpdf(self, x: Operand) -> Array:
        """The logarithm of `evaluate`, exact where that underflows."""
        return _log_density(self, self._points("gaussian_kde.logpdf", x))

    def integrate_gaussian(self, mean: Operand, cov: Operand) -> Array:
        """The integral of the estimate times a normal density.

        Args:
            mean: `[d]`, or a number where d is 1.
            cov: `[d, d]`, or a number where d is 1.

        Raises:
            DTypeError: operands are complex, or no arrays.
            ShapeError: they have other shapes.
        """
        function_name, d = "gaussian_kde.integrate_gaussian", self.d
        (centre, spread, _), _ = real_floats(mean, cov, self.dataset)
        centre = reshape(centre, (1,)) if not centre.type.ndim else centre
        spread = reshape(spread, (1, 1)) if not spread.type.ndim else spread
        if centre.type.shape != (d,) or spread.type.shape != (d, d):
            raise ShapeError(
                f"{function_name}: expected a mean of shape [{d}] and a cov of shape [{d}, {d}], "
                f"got {centre.type!r} and {spread.type!r}"
            )
        return exp(_log_sums(expand_dims(centre, 1), self.dataset, self.weights, self.covariance + spread)[0])

    def integrate_box_1d(self, low: Operand, high: Operand) -> Array:
        """The integral of the estimate between two bounds, of points with one coordinate.

        Args:
            low, high: numbers.

        Raises:
            DTypeError: bounds are complex, or no arrays.
            ShapeError: points have several coordinates, or bounds are no numbers.
        """
        if self.d != 1:
            raise ShapeError(f"{name_user_call()}: the points must have one coordinate, got {self.d}")
        (a, b, _), _ = real_floats(low, high, self.dataset)
        if a.type.ndim or b.type.ndim:
            raise ShapeError(f"{name_user_call()}: bounds must be numbers, got {a.type!r} and {b.type!r}")
        return _mass_between(self, a, b)

    def integrate_kde(self, other: "gaussian_kde") -> Array:
        """The integral of the product of two estimates.

        Args:
            other: an estimate of points with as many coordinates.

        Raises:
            ShapeError: they have another number of coordinates.
        """
        if other.d != self.d:
            raise ShapeError(
                f"gaussian_kde.integrate_kde: points have {self.d} coordinates, those of the other {other.d}"
            )
        logs = _log_sums(other.dataset, self.dataset, self.weights, self.covariance + other.covariance)
        return reducing.sum(exp(logs) * other.weights)

    def resample(self, key: Operand, shape: tuple[int, ...] = ()) -> Array:
        """Draws points from the estimated density.

        Args:
            key: a key, not to be used again.
            shape: how many.

        Returns:
            An array `[d, *shape]`.

        Raises:
            DTypeError: it is no key.
        """
        first, second = split(key)
        which = choice(first, self.n, shape, p=self.weights)
        # Each draw takes d numbers one after another, as `multivariate_normal` does.
        noise = normal(second, (*shape, self.d), self.dataset.type.dtype)
        flat = matmul(cholesky(self.covariance), reshape(noise, (-1, self.d)).mT)
        return self.dataset[:, which] + reshape(flat, (self.d, *shape))

    def _points(self, function_name: str, points: Operand) -> Array:
        """Returns points as `[d, m]`, in the estimate's dtype."""
        (x, _), _ = real_floats(points, self.dataset, function_name=function_name)
        if x.type.ndim < 2:
            x = reshape(x, (1, -1)) if self.d == 1 else reshape(x, (-1, 1))
        if x.type.ndim != 2 or x.type.shape[0] != self.d:
            raise ShapeError(
                f"{function_name}: points have {self.d} coordinates in the first axis, got {as_operand(points).type!r}"
            )
        return x


@jit
def _log_sums(x: Array, centres: Array, weights: Array, covariance: Array) -> Array:
    """Returns log(sum of weights * normal densities around centres) at x."""
    factor = cholesky(covariance)
    a = triangular_solve(factor, x, left_side=True, lower=True)
    b = triangular_solve(factor, centres, left_side=True, lower=True)
    # Differences of coordinates, not squares less products, which lose digits.
    rest = expand_dims(a, 2) - expand_dims(b, 1)
    square = reducing.sum(rest * rest, 0)
    size = reducing.sum(log(diagonal(factor))) + 0.5 * math.log(2 * math.pi) * x.type.shape[0]
    return logsumexp(-0.5 * square, -1, weights) - size


def _log_density(estimate: gaussian_kde, points: Array) -> Array:
    return _log_sums(points, estimate.dataset, estimate.weights, estimate.covariance)


@jit
def _mass_between(estimate: gaussian_kde, low: Array, high: Array) -> Array:
    """Returns the mass between two bounds; above a point its upper tails are subtracted, which are small there."""
    width = estimate.covariance[0, 0] ** 0.5
    a, b = (low - estimate.dataset[0]) / width, (high - estimate.dataset[0]) / width
    right = (a > 0.0) & (b > 0.0)
    masses = ndtr(where(right, -a, b)) - ndtr(where(right, -b, a))
    return reducing.sum(masses * estimate.weights)
