"""Fake quantisation: operands of products are rounded to a few bits, within calibrated ranges.

`calibrate` runs a function on data and finds the range of each product's operands, by scope and line:
products on one line share a range. `fake_quantize` rounds them to evenly spaced levels of these ranges.
Gradients pass the rounding unchanged, and are zero outside the range.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
2018.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, final

import attrs

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import TransformError, check_function
from effx.handling import Frame, InterceptHandler, Site, ops
from effx.lazy import list_names
from effx.library.wrapping import under

__all__ = ["Range", "Ranges", "calibrate", "fake_quantize"]
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")


@final
@attrs.frozen
class Range:
    """The smallest and the largest value of something.

    Attributes:
        low, high: f32[].

    >>> import effx.numpy as enp
    >>> from effx.library.quantize import Range
    >>> both = Range(enp.array(0.0), enp.array(1.0)).join(Range(enp.array(-2.0), enp.array(0.5)))
    >>> print(both.low, both.high)
    -2.0 1.0
    """

    low: Array
    high: Array

    def join(self, other: "Range") -> "Range":
        """Returns the range of both."""
        return Range(enp.minimum(self.low, other.low), enp.maximum(self.high, other.high))


Ranges = dict[str, Range]


def empty_range() -> Range:
    """Returns the range of no values."""
    return Range(enp.float32(enp.inf), enp.float32(-enp.inf))


def named_operands(site: Site[Any, Any], *operands: Array) -> list[tuple[str, Array]]:
    """Returns a product's operands with names made of scope, line and side."""
    where = f"{site.scope} {site.line}".strip()
    return [(f"{where} {side}", x) for side, x in zip(("lhs", "rhs"), operands, strict=True)]


@final
@attrs.frozen
class OperandNames(InterceptHandler[None]):
    """Writes down the names of products' operands."""

    found: dict[str, None] = attrs.field(factory=dict)


@OperandNames.rule(ops.DotGeneral, ops.Convolution)
def _(site: Site[OperandNames, None], op: ops.DotGeneral | ops.Convolution, x: Array, y: Array) -> Array:
    site.handler.found.update(dict.fromkeys([n for n, v in named_operands(site, x, y) if v.type.kind == "f"]))
    return op(x, y)


@final
@attrs.frozen
class Calibrate(InterceptHandler[Ranges]):
    """Widens the ranges of products' operands, which are the state."""

    names: tuple[str, ...]

    def initial(self) -> Ranges:
        """No values yet."""
        return {name: empty_range() for name in self.names}

    def merge_states(self, a: Ranges, b: Ranges) -> Ranges:
        """The ranges of both."""
        return {name: own_range.join(b[name]) for name, own_range in a.items()}

    def returns(self, result: Any, frame: Frame) -> Any:
        """The ranges and the result."""
        return frame.state, result


@Calibrate.rule(ops.DotGeneral, ops.Convolution)
def _(site: Site[Calibrate, Ranges], op: ops.DotGeneral | ops.Convolution, x: Array, y: Array) -> Array:
    for name, operand in named_operands(site, x, y):
        if operand.type.kind == "f" and operand.size:
            wide = operand.astype(enp.float32)
            site.state = {**site.state, name: site.state[name].join(Range(enp.min(wide), enp.max(wide)))}
    return op(x, y)


@final
@attrs.frozen
class FakeQuantize(InterceptHandler[None]):
    """Rounds products' operands.

    Attributes:
        ranges: by name.
        bits: the number of levels is 2 to this power.
    """

    ranges: Ranges
    bits: int

    def round_operand(self, name: str, x: Array) -> Array:
        """Rounds an operand to the levels of its range; 0 is a level. Without a range it is unchanged."""
        if name not in self.ranges:
            return x
        operand_range, top = self.ranges[name], 2**self.bits - 1
        low, high = enp.minimum(operand_range.low, 0.0), enp.maximum(operand_range.high, 0.0)
        width = (high - low) / top
        step = enp.where(width > 0, width, 1.0)
        low = enp.round(low / step) * step
        inside = enp.clip(x.astype(enp.float32), low, low + width * top)
        level = enp.round(inside / step) * step
        rounded = (inside + lax.stop_gradient(level - inside)).astype(x.dtype)
        return enp.where(operand_range.low <= operand_range.high, rounded, x)


@FakeQuantize.rule(ops.DotGeneral, ops.Convolution)
def _(site: Site[FakeQuantize, None], op: ops.DotGeneral | ops.Convolution, x: Array, y: Array) -> Array:
    return op(*[site.handler.round_operand(name, operand) for name, operand in named_operands(site, x, y)])


def calibrate(fun: Callable[P, R], ranges: Ranges | None = None) -> Callable[P, tuple[Ranges, R]]:
    """Returns a function that also finds the ranges of its products' operands.

    Args:
        fun: any function. It is staged once to find its products, so its control flow must not depend on values.
        ranges: those found on other data, to be widened.

    Returns:
        A function with the result `(ranges, result)`. All iterations of loops count, and branches that are
        taken. The range of an operand never computed is from infinity to minus infinity.

    >>> import effx, effx.numpy as enp
    >>> ranges, _ = calibrate(effx.jit(lambda x: x @ x))(enp.array([[0.5, -1.0], [0.25, 1.0]]))
    >>> [(float(r.low), float(r.high)) for r in ranges.values()]
    [(-1.0, 1.0), (-1.0, 1.0)]
    """
    check_function(fun)

    @wraps(fun)
    def calibrated(*args: P.args, **kwargs: P.kwargs) -> tuple[Ranges, R]:
        names = OperandNames()
        effx.eval_shape(lambda: under(names, fun)(*args, **kwargs))
        operand_ranges, result = under(Calibrate(tuple(names.found)), fun)(*args, **kwargs)
        for name, known in (ranges or {}).items():
            operand_ranges[name] = known.join(operand_ranges.get(name, empty_range()))
        return operand_ranges, result

    return calibrated


def fake_quantize(fun: Callable[P, R], ranges: Mapping[str, Range], bits: int = 8) -> Callable[P, R]:
    """Returns a function whose products have quantised operands.

    Args:
        fun: the function that was calibrated.
        ranges: those that `calibrate` found. A product without a range is unchanged. Ranges of a calibration
            under `vmap`, one for each batch element, are joined.
        bits: from 1 to 16.

    Raises:
        TransformError: another number of bits, or something else than ranges.

    >>> import effx, effx.numpy as enp
    >>> f = lambda x: x @ enp.eye(2)
    >>> ranges, _ = calibrate(f)(enp.array([0.0, 3.0]))
    >>> print(fake_quantize(f, ranges, bits=2)(enp.array([1.2, 2.7])))
    [1. 3.]
    """
    check_function(fun)
    if type(bits) is not int or not 1 <= bits <= 16:
        raise TransformError(f"fake_quantize: bits must be an int from 1 to 16, got {bits!r}")
    for name, operand_range in ranges.items():
        if not isinstance(operand_range, Range):
            raise TransformError(
                f"fake_quantize: expected ranges by name, got {operand_range!r} for {name!r}"
            )
    scalar_ranges = {name: Range(enp.min(r.low), enp.max(r.high)) for name, r in ranges.items()}
    return under(FakeQuantize(scalar_ranges, bits), fun)
