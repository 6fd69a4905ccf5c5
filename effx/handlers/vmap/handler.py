"""The batching handler: batched values, and the decorator of its rules. A box carries (value, axis): the value has
one more axis than the type that the function sees, at index `axis`. A value without a box is unbatched.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import ClassVar, TypeVar, final, overload

import attrs

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.effects import Effect, Frame, Operation, RuleTable, handle
from effx.flags import check_tracer_leaks
from effx.handlers.recursion import PayloadHandler
from effx.handlers.recursion.payloads import Recursion, Rule
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.collective import AxisEffect
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.custom import Batch, CustomRules
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import BroadcastInDim, Pad, Reshape, Slice
from effx.ir.types import ArrayType, Shape
from effx.ir.values.scalars import scalar
from effx.tree.registry import PyTree, flatten

A = TypeVar("A", bound=ArrayOperation)
T = TypeVar("T", bound=TupleOperation)
X = TypeVar("X")

Axis = int | None

# (handler, op, values, axes) -> (result, its batch axis)
ArrayRule = Callable[["Vmap", A, tuple[Array, ...], tuple[Axis, ...]], tuple[Array, Axis]]
TupleRule = Callable[
    ["Vmap", T, tuple[Array, ...], tuple[Axis, ...]], tuple[tuple[Array, ...], tuple[Axis, ...]]
]


# Not frozen: one is made for each operation, and attrs' frozen __init__ costs twice as much.
@final
@attrs.define(eq=False)
class Batched:
    """A value with a batch axis at index `axis`."""

    value: Array
    axis: int = attrs.field(metadata={"static": True})


@cache
def element_type(t: ArrayType, axis: int) -> ArrayType:
    """Returns the type of a batch's elements; cached for ever, as types are."""
    element = t.with_shape(t.shape[:axis] + t.shape[axis + 1 :])
    if t.explicit_sharding is None:
        return element
    cuts = t.explicit_sharding.mesh_axes(t.ndim)
    return element.with_sharding(t.explicit_sharding.with_mesh_axes(cuts[:axis] + cuts[axis + 1 :]))


@final
@attrs.frozen
class Vmap(PayloadHandler):
    """Runs a function on all elements of a batch at once.

    Attributes:
        size: the batch size.
        axis_name: the axis name for collectives; None for none.
        spmd_axes: the mesh axes that shard the batch where a program constrains shardings.

    A batching rule gets it as its first argument.

    >>> from effx.handling import Vmap
    >>> handler = Vmap(3, axis_name="i")
    >>> handler.size, handler.axes()
    (3, (('i', 3),))
    """

    size: int
    axis_name: Hashable = None
    spmd_axes: tuple[Hashable, ...] = ()
    rules: ClassVar["RuleTable[Rule]"] = RuleTable("vmap")
    marks_source: ClassVar[bool] = False
    # A table above the general one: where vmap interprets branches, loops and custom calls in its own way
    # (batched predicates), the rule is registered with `under=Vmap`, so that no handler imports its rules.
    recursions: ClassVar["RuleTable[Recursion[HigherOrder]]"] = RuleTable(
        "recursion of vmap", PayloadHandler.recursions
    )

    def describe(self) -> str:
        """Returns the handler's name with its parameters."""
        name = "" if self.axis_name is None else f", axis_name={self.axis_name!r}"
        cut = f", spmd_axis_name={self.spmd_axes!r}" if self.spmd_axes else ""
        return f"vmap(axis_size={self.size}{name}{cut})"

    def axes(self) -> tuple[tuple[Hashable, int], ...]:
        """Returns the batch axis, if it has a name."""
        return () if self.axis_name is None else ((self.axis_name, self.size),)

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Returns whether a collective is along this batch."""
        return self.axis_name is not None and AxisEffect(self.axis_name) in effects

    def apply_rule(
        self, frame: Frame, rule: Rule, op: Operation[object], operands: tuple[Array, ...]
    ) -> tuple[PyTree, PyTree]:
        """Calls a rule with values and their batch axes."""
        values: list[Array] = []
        axes: list[Axis] = []
        for x in operands:
            if x.frame is frame:
                batched: Batched = x.payload  # type: ignore[attr-defined]  # a value with a frame is a Box
                values.append(batched.value)
                axes.append(batched.axis)
            else:
                values.append(x)
                axes.append(None)
        results: tuple[PyTree, PyTree] = rule(self, op, tuple(values), tuple(axes))
        return results

    def boxed_result(self, frame: Frame, y: Array, axis: Axis, what: str = "") -> Array:
        """Boxes a value with its batch axis; a value without one stays plain."""
        if axis is None:
            return y
        return Box(frame, Batched(y, axis), element_type(y.type, axis))

    # Functions with custom rules

    keeps_rules = True

    def uses(self, rules: CustomRules) -> bool:
        """Uses batching rules."""
        return rules.batch is not None

    def reduce_cotangent(self, payload: Batched) -> Array:
        """Sums the cotangents of an unbatched value over the batch."""
        return ReduceSum((payload.axis,))(payload.value)

    def first(self, payload: Batched) -> Array:
        """Returns the first element."""
        t, axis = payload.value.type, payload.axis
        limit = tuple([1 if i == axis else n for i, n in enumerate(t.shape)])
        one = Slice((0,) * t.ndim, limit, (1,) * t.ndim)(payload.value)
        return Reshape(t.shape[:axis] + t.shape[axis + 1 :])(one)

    def on_first(self, ct: Array) -> Batched:
        """Returns a batch of the cotangent followed by zeros."""
        t = ct.type
        row = BroadcastInDim((1, *t.shape), tuple(range(1, t.ndim + 1)))(ct)
        none = (0,) * t.ndim
        zero = scalar(0, t.dtype, t.weak)
        return Batched(Pad((0, *none), (self.size - 1, *none), (0, *none))(row, zero), 0)

    # Inside loops and branches

    def lift(self, x: Array) -> Batched:
        """Broadcasts a value along a new batch axis."""
        return Batched(materialize(self, x, None), 0)

    def conform(self, payload: Batched, like: Batched) -> Batched:
        """Moves the batch axis to the index of the other payload's."""
        return Batched(materialize(self, payload.value, payload.axis, like.axis), like.axis)

    def unstack(self, payload: Batched) -> Batched:
        """Returns the payload of a slice: its batch axis has an index less by one; the scanned axis must come before it."""
        value = payload.value if payload.axis else moveaxis(payload.value, 0, 1)
        return Batched(value, max(payload.axis, 1) - 1)

    def stack(self, payload: Batched) -> Batched:
        """Returns the payload of a stack: the scanned axis comes before all axes of a slice."""
        return Batched(payload.value, payload.axis + 1)


