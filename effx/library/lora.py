"""Low-rank weights through an unchanged model.

A weight w carries a correction a b of low rank. Products with it never form w + a b: x w + (x a) b costs
little more than x w, and rows of w, as of an embedding, are rows of w and of a. The axes of w are those of inputs,
which a has too, and those of outputs, which b has: one of each, or several, as where w gives attention's heads. What
transposes w or takes them apart does so with the factors; other operations get the sum.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.
"""

import math
from collections.abc import Callable
from typing import ClassVar, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array, lax, random, tree
from effx.errors import DTypeError, ShapeError
from effx.handling import BoxHandler, Default, Site, ops
from effx.ir.values.array import Operand
from effx.lazy import list_names
from effx.library.wrapping import under
from effx.tree import PyTree

__all__ = ["LowRank", "adapt", "freeze", "lora", "merge"]
__dir__ = list_names(__all__)

R = TypeVar("R")


@final
@attrs.frozen
class LowRank:
    """A weight with a correction, which represents w + scale a b.

    Attributes:
        weight: f[*stack, *inputs, *outputs].
        a: f[*stack, *inputs, r].
        b: f[*stack, r, *outputs].
        scale: f[*stack].

    >>> import effx.numpy as enp
    >>> from effx.library.lora import LowRank
    >>> w = LowRank(enp.zeros((2, 2)), a=enp.array([[1.0], [2.0]]), b=enp.array([[1.0, 0.0]]), scale=enp.array(10.0))
    >>> print(w.merged())
    [[10.  0.]
     [20.  0.]]
    """

    weight: Array
    a: Array
    b: Array
    scale: Array

    def merged(self) -> Array:
        """Returns the sum."""
        stack, r = self.scale.shape, self.a.shape[-1]
        if not r:
            return self.weight
        a, b = self.a.reshape((*stack, -1, r)), self.b.reshape((*stack, r, -1))
        return self.weight + ((a * self.scale[..., None, None]) @ b).reshape(self.weight.shape)

    @property
    def inputs(self) -> int:
        """How many axes are inputs."""
        return self.a.ndim - self.scale.ndim - 1

    def mapped(self, weight: Array, a: Array, b: Array) -> "LowRank":
        """Returns the same with other arrays."""
        return LowRank(weight, a, b, self.scale)


@final
@attrs.frozen
class Lora(BoxHandler[LowRank]):
    """Multiplies by low-rank weights; other operations get the sum."""

    default: ClassVar[Default] = "drop"

    def lift(self, x: Array) -> LowRank:
        """A weight with a correction of rank 0; an array with fewer than two axes is one row."""
        *stack, n, m = (1, 1, *x.shape)[-max(x.ndim, 2) :]
        a, b = enp.zeros((*stack, n, 0), x.dtype), enp.zeros((*stack, 0, m), x.dtype)
        return LowRank(x, a, b, enp.ones(stack, x.dtype))

    def primal(self, payload: LowRank) -> Array:
        """The sum."""
        return payload.merged()

    def conform(self, payload: LowRank, like: LowRank) -> LowRank:
        """Pads a smaller rank with zeros."""
        if not payload.a.shape[-1] or (payload.inputs, payload.scale.ndim) != (like.inputs, like.scale.ndim):
            none = [enp.zeros_like(x) for x in (like.a, like.b, like.scale)]
            return LowRank(payload.merged(), *none)
        more = like.a.shape[-1] - payload.a.shape[-1]
        a = enp.pad(payload.a, [*[(0, 0)] * (payload.a.ndim - 1), (0, more)])
        b = enp.pad(payload.b, [(0, more if i == payload.scale.ndim else 0) for i in range(payload.b.ndim)])
        return payload.mapped(payload.weight, a, b)

    def widen(self, a: LowRank, b: LowRank) -> LowRank:
        """The larger rank."""
        return a if a.a.shape[-1] >= b.a.shape[-1] else b

    def unstack(self, payload: LowRank) -> LowRank:
        """Leaves stacked weights as they are; a scan along the rows of one gets the rows of the sum."""
        if payload.scale.ndim:
            return payload
        x = payload.merged()
        if x.ndim > 2:
            return self.lift(x)
        m = x.shape[1] if x.ndim == 2 else 1
        a, b = enp.zeros((x.shape[0], 1, 0), x.dtype), enp.zeros((x.shape[0], 0, m), x.dtype)
        return LowRank(x, a, b, enp.ones(x.shape[:1], x.dtype))

    def stack(self, payload: LowRank) -> LowRank:
        """The inverse."""
        return payload if payload.weight.ndim > 2 else self.lift(payload.weight)


