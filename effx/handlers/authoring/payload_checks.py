"""Check that the payload which a rule returns belongs to a value of the result's type.

What a payload looks like is the author's choice: a leaf may have further axes, one for each direction of a derivative, or
be one number for the whole array. So `lift` says it. A leaf to which `lift` gives the type of the value must have that
type in each payload that a rule returns, but for further axes, before or behind, that this leaf of an operand has too.
"""

from collections.abc import Callable, Sequence
from typing import cast, final

import attrs
import numpy as np

from effx.array import Array
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.effects import Frame
from effx.errors import PayloadError
from effx.handlers.staging.stage import stage
from effx.ir.types import ArrayType
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import keystr
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["PayloadPattern", "conform_payload", "extra_axes", "payload_pattern"]


@final
@attrs.frozen
class PayloadPattern:
    """What `lift` makes of a plain value.

    Attributes:
        tree: the payload's structure.
        matching: for each leaf whether it has the value's shape and dtype.
    """

    tree: PyTreeDef
    matching: tuple[bool, ...]


def payload_pattern(frame: Frame, lift: Callable[[Array], PyTree], t: ArrayType) -> PayloadPattern | None:
    """Returns what `lift` makes of a plain value of a type, whatever the value is; None if that can't be said.

    Args:
        frame: the handler's frame, which keeps the answer.
        lift: the handler's method.
        t: the value's type.
    """
    if not all([isinstance(n, int) for n in t.shape]):
        return None  # a size that is a symbol stands for the size of an array, which the payload has
    if t not in frame.patterns:
        frame.patterns[t] = _stage_pattern(lift, t)
    return cast("PayloadPattern | None", frame.patterns[t])


def _stage_pattern(lift: Callable[[Array], PyTree], t: ArrayType) -> PayloadPattern | None:
    structure: PyTreeDef | None = None

    def flatten_lifted(arguments: Sequence[Array]) -> list[Array]:
        nonlocal structure
        parts, structure = flatten(lift(arguments[0]))
        return [as_operand(x) for x in parts]

    try:
        types = stage(flatten_lifted, (t,), "lift").program.out_types
    except Exception:  # noqa: BLE001  a lift that reads the value, or that refuses plain values
        return None
    assert structure is not None
    return PayloadPattern(structure, tuple([_is_alike(x, t) for x in types]))


def _is_alike(x: ArrayType, t: ArrayType) -> bool:
    return x.shape == t.shape and x.dtype == t.dtype


def extra_axes(payload: PyTree, t: ArrayType) -> tuple[PyTreeDef, tuple[int, ...]]:
    """Returns a payload's structure, and for each leaf how many axes more it has than the value."""
    parts, tree = flatten(payload)
    return tree, tuple([np.ndim(x) - t.ndim if not isinstance(x, Array) else x.ndim - t.ndim for x in parts])


def conform_payload(
    payload: PyTree,
    t: ArrayType,
    pattern: PayloadPattern | None,
    operands: Sequence[tuple[PyTree, ArrayType]],
    what: str,
) -> PyTree:
    """Returns a rule's payload after a check of its leaves' types, with numbers repeated to the value's shape.

    Args:
        payload: what the rule returned.
        t: the result's type.
        pattern: what `lift` makes of a value of that type; None to check nothing.
        operands: the payload and the type of each operand.
        what: names the rule, for errors.

    Raises:
        PayloadError: a leaf does not belong to a value of that type.
    """
    parts, tree = flatten(payload)
    if pattern is None or tree != pattern.tree:
        return payload
    is_changed = False
    for i, (x, is_matching) in enumerate(zip(parts, pattern.matching, strict=True)):
        if not is_matching:
            continue
        if not isinstance(x, Array):
            x = as_operand(x, what)
            if x.ndim == 0:
                x = broadcast_to(convert(x, t.dtype, False) if x.type.weak else x, t.shape)
            parts[i], is_changed = x, True
        if not _is_alike(x.type, t) and not _has_axes_of_operands(x.type, t, tree, i, operands):
            raise PayloadError(
                f"{what} gives {x.type!r} in {keystr(flatten_with_path(payload)[0][i][0]) or 'the payload'} for a "
                f"result {t!r}"
            )
    return tree.unflatten(parts) if is_changed else payload


def _has_axes_of_operands(
    x: ArrayType, t: ArrayType, tree: PyTreeDef, leaf: int, operands: Sequence[tuple[PyTree, ArrayType]]
) -> bool:
    """Returns whether a leaf has the value's type but for as many axes more as this leaf of an operand has."""
    extra = x.ndim - t.ndim
    if x.dtype != t.dtype or extra <= 0 or t.shape not in (x.shape[extra:], x.shape[: t.ndim]):
        return False
    structures = [extra_axes(payload, operand_type) for payload, operand_type in operands]
    return not structures or any([s == tree and extra == counts[leaf] for s, counts in structures])
