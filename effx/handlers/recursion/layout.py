"""Layouts of values in a flat list of arrays: boxes as the leaves of their payloads."""

from collections.abc import Sequence
from typing import TypeVar, final

import attrs
import numpy as np

from effx.array import Array, Box, HostArray
from effx.array.promotion import as_operand, convert
from effx.effects import Frame
from effx.errors import TransformError
from effx.handlers.recursion.payloads import payload_handler
from effx.ir.ops.groups import split_into
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree, PyTreeDef, flatten

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class ValueLayout:
    """The layout of one value in a flat list of arrays.

    Attributes:
        tree: the structure of the payload; None for a plain value, which is one array.
        types: the types of the arrays.
        type: the type that the boxed function sees.
    """

    tree: PyTreeDef | None
    types: tuple[ArrayType, ...]
    type: ArrayType

    def __eq__(self, other: object) -> bool:
        # jaxlib's structures do not compare with None.
        if type(other) is not ValueLayout or self.types != other.types or self.type is not other.type:
            return False
        if self.tree is None or other.tree is None:
            return self.tree is other.tree
        return self.tree == other.tree

    def __hash__(self) -> int:
        # Hashes only the types, which are interned: cache keys hold many layouts, and structures are slow to hash.
        return hash(self.types)

    def example(self) -> PyTree:
        """Returns a payload of this structure, to read shapes and dtypes from: its elements are one zero."""
        assert self.tree is not None
        return self.tree.unflatten([_zeros(t) for t in self.types])

    def plain_example(self) -> Array:
        """Returns a plain value of this layout's type, to read its shape and dtype."""
        return _zeros(self.type)


def _zeros(t: ArrayType) -> Array:
    return HostArray(np.broadcast_to(np.zeros((), t.dtype), t.shape), t)


def flatten_payload(payload: PyTree, function_name: str) -> tuple[list[Array], PyTreeDef]:
    """Splits a payload into its arrays and its structure; a rule may have put a Python number there.

    Raises:
        DTypeError: a leaf is no array and no number.
    """
    parts, tree = flatten(payload)
    return [p if isinstance(p, Array) else as_operand(p, function_name) for p in parts], tree


def flatten_boxes(frame: Frame, values: Sequence[Array]) -> tuple[list[Array], tuple[ValueLayout, ...]]:
    """Splits values into plain arrays and layouts to rebuild them."""
    leaves: list[Array] = []
    layouts: list[ValueLayout] = []
    for x in values:
        if type(x) is Box and x.frame is frame:
            parts, tree = flatten_payload(x.payload, frame.handler.name)
            leaves += parts
            layouts.append(ValueLayout(tree, tuple([p.type for p in parts]), x.type))
        else:
            leaves.append(x)
            layouts.append(ValueLayout(None, (x.type,), x.type))
    return leaves, tuple(layouts)


def rebuild_boxes(frame: Frame, leaves: Sequence[Array], layouts: Sequence[ValueLayout]) -> list[Array]:
    """Makes boxes of `frame` from plain arrays; the inverse of `flatten_boxes`."""
    values: list[Array] = []
    start = 0
    # Without `split_by_layouts`: it is called for each operation that holds programs, mostly with plain values.
    for layout in layouts:
        count = len(layout.types)
        if layout.tree is None:
            values.append(leaves[start])
        else:
            payload: PyTree = layout.tree.unflatten(leaves[start : start + count])
            values.append(Box(frame, payload, layout.type))
        start += count
    return values


def split_by_layouts(leaves: Sequence[T], layouts: Sequence[ValueLayout]) -> list[Sequence[T]]:
    """Returns for each value its arrays, or data of each, from those of the whole flat list."""
    *parts, rest = split_into(leaves, *[len(layout.types) for layout in layouts])
    assert not rest
    return parts


def layout_types(layouts: Sequence[ValueLayout]) -> tuple[ArrayType, ...]:
    """Returns the types of the whole flat list."""
    return tuple([t for layout in layouts for t in layout.types])


def payload_for(frame: Frame, x: Array) -> PyTree:
    """Returns the payload of a box of the frame; a plain value is lifted."""
    if type(x) is Box and x.frame is frame:
        return x.payload
    return payload_handler(frame).make_payload(x)


def payload_layout(payload: PyTree, t: ArrayType) -> ValueLayout:
    """Returns the layout of a payload."""
    parts, tree = flatten_payload(payload, "payload")
    return ValueLayout(tree, tuple([p.type for p in parts]), t)


def fit_to_layout(frame: Frame, x: Array, target: ValueLayout) -> list[Array]:
    """Converts a value to a layout and returns its arrays: a plain value is lifted, a boxed one conforms.

    Raises:
        TransformError: the handler cannot convert it.
    """
    if target.tree is None:
        if type(x) is Box and x.frame is frame:
            raise TransformError(f"{frame.handler.name}: a boxed value stands where a plain one is expected")
        return [convert(x, target.type.dtype, target.type.weak)]
    payload = payload_for(frame, x)
    parts, tree = flatten_payload(payload, frame.handler.name)
    if tree != target.tree or tuple([p.type for p in parts]) != target.types:
        parts, tree = flatten_payload(
            payload_handler(frame).conform(payload, target.example()), frame.handler.name
        )
        if tree != target.tree:
            raise TransformError(
                f"{frame.handler.name}: the payload of a value {x.type!r} has the structure {tree}, "
                f"expected {target.tree}; define conform(payload, like)"
            )
    result: list[Array] = []
    for part, t in zip(parts, target.types, strict=True):
        if part.type is not t and not part.type.matches(t):
            raise TransformError(
                f"{frame.handler.name}: a part of the payload of a value {x.type!r} is {part.type!r}, "
                f"expected {t!r}; define conform(payload, like)"
            )
        result.append(convert(part, t.dtype, t.weak))
    return result
