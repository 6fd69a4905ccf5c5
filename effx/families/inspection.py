"""The operation that reports the sharding of a value in a compiled program, and its rules."""

from collections.abc import Callable
from typing import final

import attrs

from effx.array import Array
from effx.effects import Effect
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Tangent,
    TupleOperation,
    Var,
    Vmap,
    emits,
    jvp_tuple_rule,
    reference_rule,
    vmap_tuple_rule,
)
from effx.ir.ops.base import check_arity
from effx.ir.ops.host import DEBUG
from effx.ir.values.described import HostData
from effx.lower.placement.shardings import NamedSharding, SingleDeviceSharding
from effx.lower.runtime.inspection import emit_sharding_report

__all__ = ["InspectSharding"]


@final
@attrs.frozen(eq=False)
class InspectSharding(TupleOperation):
    """Reports the sharding of its operand where a program is compiled. StableHLO: custom_call.

    Attributes:
        callback: takes the sharding.
    """

    callback: Callable[[NamedSharding | SingleDeviceSharding], object]
    # What C++ may call as long as the program is there.
    _reports: list[object] = attrs.field(init=False, repr=False, factory=list)

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """That of debugging."""
        return frozenset[Effect]({DEBUG})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No results."""
        check_arity(self, types, 1)
        return ()


@emits(InspectSharding)
def _(body: Body, op: InspectSharding, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    report = emit_sharding_report(body, body.name(inputs[0]), inputs[0].type, op.callback)
    if report is not None:
        op._reports.append(report)
    return ()


@reference_rule(InspectSharding)
def _(op: InspectSharding, x: HostData) -> tuple[HostData, ...]:
    """NumPy's arrays have no shardings to report."""
    return ()


@jvp_tuple_rule(InspectSharding)
def _(
    op: InspectSharding, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    return op(*primals), ()


@vmap_tuple_rule(InspectSharding)
def _(
    handler: Vmap, op: InspectSharding, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    """The sharding of the whole batch is reported."""
    return op(*values), ()
