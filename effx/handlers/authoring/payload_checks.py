"""Check that payloads fit the types of their values, and broadcast the payloads of operands of rank 0.

What a payload looks like is its author's choice: a leaf may have further axes, one for each direction of a derivative, or
be one number for the whole array. `lift` shows the choice, by the types of the leaves that it gives for a value of some
type. A payload with other leaves, such as one for which `lift` has None, is not compared with it; nor is one where `lift`
reads values and so cannot be staged. Where sizes are symbols, leaves may be longer than the value, as padded ones are.
Static data may differ.
"""

from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import TypeAlias, cast, final

import attrs
import numpy as np

from effx.array import Array
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.effects import Frame
from effx.errors import PayloadError
from effx.flags import no_tracing
from effx.handlers.staging.stage import stage
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.types import ArrayType, Shape
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import keystr
from effx.tree.registry import KeyPath, PyTree, flatten

__all__ = [
    "LiftedTypes",
    "PayloadOfType",
    "broadcast_payload",
    "check_payload",
    "lifted_types",
    "repeat_numbers",
]

KINDS = "biufc"
"""Kinds of dtypes, each of which holds the numbers of those before it."""

PayloadOfType: TypeAlias = tuple[PyTree, ArrayType]
"""A payload, and the type of the value that it stands for."""


@final
@attrs.frozen
class LiftedTypes:
    """What `lift` makes of a value of some type.

    Attributes:
        paths: the key paths of the payload's leaves.
        leaves: their types.
    """

    paths: tuple[KeyPath, ...]
    leaves: tuple[ArrayType, ...]

    def describes(self, payload: PyTree) -> bool:
        """Returns whether a payload has the leaves that `lift` gives."""
        return leaf_paths(payload) == self.paths


def leaf_paths(payload: PyTree) -> tuple[KeyPath, ...]:
    """Returns the key paths of a payload's leaves."""
    return tuple([path for path, _ in flatten_with_path(payload)[0]])


def lifted_types(frame: Frame, lift: Callable[[Array], PyTree], t: ArrayType) -> LiftedTypes | None:
    """Returns what `lift` makes of a value of a type; None if nothing says it.

    Args:
        frame: the handler's frame, which keeps the answer.
        lift: returns the payload of a plain value.
        t: the value's type.
    """
    if t not in frame.lift_types:
        frame.lift_types[t] = _stage_lift(lift, t)
    return cast("LiftedTypes | None", frame.lift_types[t])


def _stage_lift(lift: Callable[[Array], PyTree], t: ArrayType) -> LiftedTypes | None:
    paths: tuple[KeyPath, ...] = ()

    def flatten_lifted(arguments: Sequence[Array]) -> list[Array]:
        nonlocal paths
        payload = lift(arguments[0])
        paths = leaf_paths(payload)
        return [as_operand(x) for x in flatten(payload)[0]]

    try:
        with no_tracing(False):  # nothing that a user stages
            leaves = stage(flatten_lifted, (t,), "lift").program.out_types
    except Exception:  # noqa: BLE001  it reads the value, refuses plain values, or is wrong, which shows where it is needed
        return None
    return LiftedTypes(paths, leaves)


def repeat_numbers(payload: PyTree, t: ArrayType, lifted: LiftedTypes, maker: str) -> PyTree:
    """Returns a payload with an array of the value's shape and dtype for each number that stands in the place of one.

    A number that the dtype cannot hold, such as an infinity beside an integer, stays as it is.

    Args:
        payload: the payload.
        t: the value's type.
        lifted: what `lift` makes of a value of that type, with the leaves that the payload has.
        maker: who made it, for errors, such as "tangents: join".
    """
    parts, tree = flatten(payload)
    for i, (x, like) in enumerate(zip(parts, lifted.leaves, strict=True)):
        if _has_shape_and_dtype(like, t) and not isinstance(x, Array):
            x = as_operand(x, maker)
            if KINDS.find(x.type.kind) > KINDS.find(t.kind):
                continue
            if x.ndim == 0:
                x = broadcast_to(convert(x, t.dtype, t.weak) if x.type.weak else x, t.shape)
            parts[i] = x
    return tree.unflatten(parts)


