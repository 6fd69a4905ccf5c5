"""The suite's own intercepting handlers and operations with effects, written as a user writes them."""

from typing import ClassVar, cast, final

import attrs

import effx.numpy as enp
from effx import random
from effx.array import Array
from effx.effects import Frame, Label, Operation, Value
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.authoring.site import Site
from effx.ir.ops.base import ArrayOperation
from effx.ir.ops.elementwise import Atan, Cos, Exp, Mul, Sin, Tanh
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree


@final
@attrs.frozen
class ForwardAll(InterceptHandler[None]):
    """Sees every operation and forwards it: changes nothing."""


@ForwardAll.rule(Operation)
def _(site: Site[ForwardAll, None], op: Operation[Array], *operands: Array) -> Array:
    result: Array = site.forward()
    return result


@final
@attrs.frozen(eq=False)
class TallyTotals:
    """A state of two parts.

    Attributes:
        count: i32[], how many sines, products and exponentials were performed.
        last: f64[], a digest of their values in order.
    """

    count: Array
    last: Array


@attrs.frozen
class Tally(InterceptHandler[TallyTotals]):
    """Counts operations, and mixes their values into a digest that depends on their order."""

    def initial(self) -> TallyTotals:
        """Nothing yet."""
        return TallyTotals(enp.int32(0), enp.float64(0.0))

    def merge_states(self, a: TallyTotals, b: TallyTotals) -> TallyTotals:
        """The sum over both replicas."""
        return TallyTotals(a.count + b.count, a.last + b.last)

    def returns(self, result: PyTree, frame: Frame) -> PyTree:
        """The result with the state."""
        return result, frame.state


@Tally.rule(Sin, Mul, Exp, Tanh)
def _(site: Site[Tally, TallyTotals], op: Sin | Mul | Exp | Tanh, *operands: Array) -> Array:
    y: Array = site.forward()
    site.state = update_digest(site.state, y)
    return y


def update_digest(state: TallyTotals, y: Array) -> TallyTotals:
    """The state after a value; it depends on the order of values."""
    return TallyTotals(state.count + 1, state.last * 0.7 + enp.sum(y).astype(enp.float64))


@attrs.frozen
class GatherOperands(InterceptHandler[None]):
    """Collects the operands of sines and cosines, in order, under one name."""

    collects: ClassVar[bool] = True

    def collect(self, frame: Frame, name: str, value: PyTree) -> None:
        """Appends to the values of the name."""
        before = cast("tuple[Array, ...]", frame.collected.get(name, ()))
        frame.collected[name] = (*before, *value)

    def returns(self, result: PyTree, frame: Frame) -> PyTree:
        """The result with the collected values."""
        return result, dict(frame.collected)


@GatherOperands.rule(Sin, Cos)
def _(site: Site[GatherOperands, None], op: Sin | Cos, x: Array) -> Array:
    site.collect("angles", (x,))
    return op(x)


@attrs.frozen
class ScaleResults(InterceptHandler[None]):
    """Multiplies sines and hyperbolic tangents.

    Attributes:
        factor: the factor.
    """

    factor: float


@ScaleResults.rule(Sin, Tanh)
def _(site: Site[ScaleResults, None], op: Sin | Tanh, x: Array) -> Array:
    return op(x) * site.handler.factor


@attrs.frozen
class Noise(InterceptHandler[Array]):
    """Adds noise to arctangents; its state is a key. No derivative performs an arctangent, or reads one's value."""

    def initial(self) -> Array:
        """A key."""
        return random.PRNGKey(3)


@Noise.rule(Atan)
def _(site: Site[Noise, Array], op: Atan, x: Array) -> Array:
    site.state, noise = draw_noise(site.state, x)
    return op(x) + noise


def draw_noise(key: Array, like: Array) -> tuple[Array, Array]:
    """The next key, and noise of an array's type."""
    following, mine = random.split(key)
    return following, 0.3 * random.normal(mine, like.shape, like.dtype)


NOTE, ASK = Label("note", optional=True), Label("ask")


@final
@attrs.frozen
class Note(ArrayOperation):
    """The identity, with an effect that needs no handler."""

    effects = frozenset({NOTE})

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        return types[0]

    def decompose(self, *operands: Value) -> Array:
        """The operand."""
        return cast("Array", operands[0]) * 1.0


@final
@attrs.frozen
class Ask(ArrayOperation):
    """Asks a handler for a value of the operand's type."""

    effects = frozenset({ASK})

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        return types[0]


@final
@attrs.frozen
class Reply(InterceptHandler[Array]):
    """Handles `Ask` and `Note`; its state counts both.

    Attributes:
        factor: the answer is the operand times this.
    """

    factor: float
    handles = frozenset({NOTE, ASK})

    def initial(self) -> Array:
        """Nothing asked."""
        return enp.int32(0)

    def merge_states(self, a: Array, b: Array) -> Array:
        """The sum over both replicas."""
        return a + b

    def returns(self, result: PyTree, frame: Frame) -> PyTree:
        """The result with the count."""
        return result, frame.state


@Reply.rule(Ask, Note)
def _(site: Site[Reply, Array], op: Ask | Note, x: Array) -> Array:
    site.state = site.state + 1
    return x * site.handler.factor
