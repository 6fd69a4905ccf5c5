"""Fake quantisation: products see operands as a few bits would hold them, within ranges found beforehand.

`calibrate` runs a function on data and finds the range of each product's operands, by scope and line. `fake_quantize` rounds them
to evenly spaced levels of these ranges. Gradients pass the rounding unchanged, and are zero beyond a range.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018.

Never: change a dtype.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array, lax
from effx.errors import TransformError
from effx.handling import Frame, InterceptHandler, Site
from effx.ir.ops.linalg import DotGeneral

__all__ = ["Range", "Ranges", "calibrate", "fake_quantize"]

P = ParamSpec("P")
R = TypeVar("R")


@final
@attrs.frozen
class Range:
    """The smallest and the largest value of something.

    Attributes:
        low, high: f32[].
    """

    low: Array
    high: Array

    def join(self, other: "Range") -> "Range":
        """Returns the range of both, whatever axes of steps or members they have."""
        return Range(
            enp.minimum(enp.min(self.low), enp.min(other.low)),
            enp.maximum(enp.max(self.high), enp.max(other.high)),
        )


Ranges = dict[str, Range]
NONE = Range(enp.array(enp.inf), enp.array(-enp.inf))


def names_of(site: Site[Any, Any]) -> tuple[str, str]:
    """Returns the names of a product's operands: scope, line and side."""
    where = f"{site.scope} {site.line}".strip()
    return f"{where} lhs", f"{where} rhs"


@final
@attrs.frozen
class Calibrate(InterceptHandler[None]):
    """Collects the ranges of products' operands."""

    collects = True

    def collect(self, frame: Frame, name: str, value: Any) -> None:
        """Joins the ranges of one place: of several calls, of the steps of a loop, of members."""
        frame.collected[name] = NONE.join(value).join(frame.collected.get(name, NONE))  # type: ignore[arg-type]  # ranges

    def missing(self, name: str, like: Any) -> Any:
        """The range of nothing."""
        return NONE

    def returns(self, result: Any, frame: Frame) -> Any:
        """The ranges and the result."""
        return frame.collected, result


@Calibrate.rule(DotGeneral)
def _(site: Site[Calibrate, None], op: DotGeneral, x: Array, y: Array) -> Array:
    for name, operand in zip(names_of(site), (x, y), strict=True):
        if operand.type.kind == "f" and operand.size:
            wide = operand.astype(enp.float32)
            site.collect(name, Range(enp.min(wide), enp.max(wide)))
    return op(x, y)


@final
@attrs.frozen
class FakeQuantize(InterceptHandler[None]):
    """Rounds products' operands.

    Attributes:
        ranges: by name.
        bits: there are 2 to this power levels.
    """

    ranges: Ranges
    bits: int

    def rounded(self, name: str, x: Array) -> Array:
        """Rounds one operand to the levels of its range; 0 is a level."""
        if name not in self.ranges:
            return x
        found, dtype = self.ranges[name], x.dtype
        low, high = enp.minimum(found.low, 0.0), enp.maximum(found.high, 0.0)
        step = enp.where(high > low, (high - low) / (2**self.bits - 1), 1.0)
        low = enp.round(low / step) * step
        inside = enp.clip(x.astype(enp.float32), low, low + step * (2**self.bits - 1))
        level = enp.round(inside / step) * step
        return (inside + lax.stop_gradient(level - inside)).astype(dtype)


@FakeQuantize.rule(DotGeneral)
def _(site: Site[FakeQuantize, None], op: DotGeneral, x: Array, y: Array) -> Array:
    names = names_of(site)
    return op(*[site.handler.rounded(name, operand) for name, operand in zip(names, (x, y), strict=True)])


def calibrate(fun: Callable[P, R], ranges: Ranges | None = None) -> Callable[P, tuple[Ranges, R]]:
    """Returns a function that also finds the ranges of its products' operands.

    Args:
        fun: any function.
        ranges: what was found on other data, to be widened.

    Returns:
        A function with the result `(ranges, result)`.

    >>> import effx, effx.numpy as enp
    >>> ranges, _ = calibrate(effx.jit(lambda x: x @ x))(enp.array([[0.5, -1.0], [0.25, 1.0]]))
    >>> [(float(r.low), float(r.high)) for r in ranges.values()]
    [(-1.0, 1.0), (-1.0, 1.0)]
    """

    def calibrated(*args: P.args, **kwargs: P.kwargs) -> tuple[Ranges, R]:
        found, result = Calibrate().run(fun, *args, **kwargs)
        for name, known in (ranges or {}).items():
            found[name] = known.join(found.get(name, NONE))
        return found, result

    return calibrated


def fake_quantize(fun: Callable[P, R], ranges: Ranges, bits: int = 8) -> Callable[P, R]:
    """Returns a function whose products see quantised operands.

    Args:
        fun: the function that was calibrated.
        ranges: what `calibrate` found. A product without a range stays as it is.
        bits: from 1 to 16.

    Raises:
        TransformError: another number of bits.
    """
    if type(bits) is not int or not 1 <= bits <= 16:
        raise TransformError(f"fake_quantize: bits must be an int from 1 to 16, got {bits!r}")

    def quantized(*args: P.args, **kwargs: P.kwargs) -> R:
        found: R = FakeQuantize(dict(ranges), bits).run(fun, *args, **kwargs)
        return found

    return quantized
