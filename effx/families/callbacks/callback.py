"""The operation that calls a Python function, and its rules.

Under vmap a callback that runs once for each element stays one operation: the loop over the batch is on the host.
So the text does not grow with the batch, and the elements come in order.
"""

from collections.abc import Sequence
from typing import Literal, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.effects import NO_EFFECTS, Effect
from effx.errors import ShapeError, TransformError
from effx.families.batches import batch_in_one_call, missing_method_error
from effx.families.callbacks.function import HostFunction
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Tangent,
    Var,
    Vmap,
    array_type,
    emits,
    jvp_rule,
    materialize,
    reference_rule,
    vmap_rule,
)
from effx.ir.ops.host import DEBUG, IO, ORDERED_DEBUG, ORDERED_IO, Hosted
from effx.ir.values.described import HostData
from effx.lower.runtime.callbacks import host_call

__all__ = ["BatchLevel", "Kind", "PythonCallback"]

Kind = Literal["pure", "io", "debug"]
# XLA's own tokens have a type that programs do not have.
TOKEN = array_type(dtypes.int32)
_LABELS = {
    ("debug", False): DEBUG,
    ("debug", True): ORDERED_DEBUG,
    ("io", False): IO,
    ("io", True): ORDERED_IO,
}


@final
@attrs.frozen
class BatchLevel:
    """A batch whose elements the host loops over.

    Attributes:
        size: the number of elements.
        batched: for each operand whether it has the batch axis, the leading one; all results have it.
    """

    size: int
    batched: tuple[bool, ...]


@final
@attrs.frozen
class PythonCallback(Hosted):
    """Calls a Python function on the host. StableHLO: custom_call.

    Attributes:
        function: the Python function.
        out_types: the results'.
        kind: "pure" if nothing but the results counts; "io" and "debug" are effects.
        ordered: whether calls happen in the program's order.
        everywhere: whether each device calls, where a program runs on several; in parallel maps it always does.
        vmap_method: how a pure callback is called for a batch; None to refuse batches.
        levels: batches over which the host loops, outermost first.
        token: whether the first operand and result is a token.
    """

    function: HostFunction
    out_types: tuple[ArrayType, ...]
    kind: Kind = "pure"
    ordered: bool = False
    everywhere: bool = False
    vmap_method: str | None = None
    levels: tuple[BatchLevel, ...] = ()
    token: bool = False

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """None for a pure function; else the label of its kind."""
        return NO_EFFECTS if self.kind == "pure" else frozenset({_LABELS[self.kind, self.ordered]})

    @property
    def called_function(self) -> str:
        """`pure_callback`, `io_callback`, `debug.print` or `debug.callback`."""
        return self.function.what

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The declared types."""
        if len(types) != len(self.function.in_types) + self.token:
            raise ShapeError(
                f"{self.function.what}: {self.function.name} takes {len(self.function.in_types)} arrays, "
                f"got {len(types)}"
            )
        return (TOKEN, *self.out_types) if self.token else self.out_types

    def with_token(self) -> "PythonCallback":
        """The operation with a token, whose order is that of its operands alone."""
        return attrs.evolve(self, token=True, ordered=False)

    def run_on_host(self, *values: HostData) -> tuple[HostData, ...]:
        """Calls the function, for each element of the levels' batches."""
        if self.token:
            return (np.zeros((), np.int32), *self._rows(self.levels, values[1:], self.out_types))
        return self._rows(self.levels, values, self.out_types)

    def _rows(
        self, levels: Sequence[BatchLevel], values: Sequence[HostData], types: Sequence[ArrayType]
    ) -> tuple[HostData, ...]:
        if not levels:
            return self.function(values, types)
        level = levels[0]
        inner = [t.with_shape(t.shape[1:]) for t in types]
        results = [np.empty(t.shape, t.dtype) for t in types]
        # A device's part of the batch may be shorter.
        lengths = [len(x) for x, batched in zip(values, level.batched, strict=True) if batched]
        for i in range(min([level.size, *lengths])):
            row = [
                np.asarray(x[i]) if batched else x for x, batched in zip(values, level.batched, strict=True)
            ]
            for result, y in zip(results, self._rows(levels[1:], row, inner), strict=True):
                result[i] = y
        return tuple(results)


@jvp_rule(PythonCallback)
def jvp_callback(
    op: PythonCallback, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """A debugging callback gets primals, and has no results; other callbacks have no derivative."""
    if op.kind == "debug":
        return op(*primals), (None,) * len(op.out_types)
    function_name, name = op.function.what, op.function.name
    raise TransformError(
        f"{function_name}: effx cannot differentiate the Python function {name}; call it inside a function with a "
        "derivative of "
        f"its own (effx.custom_jvp, effx.custom_vjp), or on effx.lax.stop_gradient of its arguments"
    )


@vmap_rule(PythonCallback)
def batch_callback(
    handler: Vmap, op: PythonCallback, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    """One call for the batch, or one loop over it on the host."""
    function_name, name, method = op.function.what, op.function.name, op.vmap_method
    if op.kind == "io" and op.ordered:
        raise TransformError(
            f"{function_name}: vmap has no order for the calls of {name}, which is ordered; use effx.lax.map, or "
            "ordered=False"
        )
    if op.kind == "pure" and method is None:
        raise missing_method_error(function_name, name)
    out_types = tuple([t.with_shape((handler.size, *t.shape)) for t in op.out_types])
    front = (0,) * len(out_types)
    if op.kind != "pure" or method in ("sequential", "sequential_unrolled"):
        level = BatchLevel(handler.size, tuple([a is not None for a in axes]))
        batch = attrs.evolve(op, out_types=out_types, levels=(level, *op.levels))
        rows = [x if a is None else materialize(handler, x, a) for x, a in zip(values, axes, strict=True)]
        return batch(*rows), front
    batch = attrs.evolve(op, out_types=out_types)
    return batch(*batch_in_one_call(handler, method, values, axes)), front


@emits(PythonCallback)
def emit_callback(
    body: Body, op: PythonCallback, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    return host_call(body, op, inputs, [v.type for v in outputs], op.kind != "pure", op.everywhere)


@reference_rule(PythonCallback)
def oracle_callback(op: PythonCallback, *values: HostData) -> tuple[HostData, ...]:
    """The function itself."""
    return op.run_on_host(*values)
