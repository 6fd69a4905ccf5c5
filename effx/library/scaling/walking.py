"""All that a compiled program does, each instruction as often as it runs."""

from collections.abc import Iterator
from typing import final

import attrs

from effx.library.scaling.collectives import KINDS
from effx.library.scaling.hlo import Computation, HloModule, Instruction
from effx.library.scaling.loops import trip_count

__all__ = ["Performed", "kind_of", "performed"]

# Attributes that name what an instruction runs itself; those of reductions are applied to elements instead.
RUNS = {
    "call": ("to_apply",),
    "fusion": ("calls",),
    "async-start": ("calls",),
    "custom-call": ("called_computations", "calls"),
}


@final
@attrs.frozen(eq=False)
class Performed:
    """An instruction, and how often it runs.

    Attributes:
        computation: the one that contains it.
        instruction: the instruction.
        times: how often it runs.
        fused: whether it is part of a fusion, whose traffic is the fusion's.
        unbounded: whether it is in a loop of an unknown number of iterations, counted as one.
    """

    computation: Computation
    instruction: Instruction
    times: float
    fused: bool
    unbounded: bool


def performed(module: HloModule) -> Iterator[Performed]:
    """Lists the instructions that run. Branches count as if equally likely; a transfer in steps counts at its first."""
    begun: set[tuple[str, str]] = set()
    for execution in _walk_computation(module, module.computations[module.entry], 1.0, False, False):
        chain = execution.instruction.attributes.get("frontend_attributes", "")
        if execution.instruction.opcode in KINDS and "chain_id" in chain:
            key = (execution.instruction.attributes.get("channel_id", ""), chain)
            if key in begun:
                continue
            begun.add(key)
        yield execution


def _walk_computation(
    module: HloModule, c: Computation, times: float, fused: bool, unbounded: bool
) -> Iterator[Performed]:
    for i in c.instructions.values():
        yield Performed(c, i, times, fused, unbounded)
        if i.opcode == "while":
            count = trip_count(module, c, i)
            often = times * (1 if count is None else count)
            for name in i.called("body"):
                yield from _walk_computation(
                    module, module.computations[name], often, fused, unbounded or count is None
                )
            continue
        names = i.called(*RUNS.get(i.opcode, ()))
        share = 1.0
        if i.opcode == "conditional":
            names = i.called("branch_computations", "true_computation", "false_computation")
            share = 1 / len(names)
        within = fused or i.opcode in ("fusion", "custom-call")
        for name in names:
            yield from _walk_computation(module, module.computations[name], times * share, within, unbounded)


def kind_of(execution: Performed) -> str | None:
    """Returns the kind of a collective; None for other instructions.

    An all-reduce in a fusion of which each device takes only a part is a reduce-scatter: so TPUs write it.
    """
    kind = execution.instruction.opcode.removesuffix("-start")
    if kind not in KINDS:
        return None
    if (
        kind == "all-reduce"
        and execution.fused
        and _only_sliced(execution.computation, execution.instruction)
    ):
        return "reduce-scatter"
    return kind


def _only_sliced(c: Computation, i: Instruction) -> bool:
    users = c.users()
    parts = [v for u in users[i.name] for v in (users[u.name] if u.opcode == "get-tuple-element" else [u])]
    return bool(parts) and all([u.opcode == "dynamic-slice" for u in parts])