def factors(w: LowRank, axes: tuple[int, ...]) -> tuple[Array, tuple[int, ...], Array, int] | None:
    """Returns the factors for a product that contracts these axes of a weight.

    That is the factor that has these axes, where they are in it, the other factor, and the rank's axis in that.
    None if a factor has some of the axes only, as for an outer product, which contracts none, or the weight is a stack.
    """
    n = w.inputs
    if w.scale.ndim or not axes:
        return None
    if sorted(axes) == list(range(n)):
        return w.a, axes, w.b, 0
    if sorted(axes) == list(range(n, w.weight.ndim)):
        return w.b, tuple([i - n + 1 for i in axes]), w.a, n
    return None


@Lora.site_rule(ops.DotGeneral)
def _(site: Site[Lora, None], op: ops.DotGeneral, x: LowRank, y: LowRank) -> Array:
    left, right = site.is_boxed(0), site.is_boxed(1)
    low_rank = factors(y, op.rhs_contract) if right and not left and op.lhs_batch == () else None
    if low_rank is not None:
        first, axes, second, rank = low_rank
        inner = (attrs.evolve(op, rhs_contract=axes)(x.weight, first) * y.scale).astype(second.dtype)
        last = ops.DotGeneral((inner.ndim - 1,), (rank,), (), (), op.precision, op.preferred)
        return op(x.weight, y.weight) + last(inner, second)
    low_rank = factors(x, op.lhs_contract) if left and not right and op.rhs_batch == () else None
    if low_rank is not None:
        first, axes, second, rank = low_rank
        inner = (attrs.evolve(op, lhs_contract=axes)(first, y.weight) * x.scale).astype(second.dtype)
        last = ops.DotGeneral((rank,), (0,), (), (), op.precision, op.preferred)
        return op(x.weight, y.weight) + last(second, inner)
    return op(x.merged() if left else x.weight, y.merged() if right else y.weight)


@Lora.rule(ops.Transpose)
def _(op: ops.Transpose, w: LowRank) -> LowRank | Array:
    n, perm = w.inputs, op.perm
    front = perm[:n]
    if not w.scale.ndim and sorted(front) == list(range(n)):
        b = ops.Transpose((0, *[i - n + 1 for i in perm[n:]]))(w.b)
        return w.mapped(op(w.weight), ops.Transpose((*front, n))(w.a), b)
    m = len(perm) - n
    front = perm[:m]
    if not w.scale.ndim and sorted(front) == list(range(n, len(perm))):
        a = ops.Transpose((*[i - n + 1 for i in front], 0))(w.b)
        return w.mapped(op(w.weight), a, ops.Transpose((n, *perm[m:]))(w.a))
    return op(w.merged())


@Lora.rule(ops.Reshape)
def _(op: ops.Reshape, w: LowRank) -> LowRank | Array:
    shape, size = op.shape, math.prod(w.a.shape[:-1])
    split_axes = [i for i in range(1, len(shape)) if math.prod(shape[:i]) == size]
    if w.scale.ndim or not split_axes or not size:
        return op(w.merged())
    a, b, r = shape[: split_axes[0]], shape[split_axes[0] :], w.a.shape[-1]
    return w.mapped(op(w.weight), w.a.reshape((*a, r)), w.b.reshape((r, *b)))


@Lora.site_rule(ops.Convert)
def _(site: Site[Lora, None], op: ops.Convert, w: LowRank) -> LowRank | Array:
    if site.result_types[0].kind != "f":  # rounding is not linear
        return op(w.merged())
    return LowRank(op(w.weight), op(w.a), op(w.b), op(w.scale))


# Rows of a weight: indices along its first axis also index a; all columns are selected.
@Lora.site_rule(ops.Gather)
def _(site: Site[Lora, None], op: ops.Gather, w: LowRank, where: LowRank) -> Array:
    shape, window = w.weight.shape, site.result_types[0].ndim - 1
    rows = op.start_index_map == op.collapsed == (0,) and op.offset_dims == (window,) and len(shape) == 2
    if not site.is_boxed(0) or not rows or op.slice_sizes[1] != shape[1]:
        return op(w.merged(), site.operands[1])
    part = attrs.evolve(op, slice_sizes=(1, w.a.shape[1]))(w.a, where.weight)
    return op(w.weight, where.weight) + (part * w.scale) @ w.b


