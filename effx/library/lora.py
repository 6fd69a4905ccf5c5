"""Low-rank weights through an unchanged model.

A weight w carries a correction a b of low rank. Products with it never form w + a b: x w + (x a) b costs little more than
x w. What only moves axes moves those of both; anything else sees the sum.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.

Never: know a model.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array, lax, random, tree
from effx.errors import ShapeError
from effx.handling import BoxHandler, Default
from effx.ir.ops.convert import Convert
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.shape import Transpose

__all__ = ["LowRank", "adapt", "freeze", "lora", "merge"]

R = TypeVar("R")


@final
@attrs.frozen
class LowRank:
    """A weight with a correction: stands for w + scale a b.

    Attributes:
        weight: f[*stack, n, m].
        a: f[*stack, n, r].
        b: f[*stack, r, m].
        scale: f[*stack].
    """

    weight: Array
    a: Array
    b: Array
    scale: Array

    def merged(self) -> Array:
        """Returns the sum."""
        if not self.a.shape[-1]:
            return self.weight
        return self.weight + (self.a * self.scale[..., None, None]) @ self.b


@final
@attrs.frozen
class Lora(BoxHandler[LowRank]):
    """Multiplies by low-rank weights; other operations see the sum."""

    default: ClassVar[Default] = "forward"

    def lift(self, x: Array) -> LowRank:
        """A weight with a correction of rank 0."""
        *stack, n, m = (1, 1, *x.shape)[-max(x.ndim, 2) :]
        a, b = enp.zeros((*stack, n, 0), x.dtype), enp.zeros((*stack, 0, m), x.dtype)
        return LowRank(x, a, b, enp.ones(stack, x.dtype))

    def primal(self, payload: LowRank) -> Array:
        """The sum."""
        return payload.merged()

    def conform(self, payload: LowRank, like: LowRank) -> LowRank:
        """Fills a smaller rank up with zeros."""
        more = like.a.shape[-1] - payload.a.shape[-1]
        wide = [(0, 0)] * (payload.a.ndim - 1)
        a = enp.pad(payload.a, [*wide, (0, more)])
        b = enp.pad(payload.b, [*wide[:-1], (0, more), (0, 0)])
        return LowRank(payload.weight, a, b, payload.scale)

    def widen(self, a: LowRank, b: LowRank) -> LowRank:
        """The larger rank."""
        return a if a.a.shape[-1] >= b.a.shape[-1] else b


@Lora.site_rule(DotGeneral)
def _(site: Any, op: DotGeneral, x: LowRank, y: LowRank) -> Array:
    left, right = site.is_boxed(0), site.is_boxed(1)
    plain = op.lhs_batch == () and y.weight.ndim == 2 and len(op.rhs_contract) == 1
    if right and not left and plain:
        # Along the contracted axis of w = y comes a (or, for the transpose, b); the other factor follows.
        axis = op.rhs_contract[0]
        first, second = (y.a, y.b) if axis == 0 else (y.b, y.a)
        inner = op(x.weight, first) * y.scale
        last = DotGeneral((inner.ndim - 1,), (axis,), (), (), op.precision, op.preferred)
        return op(x.weight, y.weight) + last(inner, second)
    plain = op.rhs_batch == () and x.weight.ndim == 2 and len(op.lhs_contract) == 1
    if left and not right and plain:
        axis = op.lhs_contract[0]
        first, second = (x.a, x.b) if axis == 0 else (x.b, x.a)
        inner = op(first, y.weight) * x.scale
        last = DotGeneral((axis,), (0,), (), (), op.precision, op.preferred)
        return op(x.weight, y.weight) + last(second, inner)
    return op(x.merged() if left else x.weight, y.merged() if right else y.weight)


@Lora.rule(Transpose)
def _(op: Transpose, w: LowRank) -> LowRank | Array:
    if op.perm != (1, 0):
        return op(w.merged())
    return LowRank(op(w.weight), op(w.b), op(w.a), w.scale)


@Lora.rule(Convert)
def _(op: Convert, w: LowRank) -> LowRank:
    return LowRank(op(w.weight), op(w.a), op(w.b), op(w.scale))


def adapt(weight: Array, key: Array, rank: int, alpha: float = 1.0) -> LowRank:
    """Gives a weight a correction that is zero: a is normal with variance 1 / rank, b is zero.

    Args:
        weight: f[*stack, n, m].
        key: u32[2].
        rank: of the correction.
        alpha: the correction counts alpha / rank times.

    Raises:
        ShapeError: the weight has less than two axes, or the rank is not positive.
    """
    if weight.ndim < 2 or rank < 1:
        raise ShapeError(
            f"lora: a weight has two axes and a rank of at least 1, got {weight.type!r} and {rank}"
        )
    *stack, n, m = weight.shape
    a = random.normal(key, (*stack, n, rank), weight.dtype) / rank**0.5
    return LowRank(
        weight, a, enp.zeros((*stack, rank, m), weight.dtype), enp.full(stack, alpha / rank, weight.dtype)
    )


def lora(fun: Callable[..., R]) -> Callable[..., R]:
    """Returns a function that takes `LowRank` weights where `fun` takes arrays.

    Args:
        fun: a model, of pytrees of arrays.

    >>> import effx, effx.numpy as enp
    >>> model = effx.jit(lambda params, x: enp.tanh(x @ params["w"]))
    >>> w, x = enp.ones((2, 2)), enp.ones((1, 2))
    >>> adapted = {"w": adapt(w, effx.random.key(0), rank=1)}
    >>> bool(enp.all(lora(model)(adapted, x) == model({"w": w}, x)))
    True
    """

    def adapted(*args: Any) -> R:
        found = Lora().run(fun, *args)
        whole: R = merge(found)
        return whole

    return adapted


def merge(weights: Any) -> Any:
    """Replaces the low-rank weights of a pytree by sums."""
    return tree.map(
        lambda w: (
            w.merged()
            if isinstance(w, LowRank) and w.a.shape[-1]
            else w.weight
            if isinstance(w, LowRank)
            else w
        ),
        weights,
        is_leaf=lambda w: isinstance(w, LowRank),
    )


def freeze(weights: Any) -> Any:
    """Stops gradients to all but the corrections of a pytree's weights."""
    return tree.map(
        lambda w: (
            LowRank(lax.stop_gradient(w.weight), w.a, w.b, lax.stop_gradient(w.scale))
            if isinstance(w, LowRank)
            else lax.stop_gradient(w)
        ),
        weights,
        is_leaf=lambda w: isinstance(w, LowRank),
    )
