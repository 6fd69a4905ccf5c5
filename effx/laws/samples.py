"""Samples of elementwise operations: where their operands are drawn from, and what is known of their results.

The values that they must have are those of `effx.handlers.oracle`. A class that is not in `STATED` has its
own `domain`, the tolerance of its dtype, and the function of `effx.lax` that has its name; so a new operation
needs nothing here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import attrs
import numpy as np

from effx import lax
from effx.array import Array
from effx.families.gamma import CoarseLgamma, Digamma, Lgamma, Polygamma, Zeta
from effx.families.incomplete import Betainc, BetaincGradA, Igamma, Igammac, IgammaGradA, RandomGammaGrad
from effx.families.mulhi import Mulhi
from effx.families.special import Erfc, ErfInv
from effx.handlers.oracle import evaluate
from effx.ir.catalogue import operation_classes
from effx.ir.ops import compare, convert
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Elementwise, Linear, Singleton
from effx.ir.types import ArrayType

Data = np.ndarray[Any, Any]
Sampler = Callable[[np.random.Generator, ArrayType], Data]
Domain = tuple[float, float] | Sampler
"""An interval, or a function from a generator and a type to data of the type's dtype and shape."""


def _draw_reals(rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]) -> Data:
    """Draws numbers with few digits, so that they print shortly."""
    return np.asarray(np.round(rng.uniform(low, high, shape), 5))


def draw_from_interval(low: float, high: float, imaginary: tuple[float, float] | None = None) -> Sampler:
    """Draws from an interval: of integers those inside, of complex numbers both parts.

    Args:
        low: the least number.
        high: the largest.
        imaginary: an interval of its own for the imaginary part.
    """

    def draw(rng: np.random.Generator, t: ArrayType) -> Data:
        if t.kind == "b":
            return rng.integers(0, 2, t.shape).astype(t.dtype)
        if t.kind in "iu":
            bottom = max(int(np.ceil(low)), 0) if t.kind == "u" else int(np.ceil(low))
            return rng.integers(bottom, max(int(high), bottom), t.shape, endpoint=True).astype(t.dtype)
        data = _draw_reals(rng, low, high, t.shape)
        if t.kind == "c":
            data = data + 1j * _draw_reals(rng, *(imaginary or (low, high)), t.shape)
        return data.astype(t.dtype)

    return draw


anything = draw_from_interval(-3, 3)


def draw_by_kind(rest: Sampler = anything, **samplers: Sampler) -> Sampler:
    """Draws by the kind of the dtype, a letter of `ArrayType.kind`; `rest` is for the kinds that are not named."""
    return lambda rng, t: samplers.get(t.kind, rest)(rng, t)


def draw_off_branch_cuts(
    real: tuple[float, float], re: tuple[float, float], im: tuple[float, float]
) -> Sampler:
    """Draws real numbers from an interval, and complex ones from a rectangle without branch cuts."""
    return draw_by_kind(f=draw_from_interval(*real), c=draw_from_interval(*re, imaginary=im))


def draw_nonzero(low: float = 0.4, high: float = 2.5) -> Sampler:
    """Draws a size and a sign, a direction for complex numbers; any small integers."""

    def draw(rng: np.random.Generator, t: ArrayType) -> Data:
        if t.kind in "biu":
            return draw_from_interval(-9, 9)(rng, t)
        size = _draw_reals(rng, low, high, t.shape)
        if t.kind == "c":
            return np.asarray(size * np.exp(1j * rng.uniform(-3, 3, t.shape))).astype(t.dtype)
        return np.asarray(size * rng.choice([-1, 1], t.shape)).astype(t.dtype)

    return draw


def draw_off_steps(rng: np.random.Generator, t: ArrayType) -> Data:
    """Draws floats away from integers and from the halves between them."""
    if t.kind != "f":
        return draw_nonzero()(rng, t)
    halves = rng.integers(-18, 18, t.shape) / 2
    return np.asarray(halves + _draw_reals(rng, 0.1, 0.4, t.shape)).astype(t.dtype)


def draw_bits(rng: np.random.Generator, t: ArrayType) -> Data:
    """Draws all bit patterns of integers and booleans."""
    if t.kind == "b":
        return rng.integers(0, 2, t.shape).astype(t.dtype)
    info = np.iinfo(t.dtype)
    return rng.integers(info.min, info.max, t.shape, t.dtype, endpoint=True)


