"""What operations that hold programs do, as loops and branches of Python.

Never: stage.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import numpy as np

from effx.array import Array, HostArray
from effx.effects import RuleTable, no_rule
from effx.handlers.reference.handler import Reference
from effx.handlers.stage import run_program
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import Call, Cond, HigherOrder, Scan, While
from effx.ir.ops.custom import CustomCall, CustomTangent

H = TypeVar("H", bound=HigherOrder)

Run = Callable[[H, Sequence[Array]], tuple[Array, ...]]
rules: "RuleTable[Run[HigherOrder]]" = RuleTable("reference programs")


def runs(*kinds: type[H]) -> Callable[[Run[H]], Run[H]]:
    """Registers how operations that hold programs run; the reference handler is at work meanwhile."""
    return rules.register(*kinds)  # type: ignore[return-value]  # the table holds rules of all operations


def run(op: HigherOrder, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs an operation that holds programs."""
    rule = rules.find(type(op))
    if rule is None:
        raise no_rule(op, Reference())
    return rule(op, operands)


@runs(Checkpoint)
def checkpoint(op: Checkpoint, operands: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(run_program(op.program, operands))


@runs(Call)
def call(op: Call, operands: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(run_program(op.program, operands))


@runs(Cond)
def cond(op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(run_program(op.taken(int(operands[0])), operands[1:]))


@runs(While)
def while_(op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    constants, carry = list(operands[: op.constants]), list(operands[op.constants :])
    while bool(run_program(op.condition, [*constants, *carry])[0]):
        carry = run_program(op.body, [*constants, *carry])
    return tuple(carry)


@runs(Scan)
def scan(op: Scan, operands: Sequence[Array]) -> tuple[Array, ...]:
    n = op.constants + op.carries
    constants, carry = list(operands[: op.constants]), list(operands[op.constants : n])
    xs = [x.host("reference: scan") for x in operands[n:]]
    types = op.infer(*[x.type for x in operands])[op.carries :]
    ys = [np.zeros(t.shape, t.dtype) for t in types]
    slices = op.body.in_types[n:]
    for i in reversed(range(op.length)) if op.reverse else range(op.length):
        rows = [HostArray(np.asarray(x[i]), t) for x, t in zip(xs, slices, strict=True)]
        results = run_program(op.body, [*constants, *carry, *rows])
        carry = results[: op.carries]
        for y, row in zip(ys, results[op.carries :], strict=True):
            y[i] = row.host("reference: scan")
    return (*carry, *[cast("Array", HostArray(y, t)) for y, t in zip(ys, types, strict=True)])


@runs(CustomCall)
def custom_call(op: CustomCall, operands: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(run_program(op.program, operands))


@runs(CustomTangent)
def custom_tangent(op: CustomTangent, operands: Sequence[Array]) -> tuple[Array, ...]:
    if op.program is None:
        raise op.backward.no_forward_mode()
    return tuple(run_program(op.program, operands[op.residuals :]))
