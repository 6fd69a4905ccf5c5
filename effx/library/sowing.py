"""Sow and reap: values inside a function get names, and come out of it, or are put in from outside.

`sow` is the identity until a handler asks for its tag. `reap` collects what is sown: scan stacks it with the steps in
front, vmap and pmap with the members in front, a while loop gives its last turn, and a branch that is not taken zeros.
(A vmap inside runs a while loop for all members until the last is done, and both branches where members differ: `vmap`
outside tells members apart.) `plant` does the reverse; members of a pmap inside are all given the same. `sow_cotangent`
names what flows back through a value under reverse-mode differentiation.

The idea is that of oryx and of Haiku's state, on handlers in place of an interpreter.

Never: change a value that is not planted.
"""

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array, tree
from effx.errors import TransformError
from effx.handling import (
    ArrayType,
    Effect,
    Elementwise,
    Frame,
    InterceptHandler,
    Label,
    Linear,
    Site,
    TupleOperation,
    jvp_rule,
    jvp_tuple_rule,
    materialize,
    transpose_rule,
    vmap_tuple_rule,
)
from effx.library.turns import Turns, is_name
from effx.library.wrapping import under

__all__ = ["Plant", "Reap", "Sow", "plant", "reap", "sow", "sow_cotangent"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def labels_of(tag: str) -> frozenset[Label]:
    """Returns the effect of what is sown under a tag."""
    return frozenset({Label(f"sow {tag}", optional=True)})


@final
@attrs.frozen
class Sow(TupleOperation):
    """The identity on the leaves of a value that has a name.

    Attributes:
        tag: which handlers it is for.
        key: the value's name.
        structure: the value's, as a pytree.
    """

    tag: str = attrs.field(validator=is_name)
    key: str = attrs.field(validator=is_name)
    structure: tree.PyTreeDef

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The tag's."""
        return frozenset[Effect](labels_of(self.tag))

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The operands' types."""
        return types

    def decompose(self, *operands: Any) -> tuple[Array, ...]:
        """The operands."""
        return operands


@jvp_tuple_rule(Sow)
def _(op: Sow, xs: tuple[Array, ...], dxs: tuple[Array | None, ...]) -> Any:
    return op(*xs), dxs


@vmap_tuple_rule(Sow)
def _(handler: Any, op: Sow, values: tuple[Array, ...], axes: tuple[int | None, ...]) -> Any:
    return op(*[materialize(handler, x, a) for x, a in zip(values, axes, strict=True)]), (0,) * len(values)


@final
@attrs.frozen
class Probe(Elementwise, Linear):
    """The identity, whose transpose sows the cotangent."""

    tag: str = attrs.field(validator=is_name)
    key: str = attrs.field(validator=is_name)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        """The operand."""
        result: Array = operands[0]
        return result


@jvp_rule(Probe)
def _(op: Probe, xs: tuple[Array, ...], dxs: tuple[Array | None, ...]) -> tuple[Array, Array | None]:
    (x,), (dx,) = xs, dxs
    return x, None if dx is None else op(dx)


@transpose_rule(Probe)
def _(op: Probe, ct: Array, operands: Any) -> list[Array]:
    return list(Sow(op.tag, op.key, tree.structure(0))(ct))


def sow(value: T, *, tag: str, name: str) -> T:
    """Gives a value a name, under which a handler outside may collect or replace it.

    Args:
        value: a pytree of arrays.
        tag: which handlers it is for.
        name: of the value.

    Returns:
        The value, or what is planted. Use it: what nothing depends on can still be reaped, but not planted.

    Raises:
        DTypeError: the value holds something else than arrays and numbers.
        TransformError: the tag or name is no string.

    >>> sow({"a": 1.0}, tag="t", name="x")["a"] + 1.0
    Array(2., dtype=float32, weak_type=True)
    """
    leaves, structure = tree.flatten(value)
    found: T = tree.unflatten(structure, Sow(tag, name, structure)(*map(enp.asarray, leaves)))
    return found


def sow_cotangent(x: Array, *, tag: str, name: str) -> Array:
    """Names what flows back through an array: the cotangent is sown where reverse mode goes through.

    >>> import effx, effx.numpy as enp
    >>> loss = lambda x: enp.sum(sow_cotangent(enp.sin(x), tag="grads", name="sin") ** 2)
    >>> gradient, found = reap(effx.grad(loss), tag="grads")(enp.array([0.5]))
    >>> print(found["sin"], 2 * enp.sin(0.5))
    [0.9588511] 0.9588511
    """
    return Probe(tag, name)(enp.asarray(x))


@final
@attrs.frozen
class Reap(InterceptHandler[None]):
    """Collects what is sown under a tag.

    Attributes:
        tag: the tag.
        clobber: True to keep the last of several values with one name, which is an error otherwise.
    """

    tag: str
    clobber: bool = False
    collects = True

    @property
    def handles(self) -> frozenset[Label]:  # type: ignore[override]  # the tag decides
        """The tag's effect."""
        return labels_of(self.tag)

    def collect(self, frame: Frame, name: str, value: Any) -> None:
        """Keeps the last value of a name, if that was asked for."""
        if self.clobber:
            frame.collected.pop(name, None)
        super().collect(frame, name, value)

    def returns(self, result: Any, frame: Frame) -> Any:
        """The result, and the values by name."""
        return result, frame.collected


@Reap.rule(Sow)
def _(site: Site[Reap, None], op: Sow, *operands: Array) -> tuple[Array, ...]:
    site.collect(op.key, tree.unflatten(op.structure, operands))
    return operands


@final
@attrs.frozen
class Plant(InterceptHandler[Turns]):
    """Replaces what is sown under a tag. The state counts the visits of each name, so that loops take turns.

    Attributes:
        tag: the tag.
        values: by name; for a value that is sown several times, in a loop say, with axes in front.
    """

    tag: str
    values: Mapping[str, Any]

    @property
    def handles(self) -> frozenset[Label]:  # type: ignore[override]  # the tag decides
        """The tag's effect."""
        return labels_of(self.tag)

    def initial(self) -> Turns:
        """No visits."""
        return Turns.of(self.values)

    def merge_states(self, a: Turns, b: Turns) -> Turns:
        """The visits of members."""
        return a.join(b)


@Plant.rule(Sow)
def _(site: Site[Plant, Turns], op: Sow, *operands: Array) -> tuple[Array, ...]:
    if op.key not in site.handler.values:
        result: tuple[Array, ...] = site.forward()
        return result
    leaves, structure = tree.flatten(site.handler.values[op.key])
    if structure != op.structure:
        raise TransformError(
            f"plant: the value for {op.key!r} has the structure {structure}, but {op.structure} is sown"
        )
    turns = site.state
    site.state = turns.after(op.key)
    return tuple([turns.row("plant", op.key, x, t) for x, t in zip(leaves, site.types, strict=True)])


def reap(fun: Callable[P, R], tag: str, clobber: bool = False) -> Callable[P, tuple[R, dict[str, Any]]]:
    """Returns a function that also gives what `fun` sows under a tag.

    Args:
        fun: any function.
        tag: the tag.
        clobber: True to keep the last of several values with one name.

    Returns:
        A function with the result `(result, {name: value})`.

    Raises:
        TransformError: when called, a name is sown twice.

    >>> import effx, effx.numpy as enp
    >>> step = lambda c, x: (sow(c + x, tag="sums", name="partial"), None)
    >>> total = effx.jit(lambda xs: effx.lax.scan(step, 0.0, xs)[0])
    >>> reap(total, tag="sums")(enp.array([1.0, 2.0, 3.0]))
    (Array(6., dtype=float32), {'partial': Array([1., 3., 6.], dtype=float32)})
    """
    return under(Reap(tag, clobber), fun)


def plant(fun: Callable[P, R], tag: str, values: Mapping[str, Any]) -> Callable[P, R]:
    """Returns a function in which values take the place of what `fun` sows under a tag.

    Args:
        fun: any function.
        tag: the tag.
        values: by name, as `reap` gives them. What is sown in a scan is planted step by step. Names that are not sown
            are ignored.

    Raises:
        TransformError, ShapeError, DTypeError: when called, a value does not have the structure, shape or kind of what
            is sown.

    >>> import effx
    >>> f = lambda x: sow(x + 1.0, tag="t", name="y") * 10.0
    >>> print(plant(f, "t", {"y": 5.0})(1.0))
    50.0
    """
    return under(Plant(tag, values), fun)