def draw_whole_numbers(rng: np.random.Generator, t: ArrayType) -> Data:
    """Draws whole numbers from 0 to 3."""
    return rng.integers(0, 4, t.shape).astype(t.dtype)


def draw_data(domains: Sequence[Domain], types: Sequence[ArrayType], rng: np.random.Generator) -> list[Data]:
    """Draws the data of operands; the last domain serves for the rest."""
    results: list[Data] = []
    for i, t in enumerate(types):
        domain = domains[min(i, len(domains) - 1)]
        data = domain(rng, t) if callable(domain) else draw_from_interval(*domain)(rng, t)
        results.append(np.asarray(data, t.dtype))
    return results


@final
@attrs.frozen
class ElementwiseSample:
    """How the operations of an elementwise class are tried out.

    Attributes:
        domains: where the operands are drawn from, and where the operation is smooth; the last serves for the
            rest. By default the class's `domain`.
        public: the public function; by default the one of `effx.lax` with the operation's name, if there is one.
        exact: True where XLA and NumPy agree to the last bit.
        tolerance: of the comparison of the two, as a factor.
        edges: False where infinities, zeros and negative operands are for tests of the operation's own.
        smooth: False where it has no tangent, or one that is not the slope.
        linear: sets of operands in which the operation is linear, the others held fixed; an empty set means
            all operands.
    """

    domains: tuple[Domain, ...] = ()
    public: Callable[..., Array] | None = None
    exact: bool = False
    tolerance: float = 1.0
    edges: bool = True
    smooth: bool = True
    linear: tuple[tuple[int, ...], ...] = ()


FIRST: tuple[tuple[int, ...], ...] = ((0,),)
ALL: tuple[tuple[int, ...], ...] = ((),)
S = ElementwiseSample
WIDE, SMALL = (-9.0, 9.0), (-3.0, 3.0)
POSITIVE = draw_off_branch_cuts((0.1, 9), (0.2, 2), (-2, 2))
ABOVE_AXIS = draw_off_branch_cuts((-0.95, 0.95), (-2, 2), (0.2, 2))
ALONG_AXIS = draw_off_branch_cuts(WIDE, (-2, 2), (-0.8, 0.8))
DIVISOR = draw_by_kind(f=draw_nonzero(), c=draw_nonzero())

