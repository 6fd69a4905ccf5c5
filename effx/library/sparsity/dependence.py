"""Track the inputs that each element depends on: the payload, its handlers, and the general rule.

Sets of inputs are rows of booleans. They hold for all values of the inputs: where the result depends on a
predicate, all cases are joined. Arrays that depend on no input keep their values, so that a product with a
zero among them is known to be zero.
"""

import math
from collections.abc import Sequence
from typing import cast, final

import attrs

import effx.numpy as enp
from effx import Array
from effx.errors import TransformError
from effx.handling import BoxHandler, Frame, ops

__all__ = ["Dependence", "Dependences", "Interactions", "broadcast_set", "every_one", "union"]


@final
@attrs.frozen
class Dependence:
    """What is known of an array: its value, or which inputs each element depends on.

    Attributes:
        value: if it depends on no input.
        on: otherwise, bool[*shape, n] for n inputs.
    """

    value: Array | None
    on: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's own shape."""
        if self.on is not None:
            return self.on.shape[:-1]
        assert self.value is not None
        return self.value.shape


@attrs.frozen
class Dependences(BoxHandler[Dependence, Array]):
    """Runs a function on sets of inputs.

    The state of a subclass that counts interactions is bool[n, n]; here it is bool[0, 0].

    Attributes:
        size: the number of inputs, n.
        ruled: whether a user's derivative of a function is used; not inside such a derivative.
    """

    name = "dependences"

    size: int
    ruled: bool = True

    def initial(self) -> Array:
        """No interactions yet."""
        return enp.zeros((0, 0), bool)

    def lift(self, x: Array) -> Dependence:
        """A value that depends on no input."""
        return Dependence(x)

    def sets(self, x: Dependence) -> Array:
        """Returns the sets of inputs: bool[*shape, n]."""
        return enp.zeros((*x.shape, self.size), bool) if x.on is None else x.on

    def widen(self, a: Dependence, b: Dependence) -> Dependence:
        """Sets of inputs, if either has them."""
        return a if a.on is not None else b

    def conform(self, payload: Dependence, like: Dependence) -> Dependence:
        """Drops the value where only sets are expected."""
        return payload if like.on is None else Dependence(None, self.sets(payload))

    def join(self, a: Dependence, b: Dependence) -> Dependence:
        """The union; the values are dropped."""
        return Dependence(None, self.sets(a) | self.sets(b))

    def merge_states(self, a: Array, b: Array) -> Array:
        """The interactions of both."""
        return a | b

    def uses(self, rules: ops.CustomRules) -> bool:
        """A user's derivative of a function replaces the function's own."""
        return self.ruled and (rules.jvp is not None or rules.vjp is not None)

    def apply_custom(
        self, frame: Frame, rules: ops.CustomRules, constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Takes the sets of the user's tangent; with a rule for reverse mode only, all inputs."""
        plain = attrs.evolve(self, ruled=False)
        with plain.installed() as inner:
            inner.state = frame.state
            known, xs = [
                [plain.box(inner, self.payload(frame, x), x) if x.frame is frame else x for x in values]
                for values in (constants, primals)
            ]
            moved = [x if x.frame is inner and x.type.kind in "fc" else None for x in xs]
            if rules.jvp is not None:
                ys, tangents = rules.jvp(known, xs, moved)
                sets = [None if t is None else self.sets(plain.payload(inner, t)) for t in tangents]
            else:
                assert rules.vjp is not None
                ys = rules.vjp(known, xs, [x is not None for x in moved])[0]
                every = every_one([self.sets(plain.payload(inner, x)) for x in (*known, *xs)])
                inner.state = self.meeting(cast("Array", inner.state), every, every)
                sets = [broadcast_set(every, y.shape) for y in ys]
            frame.state = inner.state
        return tuple(
            [
                self.box(
                    frame, Dependence(None, enp.zeros((*y.shape, self.size), bool) if on is None else on), y
                )
                for y, on in zip(ys, sets, strict=True)
            ]
        )

    def meeting(self, state: Array, a: Array, b: Array) -> Array:
        """Returns the state after inputs in corresponding sets interact; unchanged here."""
        return state

    def grow(self, before: Dependence, after: Dependence) -> Dependence:
        """The union: in a while loop with a boxed condition, sets grow until an iteration adds nothing."""
        return self.join(before, after)


@final
@attrs.frozen
class Interactions(Dependences):
    """Also collects which pairs of inputs interact in an operation with a second derivative: bool[n, n]."""

    name = "interactions"

    def initial(self) -> Array:
        """No interactions yet."""
        return enp.zeros((self.size, self.size), bool)

    def meeting(self, state: Array, a: Array, b: Array) -> Array:
        """Adds all pairs of inputs in corresponding sets."""
        return state | pairs(a, b)


def every_one(sets: Sequence[Array]) -> Array:
    """Returns the union of all elements' sets: bool[n]."""
    return enp.any(enp.concatenate([on.reshape((-1, on.shape[-1])) for on in sets]), axis=0)


def broadcast_set(on: Array, shape: tuple[int, ...]) -> Array:
    """Repeats the set of a scalar for all elements of a shape."""
    return on if on.shape[:-1] == shape else enp.broadcast_to(on, (*shape, on.shape[-1]))


def union(sets: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Returns the union element by element; scalars broadcast."""
    result = broadcast_set(sets[0], shape)
    for on in sets[1:]:
        result = result | broadcast_set(on, shape)
    return result


def pairs(a: Array, b: Array) -> Array:
    """Returns the pairs of inputs that are in corresponding elements of two arrays of sets: bool[n, n]."""
    rows = math.prod(a.shape[:-1]), a.shape[-1]
    counts = a.reshape(rows).astype(enp.float32).T @ b.reshape(rows).astype(enp.float32)
    return (counts > 0) | (counts > 0).T


def refuse(name: str) -> TransformError:
    """Returns the error for a collective operation."""
    return TransformError(
        f"sparsity: {name} communicates along a named axis, which does not belong to the function"
    )
