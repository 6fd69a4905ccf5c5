"""Truncated Taylor series as payloads, the handler, and the rule that holds for every differentiable operation.

For y = op(x) with x a series in t, dy/dt is the operation's own tangent at (x, dx/dt). The handler of one
order less computes the series of dy/dt, which is integrated term by term. So no operation needs a rule, and
one whose tangent evaluates it once costs a polynomial in the order.
"""

from collections.abc import Callable, Sequence
from typing import final

import attrs

import effx
import effx.numpy as enp
from effx import Array
from effx.errors import TransformError
from effx.handling import ArrayOperation, BoxHandler, Frame, Linear, Structural, ops

__all__ = ["Jet", "Jets", "integrated", "padded"]


@final
@attrs.frozen
class Jet:
    """The series `primal + terms[0] t + terms[1] t^2 + ...`.

    Attributes:
        primal: the value at t = 0.
        terms: Taylor coefficients of the primal's shape and dtype; none where all of them are zero.

    >>> import effx.numpy as enp
    >>> from effx.library.jets import Jet
    >>> jet = Jet(enp.array(2.0), (enp.array(1.0),))        # 2 + t
    >>> print(*jet.series)
    2.0 1.0
    """

    primal: Array
    terms: tuple[Array, ...]

    @property
    def series(self) -> tuple[Array, ...]:
        """All coefficients, the primal first."""
        return (self.primal, *self.terms)


def _at_least_one(handler: "Jets", attribute: object, order: int) -> None:
    if type(order) is not int or order < 1:
        raise TransformError(f"jets: order must be an int of at least 1, got {order!r}")


@final
@attrs.frozen
class Jets(BoxHandler[Jet]):
    """Runs a function on Taylor series up to an order (Griewank & Walther 2008, chapter 13).

    Attributes:
        order: the number of terms after the primal.

    >>> import effx.numpy as enp
    >>> from effx.library.jets import Jet, Jets
    >>> t = Jet(enp.array(2.0), (enp.array(1.0), enp.array(0.0)))        # 2 + t
    >>> print(*Jets(2).run(lambda x: x * x, t).series)                   # 4 + 4 t + t^2
    4.0 4.0 1.0
    """

    name = "jets"

    order: int = attrs.field(validator=_at_least_one)

    def lift(self, x: Array) -> Jet:
        """A value that does not depend on t."""
        return Jet(x, ())

    def primal(self, payload: Jet) -> Array:
        """The value at t = 0, which chooses branches."""
        return payload.primal

    def widen(self, a: Jet, b: Jet) -> Jet:
        """Returns the one that depends on t, if either does."""
        return a if a.terms else b

    def conform(self, payload: Jet, like: Jet) -> Jet:
        """Writes the zeros out."""
        return padded(payload, len(like.terms))

    def uses(self, rules: ops.CustomRules) -> bool:
        """A user's tangent of a function replaces the function's own."""
        return rules.jvp is not None

    def apply_custom(
        self, frame: Frame, rules: ops.CustomRules, constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Integrates the user's tangent."""
        xs = [self.payload(frame, x) for x in primals]
        active_operands = [i for i, x in enumerate(xs) if x.terms]
        if rules.jvp is None or not active_operands or any([x.frame is frame for x in constants]):
            return None
        rule = rules.jvp

        def tangent(values: list[Array], velocities: list[Array]) -> list[Array]:
            moved: list[Array | None] = [None] * len(xs)
            for i, v in zip(active_operands, velocities, strict=True):
                moved[i] = v
            ys, dys = rule(constants, values, moved)
            return [*ys, *[enp.zeros_like(y) if d is None else d for y, d in zip(ys, dys, strict=True)]]

        lowered = _run_at_lower_order(self.order, xs, active_operands, tangent)
        n = len(lowered) // 2
        results: list[Array] = []
        for y, dy in zip(lowered[:n], lowered[n:], strict=True):
            is_differentiable = y.primal.type.kind in "fc"
            results.append(
                self.box(frame, _integrate_series(y.primal, dy, self.order), y.primal)
                if is_differentiable
                else y.primal
            )
        return tuple(results)


def padded(x: Jet, order: int) -> Jet:
    """Returns x with all terms up to an order, zeros too."""
    missing = order - len(x.terms)
    return Jet(x.primal, (*x.terms, *[enp.zeros_like(x.primal)] * missing)) if missing else x


def _run_at_lower_order(
    order: int,
    xs: Sequence[Jet],
    active_operands: Sequence[int],
    tangent: Callable[[list[Array], list[Array]], list[Array]],
) -> list[Jet]:
    """Runs `tangent(values, velocities)` on series of one order less than those of xs."""
    velocities = [tuple([c * float(k + 1) for k, c in enumerate(xs[i].terms)]) for i in active_operands]
    values = [x.primal for x in xs]
    if order == 1:
        return [Jet(y, ()) for y in tangent(values, [v[0] for v in velocities])]
    lower = Jets(order - 1)
    with lower.installed() as frame:
        for i in active_operands:
            values[i] = lower.box(frame, Jet(xs[i].primal, xs[i].terms[:-1]), xs[i].primal)
        moved: list[Array] = [lower.box(frame, Jet(v[0], v[1:]), v[0]) for v in velocities]
        return [lower.payload(frame, y) for y in tangent(values, moved)]


def _integrate_series(y: Array, dy: Jet, order: int) -> Jet:
    """Returns the series that is y at 0 and has the derivative dy."""
    return Jet(y, tuple([c * (1.0 / (k + 1)) for k, c in enumerate(padded(dy, order - 1).series)]))


def integrated(op: ArrayOperation, *xs: Jet) -> Jet | Array:
    """The rule for any operation that has a tangent."""
    y = op(*[x.primal for x in xs])
    active_operands = [i for i, x in enumerate(xs) if x.terms]
    if y.type.kind not in "fc" or not active_operands:
        return y

    def tangent(values: list[Array], velocities: list[Array]) -> list[Array]:
        def function(*moving: Array) -> Array:
            operands = list(values)
            for i, v in zip(active_operands, moving, strict=True):
                operands[i] = v
            return op(*operands)

        return [effx.jvp(function, [values[i] for i in active_operands], velocities)[1]]

    order = len(xs[active_operands[0]].terms)
    return _integrate_series(y, _run_at_lower_order(order, xs, active_operands, tangent)[0], order)


@Jets.rule(ArrayOperation, ops.Collective)
def any_operation(op: ArrayOperation, *xs: Jet) -> Jet | Array:
    adds = type(op) is ops.Scatter and op.combiner == "add"
    if adds or isinstance(op, Linear | Structural | ops.Select | ops.Convert):
        return linear(op, *xs)
    return integrated(op, *xs)


def linear(op: ArrayOperation, *xs: Jet) -> Jet | Array:
    """Operations that are jointly linear in their floating operands: applied to each term."""
    y = op(*[x.primal for x in xs])
    order = max([len(x.terms) for x in xs])
    if y.type.kind not in "fc" or not order:
        return y
    terms = []
    for k in range(order):
        parts = [_term(x, k) for x in xs]
        terms.append(op(*parts))
    return Jet(y, tuple(terms))


def _term(x: Jet, k: int) -> Array:
    if x.primal.type.kind not in "fc":
        return x.primal  # an index or a predicate
    return x.terms[k] if x.terms else enp.zeros_like(x.primal)


@Jets.rule(ops.StopGradient)
def stop_series(op: ops.StopGradient, x: Jet) -> Array:
    return op(x.primal)
