"""Sow and reap: named values inside a function are collected, or replaced from outside.

`sow` is the identity unless a handler handles its tag. `reap` collects the sown values: scan stacks those of
its iterations along axis 0, vmap and pmap those of batch elements and replicas; a while loop gives those of
its last iteration, and a branch that is not taken zeros. (An inner vmap runs a while loop until all batch
elements are done, and all branches where the predicate is batched; with `vmap` outside each batch element has
its own values.) `plant` does the reverse; all replicas of an inner pmap get the same values. `sow_cotangent`
names the cotangent of a value. The idea is that of oryx and of Haiku's state, on handlers instead of an
interpreter.
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
    materialize,
    transpose_rule,
    vmap_rule,
)
from effx.lazy import list_names
from effx.library.visit_counts import VisitCounts, is_name
from effx.library.wrapping import under

__all__ = ["Plant", "Reap", "Sow", "plant", "reap", "sow", "sow_cotangent"]
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def labels_of(tag: str) -> frozenset[Label]:
    """Returns the effect of `sow` under a tag."""
    return frozenset({Label(f"sow {tag}", optional=True)})


@final
@attrs.frozen
class Sow(TupleOperation):
    """The identity on the leaves of a named value.

    Attributes:
        tag: of the handlers that it is for.
        key: the value's name.
        structure: the value's, as a pytree.

    >>> import effx
    >>> from effx.handling import places
    >>> from effx.library.sowing import Sow, sow
    >>> program = effx.make_jaxpr(lambda x: sow(x, tag="t", name="x") + 1.0)(1.0)
    >>> [place.op.key for place in places(program) if isinstance(place.op, Sow)]
    ['x']
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


@jvp_rule(Sow)
def _(op: Sow, xs: tuple[Array, ...], dxs: tuple[Array | None, ...]) -> Any:
    return op(*xs), dxs


@vmap_rule(Sow)
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
    """Gives a value a name, under which an outer handler may collect or replace it.

    Args:
        value: a pytree of arrays.
        tag: of the handlers that it is for.
        name: of the value.

    Returns:
        The value, or the planted one. Use it: planting replaces only this result.

    Raises:
        DTypeError: the value holds something else than arrays and numbers.
        TransformError: the tag or name is no string.

    >>> sow({"a": 1.0}, tag="t", name="x")["a"] + 1.0
    Array(2., dtype=float32, weak_type=True)
    """
    leaves, structure = tree.flatten(value)
    result: T = tree.unflatten(structure, Sow(tag, name, structure)(*map(enp.asarray, leaves)))
    return result


def sow_cotangent(x: Array, *, tag: str, name: str) -> Array:
    """The identity, which sows the cotangent of an array in the backward pass.

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
    """Collects the values sown under a tag.

    Attributes:
        tag: the tag.
        clobber: True to keep the last of several values with one name, which is an error otherwise.

    >>> from effx.library.sowing import Reap, sow
    >>> f = lambda x: sow(x + 1.0, tag="t", name="y") * 10.0
    >>> result, values = Reap("t").run(f, 1.0)
    >>> print(result, values["y"])
    20.0 2.0
    """

    tag: str
    clobber: bool = False
    collects = True

    @property
    def handles(self) -> frozenset[Label]:  # type: ignore[override]  # the tag decides
        """The tag's effect."""
        return labels_of(self.tag)

    def collect(self, frame: Frame, name: str, value: Any) -> None:
        """Keeps the last value of a name if `clobber` is set."""
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
class Plant(InterceptHandler[VisitCounts]):
    """Replaces the values sown under a tag. The state counts the visits of each name, so that iteration i
    takes row i.

    Attributes:
        tag: the tag.
        values: by name; for a value that is sown several times, as in a loop, with leading axes.

    >>> from effx.library.sowing import Plant, sow
    >>> f = lambda x: sow(x + 1.0, tag="t", name="y") * 10.0
    >>> print(Plant("t", {"y": 5.0}).run(f, 1.0))
    50.0
    """

    tag: str
    values: Mapping[str, Any]

    @property
    def handles(self) -> frozenset[Label]:  # type: ignore[override]  # the tag decides
        """The tag's effect."""
        return labels_of(self.tag)

    def initial(self) -> VisitCounts:
        """No visits."""
        return VisitCounts.of(self.values)

    def merge_states(self, a: VisitCounts, b: VisitCounts) -> VisitCounts:
        """The visits of replicas."""
        return a.join(b)


@Plant.rule(Sow)
def _(site: Site[Plant, VisitCounts, tuple[Array, ...]], op: Sow, *operands: Array) -> tuple[Array, ...]:
    if op.key not in site.handler.values:
        return site.forward()
    leaves, structure = tree.flatten(site.handler.values[op.key])
    if structure != op.structure:
        raise TransformError(
            f"plant: the value for {op.key!r} has the structure {structure}, but {op.structure} is sown"
        )
    visits = site.state
    site.state = visits.after(op.key)
    return tuple([visits.row("plant", op.key, x, t) for x, t in zip(leaves, site.types, strict=True)])


def reap(fun: Callable[P, R], tag: str, clobber: bool = False) -> Callable[P, tuple[R, dict[str, Any]]]:
    """Returns a function that also returns the values that `fun` sows under a tag.

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
    """Returns a function in which given values replace those that `fun` sows under a tag.

    Args:
        fun: any function.
        tag: the tag.
        values: by name, as `reap` returns them: iteration i of a scan gets row i. Names that are not sown are
            ignored.

    Raises:
        TransformError, ShapeError, DTypeError: when called, a value has another structure, shape or kind than
            the sown one.

    >>> import effx
    >>> f = lambda x: sow(x + 1.0, tag="t", name="y") * 10.0
    >>> print(plant(f, "t", {"y": 5.0})(1.0))
    50.0
    """
    return under(Plant(tag, values), fun)