@overload
def rule(kind: type[A], /, *kinds: type[A]) -> Callable[[ArrayRule[A]], ArrayRule[A]]: ...
@overload
def rule(kind: type[T], /, *kinds: type[T]) -> Callable[[TupleRule[T]], TupleRule[T]]: ...
def rule(*kinds: type[Operation[object]]) -> Rule:
    """Registers a batching rule `(handler, op, values, axes) -> (result, axis)`; None means no batch axis.

    For an operation with several results it returns two tuples.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handling import ArrayOperation, materialize, vmap_rule
    >>> @attrs.frozen
    ... class Reverse(ArrayOperation):
    ...     axis: int
    ...     def infer(self, *types): return types[0]
    ...     def decompose(self, x): return enp.flip(x, self.axis)
    >>> @vmap_rule(Reverse)
    ... def _(handler, op, values, axes):
    ...     x = materialize(handler, values[0], axes[0])    # the batch axis in front
    ...     return Reverse(op.axis + 1)(x), 0
    >>> print(effx.vmap(Reverse(0))(enp.array([[1.0, 2.0], [3.0, 4.0]])))
    [[2. 1.]
     [4. 3.]]
    """
    return Vmap.rules.register_function(*kinds)


def move_to_front(x: Array, axis: int) -> Array:
    """Moves the batch axis to the front."""
    return x if axis == 0 else moveaxis(x, axis, 0)


def values_in_front(handler: Vmap, frame: Frame, x: Array) -> Array:
    """Returns the values of a frame's batch, with a leading batch axis."""
    if type(x) is Box and x.frame is frame:
        return materialize(handler, x.payload.value, x.payload.axis)
    return materialize(handler, x, None)


def materialize(handler: Vmap, x: Array, axis: Axis, place: int = 0) -> Array:
    """Returns the value with its batch axis at index `place`; an unbatched value is broadcast along it.

    >>> import effx.numpy as enp
    >>> from effx.handling import Vmap, materialize
    >>> materialize(Vmap(2), enp.ones((3, 2)), 1).shape       # the batch axis is 1
    (2, 3)
    >>> materialize(Vmap(2), enp.ones(3), None).shape         # there is none
    (2, 3)
    """
    if axis is not None:
        return x if axis == place else moveaxis(x, axis, place)
    shape: Shape = (*x.type.shape[:place], handler.size, *x.type.shape[place:])
    return BroadcastInDim(shape, tuple([i for i in range(len(shape)) if i != place]))(x)


