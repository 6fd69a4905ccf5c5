"""Derive the functions of a distribution from its standard form, with location 0 and scale 1."""

import math
from collections.abc import Callable
from typing import final

import attrs

from effx.array import Array, Operand
from effx.array.arithmetic import absolute, where
from effx.array.promotion import broadcast_arrays, convert
from effx.array.shaping import stack
from effx.lax.convert import optimization_barrier
from effx.lax.elementwise.arithmetic import floor
from effx.lax.elementwise.exponential import exp, log, log1p
from effx.scipy.operands import cast_like, real_floats

Standard = Callable[..., Array]  # of the standard form: of y and the parameters


def real_line(*parameters: Array) -> tuple[Operand, Operand]:
    """The support of distributions on all real numbers."""
    return -math.inf, math.inf


def nonnegative_line(*parameters: Array) -> tuple[Operand, Operand]:
    """The support of distributions on the numbers from 0 on."""
    return 0.0, math.inf


def all_allowed(*parameters: Array) -> bool:
    """Says that all parameters are allowed."""
    return True


@final
@attrs.frozen
class DistributionFamily:
    """A family of distributions.

    A function of the standard form is computed inside of the support only. Elsewhere it gets `inner` for y, so that
    neither it nor its derivative is infinite or NaN there, and the result is what holds outside. Where y or a parameter
    is NaN or a parameter is not allowed, the result is NaN.

    Attributes:
        name: for errors.
        support: gives the ends of the support of y from the parameters.
        allowed: returns which parameters are valid; must be false where one is NaN.
        inner: a y in the support.
        whole: True for distributions of integers.
        strong: functions whose results are not weak even of numbers, as JAX's.
    """

    name: str
    support: Callable[..., tuple[Operand, Operand]] = real_line
    allowed: Callable[..., Operand] = all_allowed
    inner: float = 0.5
    whole: bool = False
    strong: tuple[str, ...] = ()

    def log_mass(
        self, of: Standard, x: Operand, *parameters: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the logarithm of the density, or of the probability of an integer."""
        value, first = self._values(
            "logpmf" if self.whole else "logpdf", of, x, parameters, loc, scale, -math.inf, -math.inf, True
        )
        return cast_like(first, value)

    def mass(
        self, of: Standard, x: Operand, *parameters: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the density, or the probability of an integer, from the function of its logarithm."""
        value, first = self._values(
            "pmf" if self.whole else "pdf", of, x, parameters, loc, scale, -math.inf, -math.inf, True
        )
        return cast_like(first, exp(value))

    def lower_probability(
        self, of: Standard, x: Operand, *parameters: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the probability of numbers up to x."""
        value, first = self._values("cdf", of, x, parameters, loc, scale, 0.0, 1.0)
        return cast_like(first, value)

    def upper_probability(
        self, of: Standard, x: Operand, *parameters: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the probability of numbers above x."""
        value, first = self._values("sf", of, x, parameters, loc, scale, 1.0, 0.0)
        return cast_like(first, value)

    def log_lower_probability(
        self, of: Standard, x: Operand, *parameters: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the logarithm of the probability of numbers up to x."""
        value, first = self._values("logcdf", of, x, parameters, loc, scale, -math.inf, 0.0)
        return cast_like(first, value)

    def log_upper_probability(
        self, of: Standard, x: Operand, *parameters: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the logarithm of the probability of numbers above x."""
        value, first = self._values("logsf", of, x, parameters, loc, scale, 0.0, -math.inf)
        return cast_like(first, value)

    def quantile(
        self,
        of: Standard,
        q: Operand,
        *parameters: Operand,
        loc: Operand = 0,
        scale: Operand = 1,
        function_name: str = "ppf",
    ) -> Array:
        """Returns the number at a probability q, NaN where that is none."""
        (p, *rest, loc, scale), first = real_floats(
            f"{self.name}.{function_name}", q, *parameters, loc, scale
        )
        first = convert(first, first.type.dtype, first.type.weak and function_name not in self.strong)
        defined = (p >= 0.0) & (p <= 1.0) & (scale > 0.0) & self.allowed(*rest)
        quantiles = of(where(defined, p, 0.5), *rest) * scale + loc
        return cast_like(first, where(defined, quantiles, math.nan))

    def _values(
        self,
        function_name: str,
        of: Standard,
        x: Operand,
        parameters: tuple[Operand, ...],
        loc: Operand,
        scale: Operand,
        under: float,
        over: float,
        mass: bool = False,
    ) -> tuple[Array, Array]:
        """Returns the values of a function, `under` and `over` outside of the support, and what has the dtype.

        `mass` is True for logarithms of densities, which are those of the standard form divided by the scale.
        """
        (x, *rest, loc, scale), first = real_floats(
            f"{self.name}.{function_name}", x, *parameters, loc, scale
        )
        first = convert(first, first.type.dtype, first.type.weak and function_name not in self.strong)
        y = (x - loc) / scale
        defined = (y == y) & (scale > 0.0) & self.allowed(*rest)
        low, high = self.support(*rest)
        if mass:
            inside = (y >= low) & (y <= high) & (absolute(y) < math.inf)
            inside = inside & (floor(y) == y) if self.whole else inside
        else:
            y = floor(y) if self.whole else y
            inside = (y >= low if self.whole else y > low) & (y < high)
        value = of(where(inside, y, self.inner), *rest)
        value = value - log(scale) if mass else value
        return where(defined, where(inside, value, where(y >= high, over, under)), math.nan), first


def apply_each(of: Callable[[Array], Array], *operands: Array) -> list[Array]:
    """Returns the values of a function of each operand, which is compiled and performed once for all together."""
    wide = broadcast_arrays(operands, keep_scalars=False)
    # A barrier, as XLA would compute all values again for each of the results.
    values = optimization_barrier(of(stack(wide)))
    return [values[i] for i in range(len(wide))]


def weighted_log(weight: Array, x: Array) -> Array:
    """Returns weight * log(x), and its limit where x is 0, where the derivatives are 0."""
    return _weighted_function(weight, x, x > 0.0, log, 1.0)


def weighted_log1p(weight: Array, x: Array) -> Array:
    """Returns weight * log(1 + x), and its limit where x is -1, where the derivatives are 0."""
    return _weighted_function(weight, x, x > -1.0, log1p, 0.0)


def _weighted_function(
    weight: Array, x: Array, inside: Array, of: Callable[[Array], Array], inner: float
) -> Array:
    limit = where(weight == 0.0, 0.0, where(weight > 0.0, -math.inf, math.inf))
    return where(inside, weight * of(where(inside, x, inner)), limit)


def log_of_probability(p: Array, rest: Array) -> Array:
    """Returns log(p) from a probability p and `rest` = 1 - p, -infinity with derivative 0 where p is 0."""
    near, some = p > 0.5, p > 0.0
    small, other = where(near | ~some, 1.0, p), where(near, rest, 0.0)
    return where(near, log1p(-other), where(some, log(small), -math.inf))


def log1p_square(x: Array) -> Array:
    """Returns log(1 + x²), which does not overflow."""
    size = absolute(x)
    far = size > 1e9
    near = where(far, 1.0, x)
    return where(far, 2.0 * log(where(far, size, 1.0)), log1p(near * near))
