"""The expressions of random programs, with the shapes and bounds of their results.

A form carries a bound of its result's magnitude, so that programs stay away from overflow and from
differences that lose their digits. Comparisons are with constants that no drawn number equals, so that
rounding changes no branch.
"""

from collections.abc import Callable
from math import exp, prod
from typing import final

import attrs

from effx.ir.types import Shape

LIMIT = 8.0


@final
@attrs.frozen
class ScopeValue:
    """A value in the scope of a program.

    Attributes:
        name: an expression, mostly a name.
        shape: its shape.
        bound: of its elements' magnitudes.
    """

    name: str
    shape: Shape
    bound: float


@final
@attrs.frozen
class ExpressionForm:
    """An expression of values of one shape.

    Attributes:
        text: with `{0}`, `{1}` for the operands.
        bound: from the operands' bounds to the result's.
        smooth: True if it is differentiable at all drawn points.
    """

    text: str
    bound: Callable[..., float]
    smooth: bool = True


UNARY = (
    ExpressionForm("enp.sin({0})", lambda a: 1.0),
    ExpressionForm("-{0}", lambda a: a),
    ExpressionForm("{0} * 0.5", lambda a: a / 2),
    ExpressionForm("{0} + 0.3", lambda a: a + 0.3),
    ExpressionForm("enp.tanh({0})", lambda a: 1.0),
    ExpressionForm("enp.cos({0})", lambda a: 1.0),
    ExpressionForm("{0} * {0}", lambda a: a * a),
    ExpressionForm("enp.exp({0})", lambda a: exp(min(a, 9.0))),
    ExpressionForm("lax.logistic({0})", lambda a: 1.0),
    ExpressionForm("enp.sqrt({0} * {0} + 0.5)", lambda a: a + 1),
    ExpressionForm("enp.log({0} * {0} + 0.5)", lambda a: a + 1),
    ExpressionForm("enp.abs({0})", lambda a: a, smooth=False),
    ExpressionForm("enp.floor({0} * 3.1 + 0.1357)", lambda a: 3.1 * a + 1, smooth=False),
    ExpressionForm("enp.where({0} > 0.1357, enp.sin({0}), {0})", lambda a: max(a, 1.0), smooth=False),
    ExpressionForm("enp.maximum({0}, 0.1357)", lambda a: max(a, 0.2), smooth=False),
    ExpressionForm("lax.stop_gradient({0})", lambda a: a, smooth=False),
)
BINARY = (
    ExpressionForm("{0} + {1}", lambda a, b: a + b),
    ExpressionForm("{0} * {1}", lambda a, b: a * b),
    ExpressionForm("{0} - {1}", lambda a, b: a + b),
    ExpressionForm("{0} / ({1} * {1} + 1.5)", lambda a, b: a),
    # Both cases and their slopes agree where the predicate changes.
    ExpressionForm("enp.where({0} - {1} > 0, enp.sin({0} - {1}), {0} - {1})", lambda a, b: a + b),
    ExpressionForm("enp.maximum({0}, {1})", lambda a, b: max(a, b), smooth=False),
    ExpressionForm("enp.minimum({0}, {1})", lambda a, b: max(a, b), smooth=False),
)


@final
@attrs.frozen
class RearrangingForm:
    """An expression that moves or reduces the elements of one array.

    Attributes:
        text: with `{0}` for the operand.
        shape: of the result.
        factor: how much larger elements may become.
    """

    text: str
    shape: Shape
    factor: float = 1.0
    smooth: bool = True


def rearranging_forms(shape: Shape) -> list[RearrangingForm]:
    """Lists the expressions that move the elements of an array of a shape."""
    n, ndim = prod(shape), len(shape)
    results = [RearrangingForm(f"enp.reshape({{0}}, ({n},))", (n,))]
    if ndim == 2:
        results.append(RearrangingForm("{0}.T", shape[::-1]))
    if ndim < 2:
        results.append(RearrangingForm(f"enp.broadcast_to({{0}}, {(2, *shape)})", (2, *shape)))
        results.append(RearrangingForm("{0}[None]", (1, *shape)))
    for axis, size in enumerate(shape):
        rest = shape[:axis] + shape[axis + 1 :]
        weight = round(1 / max(size, 1), 4)
        results.append(RearrangingForm(f"enp.sum({{0}}, axis={axis}) * {weight}", rest))
        results.append(RearrangingForm(f"enp.flip({{0}}, {axis})", shape))
        results.append(RearrangingForm(f"enp.cumsum({{0}}, axis={axis}) * {weight}", shape))
        if size == 0:
            continue
        # The last, the first, and the last again.
        results.append(
            RearrangingForm(
                f"enp.take({{0}}, np.asarray([{size - 1}, 0, {size - 1}]), axis={axis})",
                (*shape[:axis], 3, *shape[axis + 1 :]),
            )
        )
        results.append(RearrangingForm(f"enp.max({{0}}, axis={axis})", rest, smooth=False))
        results.append(RearrangingForm(f"enp.sort({{0}}, axis={axis})", shape, smooth=False))
        if axis == 0:
            results.append(RearrangingForm("{0}[0]", rest))
            results.append(RearrangingForm("{0}[1:]", (size - 1, *rest)))
            results.append(RearrangingForm("{0}.at[0].set(0.25)", shape))
    return results


def joining_forms(first: ScopeValue, second: ScopeValue) -> list[RearrangingForm]:
    """Lists the expressions that join two values of fitting shapes."""
    a, b = first.shape, second.shape
    results: list[RearrangingForm] = []
    if len(a) == len(b) >= 1 and a[1:] == b[1:]:
        results.append(
            RearrangingForm(
                "enp.concatenate([{0}, {1}])", (a[0] + b[0], *a[1:]), max(first.bound, second.bound)
            )
        )
    if a and b and a[-1] == b[0]:
        weight = round(1 / max(b[0], 1), 4)
        results.append(
            RearrangingForm(
                f"enp.dot({{0}}, {{1}}) * {weight}", (*a[:-1], *b[1:]), first.bound * second.bound
            )
        )
    return results
