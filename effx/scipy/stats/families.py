"""Derive the functions of a distribution from its standard form, with location 0 and scale 1."""

import inspect
import math
from collections.abc import Callable
from types import FunctionType
from typing import Generic, ParamSpec, TypeAlias, cast, final

import attrs

from effx.array import Array, Operand
from effx.array.arithmetic import absolute, where
from effx.array.promotion import broadcast_arrays, convert
from effx.array.shaping import stack
from effx.lax.convert import optimization_barrier
from effx.lax.elementwise.arithmetic import floor
from effx.lax.elementwise.exponential import exp, log, log1p
from effx.scipy.operands import cast_like, real_floats
from effx.tracing.wrapping import wraps
from effx.transforms.jit.function import Jitted
from effx.transforms.jit.jit import jit

P = ParamSpec("P")
Q = ParamSpec("Q")
Standard = Callable[..., Array]  # of the standard form: of y and the parameters
# Of a call: the number and the distribution's parameters; loc; scale.
Arguments: TypeAlias = tuple[tuple[Operand, ...], Operand, Operand]

# The values below and above the support of what is neither a density nor its logarithm.
_OUTSIDE = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-math.inf, 0.0), "logsf": (0.0, -math.inf)}


def take_x_loc_scale(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Arguments:
    """Takes x, loc and scale."""
    return (x,), loc, scale


def take_q_loc_scale(q: Operand, loc: Operand = 0, scale: Operand = 1) -> Arguments:
    """Takes q, loc and scale."""
    return (q,), loc, scale


def take_p_loc_scale(p: Operand, loc: Operand = 0, scale: Operand = 1) -> Arguments:
    """Takes p, loc and scale."""
    return (p,), loc, scale


def take_x_a_b_loc_scale(
    x: Operand, a: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1
) -> Arguments:
    """Takes x, the parameters of shape a and b, loc and scale."""
    return (x, a, b), loc, scale


def take_x_df_loc_scale(x: Operand, df: Operand, loc: Operand = 0, scale: Operand = 1) -> Arguments:
    """Takes x, the degrees of freedom, loc and scale."""
    return (x, df), loc, scale


def take_k_p_loc(k: Operand, p: Operand, loc: Operand = 0) -> Arguments:
    """Takes an integer, a probability and loc."""
    return (k, p), loc, 1


def take_k_n_p_loc(k: Operand, n: Operand, p: Operand, loc: Operand = 0) -> Arguments:
    """Takes an integer, the number of trials, a probability and loc."""
    return (k, n, p), loc, 1


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
class DistributionFamily(Generic[P]):
    """A family of distributions.

    A function of the standard form is computed inside of the support only. Elsewhere it gets `inner` for y, so that
    neither it nor its derivative is infinite or NaN there, and the result is what holds outside. Where y or a parameter
    is NaN or a parameter is not allowed, the result is NaN.

    Attributes:
        name: of its module, and for errors.
        arguments: takes the arguments of its functions, by their names.
        support: gives the ends of the support of y from the parameters.
        allowed: returns which parameters are valid; must be false where one is NaN.
        inner: a y in the support.
        whole: True for distributions of integers.
        strong: functions whose results are not weak even of numbers, as JAX's.
    """

    name: str
    arguments: Callable[P, Arguments]
    support: Callable[..., tuple[Operand, Operand]] = real_line
    allowed: Callable[..., Operand] = all_allowed
    inner: float = 0.5
    whole: bool = False
    strong: tuple[str, ...] = ()

    def declare(
        self, function_name: str, standard: Standard, formula: str, at: str, value: str
    ) -> Jitted[P, Array]:
        """Makes a function of the distributions.

        Args:
            function_name: "logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf" or "isf"; of integers "logpmf" and "pmf".
            standard: the function in the standard form; its logarithm for "pdf" and "pmf".
            formula: what it computes, for its docstring.
            at, value: arguments, and the value there to four digits, for the example in its docstring.
        """
        return self.declare_with(self.arguments, function_name, standard, formula, at, value)

    def declare_with(
        self,
        arguments: Callable[Q, Arguments],
        function_name: str,
        standard: Standard,
        formula: str,
        at: str,
        value: str,
    ) -> Jitted[Q, Array]:
        """Makes a function with other arguments than the family's; otherwise like `declare`."""
        template = cast("FunctionType", arguments)
        # What users see: a name and parameters, also in Python's errors of calls.
        shown = FunctionType(template.__code__, template.__globals__, function_name, template.__defaults__)
        shown.__module__, shown.__qualname__ = f"effx.scipy.stats.{self.name}", function_name
        shown.__annotations__ = {**template.__annotations__, "return": Array}
        shown.__doc__ = f'{formula}\n\n>>> f"{{float({function_name}({at})):.4f}}"\n{value!r}\n'
        evaluate = self.quantile if function_name in ("ppf", "isf") else self.evaluate

        @wraps(shown)
        def function(*args: Q.args, **kwargs: Q.kwargs) -> Array:
            operands, loc, scale = shown(*args, **kwargs)
            return evaluate(function_name, standard, *operands, loc=loc, scale=scale)

        # To unwrap it must give the function itself, not the one that takes its arguments.
        function.__signature__ = inspect.signature(shown)  # type: ignore[attr-defined]  # functions may have one
        del function.__wrapped__  # type: ignore[attr-defined]  # set by wraps
        return jit(function)

    def evaluate(
        self, function_name: str, standard: Standard, *operands: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the values of a function that `declare` makes.

        A logarithm of a density is that of the standard form divided by the scale.
        """
        (x, *rest, loc, scale), first = self._promote(function_name, *operands, loc, scale)
        y = (x - loc) / scale
        defined = (y == y) & (scale > 0.0) & self.allowed(*rest)
        low, high = self.support(*rest)
        is_mass = function_name.endswith(("pdf", "pmf"))
        if is_mass:
            inside = (y >= low) & (y <= high) & (absolute(y) < math.inf)
            inside = inside & (floor(y) == y) if self.whole else inside
        else:
            y = floor(y) if self.whole else y
            inside = (y >= low if self.whole else y > low) & (y < high)
        value = standard(where(inside, y, self.inner), *rest)
        value = value - log(scale) if is_mass else value
        below, above = (-math.inf, -math.inf) if is_mass else _OUTSIDE[function_name]
        value = where(defined, where(inside, value, where(y >= high, above, below)), math.nan)
        return cast_like(first, exp(value) if function_name in ("pdf", "pmf") else value)

    def quantile(
        self, function_name: str, standard: Standard, *operands: Operand, loc: Operand = 0, scale: Operand = 1
    ) -> Array:
        """Returns the number at a probability, NaN where that is none."""
        (p, *rest, loc, scale), first = self._promote(function_name, *operands, loc, scale)
        defined = (p >= 0.0) & (p <= 1.0) & (scale > 0.0) & self.allowed(*rest)
        quantiles = standard(where(defined, p, 0.5), *rest) * scale + loc
        return cast_like(first, where(defined, quantiles, math.nan))

    def _promote(self, function_name: str, *operands: Operand) -> tuple[list[Array], Array]:
        """Returns the operands as floats, and one whose dtype the result has."""
        arrays, first = real_floats(*operands, function_name=f"{self.name}.{function_name}")
        is_weak = first.type.weak and function_name not in self.strong
        return arrays, convert(first, first.type.dtype, is_weak)


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