@Lora.site_rule(ops.DynamicSlice)
def _(site: Site[Lora, None], op: ops.DynamicSlice, w: LowRank, *starts: LowRank) -> LowRank | Array:
    where, shape = [s.merged() for s in starts], w.weight.shape
    if not site.is_boxed(0) or len(shape) != 2 or op.sizes[1] != shape[1]:
        return op(w.merged(), *where)
    return LowRank(
        op(w.weight, *where), ops.DynamicSlice((op.sizes[0], w.a.shape[1]))(w.a, *where), w.b, w.scale
    )


@Lora.rule(ops.Slice)
def _(op: ops.Slice, w: LowRank) -> LowRank | Array:
    shape = w.weight.shape
    if len(shape) != 2 or (op.start[1], op.limit[1], op.strides[1]) != (0, shape[1], 1):
        return op(w.merged())
    rows = attrs.evolve(op, limit=(op.limit[0], w.a.shape[1]))
    return LowRank(op(w.weight), rows(w.a), w.b, w.scale)


def adapt(weight: Operand, key: Operand, rank: int, alpha: float = 1.0, inputs: int | None = None) -> LowRank:
    """Gives a weight a correction that is zero: a is normal with variance 1 / rank, b is zero.

    Args:
        weight: f[*stack, n, m], or f[*inputs, *outputs].
        key: u32[2].
        rank: of the correction.
        alpha: the correction is scaled by alpha / rank.
        inputs: how many of the weight's first axes are inputs, the other axes being outputs; None for a matrix or a
            stack of them.

    Raises:
        ShapeError: the weight has less than two axes, the rank is no positive int, or the inputs are not at least one
            axis and at most all but one.
        DTypeError: the weight is not floating.

    >>> adapt(enp.ones((4, 3)), random.key(0), rank=2).b.shape
    (2, 3)
    >>> heads = adapt(enp.ones((64, 4, 16)), random.key(0), rank=2, inputs=1)
    >>> heads.a.shape, heads.b.shape
    ((64, 2), (2, 4, 16))
    """
    w = enp.asarray(weight)
    if w.ndim < 2 or type(rank) is not int or rank < 1:
        raise ShapeError(f"lora: a weight has two axes and a rank of at least 1, got {w.type!r} and {rank}")
    if inputs is not None and (type(inputs) is not int or not 0 < inputs < w.ndim):
        raise ShapeError(f"lora: inputs must be from 1 to {w.ndim - 1} axes of {w.type!r}, got {inputs!r}")
    if w.type.kind != "f":
        raise DTypeError(f"lora: a weight must be floating, got {w.type!r}")
    stack = w.shape[:-2] if inputs is None else ()
    cut = w.ndim - 1 if inputs is None else inputs
    a = random.normal(enp.asarray(key), (*w.shape[:cut], rank), w.dtype) / rank**0.5
    b = enp.zeros((*stack, rank, *w.shape[cut:]), w.dtype)
    return LowRank(w, a, b, enp.full(stack, alpha / rank, w.dtype))


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
    run = under(Lora(), fun)

    def adapted(*args: PyTree, **kwargs: PyTree) -> R:
        merged: R = merge(run(*args, **kwargs))
        return merged

    return adapted


def _merge_weights(
    weights: PyTree, low_rank: Callable[[LowRank], PyTree], other: Callable[[PyTree], PyTree]
) -> PyTree:
    return tree.map(
        lambda w: low_rank(w) if isinstance(w, LowRank) else other(w),
        weights,
        is_leaf=lambda w: isinstance(w, LowRank),
    )


def merge(weights: PyTree) -> PyTree:
    """Replaces the low-rank weights of a pytree by sums.

    >>> w = adapt(enp.ones((4, 3)), random.key(0), rank=2)
    >>> merge({"w": w})["w"].shape
    (4, 3)
    """
    return _merge_weights(weights, LowRank.merged, lambda w: w)


def freeze(weights: PyTree) -> PyTree:
    """Stops gradients to all but the corrections of a pytree's weights.

    >>> from effx import grad
    >>> w = adapt(enp.ones((2, 2)), random.key(0), rank=1)
    >>> loss = lambda w: enp.sum(lora(lambda w: w @ w)(freeze(w)))
    >>> print(grad(loss)(w).weight.ravel(), bool(enp.any(grad(loss)(w).b)))
    [0. 0. 0. 0.] True
    """
    stop = lax.stop_gradient
    return _merge_weights(weights, lambda w: LowRank(stop(w.weight), w.a, w.b, stop(w.scale)), stop)
