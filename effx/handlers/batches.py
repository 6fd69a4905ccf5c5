"""Rules for named functions, applied to each element of a batch. An inner `vmap` batches the function before
the handler sees it; the handler's rule, written for one call, is batched the same way.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from effx.array.promotion import as_operand
from effx.effects import handle
from effx.handlers.vmap.handler import Vmap, box, rows
from effx.ir.ops.custom import Batch
from effx.tree.registry import PyTree, flatten

__all__ = ["identity", "over_batches"]

T = TypeVar("T")


def over_batches(
    batches: Sequence[Batch],
    rule: Callable[[list[PyTree]], list[PyTree]],
    payloads: list[PyTree],
    unstack: Sequence[Callable[[PyTree], PyTree]],
    stack: Callable[[PyTree], PyTree],
) -> list[PyTree]:
    """Applies a rule to each element of nested batches.

    Args:
        batches: the outermost first.
        rule: takes and returns flat lists of payloads, or arrays.
        payloads: its arguments, batched ones with all their batch axes in front.
        unstack: for each of them, what gives the payload of a slice, with the sliced axis in front of each leaf.
        stack: the inverse, for any result.

    Returns:
        The results, with all batch axes in front.
    """
    if not batches:
        return rule(payloads)
    batch = batches[0]
    handler = Vmap(batch.size, batch.axis_name)
    slices = [f(x) if b else x for f, x, b in zip(unstack, payloads, batch.batched, strict=True)]
    with handle(handler) as frame:
        given: list[PyTree] = []
        for x, b in zip(slices, batch.batched, strict=True):
            leaves, tree = flatten(x)
            given.append(tree.unflatten([box(frame, a, 0) for a in leaves]) if b else x)
        results = over_batches(batches[1:], rule, given, unstack, stack)
    found: list[PyTree] = []
    for y in results:
        leaves, tree = flatten(y)
        values = [rows(handler, frame, as_operand(a, handler.name)) for a in leaves]
        found.append(stack(tree.unflatten(values)))
    return found


def identity(x: T) -> T:
    """The `unstack` and `stack` of an array that is no payload: the identity."""
    return x
