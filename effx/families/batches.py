"""Batching rules of opaque functions by `vmap_method`: Python's on the host, and foreign functions."""

from collections.abc import Sequence
from typing import Final, Literal, get_args

import attrs

from effx.array import Array
from effx.errors import NoRuleError, TransformError
from effx.handlers.staging.stage import stage
from effx.handling import TupleOperation, Vmap, materialize
from effx.ir.ops.control import Scan

__all__ = [
    "METHODS",
    "VmapMethod",
    "batch_in_one_call",
    "check_method",
    "missing_method_error",
    "scan_over_batch",
]

VmapMethod = Literal["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]
"""How a function is called for a batch."""
METHODS: Final = get_args(VmapMethod)


def check_method(function_name: str, method: object) -> None:
    """Checks a `vmap_method`.

    Raises:
        TransformError: it is neither a method nor None.
    """
    if method is not None and method not in METHODS:
        raise TransformError(
            f"{function_name}: vmap_method must be one of {', '.join(map(repr, METHODS))} or None, got {method!r}"
        )


def missing_method_error(function_name: str, name: str) -> NoRuleError:
    """Returns the error of a batch of calls without a method."""
    return NoRuleError(
        f"{function_name}: vmap needs to know what {name} does with a batch; "
        f"give vmap_method, one of {', '.join(map(repr, METHODS))}"
    )


def batch_in_one_call(
    handler: Vmap,
    method: str | None,
    values: Sequence[Array],
    axes: Sequence[int | None],
    always_batched: Sequence[int] = (),
) -> list[Array]:
    """Returns the operands of one call for a whole batch, with the batch's axis in front.

    Args:
        handler: the batch.
        method: for an operand that all batch elements share: under "expand_dims" it gets an axis of size 1, under
            "broadcast_all" one of the batch's size, under "legacy_vectorized" none.
        values: the operands. axes: the index of each one's batch axis; None for those that are shared.
        always_batched: operands that always get an axis of the batch's size.
    """
    single_handler = attrs.evolve(handler, size=1)
    return [
        x
        if a is None and method == "legacy_vectorized" and i not in always_batched
        else materialize(
            single_handler if a is None and method == "expand_dims" and i not in always_batched else handler,
            x,
            a,
        )
        for i, (x, a) in enumerate(zip(values, axes, strict=True))
    ]


def scan_over_batch(
    handler: Vmap,
    op: TupleOperation,
    name: str,
    values: Sequence[Array],
    axes: Sequence[int | None],
    unroll: int = 1,
) -> tuple[Array, ...]:
    """Performs an operation for one batch element after another; the results have the batch's axis in front.

    Args:
        handler: the batch.
        op: the operation.
        name: the loop's name, in programs.
        values: the operands. axes: the index of each one's batch axis; None for those that are shared.
        unroll: the number of batch elements that one iteration of the loop runs.
    """
    # The constants of a scan come first.
    order = sorted(range(len(values)), key=lambda i: axes[i] is not None)
    fixed = sum([a is None for a in axes])
    inputs = [values[i] if axes[i] is None else materialize(handler, values[i], axes[i]) for i in order]
    slices = [x.type if k < fixed else x.type.with_shape(x.type.shape[1:]) for k, x in enumerate(inputs)]

    def body(xs: list[Array]) -> list[Array]:
        return list(op(*[x for _, x in sorted(zip(order, xs, strict=True), key=lambda pair: pair[0])]))

    program = stage(body, slices, name, "vmap").program
    return Scan(program, handler.size, fixed, unroll=unroll)(*inputs)