def shift_axes(axes: tuple[int, ...], batch_axis: int) -> tuple[int, ...]:
    """Converts axes of a batch element to axes of the batched value, whose batch axis is at index `batch_axis`."""
    return tuple([a + (a >= batch_axis) for a in axes])


def insert_entry(entries: tuple[int, ...], batch_axis: int, entry: int) -> tuple[int, ...]:
    """Inserts an entry for the batch axis, at index `batch_axis`, into a list with one entry for each axis."""
    return (*entries[:batch_axis], entry, *entries[batch_axis:])


def evaluate_batch(
    function: Callable[[list[Array]], Sequence[Array]],
    values: Sequence[Array],
    axes: Sequence[int | None],
    size: int,
    axis_name: Hashable = None,
    *,
    origin: str = "",
    spmd_axes: tuple[Hashable, ...] = (),
) -> tuple[list[Array], list[int | None]]:
    """Evaluates a function for all elements of a batch.

    Args:
        function: a function of the arrays of one batch element.
        values: the arrays, with batch axes at `axes`.
        axes: the batch axes, from 0; None for an unbatched value.
        size: the batch size.
        axis_name: the batch's name for collectives.
        origin: the user's function, for errors.
        spmd_axes: the mesh axes that shard the batch where a program constrains shardings.

    Returns:
        The results and their batch axes, None for unbatched results.
    """
    handler = Vmap(size, axis_name, spmd_axes)
    with handle(handler, origin) as frame:
        arguments = [handler.boxed_result(frame, x, axis) for x, axis in zip(values, axes, strict=True)]
        outputs, result_axes = _unbox_batches(function(arguments), frame)
    if check_tracer_leaks.value:
        from effx.handlers.staging.leaks import check_leaks  # a search of all objects

        arguments.clear()  # they would be found
        check_leaks(frame, "vmap", origin)
    return outputs, result_axes


def _unbox_batches(results: Sequence[Array], frame: Frame) -> tuple[list[Array], list[int | None]]:
    """Returns the results of all batch elements and their batch axes."""
    outputs: list[Array] = []
    axes: list[int | None] = []
    for y in results:
        if type(y) is Box and y.frame is frame:
            batched: Batched = y.payload
            outputs.append(batched.value)
            axes.append(batched.axis)
        else:
            outputs.append(y)
            axes.append(None)
    return outputs, axes


def apply_over_batches(
    batches: Sequence[Batch],
    rule: Callable[[list[PyTree]], list[PyTree]],
    payloads: list[PyTree],
    unstack: Sequence[Callable[[PyTree], PyTree]],
    stack: Callable[[PyTree], PyTree],
) -> list[PyTree]:
    """Applies a rule to each element of nested batches.

    Args:
        batches: the batches, outermost first.
        rule: takes and returns flat lists of payloads, or arrays.
        payloads: the rule's arguments; batched ones have their batch axes leading.
        unstack: for each payload, a function to the payload of a slice, with each leaf's sliced axis leading.
        stack: the inverse, for any result.

    Returns:
        The results, with all batch axes leading.
    """
    if not batches:
        return rule(payloads)
    outer_batch = batches[0]
    handler = Vmap(outer_batch.size, outer_batch.axis_name, outer_batch.spmd_axes)
    slices = [f(x) if b else x for f, x, b in zip(unstack, payloads, outer_batch.batched, strict=True)]
    with handle(handler) as frame:
        inner_payloads: list[PyTree] = []
        for x, b in zip(slices, outer_batch.batched, strict=True):
            leaves, tree = flatten(x)
            inner_payloads.append(
                tree.unflatten([handler.boxed_result(frame, a, 0) for a in leaves]) if b else x
            )
        results = apply_over_batches(batches[1:], rule, inner_payloads, unstack, stack)
    stacked: list[PyTree] = []
    for y in results:
        leaves, tree = flatten(y)
        values = [values_in_front(handler, frame, as_operand(a, handler.name)) for a in leaves]
        stacked.append(stack(tree.unflatten(values)))
    return stacked


def identity(x: X) -> X:
    """Returns x: the `unstack` and `stack` of an array that is no payload."""
    return x