def check_payload(
    payload: PyTree, t: ArrayType, lifted: LiftedTypes, operands: Sequence[PayloadOfType], maker: str
) -> None:
    """Checks that a payload fits the type of the value that it stands for.

    A leaf to which `lift` gives the value's shape and dtype must have these; in front or behind it may have more axes, as
    many as there are in the operands' payloads.

    Args:
        payload: the payload.
        t: the value's type.
        lifted: what `lift` makes of a value of that type, with the leaves that the payload has.
        operands: the operands' payloads.
        maker: who made it, for errors, such as "tangents: join".

    Raises:
        PayloadError: a leaf does not fit.
    """
    if not all([isinstance(n, int) for n in t.shape]):
        return
    parts = flatten(payload)[0]
    for i, (x, like) in enumerate(zip(parts, lifted.leaves, strict=True)):
        if not _has_shape_and_dtype(like, t) or not isinstance(x, Array) or _has_shape_and_dtype(x.type, t):
            continue
        extra = x.ndim - t.ndim
        is_surrounded = extra > 0 and t.shape in (x.shape[extra:], x.shape[: t.ndim])
        if x.dtype != t.dtype or not is_surrounded or extra > sum([_count_extra_axes(*p) for p in operands]):
            path = keystr(lifted.paths[i]) or "the payload"
            raise PayloadError(f"{maker}: {x.type!r} in {path} does not fit a value {t!r}")


def _has_shape_and_dtype(x: ArrayType, t: ArrayType) -> bool:
    return x.shape == t.shape and x.dtype == t.dtype


def _count_extra_axes(payload: PyTree, t: ArrayType) -> int:
    """Returns how many axes more than the value has the leaf of a payload that has most."""
    return max([0, *[np.ndim(x) - t.ndim for x in flatten(payload)[0] if isinstance(x, Array)]])


def broadcast_payload(
    frame: Frame, lift: Callable[[Array], PyTree], payload: PyTree, t: ArrayType, shape: Shape
) -> PyTree:
    """Returns the payload of a value of rank 0, repeated to a shape.

    It is left as it is where broadcasting does the same, since its leaves have no axes. So is a leaf about the whole array,
    to which `lift` gives the same shape for every value.

    Args:
        frame: the handler's frame.
        lift: returns the payload of a plain value.
        payload: the payload of a value of rank 0.
        t: the value's type.
        shape: the new shape of the value.
    """
    parts, tree = flatten(payload)
    lifted = lifted_types(frame, lift, t)
    if all([not np.ndim(x) for x in parts]) or lifted is None or not lifted.describes(payload):
        return payload
    # Sizes that no leaf has tell the value's axes from others, which may be as long as these.
    known = {n for leaf in lifted.leaves for n in leaf.shape}
    sizes = tuple(islice((n for n in count(2) if n not in known), len(shape)))
    lifted_array = lifted_types(frame, lift, t.with_shape(sizes))
    if lifted_array is None or lifted_array.paths != lifted.paths:
        return payload
    leaves = list(zip(parts, lifted.leaves, lifted_array.leaves, strict=True))
    if not any([np.ndim(x) and scalar.shape != array.shape for x, scalar, array in leaves]):
        return payload
    for i, (x, scalar, array) in enumerate(leaves):
        if not isinstance(x, Array) or scalar.shape == array.shape:
            continue
        if array.shape == (*scalar.shape, *sizes):
            parts[i] = BroadcastInDim((*x.shape, *shape), tuple(range(x.ndim)))(x)
        elif array.shape == (*sizes, *scalar.shape):
            last = range(len(shape), len(shape) + x.ndim)
            parts[i] = BroadcastInDim((*shape, *x.shape), tuple(last))(x)
    return tree.unflatten(parts)