STATED: dict[type[Elementwise], ElementwiseSample] = {
    e.Neg: S((WIDE,), exact=True),
    e.Sign: S((draw_off_steps,)),
    **dict.fromkeys((e.Floor, e.Ceil), S((draw_off_steps,), exact=True)),
    e.RoundAwayFromZero: S((draw_off_steps,), lax.round, exact=True),
    e.RoundToEven: S(
        (draw_off_steps,), partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN), exact=True
    ),
    **dict.fromkeys((e.Exp, e.Exp2, e.Expm1, e.Sinh, e.Cosh), S((SMALL,))),
    e.Log: S((POSITIVE,)),
    e.Log1p: S((draw_off_branch_cuts((-0.9, 9), (-0.7, 2), (-2, 2)),)),
    e.Sqrt: S((POSITIVE,)),
    e.Rsqrt: S((POSITIVE,)),
    e.Cbrt: S((draw_nonzero(0.2, 9),)),
    e.Square: S((WIDE,)),
    **dict.fromkeys((e.Sin, e.Cos), S((draw_from_interval(*WIDE, imaginary=(-2, 2)),))),
    e.Tan: S(((-1.2, 1.2),), tolerance=3.0),
    **dict.fromkeys((e.Asin, e.Acos), S((ABOVE_AXIS,), tolerance=3.0)),
    e.Atan: S((ALONG_AXIS,), tolerance=3.0),
    e.Tanh: S((draw_off_branch_cuts(SMALL, (-2, 2), (-1, 1)),)),
    e.Asinh: S((ALONG_AXIS,)),
    e.Acosh: S((draw_off_branch_cuts((1.2, 9), (-2, 2), (0.2, 2)),), tolerance=3.0),
    e.Atanh: S((draw_off_branch_cuts((-0.9, 0.9), (-0.9, 0.9), (-2, 2)),), tolerance=3.0),
    e.Logistic: S((draw_off_branch_cuts((-5, 5), (-3, 3), (-1, 1)),)),
    **dict.fromkeys((Erfc, ErfInv, Digamma), S(tolerance=3.0)),
    **dict.fromkeys((Lgamma, CoarseLgamma), S(tolerance=3.0, edges=False)),
    **dict.fromkeys((Igamma, Igammac), S(tolerance=9.0, edges=False)),
    # Their loops have derivatives in forward mode only.
    **dict.fromkeys((IgammaGradA, RandomGammaGrad), S(tolerance=9.0, smooth=False, edges=False)),
    Betainc: S(tolerance=9.0),
    BetaincGradA: S(tolerance=9.0, smooth=False),
    Polygamma: S((draw_whole_numbers, (0.6, 5.0)), tolerance=9.0, smooth=False, edges=False),
    Zeta: S(tolerance=9.0, edges=False),
    Mulhi: S((draw_bits,), exact=True),
    e.Conj: S(exact=True, linear=FIRST),
    e.IntegerPow: S((draw_nonzero(),)),
    e.Not: S((draw_bits,), lax.bitwise_not),
    e.PopulationCount: S((draw_bits,)),
    e.CountLeadingZeros: S((draw_bits,), lax.clz),
    e.Abs: S((draw_nonzero(),)),
    e.Real: S(exact=True),
    e.Imag: S(exact=True),
    e.IsFinite: S((draw_off_steps,)),
    convert.StopGradient: S(exact=True, smooth=False),
    convert.ReducePrecision: S(exact=True, smooth=False),
    convert.Copy: S(exact=True, linear=FIRST),
    e.Add: S((WIDE,), exact=True),
    e.Sub: S((WIDE,), exact=True),
    e.Mul: S((WIDE,), linear=((0,), (1,))),
    e.Div: S((WIDE, DIVISOR), linear=FIRST),
    e.Rem: S((WIDE, DIVISOR)),
    e.Pow: S((draw_off_branch_cuts((0.3, 2), (0.3, 2), (-1, 1)), (-2, 2))),
    e.Atan2: S((draw_nonzero(),)),
    e.Max: S((WIDE,), exact=True),
    e.Min: S((WIDE,), exact=True),
    e.NextAfter: S((WIDE,), lax.nextafter, exact=True, smooth=False),
    e.And: S((draw_bits,), lax.bitwise_and),
    e.Or: S((draw_bits,), lax.bitwise_or),
    e.Xor: S((draw_bits,), lax.bitwise_xor),
    **dict.fromkeys((e.ShiftLeft, e.ShiftRightArithmetic, e.ShiftRightLogical), S((draw_bits, (0, 9)))),
    **dict.fromkeys((compare.Eq, compare.Ne, compare.Lt, compare.Le, compare.Gt, compare.Ge), S((SMALL,))),
}


def sample_of(kind: type[Elementwise]) -> ElementwiseSample:
    """Returns the sample of a class: the one stated here, and for the rest the class's own.

    >>> sample_of(e.Tan).domains, sample_of(e.Real).linear
    (((-1.2, 1.2),), ((),))
    """
    stated = STATED.get(kind, S())
    return attrs.evolve(
        stated,
        domains=stated.domains or (kind.domain,),
        public=stated.public or getattr(lax, kind.name, None),
        linear=stated.linear or (ALL if issubclass(kind, Linear) else ()),
    )


NARROW: tuple[type[Elementwise], ...] = (e.Complex,)  # of 16-bit floats there are no complex numbers


def plain_operations(arity: int) -> list[Elementwise]:
    """Lists effx's elementwise operations of some operands that have no parameters, and take all dtypes of their kinds.

    >>> "atan2" in [op.name for op in plain_operations(2)]
    True
    """
    return [
        kind()
        for kind in operation_classes()
        if issubclass(kind, Elementwise)
        and issubclass(kind, Singleton)
        and kind.arity == arity
        and kind not in NARROW
    ]


def values(op: Elementwise, *operands: Data) -> Data:
    """Returns the values that an operation must have: those of the reference handler, with their dtype."""
    return np.asarray(evaluate(op, *operands))
