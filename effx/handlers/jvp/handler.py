"""The forward-mode handler: dual numbers, and the decorators of its rules.

A box carries (primal, tangent). A value without a box has a tangent of zero, so symbolic zeros are
the absence of a box, and rules see them as None.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import ClassVar, TypeVar, final, overload

import attrs

from effx.array import Array, Box
from effx.array.promotion import convert
from effx.effects import Frame, Operation, RuleTable, handle, perform
from effx.flags import check_tracer_leaks
from effx.handlers.recursion import PayloadHandler
from effx.handlers.recursion.payloads import Rule
from effx.handlers.sharding_types.axes_in_types import zeros_of_type
from effx.ir.ops.base import ArrayOperation, Binary, Elementwise, Linear, PiecewiseConstant, TupleOperation
from effx.ir.ops.custom import CustomRules
from effx.ir.ops.shape import BroadcastInDim
from effx.tree.registry import PyTree

A = TypeVar("A", bound=ArrayOperation)
T = TypeVar("T", bound=TupleOperation)

Tangent = Array | None
Function = Callable[[list[Array]], Sequence[Array]]

# (op, primals, tangents) -> (result, its tangent)
ArrayRule = Callable[[A, tuple[Array, ...], tuple[Tangent, ...]], tuple[Array, Tangent]]
TupleRule = Callable[
    [T, tuple[Array, ...], tuple[Tangent, ...]], tuple[tuple[Array, ...], tuple[Tangent, ...]]
]


# Not frozen: one is made for each operation, and attrs' frozen __init__ costs twice as much.
@final
@attrs.define(eq=False)
class Dual:
    """A primal value with its tangent, both of one shape and dtype."""

    primal: Array
    tangent: Array


@final
@attrs.frozen
class JVP(PayloadHandler):
    """Pushes tangents forward."""

    name = "jvp"

    rules: ClassVar["RuleTable[Rule]"] = RuleTable("jvp")

    def primal(self, payload: Dual) -> Array:
        """Returns the primal, which chooses branches."""
        return payload.primal

    def lift(self, x: Array) -> Dual:
        """Returns a value with a zero tangent."""
        return Dual(x, zeros_like(x))

    def uses(self, rules: CustomRules) -> bool:
        """Uses rules of both modes: the tangents determine which one is applied."""
        return rules.jvp is not None or rules.vjp is not None

    def apply_rule(
        self, frame: Frame, rule: Rule, op: Operation[object], operands: tuple[Array, ...]
    ) -> tuple[PyTree, PyTree]:
        """Calls a rule with primals and tangents."""
        primals: list[Array] = []
        tangents: list[Tangent] = []
        for x in operands:
            if x.frame is frame:
                dual: Dual = x.payload  # type: ignore[attr-defined]  # a value with a frame is a Box
                primals.append(dual.primal)
                tangents.append(dual.tangent)
            else:
                primals.append(x)
                tangents.append(None)
        results: tuple[PyTree, PyTree] = rule(op, tuple(primals), tuple(tangents))
        return results

    def boxed_result(self, frame: Frame, y: Array, dy: Tangent, what: str = "") -> Array:
        """Boxes a value with its tangent; a value without tangent stays plain."""
        if dy is None:
            return y
        t = y.type
        return Box(frame, Dual(y, dy), t) if t.kind in "fc" else y


def jvp(
    function: Function, primals: Sequence[Array], tangents: Sequence[Tangent], origin: str = ""
) -> tuple[list[Array], list[Tangent]]:
    """Evaluates a function together with its derivative along tangents; None is a zero tangent."""
    with handle(JVP(), origin) as frame:
        outputs, out_tangents = _unbox_duals(
            function(
                [
                    x if t is None else Box(frame, Dual(x, t), x.type)
                    for x, t in zip(primals, tangents, strict=True)
                ]
            ),
            frame,
        )
    if check_tracer_leaks.value:
        from effx.handlers.staging.leaks import check_leaks  # a search of all objects

        check_leaks(frame, "jvp", origin)
    return outputs, out_tangents


def _unbox_duals(results: Sequence[Array], frame: Frame) -> tuple[list[Array], list[Tangent]]:
    """Returns results without their tangents, and these."""
    primals: list[Array] = []
    tangents: list[Tangent] = []
    for y in results:
        if type(y) is Box and y.frame is frame:
            dual: Dual = y.payload
            primals.append(dual.primal)
            tangents.append(dual.tangent)
        else:
            primals.append(y)
            tangents.append(None)
    return primals, tangents


@overload
def rule(kind: type[A], /, *kinds: type[A]) -> Callable[[ArrayRule[A]], ArrayRule[A]]: ...
@overload
def rule(kind: type[T], /, *kinds: type[T]) -> Callable[[TupleRule[T]], TupleRule[T]]: ...
def rule(*kinds: type[Operation[object]]) -> Rule:
    """Registers a rule `(op, primals, tangents) -> (result, tangent)`; None means a zero tangent.

    For an operation with several results it returns two tuples.

    >>> import effx
    >>> from effx.handling import Unary, jvp_rule
    >>> class Cube(Unary):
    ...     __slots__ = ()
    ...     kinds = "f"
    ...     def decompose(self, x): return x * x * x
    >>> @jvp_rule(Cube)
    ... def _(op, primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return op(x), 3.0 * x * x * dx
    >>> print(effx.grad(Cube())(2.0))
    12.0
    """
    return JVP.rules.register_function(*kinds)


@JVP.rules.register(Linear)
def jvp_linear(
    op: ArrayOperation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """The rule of operations that are jointly linear in all operands: the operation on the tangents."""
    dense_tangents = [zeros_like(x) if d is None else d for x, d in zip(primals, tangents, strict=True)]
    return op(*primals), op(*dense_tangents)


@JVP.rules.register(PiecewiseConstant)
def jvp_piecewise_constant(
    op: ArrayOperation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """The rule of operations that are piecewise constant, or of no real operand: the tangent is zero."""
    return op(*primals), None


# Not by the two functions below: a call more for each operation that is traced.
@JVP.rules.register_declared(Elementwise, "tangent", where=lambda kind: kind.arity == 1)
def jvp_declared_unary(
    op: Elementwise, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """The rule of operations of one operand whose classes declare the tangent."""
    (x,), (dx,) = primals, tangents
    y: Array = perform(op, primals)
    assert dx is not None
    return y, op.tangent(dx, x, y)


@JVP.rules.register_declared(Binary, "tangent_by_first")
@JVP.rules.register_declared(Binary, "tangent_by_second")
def jvp_declared_binary(
    op: Binary, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """The rule of operations of two operands whose classes declare the tangents."""
    x, y = primals
    z: Array = perform(op, primals)
    dx, dy = strengthen_tangents(tangents, z)
    first = None if dx is None else op.tangent_by_first(dx, x, y, z)
    second = None if dy is None else op.tangent_by_second(dy, x, y, z)
    return z, add_tangents(z, first, second)


def tangent_of(kind: type[A]) -> "Callable[[Callable[[A, Array, Array, Array], Array]], None]":
    """Registers `(op, dx, x, y) -> dy` for an operation of one operand.

    >>> import effx
    >>> from effx.handling import Unary, tangent_of
    >>> class Cube(Unary):
    ...     __slots__ = ()
    ...     kinds = "f"
    ...     def decompose(self, x): return x * x * x
    >>> tangent_of(Cube)(lambda op, dx, x, y: 3.0 * x * x * dx)
    >>> print(effx.grad(Cube())(2.0))
    12.0
    """

    def register(tangent: Callable[[A, Array, Array, Array], Array]) -> None:
        def unary(op: A, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
            (x,), (dx,) = primals, tangents
            y: Array = perform(op, primals)
            assert dx is not None
            return y, tangent(op, dx, x, y)

        rule(kind)(update_wrapper(unary, tangent, (), ()))  # so that errors say which function it was

    return register


Partial = Callable[[A, Array, Array, Array, Array], Array]


def register_partial_derivatives(kind: type[A], by_first: Partial[A], by_second: Partial[A]) -> None:
    """Registers `(op, dx, x, y, z) -> dz` and `(op, dy, x, y, z) -> dz` for an operation of two operands."""

    def binary(op: A, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
        x, y = primals
        z: Array = perform(op, primals)
        dx, dy = strengthen_tangents(tangents, z)
        first = None if dx is None else by_first(op, dx, x, y, z)
        second = None if dy is None else by_second(op, dy, x, y, z)
        return z, add_tangents(z, first, second)

    rule(kind)(binary)


def strengthen_tangents(tangents: tuple[Tangent, ...], z: Array) -> tuple[Tangent, ...]:
    """Makes weak operands' tangents strong for a strong result, as the operands were, so that cotangents are weak again."""
    if z.type.weak:
        return tangents
    return tuple([d if d is None or not d.type.weak else convert(d, d.type.dtype) for d in tangents])


def add_tangents(z: Array, first: Tangent, second: Tangent) -> Tangent:
    """Adds two tangents of z, each possibly zero or of rank 0."""
    if first is None:
        return None if second is None else broadcast_tangent(second, z)
    if second is None:
        return broadcast_tangent(first, z)
    return broadcast_tangent(first + second, z)


def broadcast_tangent(t: Array, z: Array) -> Array:
    """Broadcasts a tangent of rank 0 to the shape of its primal."""
    shape = z.type.shape
    return t if t.type.shape == shape else BroadcastInDim(shape, ())(t)


def zeros_like(x: Array) -> Array:
    """Returns zeros of x's type."""
    return zeros_of_type(x.type)
